// Package beneath opens and changes files below a held directory and never
// leaves it.
//
// A path that an agent can influence must not be resolved by the kernel's
// ordinary rules on the host: a symbolic link planted in the workspace would
// lead the host's privileges anywhere. Every function here takes a [Dir], an
// open directory, and a path relative to it; the directories on the way are
// opened with openat2(2) and RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and
// RESOLVE_NO_MAGICLINKS, and the last component is always named relative to
// the directory that was opened, so that nothing can be swapped in between.
// A symbolic link anywhere on the way is an error (ELOOP), never followed.
//
// os.Root is not enough for that: it follows links that stay inside the root.
//
// Paths are bytes, as the kernel sees them: slash-separated, relative, with no
// empty, "." or ".." component, and not necessarily UTF-8. [Valid] says
// whether a path is one; every function refuses others with EINVAL.
//
// All errors are [os.PathError] values. A Dir may be used by several
// goroutines at once.
package beneath

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// A Dir is an open directory.
type Dir struct {
	f       *os.File
	resolve uint64 // flags of openat2(2), inherited by what is opened below
}

// Open opens a directory by its host path. Symbolic links in that path are
// followed: it is the caller's, not the agent's.
func Open(dir string) (*Dir, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{f: f, resolve: resolve}, nil
}

// OpenReal opens a directory by a host path in which no symbolic link was when
// it was noted. One that has come into it since is an error: an agent that can
// write a directory above may have put it there.
func OpenReal(dir string) (*Dir, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		if err == unix.ELOOP {
			err = fmt.Errorf("a symbolic link has taken the place of a directory in it: %w", err)
		}
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return &Dir{f: os.NewFile(uintptr(fd), dir), resolve: resolve}, nil
}

// Close releases the directory.
func (d *Dir) Close() error { return d.f.Close() }

// Name returns the path that the directory was opened by, for messages.
func (d *Dir) Name() string { return d.f.Name() }

// Fd returns the directory's descriptor, valid until Close.
func (d *Dir) Fd() int { return int(d.f.Fd()) }

// Valid reports whether name is a path that this package accepts. "." is the
// directory itself.
func Valid(name string) bool {
	if name == "." {
		return true
	}
	if name == "" || len(name) >= unix.PathMax || strings.IndexByte(name, 0) >= 0 {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// OpenDir opens a directory below d.
func (d *Dir) OpenDir(name string) (*Dir, error) {
	f, err := d.OpenFile(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{f: f, resolve: d.resolve}, nil
}

// OpenFile opens a file below d with the given open(2) flags; O_CLOEXEC and
// O_NOFOLLOW are added. Opening something that an agent made should carry
// O_NONBLOCK, since a FIFO would wait for its other end.
func (d *Dir) OpenFile(name string, flags int, perm fs.FileMode) (*os.File, error) {
	if !Valid(name) {
		return nil, d.err("open", name, unix.EINVAL)
	}
	fd, err := d.openat2(name, flags, perm)
	if err != nil {
		return nil, d.err("open", name, err)
	}
	return os.NewFile(uintptr(fd), path.Join(d.Name(), name)), nil
}

func (d *Dir) openat2(name string, flags int, perm fs.FileMode) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: d.resolve,
	}
	// O_TMPFILE contains O_DIRECTORY.
	if flags&unix.O_CREAT != 0 || flags&unix.O_TMPFILE == unix.O_TMPFILE {
		how.Mode = uint64(perm.Perm())
	}
	for {
		fd, err := unix.Openat2(d.Fd(), name, &how)
		if err != unix.EINTR && err != unix.EAGAIN { // EAGAIN: a rename raced with the lookup
			return fd, err
		}
	}
}

// Parent opens the directory that holds name and returns it with the last
// component, for the *at system calls. It refuses ".".
func (d *Dir) Parent(name string) (*Dir, string, error) {
	if !Valid(name) || name == "." {
		return nil, "", d.err("open", name, unix.EINVAL)
	}
	dir, base := path.Split(name)
	if dir == "" {
		dir = "."
	} else {
		dir = dir[:len(dir)-1]
	}
	p, err := d.OpenDir(dir)
	return p, base, err
}

// Lstat returns the status of what name is, without following it.
func (d *Dir) Lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := d.at("lstat", name, func(dir int, base string) error {
		return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	return st, err
}

// Readlink returns the target of a symbolic link.
func (d *Dir) Readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	var n int
	err := d.at("readlink", name, func(dir int, base string) (err error) {
		n, err = unix.Readlinkat(dir, base, buf)
		return err
	})
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Mkdir makes a directory.
func (d *Dir) Mkdir(name string, perm fs.FileMode) error {
	return d.at("mkdir", name, func(dir int, base string) error {
		return unix.Mkdirat(dir, base, uint32(perm.Perm()))
	})
}

// MkdirAll makes a directory and those above it that are missing.
func (d *Dir) MkdirAll(name string, perm fs.FileMode) error {
	if !Valid(name) {
		return d.err("mkdir", name, unix.EINVAL)
	}
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		if name == "." {
			return nil
		}
		if err := d.Mkdir(name[:i], perm); err != nil && !os.IsExist(err) {
			return err
		}
	}
	f, err := d.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// Symlink makes name a symbolic link to target. The target is not looked at.
func (d *Dir) Symlink(target, name string) error {
	return d.at("symlink", name, func(dir int, base string) error {
		return unix.Symlinkat(target, dir, base)
	})
}

// Remove removes a file, a link or an empty directory.
func (d *Dir) Remove(name string) error {
	return d.at("remove", name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, 0)
		if err == unix.EISDIR || err == unix.EPERM {
			if e := unix.Unlinkat(dir, base, unix.AT_REMOVEDIR); e != unix.ENOTDIR {
				return e
			}
		}
		return err
	})
}

// RemoveAll removes name and all below it, following nothing. A name that does
// not exist is no error. Directories that the caller owns but may not write are
// opened up first, as an agent may leave them so.
func (d *Dir) RemoveAll(name string) error {
	if name == "." {
		return d.err("remove", name, unix.EINVAL)
	}
	parent, base, err := d.Parent(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	r := remover{top: parent}
	if err := r.remove(parent, base, 0); err != nil {
		return err
	}
	return r.rest()
}

// Empty removes all that is in d.
func (d *Dir) Empty() error {
	r := remover{top: d}
	if err := r.empty(d, 0); err != nil {
		return err
	}
	return r.rest()
}

// maxDepth bounds the descriptors that removing a tree holds open at once. A
// directory deeper than that is first moved to the top, where the removal
// began, so that a tree of any depth can be removed.
const maxDepth = 128

type remover struct {
	top   *Dir
	moved []string // what was moved to the top and is still to be removed
}

func (r *remover) rest() error {
	for len(r.moved) > 0 {
		last := r.moved[len(r.moved)-1]
		r.moved = r.moved[:len(r.moved)-1]
		if err := r.remove(r.top, last, 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *remover) remove(d *Dir, name string, depth int) error {
	err := d.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if depth == maxDepth {
		up := fmt.Sprintf(".removed-%s", rand.Text())
		if e := unix.Renameat(d.Fd(), name, r.top.Fd(), up); e != nil {
			return d.err("rename", name, e)
		}
		r.moved = append(r.moved, up)
		return nil
	}
	sub, openErr := d.openToEmpty(name)
	if openErr != nil {
		return err
	}
	err = r.empty(sub, depth+1)
	sub.Close()
	if err != nil {
		return err
	}
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (r *remover) empty(d *Dir, depth int) error {
	for {
		// Read again from the start until nothing is left: what is removed
		// while a directory is read may hide other entries.
		if _, err := d.f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := d.f.Readdirnames(1024)
		if len(names) == 0 {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for _, name := range names {
			if err := r.remove(d, name, depth); err != nil {
				return err
			}
		}
	}
}

// openToEmpty opens a directory so that its entries can be removed.
func (d *Dir) openToEmpty(name string) (*Dir, error) {
	p, base, err := d.Parent(name)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var st unix.Stat_t
	if err := unix.Fstatat(p.Fd(), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, d.err("remove", name, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o700 != 0o700 {
		// fchmodat(2) follows links; a descriptor that is known to be a
		// directory does not. O_PATH needs no permission on it.
		f, err := p.OpenFile(base, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, err
		}
		err = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), 0o700)
		f.Close()
		if err != nil {
			return nil, d.err("chmod", name, err)
		}
	}
	return p.OpenDir(base)
}

func (d *Dir) at(op, name string, f func(dir int, base string) error) error {
	if name == "." && op == "lstat" || Valid(name) && name != "." && !strings.Contains(name, "/") {
		// No directory on the way: d itself is the parent.
		if err := f(d.Fd(), name); err != nil {
			return d.err(op, name, err)
		}
		return nil
	}
	p, base, err := d.Parent(name)
	if err != nil {
		err.(*os.PathError).Op = op
		return err
	}
	defer p.Close()
	if err := f(p.Fd(), base); err != nil {
		return d.err(op, name, err)
	}
	return nil
}

func (d *Dir) err(op, name string, err error) error {
	return &os.PathError{Op: op, Path: path.Join(d.Name(), name), Err: err}
}
