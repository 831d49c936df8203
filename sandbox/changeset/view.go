package changeset

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// A View is what an overlay shows of its lower layers. The lowest is an
// ordinary directory, the user's; those above it may hide what is below them by
// whiteouts and opaque directories, as the kernel's do. It is read layer by
// layer, without a mount, and other mounts in a layer are not entered, since
// the overlay does not show them either.
type View struct {
	Layers []Layer // topmost first
	// UserXattr says that the overlay is mounted with userxattr: its marks are
	// user.overlay.*, not trusted.overlay.*.
	UserXattr bool
}

// A Layer is one lower layer.
type Layer struct {
	Dir *beneath.Dir
	// Policy marks the layer by which a session is denied files: whatever it
	// holds but directories stands for a path whose changes never leave.
	Policy bool
}

// Lstat returns the status of a path, not following it.
func (v View) Lstat(name string) (unix.Stat_t, error) {
	e, err := v.lookup(name)
	return e.st, err
}

// Open opens a regular file to read.
func (v View) Open(name string) (*os.File, error) {
	e, err := v.lookup(name)
	if err != nil {
		return nil, err
	}
	return v.Layers[e.layers[0]].Dir.OpenRegular(name)
}

// Readlink returns the target of a symbolic link.
func (v View) Readlink(name string) (string, error) {
	e, err := v.lookup(name)
	if err != nil {
		return "", err
	}
	return v.Layers[e.layers[0]].Dir.Readlink(name)
}

// ReadDir returns the names in a directory, sorted.
func (v View) ReadDir(name string) ([]string, error) {
	e, err := v.lookup(name)
	if err != nil {
		return nil, err
	}
	if typeOf(&e.st) != Dir {
		return nil, &os.PathError{Op: "readdir", Path: name, Err: unix.ENOTDIR}
	}
	d, err := v.open(name, e.layers)
	if err != nil {
		return nil, err
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	shown := names[:0]
	for _, name := range names {
		e, err := d.child(name)
		if err != nil {
			return nil, err
		}
		if e.exists() {
			shown = append(shown, name)
		}
	}
	return shown, nil
}

// opaqueXattr is the attribute by which a directory hides the same directory of
// the layers below.
func (v View) opaqueXattr() string {
	if v.UserXattr {
		return "user.overlay.opaque"
	}
	return "trusted.overlay.opaque"
}

// isOpaque reports whether the directory has the mark.
func (v View) isOpaque(d *beneath.Dir, name string) (bool, error) {
	n, err := d.Hold(name)
	if err != nil {
		return false, err
	}
	defer n.Close()
	value, err := n.Xattr(v.opaqueXattr())
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	return string(value) == "y", err
}

// sameMount returns the view with layers that do not enter other mounts.
func (v View) sameMount() (View, func(), error) {
	own := View{UserXattr: v.UserXattr}
	closeAll := func() {
		for _, l := range own.Layers {
			l.Dir.Close()
		}
	}
	for _, l := range v.Layers {
		d, err := l.Dir.SameMount()
		if err != nil {
			closeAll()
			return View{}, nil, err
		}
		own.Layers = append(own.Layers, Layer{d, l.Policy})
	}
	return own, closeAll, nil
}

// An entry is what a name in a view is.
type entry struct {
	st unix.Stat_t // of the topmost layer that has it
	// layers are the indexes of the layers that make it up, topmost first:
	// none if the view has no such name, several for a merged directory.
	layers []int
}

func (e entry) exists() bool { return len(e.layers) > 0 }
func (e entry) isDir() bool  { return e.exists() && typeOf(&e.st) == Dir }

// lookup finds a path from the root down.
func (v View) lookup(name string) (entry, error) {
	own, done, err := v.sameMount()
	if err != nil {
		return entry{}, err
	}
	defer done()
	e, err := own.find(name, nil)
	if err == nil && !e.exists() {
		err = &os.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return e, err
}

// find is lookup in a view made by sameMount; what is not there is an entry
// that does not exist. Each directory on the way is shown to step with the entry
// found in it, if step is not nil.
func (v View) find(name string, step func(*viewDir, string, entry) error) (entry, error) {
	e, err := v.root()
	if err != nil || name == "." {
		return e, err
	}
	if !beneath.Valid(name) {
		return entry{}, &os.PathError{Op: "lstat", Path: name, Err: unix.EINVAL}
	}
	dir := "."
	for part := range strings.SplitSeq(name, "/") {
		if !e.isDir() {
			return entry{}, nil
		}
		d, err := v.open(dir, e.layers)
		if err != nil {
			return entry{}, err
		}
		e, err = d.child(part)
		if err == nil && step != nil {
			err = step(d, part, e)
		}
		d.close()
		if err != nil {
			return entry{}, err
		}
		dir = path.Join(dir, part)
	}
	return e, nil
}

func (v View) root() (entry, error) {
	var e entry
	for i, l := range v.Layers {
		st, err := l.Dir.Lstat(".")
		if err != nil {
			return entry{}, err
		}
		if i == 0 {
			e.st = st
		}
		e.layers = append(e.layers, i)
	}
	return e, nil
}

// A viewDir is an open directory of a view.
type viewDir struct {
	view   View
	path   string
	layers []int
	dirs   []*beneath.Dir // one for each of layers
}

func (v View) open(name string, layers []int) (*viewDir, error) {
	d := &viewDir{view: v, path: name}
	for _, i := range layers {
		dir, err := v.Layers[i].Dir.OpenDir(name)
		if err != nil {
			d.close()
			return nil, err
		}
		d.layers = append(d.layers, i)
		d.dirs = append(d.dirs, dir)
	}
	return d, nil
}

func (d *viewDir) close() {
	for _, dir := range d.dirs {
		dir.Close()
	}
}

// top is the directory in the topmost layer that has e.
func (d *viewDir) top(e entry) *beneath.Dir {
	return d.dirs[slices.Index(d.layers, e.layers[0])]
}

// child finds one name in the directory.
func (d *viewDir) child(name string) (entry, error) {
	var e entry
	for i, dir := range d.dirs {
		st, err := dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return entry{}, err
		}
		t := typeOf(&st)
		if t == whiteout || e.exists() && t != Dir {
			break
		}
		if !e.exists() {
			e.st = st
		}
		e.layers = append(e.layers, d.layers[i])
		if t != Dir {
			break
		}
		if i < len(d.dirs)-1 {
			opaque, err := d.view.isOpaque(dir, name)
			if err != nil {
				return entry{}, err
			}
			if opaque {
				break
			}
		}
	}
	return e, nil
}

// names returns the names in the directory's layers, sorted. Some may be hidden:
// child says so.
func (d *viewDir) names() ([]string, error) {
	seen := make(map[string]bool)
	for _, dir := range d.dirs {
		for name, err := range dir.Entries() {
			if err != nil {
				return nil, err
			}
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// walk calls f for all that the view has below a directory, parents first.
func (v View) walk(ctx context.Context, name string, layers []int, f func(string, entry) error) error {
	type dir struct {
		name   string
		layers []int
	}
	todo := []dir{{name, layers}}
	for len(todo) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		d, err := v.open(next.name, next.layers)
		if err != nil {
			return err
		}
		names, err := d.names()
		if err != nil {
			d.close()
			return err
		}
		for _, base := range names {
			e, err := d.child(base)
			if err == nil && e.exists() {
				child := path.Join(next.name, base)
				if err = f(child, e); err == nil && e.isDir() {
					todo = append(todo, dir{child, e.layers})
				}
			}
			if err != nil {
				d.close()
				return err
			}
		}
		d.close()
	}
	return nil
}
