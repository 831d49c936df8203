// Package call is what Grep does in a session's container.
//
// Where the container has ripgrep it is run, since nothing of this size is as
// fast: its threads search side by side, while a function of the guest has one.
// Elsewhere the search of this package does the same, and a test holds both to
// the same results. It differs from ripgrep in this, and in nothing else that is
// known:
//   - patterns are those of Go's regexp: \w, \d, \s and \b know ASCII only, and
//     what only one of the two understands is an error in the other;
//   - ignore files that are links or larger than a megabyte are not read, nor
//     those that a .git which is a file leads to;
//   - what the kernel shows in /proc is not searched, unless a file of it is named;
//   - a line longer than 8 MB is searched in pieces, and a search across lines
//     leaves out files larger than that.
//
// The search of this package follows no link, whatever takes a directory's place
// meanwhile. Ripgrep begins in the directory that was opened and follows none
// that it sees, but opens by name: one that is swapped at that moment can lead it
// elsewhere in the session's view, as it can any program that searches there.
//
// What ripgrep prints is not trusted: an image may have anything by that name. It
// is read into bounded memory by a parser that takes any bytes.
package call

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/internal/tree"
)

// A Mode is what a search returns.
type Mode string

const (
	Content Mode = "content"
	Files   Mode = "files_with_matches"
	Count   Mode = "count"
)

// A Request is what to search for, and where.
type Request struct {
	Pattern string `json:"pattern"`
	// Path is absolute: a directory, or a file, which is searched whatever the
	// globs, the type and the ignore files say. When Resolved is set no link may
	// be in it.
	Path      []byte `json:"path"`
	Resolved  bool   `json:"resolved,omitempty"`
	Workspace string `json:"workspace"` // for messages

	Mode       Mode     `json:"mode"`
	Globs      []string `json:"globs,omitempty"` // as in .gitignore, relative to Path
	Type       string   `json:"type,omitempty"`
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	Only       bool     `json:"only,omitempty"`      // the matches, not their lines
	Multiline  bool     `json:"multiline,omitempty"` // matches may span lines, and . is also their end
	Before     int      `json:"before,omitempty"`    // lines of context
	After      int      `json:"after,omitempty"`
	// Limit is how many lines or files are returned, 0 for all that fit; Offset
	// is how many are left out before them.
	Limit  int `json:"limit,omitempty"`
	Offset int `json:"offset,omitempty"`
}

// A Result is what was found: blocks in the order of their paths' bytes.
type Result struct {
	Blocks []Block `json:"blocks"`
	// Files and Matches are how many files matched, and in mode count how many
	// lines did, in all, whatever the limit. In mode content they are 0, since
	// the search ends when there is enough.
	Files   int `json:"files,omitempty"`
	Matches int `json:"matches,omitempty"`
	// More says that something follows what is returned.
	More  bool     `json:"more,omitempty"`
	Notes []string `json:"notes,omitempty"` // what could not be searched
}

// A Block is a file that matched.
type Block struct {
	Path  string `json:"path"`            // relative to the request's; "" when that is a file
	Count int    `json:"count,omitempty"` // in mode count
	Lines []Line `json:"lines,omitempty"` // in mode content
}

// A Line is one of a file.
type Line struct {
	Number  int    `json:"n"`
	Text    string `json:"t"` // without its end
	Context bool   `json:"c,omitempty"`
	Cut     int    `json:"cut,omitempty"` // bytes that Text lacks at its end

	bytes int // in JSON
}

// Progress is how far a search is.
type Progress struct {
	Matches int `json:"matches"` // lines
	Files   int `json:"files"`   // with matches
}

// MostKept is the most lines or files that a search looks at for its result.
const MostKept = 1 << 20

// Bounds of a result.
const (
	mostText  = 2000      // bytes of a line
	mostBytes = 1_000_000 // of a result in JSON
	mostNotes = 20
	mostKept  = MostKept
)

// Run searches.
func Run(ctx context.Context, c *inside.Call, req Request) (*Result, error) {
	f, dir, err := tree.Open(string(req.Path), req.Resolved, req.Workspace)
	if err != nil {
		return nil, err
	}
	root := os.NewFile(uintptr(f.Fd), f.Path)
	defer root.Close()
	res, err := ripgrep(ctx, c, req, root, dir)
	if err == errNoRipgrep {
		res, err = own(ctx, c, req, int(root.Fd()), dir)
	}
	if err == nil {
		err = ctx.Err()
	}
	return res, err
}

// own searches without ripgrep.
func own(ctx context.Context, c *inside.Call, req Request, root int, dir bool) (*Result, error) {
	out := newCollector(req, c.Progress)
	m, err := newMatcher(req)
	if err != nil {
		return nil, err
	}
	s := &search{ctx: ctx, req: req, m: m, out: out}
	if !dir {
		var st unix.Stat_t
		if err := unix.Fstat(root, &st); err != nil {
			return nil, err
		}
		s.explicit = true
		s.file(root, st.Size, "")
		return out.result(), nil
	}
	w, err := newWalk(s, root)
	if err != nil {
		return nil, err
	}
	w.dir(root, "", w.top, 0)
	return out.result(), nil
}

func note(path string, err error) string {
	if path == "" {
		path = "."
	}
	return fmt.Sprintf("%s: %v", inside.Quote(path), err)
}

// sometimes says when it is time to report progress.
type sometimes struct{ next time.Time }

func (s *sometimes) now() bool {
	now := time.Now()
	if now.Before(s.next) {
		return false
	}
	s.next = now.Add(200 * time.Millisecond)
	return true
}
