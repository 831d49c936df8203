package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
)

// A Target is a file that is to be replaced, or made: its name in a directory
// that is held, so that nothing can be put in between.
//
// A file is replaced by another that is written beside it and renamed over it:
// whoever reads it sees the old or the new, and of the two a failure leaves the
// old. It has then this one name. That is meant: other names of the old file (hard
// links) were not judged, and may lie where the call may not write; they keep the
// old content. Mode, owner and extended attributes are those of the old file.
// Where they cannot be, or where the directory takes no new file, the file is
// written in place, unless it has other names.
type Target struct {
	Path string // without links
	// Old is the file as it is; nil when there is none.
	Old *inside.File

	name string
	dir  *inside.File // nil when it does not exist
}

// ErrUnread is the error of a file that exists and was not read.
var ErrUnread = errors.New("it has not been read yet; Read it first")

// ErrOutdated is the error of a file that is not what was read.
var ErrOutdated = errors.New("it changed since it was read; Read it again")

// Find finds a file and its directory. Without resolved, links are followed: it
// is what they lead to that is replaced.
func Find(path string, resolved bool) (*Target, error) {
	if !resolved {
		var err error
		if path, err = inside.Resolve(path); err != nil {
			return nil, err
		}
	}
	if path == "/" {
		return nil, &inside.KindError{Path: path, Kind: "a directory", Want: "a regular file"}
	}
	t := &Target{Path: path, name: filepath.Base(path)}
	var err error
	if t.dir, err = inside.OpenDir(filepath.Dir(path), true); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return t, nil
		}
		return nil, err
	}
	if err := ofKernel(t.dir); err != nil {
		t.Close()
		return nil, err
	}
	t.Old, err = t.dir.OpenIn(t.name)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		t.Close()
		return nil, err
	}
	return t, nil
}

// ofKernel reports a directory whose files are the kernel's: writing one is an
// act of the process that does it, which is PID 1 here.
func ofKernel(dir *inside.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir.Fd, &fs); err != nil {
		return &inside.PathError{Path: dir.Path, Err: err}
	}
	switch fs.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return fmt.Errorf("%s: its files are the kernel's, and are not written by this tool; use Bash", inside.Quote(dir.Path))
	}
	return nil
}

// Close releases what is held.
func (t *Target) Close() {
	if t.Old != nil {
		t.Old.Close()
	}
	if t.dir != nil {
		t.dir.Close()
	}
}

// Content reads the file whole. One that is larger than [MostHashed] is an error.
func (t *Target) Content(ctx context.Context) ([]byte, error) {
	if t.Old.Stat.Size > MostHashed {
		return nil, t.tooLarge()
	}
	data := make([]byte, 0, t.Old.Stat.Size+512)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := t.Old.Read(data[len(data):min(cap(data), len(data)+1<<20)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if len(data) > MostHashed {
			return nil, t.tooLarge()
		}
	}
}

// Unread is the error of a file that exists and was not read. One that is too
// large has no hash by which a reading could be proved.
func (t *Target) Unread() error {
	if t.Old.Stat.Size > MostHashed {
		return t.tooLarge()
	}
	return t.err(ErrUnread)
}

func (t *Target) tooLarge() error {
	return t.err(fmt.Errorf("it is larger than %d MiB, the most that is changed by this tool; use Bash (sed, python)", MostHashed>>20))
}

// Links is how many other names the file had, which keep what it was.
func (t *Target) Links() int {
	if t.Old == nil || t.Old.Stat.Nlink < 2 {
		return 0
	}
	return int(min(t.Old.Stat.Nlink-1, 1<<30))
}

// Write makes the file what emit writes, size bytes, and returns the hash of it.
// The file must still be what it was when its hash was expected; that is ""
// for one that is to be made. Directories that are missing are made.
func (t *Target) Write(ctx context.Context, expected string, size int64, emit func(io.Writer) error) (string, error) {
	if t.Old != nil {
		if err := t.writable(); err != nil {
			return "", err
		}
	} else if err := t.makeDir(); err != nil {
		return "", err
	}
	sum, err := t.beside(ctx, expected, emit)
	if in := (*inPlace)(nil); errors.As(err, &in) {
		if t.Old == nil || t.Links() > 0 {
			return "", t.err(in.err)
		}
		return t.over(ctx, expected, size, emit)
	}
	return sum, err
}

// inPlace is the error of a file that cannot be replaced by another.
type inPlace struct{ err error }

func (e *inPlace) Error() string { return e.err.Error() }

// beside writes a new file in the directory and renames it.
func (t *Target) beside(ctx context.Context, expected string, emit func(io.Writer) error) (sum string, err error) {
	temp := ".sallyport-" + strings.ToLower(rand.Text())
	mode := uint32(0o600) // until it has the owner and mode of the old one
	if t.Old == nil {
		mode = 0o644
	}
	fd, err := unix.Openat(t.dir.Fd, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	switch {
	case denied(err):
		return "", &inPlace{err}
	case err != nil:
		return "", t.err(err)
	}
	defer func() {
		unix.Close(fd)
		if err != nil {
			unix.Unlinkat(t.dir.Fd, temp, 0)
		}
	}()
	w := &writer{ctx: ctx, fd: fd, hash: sha256.New()}
	if err := emit(w); err != nil {
		return "", t.err(err)
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if t.Old != nil {
		flags = 0
		if err := t.likeOld(fd); err != nil {
			return "", &inPlace{err}
		}
		if err := t.unchanged(ctx, t.Old.Fd, expected); err != nil {
			return "", err
		}
	}
	switch err := unix.Renameat2(t.dir.Fd, temp, t.dir.Fd, t.name, flags); {
	case err == unix.EEXIST:
		return "", t.err(ErrUnread)
	case err == unix.EBUSY || denied(err): // it is a mount, or its directory lets nothing go
		return "", &inPlace{err}
	case err != nil:
		return "", t.err(err)
	}
	return w.sum(), nil
}

// over writes the file in place, for one that nothing can take the place of.
func (t *Target) over(ctx context.Context, expected string, size int64, emit func(io.Writer) error) (string, error) {
	fd, err := inside.Reopen(t.Old.Fd, unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return "", t.err(err)
	}
	defer unix.Close(fd)
	if err := t.unchanged(ctx, fd, expected); err != nil {
		return "", err
	}
	// Space that is missing is missed before anything is lost.
	if err := unix.Fallocate(fd, 0, 0, max(size, 1)); err == unix.ENOSPC || err == unix.EDQUOT {
		unix.Ftruncate(fd, t.Old.Stat.Size)
		return "", t.err(err)
	}
	// From here on the call is not given up, so that no half of a file is left.
	w := &writer{ctx: context.WithoutCancel(ctx), fd: fd, hash: sha256.New()}
	if err := emit(w); err != nil {
		return "", t.err(fmt.Errorf("it could only be written in place, and is now incomplete; Read it again: %w", err))
	}
	if err := unix.Ftruncate(fd, w.n); err != nil {
		return "", t.err(err)
	}
	return w.sum(), nil
}

func denied(err error) bool { return err == unix.EACCES || err == unix.EPERM || err == unix.EROFS }

// writable reports a file that may not be written, though another could take its
// place.
func (t *Target) writable() error {
	err := unix.Faccessat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(t.Old.Fd), unix.W_OK, 0)
	if err == unix.EACCES {
		return t.err(fmt.Errorf("it is not writable (its mode is %04o); if it is meant to change, chmod it with Bash first: %w", t.Old.Stat.Mode&0o7777, err))
	}
	if err != nil {
		return t.err(err)
	}
	return nil
}

// unchanged reports a file that is not what was expected: what is held has
// another content now, or the name another file.
func (t *Target) unchanged(ctx context.Context, fd int, expected string) error {
	var st unix.Stat_t
	err := unix.Fstatat(t.dir.Fd, t.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || st.Dev != t.Old.Stat.Dev || st.Ino != t.Old.Stat.Ino {
		return t.err(ErrOutdated)
	}
	h := sha256.New()
	buf := make([]byte, min(int64(128<<10), t.Old.Stat.Size+1))
	for at := int64(0); at <= MostHashed; {
		n, err := unix.Pread(fd, buf, at)
		if err == unix.EINTR {
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return t.err(err)
		}
		if n == 0 {
			if hex.EncodeToString(h.Sum(nil)) == expected {
				return nil
			}
			break
		}
		h.Write(buf[:n])
		at += int64(n)
	}
	return t.err(ErrOutdated)
}

// likeOld gives a new file what the old one has beside its content. The setuid
// and setgid bits go, as with every write.
func (t *Target) likeOld(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	old := &t.Old.Stat
	if st.Uid != old.Uid || st.Gid != old.Gid {
		if err := unix.Fchown(fd, int(old.Uid), int(old.Gid)); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, old.Mode&0o1777); err != nil {
		return err
	}
	return copyAttributes(t.Old.Fd, fd)
}

// copyAttributes copies the extended attributes, access lists among them. Those
// of a security policy are given by that.
func copyAttributes(from, to int) error {
	const most = 64 << 10 // the kernel's bound for the list and for a value
	n, err := unix.Flistxattr(from, nil)
	if n == 0 || err == unix.EOPNOTSUPP {
		return nil
	}
	list := make([]byte, most)
	if n, err = unix.Flistxattr(from, list); err != nil {
		return err
	}
	value := make([]byte, most)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		if name == "" || strings.HasPrefix(name, "security.") || strings.HasPrefix(name, "trusted.") {
			continue
		}
		n, err := unix.Fgetxattr(from, name, value)
		if err == unix.ENODATA {
			continue
		}
		if err != nil {
			return err
		}
		if err := unix.Fsetxattr(to, name, value[:n], 0); err != nil {
			return err
		}
	}
	return nil
}

// makeDir makes the directory that the file is to be in, and opens it.
func (t *Target) makeDir() error {
	if t.dir != nil {
		return nil
	}
	path := filepath.Dir(t.Path)
	var names []string // that are missing, the last first
	var dir *inside.File
	for at := path; ; at = filepath.Dir(at) {
		var err error
		if dir, err = inside.OpenDir(at, true); err == nil {
			break
		}
		if !errors.Is(err, unix.ENOENT) || at == "/" {
			return err
		}
		names = append(names, filepath.Base(at))
	}
	if err := ofKernel(dir); err != nil {
		dir.Close()
		return err
	}
	// What cannot be made to the end is not begun.
	for _, name := range append(names, t.name) {
		if len(name) > unix.NAME_MAX {
			dir.Close()
			return t.err(unix.ENAMETOOLONG)
		}
	}
	for i := len(names) - 1; i >= 0; i-- {
		fail := func(err error) error {
			dir.Close()
			return &inside.PathError{Path: filepath.Join(dir.Path, names[i]), Err: err}
		}
		if err := unix.Mkdirat(dir.Fd, names[i], 0o755); err != nil && err != unix.EEXIST {
			return fail(err)
		}
		fd, err := unix.Openat(dir.Fd, names[i], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ELOOP || err == unix.ENOTDIR {
			err = inside.ErrChanged
		}
		if err != nil {
			return fail(err)
		}
		next := &inside.File{Fd: fd, Path: filepath.Join(dir.Path, names[i])}
		dir.Close()
		dir = next
	}
	t.dir = dir
	return nil
}

// err is an error of the file, unless it is already one of a path.
func (t *Target) err(err error) error {
	if path := (*inside.PathError)(nil); errors.As(err, &path) {
		return err
	}
	if errno, ok := err.(unix.Errno); ok && errno != 0 || errors.Is(err, inside.ErrChanged) {
		return &inside.PathError{Path: t.Path, Err: err}
	}
	return fmt.Errorf("%s: %w", inside.Quote(t.Path), err)
}

// writer writes to a descriptor and hashes what it writes.
type writer struct {
	ctx  context.Context
	fd   int
	n    int64
	hash hash.Hash
}

func (w *writer) sum() string { return hex.EncodeToString(w.hash.Sum(nil)) }

func (w *writer) Write(p []byte) (int, error) {
	w.hash.Write(p)
	for rest := p; len(rest) > 0; {
		if err := w.ctx.Err(); err != nil {
			return 0, err
		}
		n, err := unix.Pwrite(w.fd, rest[:min(len(rest), 1<<20)], w.n)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		w.n += int64(n)
		rest = rest[n:]
	}
	return len(p), nil
}
