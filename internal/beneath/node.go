package beneath

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A Node is what a name was when it was held: one file of any type, whatever
// becomes of the name afterwards. Holding opens nothing (O_PATH): it needs no
// permission on the file, waits for no FIFO and wakes no device. What is
// checked on a Node is therefore true of what is then done to it.
type Node struct {
	fd   int
	name string
}

// Hold holds what name is, not following it.
func (d *Dir) Hold(name string) (*Node, error) {
	if !Valid(name) {
		return nil, d.err("open", name, unix.EINVAL)
	}
	fd, err := d.openat2(name, unix.O_PATH, 0)
	if err != nil {
		return nil, d.err("open", name, err)
	}
	return &Node{fd, path.Join(d.Name(), name)}, nil
}

// Close releases the node.
func (n *Node) Close() error { return unix.Close(n.fd) }

// Stat returns the status of the node.
func (n *Node) Stat() (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(n.fd, &st)
	return st, n.err("stat", err)
}

// Chmod sets the permissions of the node, with the setuid, setgid and sticky
// bits of mode.
func (n *Node) Chmod(mode uint32) error {
	return n.err("chmod", unix.Chmod(n.proc(), mode&0o7777))
}

// Chown sets the owner of the node.
func (n *Node) Chown(uid, gid int) error {
	return n.err("chown", unix.Fchownat(n.fd, "", uid, gid, unix.AT_EMPTY_PATH))
}

// Xattr returns the value of an extended attribute, ENODATA if it has none.
func (n *Node) Xattr(attr string) ([]byte, error) {
	buf, err := grow(func(buf []byte) (int, error) { return unix.Getxattr(n.proc(), attr, buf) })
	return buf, n.err("getxattr", err)
}

// Xattrs returns the names of the extended attributes.
func (n *Node) Xattrs() ([]string, error) {
	buf, err := grow(func(buf []byte) (int, error) { return unix.Listxattr(n.proc(), buf) })
	if err != nil || len(buf) == 0 {
		return nil, n.err("listxattr", err)
	}
	return strings.Split(strings.TrimSuffix(string(buf), "\x00"), "\x00"), nil
}

// SetXattr sets an extended attribute.
func (n *Node) SetXattr(attr string, value []byte) error {
	return n.err("setxattr", unix.Setxattr(n.proc(), attr, value, 0))
}

// RemoveXattr removes an extended attribute.
func (n *Node) RemoveXattr(attr string) error {
	return n.err("removexattr", unix.Removexattr(n.proc(), attr))
}

// proc names the node itself for the system calls that take no descriptor, or
// none of the O_PATH kind.
func (n *Node) proc() string { return fmt.Sprintf("/proc/self/fd/%d", n.fd) }

func (n *Node) err(op string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: n.name, Err: err}
}

// grow calls read with a buffer that is large enough.
func grow(read func([]byte) (int, error)) ([]byte, error) {
	buf := make([]byte, 256)
	for {
		n, err := read(buf)
		if err == nil {
			return buf[:n], nil
		}
		if err != unix.ERANGE || len(buf) > unix.PathMax*16 {
			return nil, err
		}
		buf = make([]byte, 4*len(buf))
	}
}

// ErrNotRegular is returned for what is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a file to read, if it is a regular one. Anything else is
// not opened but an error that wraps ErrNotRegular.
func (d *Dir) OpenRegular(name string) (*os.File, error) {
	n, err := d.Hold(name)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	st, err := n.Stat()
	if err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, d.err("open", name, ErrNotRegular)
	}
	fd, err := unix.Open(n.proc(), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, d.err("open", name, err)
	}
	return os.NewFile(uintptr(fd), n.name), nil
}

// Entries yields the names in d, in no order. Several must not run at once on
// one Dir.
func (d *Dir) Entries() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if _, err := d.f.Seek(0, io.SeekStart); err != nil {
			yield("", err)
			return
		}
		for {
			names, err := d.f.Readdirnames(1024)
			for _, name := range names {
				if !yield(name, nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield("", err)
				return
			}
		}
	}
}

// SameMount returns d again, as a directory below which other mounts are not
// entered: a path across one fails with EXDEV.
func (d *Dir) SameMount() (*Dir, error) {
	f, err := d.OpenFile(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{f: f, resolve: d.resolve | unix.RESOLVE_NO_XDEV}, nil
}

// Rename renames old below d to new below to, with the flags of renameat2(2).
func (d *Dir) Rename(old string, to *Dir, new string, flags uint) error {
	return d.at("rename", old, func(olddir int, oldbase string) error {
		return to.at("rename", new, func(newdir int, newbase string) error {
			return unix.Renameat2(olddir, oldbase, newdir, newbase, flags)
		})
	})
}

// Link makes new below to another name of old, which is not followed.
func (d *Dir) Link(old string, to *Dir, new string) error {
	return d.at("link", old, func(olddir int, oldbase string) error {
		return to.at("link", new, func(newdir int, newbase string) error {
			return unix.Linkat(olddir, oldbase, newdir, newbase, 0)
		})
	})
}

// Whiteout makes name the mark by which overlayfs hides a name of the layers
// below: the character device 0:0, which needs no privilege to make.
func (d *Dir) Whiteout(name string) error {
	return d.at("whiteout", name, func(dir int, base string) error {
		return unix.Mknodat(dir, base, unix.S_IFCHR, 0)
	})
}
