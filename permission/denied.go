package permission

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// DeniedPaths lists what rules that deny files are about in a workspace, as it
// is now: absolute paths that cannot be read and that cannot be changed, which a
// session holds. A path that a rule names without a pattern is listed whether it
// is there or not. Only a rule with a pattern makes the workspace be walked;
// links are not followed. It is an error if a rule is about files elsewhere:
// nothing would hold it.
func DeniedPaths(ctx context.Context, workspace, home string, rules []Rule) (read, write []string, err error) {
	denies := func(r Rule) bool { return r.Behavior == Deny && r.OfFiles() }
	if !slices.ContainsFunc(rules, denies) {
		return nil, nil, nil
	}
	in := &Policy{Workspace: workspace, Home: home}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for what the rules deny: %w", err)
	}
	defer root.Close()
	var walk []*Rule
	for i := range rules {
		r := &rules[i]
		if !denies(*r) {
			continue
		}
		if !r.path.reaches(in.locate(workspace), in) {
			continue // its tools are denied; what a session shows is not the user's there
		}
		if name, ok := r.path.literal(in); ok {
			rel, inside := below(workspace, name)
			if !inside || rel == "" {
				return nil, nil, fmt.Errorf("the rule %s denies the whole workspace; name paths in it", r.named())
			}
			r.list(name, &read, &write)
			if r.path.root != anywhere {
				// A denial ignores case.
				names, err := spelled(root.FS(), rel)
				if err != nil {
					return nil, nil, fmt.Errorf("looking for what the rule %s denies: %w", r.named(), err)
				}
				for _, rel := range names {
					r.list(filepath.Join(workspace, rel), &read, &write)
				}
				continue
			}
		}
		walk = append(walk, r)
	}
	if len(walk) == 0 {
		return outermost(read), outermost(write), nil
	}
	w := &walker{workspace: workspace, in: in, rules: walk, read: &read, write: &write}
	w.group, w.ctx = errgroup.WithContext(ctx)
	w.group.SetLimit(runtime.GOMAXPROCS(0))
	dir, err := root.Open(".")
	if err == nil {
		w.group.Go(func() error { return w.dir(dir, in.locate(workspace).names) })
		err = w.group.Wait()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("looking for what the rules deny: %w", err)
	}
	return outermost(read), outermost(write), nil
}

// A walker looks for what rules deny, in a workspace that may be large.
type walker struct {
	ctx       context.Context
	group     *errgroup.Group // a directory is looked at by another goroutine where one is free
	workspace string
	in        *Policy
	rules     []*Rule

	mu          sync.Mutex
	read, write *[]string // guarded by mu
}

// dir looks at a directory and all below; names are its components. It closes it.
// Each is opened in the one above it, through no link.
func (w *walker) dir(f *os.File, names []string) error {
	defer f.Close()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err != nil && !cannotBeRead(err) {
		return err
	}
	at := &located{names: append(names[:len(names):len(names)], ""), lower: make([]string, len(names)+1)}
	for i, name := range names {
		at.lower[i] = strings.ToLower(name)
	}
	// What is below the directory is below what the directory is below.
	at.workspace, at.inWorkspace = at.below(w.in.Workspace)
	at.home, at.anyCase = at.below(w.in.Home)
	last := len(names)
	for _, e := range entries {
		at.names[last], at.lower[last] = e.Name(), strings.ToLower(e.Name())
		hidden := false
		for _, r := range w.rules {
			if r.path.ends(at) {
				w.mu.Lock()
				r.list("/"+strings.Join(at.names, "/"), w.read, w.write)
				w.mu.Unlock()
				hidden = hidden || r.Tool == "Read"
			}
		}
		if !e.IsDir() || hidden {
			continue
		}
		fd, err := unix.Openat(int(f.Fd()), e.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			if cannotBeRead(err) || err == unix.ENOTDIR || err == unix.ELOOP {
				continue
			}
			return &fs.PathError{Op: "open", Path: strings.Join(at.names, "/"), Err: err}
		}
		below, names := os.NewFile(uintptr(fd), e.Name()), slices.Clone(at.names)
		look := func() error { return w.dir(below, names) }
		if w.group.TryGo(look) {
			continue
		}
		if err := look(); err != nil {
			return err
		}
	}
	return nil
}

// ends reports whether the pattern matches a path, where it was found not to match
// the directory that the path is in.
func (p *pathPattern) ends(l *located) bool {
	if p.root != anywhere {
		return p.matches(l)
	}
	names := l.names
	if p.fold {
		names = l.lower
	}
	return p.parts[0] == "**" || matchesName(p.lower[0], names[len(names)-1])
}

// cannotBeRead reports whether a directory is one that the session cannot read
// either, or gone.
func cannotBeRead(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)
}

// spelled returns the paths that there are and that differ from one in case, if
// at all. Links are not followed.
func spelled(in fs.FS, rel string) ([]string, error) {
	found := []string{"."}
	names := components(rel)
	for i, name := range names {
		var next []string
		for _, dir := range found {
			entries, err := fs.ReadDir(in, dir)
			if err != nil && !cannotBeRead(err) {
				return nil, err
			}
			for _, e := range entries {
				if strings.EqualFold(e.Name(), name) && (e.IsDir() || i == len(names)-1) {
					next = append(next, path.Join(dir, e.Name()))
				}
			}
		}
		found = next
	}
	return found, nil
}

func (r *Rule) list(path string, read, write *[]string) {
	if r.Tool == "Read" {
		*read = append(*read, path)
	} else {
		*write = append(*write, path)
	}
}

// literal is the path that a pattern without wildcards names; of one for any
// depth, the one in the workspace's root. What ends in /** is the directory.
func (p *pathPattern) literal(in *Policy) (string, bool) {
	parts := p.parts
	if n := len(parts); n > 0 && parts[n-1] == "**" {
		parts = parts[:n-1]
	}
	for _, part := range parts {
		if strings.ContainsAny(part, `*?[{\`) {
			return "", false
		}
	}
	return filepath.Join(append([]string{p.base(in)}, parts...)...), true
}

// outermost leaves out what is listed twice, or lies below what is listed.
func outermost(paths []string) []string {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
			if _, found := slices.BinarySearch(paths, dir); found {
				return true
			}
		}
		return false
	})
}
