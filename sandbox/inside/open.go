package inside

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// ErrChanged is the error of a path that was judged as one without links, and
// has one now.
var ErrChanged = errors.New("the path changed while it was judged; try again")

// A KindError is what a name turned out to be instead of what was wanted.
type KindError struct {
	Path string
	Kind string // "a directory", "a FIFO" ...
	Want string // "a regular file" or "a directory"
}

func (e *KindError) Error() string {
	return fmt.Sprintf("%s is %s, not %s", Quote(e.Path), e.Kind, e.Want)
}

// A PathError says what is wrong with a path, for whoever named it.
type PathError struct {
	Path string
	Err  error // wraps an errno
}

func (e *PathError) Error() string {
	var what string
	switch {
	case errors.Is(e.Err, ErrChanged):
		what = ErrChanged.Error()
	case errors.Is(e.Err, unix.ENOENT):
		what = "it does not exist"
	case errors.Is(e.Err, unix.ENOTDIR):
		what = "a part of the path before the last is not a directory"
	case errors.Is(e.Err, unix.ELOOP):
		what = "it leads through too many links, or through one of /proc to what a process has open"
	case errors.Is(e.Err, unix.ENAMETOOLONG):
		what = "the path or a name in it is too long (4095 and 255 bytes are the most); cd there with Bash and use relative paths"
	case errors.Is(e.Err, unix.EACCES), errors.Is(e.Err, unix.EPERM):
		what = "permission denied: its mode, or the limits of this session, forbid it"
	case errors.Is(e.Err, unix.EROFS):
		what = "it is protected or read-only in this session"
	case errors.Is(e.Err, unix.ENOSPC), errors.Is(e.Err, unix.EDQUOT):
		what = "no space is left; remove what is not needed"
	case errors.Is(e.Err, unix.EAGAIN):
		what = "it gives nothing to read now, or another process has a lease on it; use Bash with a timeout"
	default:
		what = e.Err.Error()
	}
	return Quote(e.Path) + ": " + what
}

func (e *PathError) Unwrap() error { return e.Err }

// Quote is a path as it stands in a line of text: as it is when every character
// of it can be seen, quoted otherwise, and cut when it is long.
func Quote(path string) string {
	const most = 300
	cut := ""
	if len(path) > most {
		path, cut = path[:most], "..."
	}
	plain := path != "" && utf8.ValidString(path) &&
		strings.IndexFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	if !plain {
		path = strconv.Quote(path)
	}
	return path + cut
}

// A File is something held open. Its methods touch the kernel on the calling
// thread alone.
type File struct {
	Fd   int
	Path string      // that it was opened by
	Stat unix.Stat_t // when it was opened
}

// Close releases it.
func (f *File) Close() error { return unix.Close(f.Fd) }

// Read implements [io.Reader].
func (f *File) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(f.Fd, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, &PathError{f.Path, err}
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Open opens a regular file to read. With resolved, path is the very one that was
// judged and no link in it is followed: one that is there now is [ErrChanged].
// Without, links are followed, but never those of /proc that lead to what a
// process has open. What is not a regular file is a [*KindError] and was not
// opened: no FIFO waits or is woken, no device is touched.
func Open(path string, resolved bool) (*File, error) {
	fd, st, err := hold(unix.AT_FDCWD, path, resolved, 0)
	if err != nil {
		return nil, &PathError{path, err}
	}
	return openHeld(fd, st, path)
}

// OpenDir opens a directory, as Open does a file.
func OpenDir(path string, resolved bool) (*File, error) {
	fd, st, err := hold(unix.AT_FDCWD, path, resolved, 0)
	if err != nil {
		return nil, &PathError{path, err}
	}
	defer unix.Close(fd)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, &KindError{path, kind(st.Mode), "a directory"}
	}
	if ownSecret(fd) {
		return nil, &PathError{path, unix.EACCES}
	}
	dir, err := openat2(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, &PathError{path, err}
	}
	return &File{dir, path, st}, nil
}

// OpenIn opens a regular file in the directory by its name there. The name is
// one component, and is not followed.
func (f *File) OpenIn(name string) (*File, error) {
	path := filepath.Join(f.Path, name)
	fd, st, err := hold(f.Fd, name, true, unix.O_NOFOLLOW)
	if err != nil {
		return nil, &PathError{path, err}
	}
	return openHeld(fd, st, path)
}

// openHeld opens a held file, which is closed.
func openHeld(held int, st unix.Stat_t, path string) (*File, error) {
	defer unix.Close(held)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if ownSecret(held) {
			return nil, &PathError{path, unix.EACCES}
		}
	case unix.S_IFLNK:
		return nil, &PathError{path, changed(unix.ELOOP)}
	default:
		return nil, &KindError{path, kind(st.Mode), "a regular file"}
	}
	// That of /proc can have no data yet: it must not wait for some.
	fd, err := Reopen(held, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, &PathError{path, err}
	}
	return &File{fd, path, st}, nil
}

// descriptors is the directory of what this process holds. To walk to it each
// time takes longer than all else of an open.
var descriptors = sync.OnceValues(func() (int, error) {
	return unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
})

// Reopen opens what a descriptor holds, whatever became of its name.
func Reopen(held, flags int) (int, error) {
	dir, err := descriptors()
	if err != nil {
		return -1, fmt.Errorf("/proc: %w", err)
	}
	for {
		fd, err := unix.Openat(dir, strconv.Itoa(held), flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// ownFiles are what may be read of the process that runs functions, PID 1 of the
// container: what /proc/mounts and its like lead to. The rest, as its memory, its
// environment, and the names in map_files, which are addresses, is kept from every
// program of the session; a function runs in that very process, and must not lend
// its rights.
var ownFiles = []string{"mounts", "mountinfo", "status", "cgroup", "limits", "net", "net/*"}

// ownSecret reports whether what is held is of this process, and none of that.
func ownSecret(held int) bool {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(held, &fs); err != nil {
		return true
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return false
	}
	buf := make([]byte, longestPath)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(held), buf)
	if err != nil {
		return true
	}
	name, own := strings.CutPrefix(string(buf[:n]), fmt.Sprintf("/proc/%d/", unix.Getpid()))
	return own && !slices.ContainsFunc(ownFiles, func(pattern string) bool {
		ok, err := filepath.Match(pattern, name)
		return ok && err == nil
	})
}

// hold holds what a path leads to without opening it.
func hold(dir int, path string, resolved bool, flags uint64) (fd int, st unix.Stat_t, err error) {
	var resolve uint64 = unix.RESOLVE_NO_MAGICLINKS
	if resolved {
		resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	fd, err = openat2(dir, path, flags|unix.O_PATH, 0, resolve)
	if err != nil {
		if resolved {
			err = changed(err)
		}
		return -1, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// changed is the error of a path that was judged.
func changed(err error) error {
	if err == unix.ELOOP {
		return fmt.Errorf("%w (%w)", ErrChanged, err)
	}
	return err
}

func openat2(dir int, path string, flags uint64, mode uint64, resolve uint64) (int, error) {
	if strings.IndexByte(path, 0) >= 0 || path == "" {
		return -1, unix.EINVAL
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode, Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// kind says what a file's type is.
func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	}
	return "of an unknown type"
}
