package permission

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mostLinks is how many links one path may lead through, as in the kernel.
const mostLinks = 40

// LinksBeneath returns what tells where paths lead that lie in a directory, for
// [Request.Links], without a session to ask: links are read beneath the directory
// and nothing is looked at outside of it. A path that leads out is taken as it is
// written from there on.
func LinksBeneath(root *os.Root, dir string) func(paths []string) ([]string, error) {
	return func(paths []string) ([]string, error) {
		real := make([]string, len(paths))
		for i, path := range paths {
			var err error
			if real[i], err = leads(root, dir, path); err != nil {
				return nil, err
			}
		}
		return real, nil
	}
}

// mostEntries is how many entries of a directory are looked at.
const mostEntries = 10_000

// TrapsBeneath returns, for [Request.Traps], what names the entries of a directory
// beneath another that are more than what a pattern of the shell's is thought to
// match: symbolic links, and those that a command takes for its flags. A directory
// that is not there has none; there is an error for one with more entries than are
// looked at, and for one outside.
func TrapsBeneath(root *os.Root, dir string) func(dir string) ([]string, error) {
	return func(path string) ([]string, error) {
		rel, inside := below(dir, path)
		if !inside {
			return nil, fmt.Errorf("%s is not in %s", path, dir)
		}
		f, err := root.Open(cmp.Or(rel, "."))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		entries, err := f.ReadDir(mostEntries + 1)
		switch {
		case err != nil && err != io.EOF:
			return nil, err
		case len(entries) > mostEntries:
			return nil, fmt.Errorf("%s has more than %d entries", path, mostEntries)
		}
		var names []string
		for _, entry := range entries {
			if entry.Type()&fs.ModeSymlink != 0 || strings.HasPrefix(entry.Name(), "-") {
				names = append(names, entry.Name())
			}
		}
		return names, nil
	}
}

func leads(root *os.Root, dir, path string) (string, error) {
	real, rest := "/", strings.TrimPrefix(path, "/")
	for links := 0; ; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "":
			if rest == "" {
				return real, nil
			}
			continue
		case ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		at := filepath.Join(real, name)
		rel, inside := below(dir, at)
		if !inside || rel == "" {
			real = at
			continue
		}
		target, err := root.Readlink(rel)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return filepath.Join(at, rest), nil
		case err != nil: // no link
			real = at
			continue
		}
		if links++; links > mostLinks {
			return "", fmt.Errorf("%s leads through too many links", path)
		}
		if strings.HasPrefix(target, "/") {
			real = "/"
		}
		rest = target + "/" + rest
	}
}
