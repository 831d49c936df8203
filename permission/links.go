package permission

import (
	"errors"
	"fmt"
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
