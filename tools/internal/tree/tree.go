// Package tree opens what a judged path names, and lists and opens what is below
// it, for functions of the guest that search. No link is followed below the path,
// nothing is opened that opening could wait for or change, and what is returned
// is bounded.
//
// It uses descriptors and system calls alone, so that all of it happens on the
// thread that is held to the call's envelope.
package tree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/files"
)

// Limits of what is listed.
const (
	MaxEntries = 1 << 20 // of one directory
	MaxDepth   = 256     // directories below the root; one descriptor each
)

// ErrMany says that a directory has more than MaxEntries entries.
var ErrMany = errors.New("more than 1048576 entries")

// errProc is the error of a directory of /proc. What a process may see there
// depends on which it is, and the one that runs functions may see more than
// others.
var errProc = errors.New("what the kernel shows in /proc is not searched; use Bash")

// Open opens a file or a directory for reading, as [inside.Open] does: with
// resolved, no link in the path is followed.
func Open(path string, resolved bool, workspace string) (f *inside.File, dir bool, err error) {
	f, err = inside.OpenDir(path, resolved)
	if kind := (*inside.KindError)(nil); errors.As(err, &kind) {
		f, err = inside.Open(path, resolved)
		if errors.As(err, &kind) {
			err = fmt.Errorf("%w; only files and directories are searched", err)
		}
		return f, false, err
	}
	if err != nil {
		return nil, false, files.Explain(err, path, resolved, workspace)
	}
	if err := notProc(f.Fd); err != nil {
		f.Close()
		return nil, false, fmt.Errorf("%s: %w", inside.Quote(path), err)
	}
	return f, true, nil
}

func notProc(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return errProc
	}
	return nil
}

// OpenDir opens a directory in one that is open.
func OpenDir(dir int, name string) (int, error) {
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	if err := notProc(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// OpenFile opens a regular file in a directory and returns its size in bytes.
// Anything else is refused with EINVAL.
func OpenFile(dir int, name string) (fd int, size int64, err error) {
	fd, err = openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, st.Size, nil
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Read fills as much of buf as the file has left. n < len(buf) at its end.
func Read(fd int, buf []byte) (n int, err error) {
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

// ReadSmall returns the content of a regular file in a directory, and an error
// when it is longer than most bytes.
func ReadSmall(dir int, name string, most int64) ([]byte, error) {
	fd, size, err := OpenFile(dir, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if size > most {
		return nil, fmt.Errorf("larger than %d bytes", most)
	}
	buf := make([]byte, size+1)
	n, err := Read(fd, buf)
	return buf[:min(int64(n), size)], err
}

// An Entry is what a directory has.
type Entry struct {
	Name string
	Type Type
}

// A Type is what an entry is.
type Type uint8

const (
	Other Type = iota
	File
	Dir
	Link
)

// A Reader lists directories. It may not be used by several goroutines at once.
type Reader struct{ buf []byte }

// List returns the entries of a directory in such an order that a walk which
// descends where it finds a directory sees whole paths in the order of their
// bytes. An ErrMany comes with those entries that were read.
func (r *Reader) List(dir int) ([]Entry, error) {
	if r.buf == nil {
		r.buf = make([]byte, 64<<10)
	}
	var entries []Entry
	var err error
	for err == nil {
		var n int
		n, err = unix.Getdents(dir, r.buf)
		if err == unix.EINTR {
			err = nil
			continue
		}
		if n <= 0 {
			break
		}
		for b := r.buf[:n]; len(b) >= 19; {
			size := int(binary.NativeEndian.Uint16(b[16:]))
			if size < 19 || size > len(b) {
				break
			}
			name := b[19:size]
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			typ := b[18]
			b = b[size:]
			if s := string(name); s != "." && s != ".." {
				entries = append(entries, Entry{s, typeOf(dir, s, typ)})
			}
		}
		if len(entries) > MaxEntries {
			err = ErrMany
		}
	}
	slices.SortFunc(entries, compare)
	return entries, err
}

func compare(a, b Entry) int {
	if a.Type != Dir && b.Type != Dir {
		return strings.Compare(a.Name, b.Name)
	}
	n := min(len(a.Name), len(b.Name))
	if c := strings.Compare(a.Name[:n], b.Name[:n]); c != 0 {
		return c
	}
	return int(a.at(n)) - int(b.at(n))
}

// at is the byte of a path in which the entry and what is below it stand.
func (e Entry) at(i int) byte {
	switch {
	case i < len(e.Name):
		return e.Name[i]
	case e.Type == Dir:
		return '/'
	}
	return 0
}

func typeOf(dir int, name string, typ byte) Type {
	switch typ {
	case unix.DT_REG:
		return File
	case unix.DT_DIR:
		return Dir
	case unix.DT_LNK:
		return Link
	case unix.DT_UNKNOWN:
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG:
				return File
			case unix.S_IFDIR:
				return Dir
			case unix.S_IFLNK:
				return Link
			}
		}
	}
	return Other
}

// VCS are the names of directories in which version control keeps its own files.
var VCS = []string{".git", ".svn", ".hg", ".bzr", ".jj", ".sl"}
