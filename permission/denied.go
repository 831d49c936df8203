package permission

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
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
		if !r.path.reaches(workspace, in) {
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
	err = fs.WalkDir(root.FS(), ".", func(rel string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && rel != "." && cannotBeRead(err):
			return fs.SkipDir
		case err != nil || rel == ".":
			return err
		}
		path := filepath.Join(workspace, rel)
		hidden := false
		for _, r := range walk {
			if r.path.matches(path, in) {
				r.list(path, &read, &write)
				hidden = hidden || r.Tool == "Read"
			}
		}
		if hidden && d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("looking for what the rules deny: %w", err)
	}
	return outermost(read), outermost(write), nil
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
