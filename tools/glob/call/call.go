// Package call is what Glob does in a session's container: a walk that descends
// only where something can match, follows no link, and keeps the newest of what
// it finds.
package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/internal/glob"
	"github.com/sallyport/sallyport/tools/internal/tree"
)

// A Request is which names to look for, and below which directory.
type Request struct {
	Path      []byte `json:"path"` // absolute
	Resolved  bool   `json:"resolved,omitempty"`
	Workspace string `json:"workspace"` // for messages
	// Pattern is what paths relative to Path are to match, as package glob says.
	Pattern string `json:"pattern"`
}

// A Result is what was found.
type Result struct {
	// Files are the paths relative to the request's, the newest first: of regular
	// files and of links, wherever those lead.
	Files []string `json:"files"`
	Total int      `json:"total"`           // how many match
	Notes []string `json:"notes,omitempty"` // what could not be looked at
}

// Bounds of a result.
const (
	MostFiles = 100
	mostNotes = 10
)

// Run looks for files by their names.
func Run(ctx context.Context, _ *inside.Call, req Request) (*Result, error) {
	pattern := req.Pattern
	if strings.HasSuffix(pattern, "/**") {
		pattern += "/*" // what is below, not a file of that name
	}
	p, err := glob.Compile(pattern)
	if err != nil {
		return nil, err
	}
	root, dir, err := tree.Open(string(req.Path), req.Resolved, req.Workspace)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if !dir {
		return nil, fmt.Errorf("%s is a file; give the directory to look in as path", inside.Quote(root.Path))
	}
	w := &walk{ctx: ctx, result: &Result{}}
	w.dir(root.Fd, "", p.Prefix(), 0)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return w.done(), nil
}

type walk struct {
	ctx    context.Context
	reader tree.Reader
	newest []file // in no order
	result *Result
	silent int // notes that were left out
}

type file struct {
	path string
	time unix.Timespec
}

// compare puts the newest first, and those of one time in the order of paths.
func compare(a, b file) int {
	switch {
	case a.time.Sec != b.time.Sec:
		if a.time.Sec > b.time.Sec {
			return -1
		}
		return 1
	case a.time.Nsec != b.time.Nsec:
		return int(b.time.Nsec - a.time.Nsec)
	}
	return strings.Compare(a.path, b.path)
}

// dir looks into a directory, whose path ends in a slash; the root's is "".
func (w *walk) dir(fd int, path string, prefix glob.Prefix, depth int) {
	entries, err := w.reader.List(fd)
	if err != nil {
		w.note(path, err)
	}
	for _, e := range entries {
		if w.ctx.Err() != nil {
			return
		}
		switch e.Type {
		case tree.File, tree.Link:
			if prefix.Match(e.Name) {
				w.found(fd, path, e.Name)
			}
		case tree.Dir:
			below, ok := prefix.Into(e.Name)
			if !ok || slices.Contains(tree.VCS, e.Name) {
				continue
			}
			if depth == tree.MaxDepth {
				w.note(path+e.Name, errors.New("directories this deep are not looked into; give this one as the path"))
				continue
			}
			sub, err := tree.OpenDir(fd, e.Name)
			switch err {
			case nil:
				w.dir(sub, path+e.Name+"/", below, depth+1)
				unix.Close(sub)
			case unix.ENOENT, unix.ELOOP, unix.ENOTDIR: // removed or replaced meanwhile
			default:
				w.note(path+e.Name, err)
			}
		}
	}
}

func (w *walk) found(dir int, path, name string) {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return // it is gone
	}
	w.result.Total++
	w.newest = append(w.newest, file{path + name, st.Mtim})
	if len(w.newest) >= 16*MostFiles {
		w.prune()
	}
}

func (w *walk) prune() {
	slices.SortFunc(w.newest, compare)
	w.newest = w.newest[:min(len(w.newest), MostFiles)]
}

func (w *walk) note(path string, err error) {
	if len(w.result.Notes) == mostNotes {
		w.silent++
		return
	}
	if path == "" {
		path = "."
	}
	w.result.Notes = append(w.result.Notes, fmt.Sprintf("%s: %v", inside.Quote(path), err))
}

func (w *walk) done() *Result {
	w.prune()
	w.result.Files = make([]string, len(w.newest))
	for i, f := range w.newest {
		w.result.Files[i] = strings.ToValidUTF8(f.path, "\uFFFD")
	}
	if w.silent > 0 {
		w.result.Notes = append(w.result.Notes, fmt.Sprintf("... and %d more of that kind", w.silent))
	}
	return w.result
}
