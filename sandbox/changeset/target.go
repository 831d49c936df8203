package changeset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// A target is the tree that changes are applied to.
type target struct {
	dir   *beneath.Dir
	view  View
	bases *Bases // may be nil
	seam  seam
	dirs  map[string]*beneath.Dir // open parents
	last  string
}

func openTarget(dir *beneath.Dir, b *Bases, s seam) (*target, error) {
	same, err := dir.SameMount()
	if err != nil {
		return nil, err
	}
	return &target{
		dir: same, view: View{Layers: []Layer{{Dir: same}}}, bases: b, seam: s,
		dirs: make(map[string]*beneath.Dir),
	}, nil
}

func (t *target) close() {
	for _, d := range t.dirs {
		d.Close()
	}
	t.dir.Close()
}

// maxOpenDirs bounds the directories held open.
const maxOpenDirs = 256

// parent returns the directory of the target that is to hold a path, which stays
// open until the second call after this one at least, and the path's last
// component. The directory is the one that was found at the first call, even if
// it was renamed since: what was made in it can always be found again.
func (t *target) parent(name string) (*beneath.Dir, string, error) {
	dir, base := splitPath(name)
	if d := t.dirs[dir]; d != nil {
		t.last = dir
		return d, base, nil
	}
	d, err := t.dir.OpenDir(dir)
	if err != nil {
		return nil, "", err
	}
	if len(t.dirs) >= maxOpenDirs {
		for name, old := range t.dirs {
			if name != t.last {
				old.Close()
				delete(t.dirs, name)
				break
			}
		}
	}
	t.dirs[dir], t.last = d, dir
	return d, base, nil
}

// inPlace checks that a directory that was found by parent is still the one at
// its path.
func (t *target) inPlace(name string) error {
	d, _, err := t.parent(name)
	if err != nil {
		return err
	}
	dir, _ := splitPath(name)
	held, err := d.Lstat(".")
	if err != nil {
		return err
	}
	now, err := t.dir.Lstat(dir)
	if err == nil && now.Ino == held.Ino && now.Dev == held.Dev {
		return nil
	}
	if err == nil || isGone(err) {
		return conflict("its directory was moved in the workspace")
	}
	return err
}

// isDir reports whether the target has a directory at a path.
func (t *target) isDir(name string) (bool, error) {
	st, err := t.dir.Lstat(name)
	if isGone(err) {
		return false, nil
	}
	return err == nil && typeOf(&st) == Dir, err
}

// splitPath returns the directory of a path, "." if it has none, and the last
// component.
func splitPath(name string) (dir, base string) { return path.Dir(name), path.Base(name) }

// exchange swaps two names in a directory.
func (t *target) exchange(d *beneath.Dir, temp, base string) error {
	if !t.seam.noExchange {
		err := d.Rename(temp, d, base, unix.RENAME_EXCHANGE)
		if !lacking(err) {
			return err
		}
	}
	// The file system cannot swap: go through a third name. If this is cut
	// short, finishExchange ends it.
	if err := t.noReplace(d, base, temp+third); err != nil {
		return err
	}
	t.seam.at("exchange, 2 of 3")
	if err := t.noReplace(d, temp, base); err != nil {
		return err
	}
	t.seam.at("exchange, 3 of 3")
	return t.noReplace(d, temp+third, temp)
}

// third is added to a temporary name for the third name of an exchange.
const third = "x"

// finishExchange ends an exchange through a third name: back, if the new is not
// yet in place.
func (t *target) finishExchange(d *beneath.Dir, temp, base string) error {
	if _, err := d.Lstat(temp + third); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	to := base
	if _, err := d.Lstat(temp); errors.Is(err, fs.ErrNotExist) {
		to = temp
	}
	t.seam.at("finish an exchange")
	return t.noReplace(d, temp+third, to)
}

// noReplace renames unless the new name exists.
func (t *target) noReplace(d *beneath.Dir, old, new string) error {
	err := d.Rename(old, d, new, unix.RENAME_NOREPLACE)
	if !lacking(err) {
		return err
	}
	st, err := d.Lstat(old)
	if err != nil {
		return err
	}
	if typeOf(&st) != Dir {
		if err := d.Link(old, d, new); err != nil {
			return err
		}
		return d.Remove(old)
	}
	if _, err := d.Lstat(new); !errors.Is(err, fs.ErrNotExist) {
		return &os.PathError{Op: "rename", Path: path.Join(d.Name(), new), Err: cmp.Or(err, error(unix.EEXIST))}
	}
	return d.Rename(old, d, new, 0)
}

// lacking reports whether a file system cannot do a kind of rename.
func lacking(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// A syncer sees to it that what was written is on disk before it is relied on.
type syncer struct {
	files int
	dirs  map[string]bool // that names were changed in
	all   bool            // there are too many to sync each
}

// maxSynced is how many files and directories are synced one by one; beyond that
// it is cheaper to sync the whole file system once.
const maxSynced = 64

// file is called for each file that was written, before it is put in place.
func (s *syncer) file(f *os.File) error {
	if s.files++; s.files > maxSynced {
		s.all = true
		return nil
	}
	return f.Sync()
}

// dir notes that names changed in the directory of a path.
func (s *syncer) dir(name string) {
	if s.dirs == nil {
		s.dirs = make(map[string]bool)
	}
	s.dirs[path.Dir(name)] = true
}

// flush is called before the new takes the place of the old, so that after a
// power failure one of them is whole.
func (s *syncer) flush(t *target) error {
	if !s.all {
		return nil
	}
	s.all = false
	return syncfs(t.dir)
}

// finish is called when the names are changed, before anything is removed that
// they were made from.
func (s *syncer) finish(t *target) error {
	if s.all || len(s.dirs) > maxSynced {
		s.all, s.dirs = false, nil
		return syncfs(t.dir)
	}
	for dir := range s.dirs {
		d, err := t.dir.OpenDir(dir)
		if err == nil {
			err = unix.Fsync(d.Fd())
			d.Close()
		}
		if err != nil && !isGone(err) {
			return fmt.Errorf("syncing %q: %w", dir, err)
		}
	}
	s.dirs = nil
	return nil
}

func syncfs(d *beneath.Dir) error {
	if err := unix.Syncfs(d.Fd()); err != nil {
		return fmt.Errorf("syncing %s: %w", d.Name(), err)
	}
	return nil
}
