package adoption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
)

// errOvertaken is the error of a step that does not meet with what was there.
var errOvertaken = errors.New("it has changed meanwhile")

// Run is an [inside.Function].
func Run(ctx context.Context, c *inside.Call) ([]byte, error) {
	req, err := decode(c.Input)
	if err != nil {
		return nil, err
	}
	w := &writer{req: req, trees: make([]tree, len(req.Trees))}
	defer w.close()
	var resp Response
	for i := range req.Steps {
		step := &req.Steps[i]
		err := w.step(ctx, step)
		if err == nil {
			if resp.Error == "" {
				resp.Done++
			}
			continue
		}
		if resp.Error == "" {
			resp.Error, resp.Overtaken = err.Error(), errors.Is(err, errOvertaken)
			var errno unix.Errno
			if errors.As(err, &errno) {
				resp.Errno = int(errno)
			}
		}
		if !req.On {
			break
		}
	}
	return json.Marshal(resp)
}

// A writer does the steps of one request.
type writer struct {
	req   *Request
	trees []tree
}

// A tree holds its directory open, its stage, and the directory of the last step.
type tree struct {
	opened     bool
	fd         int
	stage      int // -1: not open
	parent     int // -1: none
	parentName string
}

func (w *writer) close() {
	for i := range w.trees {
		if t := &w.trees[i]; t.opened {
			t.leave()
			if t.stage >= 0 {
				unix.Close(t.stage)
			}
			unix.Close(t.fd)
		}
	}
}

func (t *tree) leave() {
	if t.parent >= 0 {
		unix.Close(t.parent)
	}
	t.parent = -1
}

// tree opens the tree of a step.
func (w *writer) tree(s *Step) (*tree, error) {
	if s.Tree < 0 || s.Tree >= len(w.trees) {
		return nil, unix.EINVAL
	}
	t := &w.trees[s.Tree]
	if t.opened {
		return t, nil
	}
	fd, err := openat2(unix.AT_FDCWD, string(w.req.Trees[s.Tree].Path), unix.O_PATH|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	*t = tree{opened: true, fd: fd, stage: -1, parent: -1}
	return t, nil
}

const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

func openat2(dir int, name string, flags, mode, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode, Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		if err != unix.EINTR && err != unix.EAGAIN { // EAGAIN: a rename raced with the lookup
			return fd, err
		}
	}
}

// in returns the directory that a path is in, which stays the tree's, and the
// name there.
func (t *tree) in(name []byte) (int, string, error) {
	dir, base := path.Split(string(name))
	dir = strings.TrimSuffix(dir, "/")
	if base == "" || base == ".." || strings.IndexByte(string(name), 0) >= 0 || base == "." && dir != "" {
		return -1, "", unix.EINVAL
	}
	if dir == "" {
		return t.fd, base, nil
	}
	if t.parent >= 0 && t.parentName == dir {
		return t.parent, base, nil
	}
	t.leave()
	fd, err := openat2(t.fd, dir, unix.O_PATH|unix.O_DIRECTORY, 0, beneath)
	if err != nil {
		return -1, "", err
	}
	t.parent, t.parentName = fd, dir
	return fd, base, nil
}

// changed forgets the directory of the last step if it is what has changed, or
// in it.
func (t *tree) changed(name []byte) {
	if t.parent >= 0 && (t.parentName == string(name) || strings.HasPrefix(t.parentName, string(name)+"/")) {
		t.leave()
	}
}

// staged opens the stage.
func (w *writer) staged(s *Step) (*tree, int, error) {
	t, err := w.tree(s)
	if err != nil {
		return nil, -1, err
	}
	if t.stage < 0 {
		t.stage, err = openat2(t.fd, w.req.Trees[s.Tree].Stage, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, beneath)
	}
	return t, t.stage, err
}

func (w *writer) step(ctx context.Context, s *Step) error {
	switch s.Do {
	case Check, Stage, Write, Symlink, FIFO, Socket: // nothing that shows
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	switch s.Do {
	case Check:
		return w.check(s)
	case Stage:
		t, err := w.tree(s)
		if err != nil {
			return err
		}
		return unix.Mkdirat(t.fd, w.req.Trees[s.Tree].Stage, 0o700)
	case Write:
		return w.write(s)
	case Symlink, FIFO, Socket:
		return w.special(s)
	case Open:
		return w.set(s, &Attr{Mode: s.Was.mode() | 0o700, AnyXattrs: true})
	case Mkdir:
		return w.mkdir(s)
	case Place:
		return w.place(s)
	case Link:
		return w.link(s)
	case Set:
		return w.set(s, s.Attr)
	case Remove:
		return w.remove(s)
	case Unstage:
		return w.unstage(s)
	}
	return fmt.Errorf("no step %q", s.Do)
}

func (w *Was) mode() uint32 {
	if w == nil {
		return 0
	}
	return w.Mode & 0o7777
}

// is reports whether a file is what must be there.
func (w *Was) is(st *unix.Stat_t) bool {
	if w == nil || st.Mode&unix.S_IFMT != w.Mode&unix.S_IFMT {
		return false
	}
	if w.Kind {
		return true
	}
	return st.Mode == w.Mode && st.Mtim.Nano() == w.Mtime && (w.Ctime == 0 || st.Ctim.Nano() == w.Ctime) &&
		(st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size == w.Size)
}

// look looks at what is at a path.
func look(dir int, base string, w *Was) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
		if w == nil {
			return nil
		}
		return errOvertaken
	case err != nil:
		return err
	case !w.is(&st):
		return errOvertaken
	}
	return nil
}

func (w *writer) check(s *Step) error {
	t, err := w.tree(s)
	if err != nil {
		return err
	}
	dir, base, err := t.in(s.Path)
	if err == nil {
		err = look(dir, base, s.Was)
	}
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP: // no such directory: it is looked at itself
		if s.Was == nil {
			return nil
		}
		return errOvertaken
	case unix.EACCES:
		return nil // in a directory that is opened first, and then looked at again
	}
	return err
}

// moved is the error of a path of which a directory is gone.
func moved(err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EEXIST, unix.ENOTEMPTY, unix.EISDIR:
		return fmt.Errorf("%w (%w)", errOvertaken, err)
	}
	return err
}

// at finds the place of a step and looks at what is there.
func (w *writer) at(s *Step) (t *tree, dir int, base string, err error) {
	if t, err = w.tree(s); err != nil {
		return nil, -1, "", err
	}
	if dir, base, err = t.in(s.Path); err == nil {
		err = look(dir, base, s.Was)
	}
	return t, dir, base, moved(err)
}

func (w *writer) mkdir(s *Step) error {
	t, dir, base, err := w.at(s)
	if err != nil {
		return err
	}
	t.changed(s.Path)
	return moved(unix.Mkdirat(dir, base, 0o700))
}

func (w *writer) remove(s *Step) error {
	t, dir, base, err := w.at(s)
	if err != nil {
		return err
	}
	t.changed(s.Path)
	flags := 0
	if s.Was != nil && s.Was.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	return moved(unix.Unlinkat(dir, base, flags))
}

func (w *writer) place(s *Step) error {
	_, stage, err := w.staged(s)
	if err != nil {
		return err
	}
	_, dir, base, err := w.at(s)
	if err != nil {
		return err
	}
	flags := uint(0)
	if s.Was == nil {
		flags = unix.RENAME_NOREPLACE
	}
	return moved(unix.Renameat2(stage, strconv.Itoa(s.N), dir, base, flags))
}

func (w *writer) link(s *Step) error {
	t, stage, err := w.staged(s)
	if err != nil {
		return err
	}
	dir, base, err := t.in(s.From)
	if err == nil {
		err = unix.Linkat(dir, base, stage, strconv.Itoa(s.N), 0)
	}
	return moved(err)
}

// unstage removes the stage, and what is left in it.
func (w *writer) unstage(s *Step) error {
	t, stage, err := w.staged(s)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	t.stage = -1
	f := os.NewFile(uintptr(stage), "stage")
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			unix.Unlinkat(stage, name, 0)
		}
		if err != nil {
			break
		}
	}
	return unix.Unlinkat(t.fd, w.req.Trees[s.Tree].Stage, unix.AT_REMOVEDIR)
}
