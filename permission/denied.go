package permission

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	in := &Policy{Workspace: workspace, Home: home}
	var walk []*Rule
	for i := range rules {
		r := &rules[i]
		if r.Behavior != Deny || r.path == nil || r.Content == "" || r.Tool != "Read" && !r.writes() {
			continue
		}
		if !r.path.reaches(workspace, in) {
			continue // its tools are denied; what a session shows is not the user's there
		}
		if name, ok := r.path.literal(in); ok {
			if rel, inside := below(workspace, name); !inside || rel == "" {
				return nil, nil, fmt.Errorf("the rule %s denies the whole workspace; name paths in it", r)
			}
			r.list(name, &read, &write)
			if r.path.root != anywhere {
				continue
			}
		}
		walk = append(walk, r)
	}
	if len(walk) == 0 {
		return outermost(read), outermost(write), nil
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for what the rules deny: %w", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(rel string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && rel != "." && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)):
			return fs.SkipDir // the session cannot read it either, or it is gone
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
