package inside

import (
	"context"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is resolved, those of the kernel: a path's length in bytes with
// the zero at its end, and the links that one path may lead through.
const (
	longestPath = unix.PathMax
	mostLinks   = 40
	// MostPaths is how many paths one call resolves.
	MostPaths = 1000
)

// ResolveName is the name of ResolvePaths in the guest.
const ResolveName = "resolve"

// A ResolveRequest asks where paths lead.
type ResolveRequest struct {
	Paths [][]byte `json:"paths"` // absolute and clean, at most MostPaths
}

// A ResolveResponse is where they lead, in the same order.
type ResolveResponse struct {
	Paths []Resolved `json:"paths"`
}

// Resolved is where one path leads.
type Resolved struct {
	Path  []byte `json:"path,omitempty"`
	Error string `json:"error,omitempty"` // then there is no Path
}

// ResolvePaths is a [Function] by [JSON]: Resolve for many paths.
func ResolvePaths(ctx context.Context, _ *Call, in ResolveRequest) (ResolveResponse, error) {
	if len(in.Paths) > MostPaths {
		return ResolveResponse{}, fmt.Errorf("%d paths to resolve, at most %d are", len(in.Paths), MostPaths)
	}
	out := ResolveResponse{Paths: make([]Resolved, len(in.Paths))}
	for i, p := range in.Paths {
		if err := ctx.Err(); err != nil {
			return ResolveResponse{}, err
		}
		real, err := Resolve(string(p))
		if err != nil {
			out.Paths[i].Error = err.Error()
			continue
		}
		out.Paths[i].Path = []byte(real)
	}
	return out, nil
}

// Resolve returns where an absolute path leads when every link in it is
// followed: a path without links. What of it does not exist yet is appended to
// what does, as a file that is made there would be. Links of /proc to what a
// process has open lead nowhere. Errors are [*PathError].
func Resolve(name string) (string, error) {
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return "", &PathError{name, unix.EINVAL}
	}
	// A path without a link before its end, or before the first name that does
	// not exist, leads to itself.
	fd, err := openat2(unix.AT_FDCWD, name, unix.O_PATH, 0, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		unix.Close(fd)
	}
	if clean := path.Clean(name); clean == name && (err == nil || err == unix.ENOENT) {
		return name, nil
	}
	real, err := walk(name)
	if err != nil {
		return "", &PathError{name, err}
	}
	return real, nil
}

// walk follows a path name by name, each in the directory that the ones before
// it led to.
func walk(name string) (string, error) {
	if len(name) >= longestPath {
		return "", unix.ENAMETOOLONG
	}
	dir, err := openat2(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY, 0, 0)
	if err != nil {
		return "", err
	}
	defer func() { unix.Close(dir) }()
	real, rest, links := "/", name, 0
	for {
		var first string
		first, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		switch first {
		case "":
			return real, nil
		case ".":
			continue
		case "..":
			real = path.Dir(real)
		}
		fd, err := openat2(dir, first, unix.O_PATH|unix.O_NOFOLLOW, 0, unix.RESOLVE_NO_MAGICLINKS)
		if err == unix.ENOENT {
			return missing(real, first, rest)
		}
		if err != nil {
			return "", err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return "", err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			if links++; links > mostLinks {
				unix.Close(fd)
				return "", unix.ELOOP
			}
			target, err := readlink(dir, first, fd)
			unix.Close(fd)
			if err != nil {
				return "", err
			}
			if rest = target + "/" + rest; len(rest) >= 2*longestPath {
				return "", unix.ENAMETOOLONG
			}
			if target[0] == '/' {
				real = "/"
				if fd, err = openat2(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY, 0, 0); err != nil {
					return "", err
				}
				unix.Close(dir)
				dir = fd
			}
			continue
		}
		unix.Close(dir)
		dir = fd
		if first != ".." {
			real = path.Join(real, first)
		}
		if len(real) >= longestPath {
			return "", unix.ENAMETOOLONG
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR && strings.Trim(rest, "/") != "" {
			return "", unix.ENOTDIR
		}
	}
}

// missing is a path of which the first names exist. What follows can only be
// made where it says, so there is no way back in it.
func missing(real, first, rest string) (string, error) {
	for part := range strings.SplitSeq(rest, "/") {
		if part == ".." {
			return "", unix.ENOENT
		}
	}
	if real = path.Join(real, first, rest); len(real) >= longestPath {
		return "", unix.ENAMETOOLONG
	}
	return real, nil
}

// readlink reads a held link, by which its directory has it as name.
func readlink(dir int, name string, link int) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(link, &fs); err != nil {
		return "", err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		// What such a link reads as is not where it leads. Those that are like any
		// other, as /proc/self, can be followed without magic.
		fd, err := openat2(dir, name, unix.O_PATH, 0, unix.RESOLVE_NO_MAGICLINKS)
		if err == nil {
			unix.Close(fd)
		} else if err == unix.ELOOP {
			return "", err
		}
	}
	buf := make([]byte, longestPath)
	n, err := unix.Readlinkat(link, "", buf)
	switch {
	case err != nil:
		return "", err
	case n == len(buf):
		return "", unix.ENAMETOOLONG
	case n == 0:
		return "", unix.ENOENT
	}
	return string(buf[:n]), nil
}
