package changeset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// Select returns the paths of the changes that the given paths name: themselves
// and all below them. A change that is a rename is named by its old path too.
func (s *Set) Select(paths ...string) []string {
	var names []string
	for _, c := range s.Changes {
		if selected, _ := c.selectedBy(paths); selected {
			names = append(names, c.Path)
		}
	}
	return names
}

// Unchanged returns the paths of what the upper has although it is as in the view:
// touched without a change, or applied already. It can be dropped.
func (s *Set) Unchanged() []string {
	names := make([]string, len(s.unchanged))
	for i, c := range s.unchanged {
		names[i] = c.Path
	}
	return names
}

// Drop takes changes out of the upper, which must not be mounted: those that
// were applied, or that the user does not want. Each path is of one change of
// the set, or one of those of Unchanged; what is below it is not meant, and a
// new directory stays while anything in it does. Afterwards the upper makes all
// other changes of the set, and no more.
//
// If it is cut short, the upper still makes all changes that were to stay.
func Drop(ctx context.Context, s *Set, paths []string) error {
	d := dropper{
		ctx: ctx, set: s,
		drop: make(map[string]bool), deleted: make(map[string]bool), holding: make(map[string]bool),
		changes: make(map[string]*Change), exposed: make(map[string]bool),
	}
	if err := d.run(paths); err != nil {
		return fmt.Errorf("dropping changes: %w", err)
	}
	return nil
}

type dropper struct {
	ctx     context.Context
	set     *Set
	view    View
	drop    map[string]bool    // paths whose entries go
	deleted map[string]bool    // paths that are to stay deleted
	holding map[string]bool    // directories in which a change stays
	changes map[string]*Change // of the paths that go
	exposed map[string]bool    // directories that hide nothing any more; false: that never did
	gone    []string           // paths that the upper has no entry for any more
}

func (d *dropper) run(paths []string) error {
	view, done, err := d.set.layers.Lower.sameMount()
	if err != nil {
		return err
	}
	defer done()
	d.view = view
	names := d.sort(paths)
	for _, name := range names {
		if !beneath.Valid(name) {
			continue // too long for the view to have it
		}
		if err := d.expose(name); err != nil {
			return err
		}
	}
	removed := "" // with all below it
	for _, name := range names {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if removed != "" && within(name, removed) {
			continue
		}
		whole, err := d.remove(name)
		if err != nil {
			return err
		}
		if whole {
			removed = name
		}
	}
	if err := d.prune(names); err != nil {
		return err
	}
	if d.set.bases == nil {
		return nil
	}
	return d.set.bases.dropped(d.gone)
}

// sort finds out what goes and what stays.
func (d *dropper) sort(paths []string) []string {
	for _, name := range paths {
		d.drop[name] = true
	}
	for _, c := range d.set.Changes {
		from := ""
		if c.Kind == Renamed && !c.fromDir {
			from = c.From
		}
		if d.drop[c.Path] {
			d.changes[c.Path] = c
			if from != "" {
				d.drop[from] = true
			}
			continue
		}
		if c.Kind == Deleted {
			d.deleted[c.Path] = true
		}
		if from != "" {
			d.deleted[from] = true
		}
		for dir := path.Dir(c.Path); !d.holding[dir]; dir = path.Dir(dir) {
			d.holding[dir] = true
		}
	}
	for _, c := range d.set.unchanged {
		if d.drop[c.Path] {
			d.changes[c.Path] = c
		}
	}
	return slices.SortedFunc(maps.Keys(d.drop), comparePaths)
}

// expose makes the view show at name again, by taking the opaque mark off the
// directories above it, and off itself. What those hid otherwise is hidden one by
// one.
func (d *dropper) expose(name string) error {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		dir := name[:i]
		hides, ok := d.exposed[dir]
		if !ok {
			var err error
			if hides, err = d.exposeDir(dir); err != nil {
				return err
			}
			d.exposed[dir] = hides
		}
		if !hides {
			return nil
		}
	}
	return nil
}

// exposeDir exposes what is in a directory, and reports whether the upper and
// the view both have it.
func (d *dropper) exposeDir(dir string) (bool, error) {
	e, err := d.view.find(dir, nil)
	if isGone(err) || err == nil && !e.isDir() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	up, err := d.set.layers.Upper.OpenDir(dir)
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer up.Close()
	low, err := d.view.open(dir, e.layers)
	if err != nil {
		return false, err
	}
	defer low.close()
	if d.set.bases != nil {
		if err := d.set.bases.uncover(dir, up, low, e); err != nil {
			return false, err
		}
	}
	opaque, err := d.view.isOpaque(up, ".")
	if err != nil || !opaque {
		return err == nil, err
	}
	return true, d.unmark(dir, up, low)
}

// unmark takes the opaque mark off a directory. Until the last step it shows the
// same.
func (d *dropper) unmark(dir string, up *beneath.Dir, low *viewDir) error {
	names, err := low.names()
	if err != nil {
		return err
	}
	for _, base := range names {
		e, err := low.child(base)
		if isGone(err) || err == nil && !e.exists() {
			continue
		}
		if err != nil {
			return err
		}
		name := path.Join(dir, base)
		st, err := up.Lstat(base)
		switch {
		case err == nil && typeOf(&st) == Dir && e.isDir():
			err = d.mark(up, base)
		case isGone(err) && d.deleted[name]:
			err = up.Whiteout(base)
		case isGone(err):
			err = nil
		}
		if err != nil {
			return err
		}
	}
	n, err := up.Hold(".")
	if err != nil {
		return err
	}
	defer n.Close()
	return n.RemoveXattr(d.view.opaqueXattr())
}

func (d *dropper) mark(up *beneath.Dir, base string) error {
	n, err := up.Hold(base)
	if err != nil {
		return err
	}
	defer n.Close()
	return n.SetXattr(d.view.opaqueXattr(), []byte("y"))
}

// remove takes the entry of a path out of the upper, and reports whether all
// below it went too.
func (d *dropper) remove(name string) (whole bool, err error) {
	upper := d.set.layers.Upper
	if !beneath.Valid(name) {
		return true, d.removeLong(name)
	}
	st, err := upper.Lstat(name)
	if isGone(err) {
		d.gone = append(d.gone, name)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e, err := d.view.find(name, nil)
	if err != nil && !isGone(err) {
		return false, err
	}
	switch {
	case typeOf(&st) != Dir:
		if c := d.changes[name]; c != nil && c.how == byEntry && stampOf(&st).content() != c.new.content() {
			return false, fmt.Errorf("%q: %w", name, ErrChanged)
		}
		d.gone = append(d.gone, name)
		return false, upper.Remove(name)
	case e.isDir():
		return false, d.likeBelow(name, e)
	case d.holding[name]:
		return false, nil
	}
	d.gone = append(d.gone, name)
	return true, upper.RemoveAll(name)
}

// removeLong removes what no system call takes the path of, by its directory,
// whose path is one.
func (d *dropper) removeLong(name string) error {
	dir, err := d.set.layers.Upper.OpenDir(path.Dir(name))
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.RemoveAll(path.Base(name))
}

// likeBelow gives a directory the owner and permissions that it has in the view.
func (d *dropper) likeBelow(name string, e entry) error {
	n, err := d.set.layers.Upper.Hold(name)
	if err != nil {
		return err
	}
	defer n.Close()
	st, err := n.Stat()
	if err != nil {
		return err
	}
	if st.Uid != e.st.Uid || st.Gid != e.st.Gid {
		if err := n.Chown(int(e.st.Uid), int(e.st.Gid)); err != nil {
			return err
		}
	}
	if st.Mode != e.st.Mode {
		if err := n.Chmod(e.st.Mode); err != nil {
			return err
		}
	}
	if d.set.bases == nil {
		return nil
	}
	return d.set.bases.like(name, e)
}

// prune removes the directories of the upper, among the names and above them,
// that hold nothing and are as in the view.
func (d *dropper) prune(names []string) error {
	dirs := make(map[string]bool)
	for _, name := range names {
		for ; name != "." && !dirs[name]; name = path.Dir(name) {
			if beneath.Valid(name) {
				dirs[name] = true
			}
		}
	}
	// What is in a directory comes before the directory.
	for _, name := range slices.Backward(slices.SortedFunc(maps.Keys(dirs), comparePaths)) {
		upper := d.set.layers.Upper
		st, err := upper.Lstat(name)
		if isGone(err) || err == nil && typeOf(&st) != Dir {
			continue
		}
		if err != nil {
			return err
		}
		e, err := d.view.find(name, nil)
		if isGone(err) || err == nil && !e.isDir() {
			continue
		}
		if err != nil {
			return err
		}
		opaque, err := d.view.isOpaque(upper, name)
		if err != nil {
			return err
		}
		if opaque || st.Mode != e.st.Mode || st.Uid != e.st.Uid || st.Gid != e.st.Gid {
			continue
		}
		err = upper.Remove(name)
		if errors.Is(err, unix.ENOTEMPTY) {
			continue
		}
		if err != nil {
			return err
		}
		d.gone = append(d.gone, name)
	}
	return nil
}
