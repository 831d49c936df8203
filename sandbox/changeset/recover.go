package changeset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// Recover puts the target right after an Apply whose process died. It is called
// when a session is opened; without a journal it does nothing. It returns the
// temporary files that it left, since removing them would lose what somebody
// wrote after the apply.
func Recover(ctx context.Context, journal, target *beneath.Dir, b *Bases) (left []string, err error) {
	left, err = recoverFrom(ctx, journal, target, b, seam{})
	if err != nil {
		err = fmt.Errorf("recovering from an apply that was cut short: %w", err)
	}
	return left, err
}

func recoverFrom(ctx context.Context, journal, dir *beneath.Dir, b *Bases, s seam) ([]string, error) {
	h, ok, err := openJournal(journal)
	if err != nil || !ok {
		return nil, err
	}
	st, err := dir.Lstat(".")
	if err != nil {
		return nil, err
	}
	if len(h.steps) > 0 && st.Ino != h.target {
		return nil, fmt.Errorf("the journal is not of %s", dir.Name())
	}
	t, err := openTarget(dir, b, s)
	if err != nil {
		return nil, err
	}
	defer t.close()
	var left []string
	for i := len(h.steps) - 1; i >= 0; i-- {
		past := h.steps[i]
		if h.done {
			err = t.clean(&past.step)
		} else {
			var name string
			if name, err = t.undo(ctx, past); name != "" {
				left = append(left, name)
			}
		}
		if err != nil && !isGone(err) { // its directory may have gone
			return left, err
		}
	}
	s.at("remove the journal")
	return left, journal.Remove(journalFile)
}

// clean removes what a step that is done has replaced.
func (t *target) clean(s *step) error {
	if s.Kind == stepMeta {
		return nil
	}
	d, _, err := t.parent(string(s.Path))
	if err != nil {
		return err
	}
	t.seam.at("remove what was replaced")
	return d.RemoveAll(s.Temp)
}

// undo undoes a step, however far it came. It finds out by the inodes: where
// what was staged is, and where what was there before. If it cannot put
// something back without losing what was written since, it returns the name that
// it left it at.
func (t *target) undo(ctx context.Context, past pastStep) (left string, err error) {
	d, base, err := t.parent(string(past.Path))
	if err != nil {
		return "", err
	}
	if left, err = t.undoIn(ctx, d, base, past); err != nil || past.Before == nil || t.bases == nil {
		return left, err
	}
	// What was moved away and back has a new ctime, which is none of the user's
	// doing.
	st, err := d.Lstat(base)
	if err == nil && stampOf(&st).moved(*past.Before) {
		err = t.bases.touch(string(past.Path), *past.Before, st.Ctim.Nano())
	}
	if isGone(err) {
		err = nil
	}
	return left, err
}

func (t *target) undoIn(ctx context.Context, d *beneath.Dir, base string, past pastStep) (left string, err error) {
	if past.Kind == stepMeta {
		return "", t.undoMeta(d, base, past)
	}
	if err := t.finishExchange(d, past.Temp, base); err != nil {
		return "", err
	}
	dir, _ := splitPath(string(past.Path))
	leftAt := path.Join(dir, past.Temp)
	temp, err := d.Lstat(past.Temp)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	isThere := err == nil
	isStaged := past.staged == nil || isThere && temp.Ino == past.staged.Stamp.Ino
	switch {
	case past.Kind == stepRemove && isThere:
		return t.putBack(d, past.Temp, base, leftAt)
	case past.Kind == stepRemove:
		return "", nil
	case isThere && isStaged: // not in place
		t.seam.at("remove what was staged")
		return "", d.RemoveAll(past.Temp)
	case past.staged == nil:
		return "", nil
	}
	// It is in place, and what it replaced, if anything, is at Temp.
	ours, err := t.isOurs(ctx, d, base, past.staged)
	if err != nil {
		return "", err
	}
	switch {
	case !isThere && (!ours || past.Before != nil):
		return "", nil // somebody has replaced it; or nothing was left to undo
	case !isThere:
		t.seam.at("take back")
		if err := t.noReplace(d, base, past.Temp); err != nil {
			return "", err
		}
	case ours:
		t.seam.at("exchange back")
		if err := t.exchange(d, past.Temp, base); err != nil {
			return "", err
		}
	default:
		return t.putBack(d, past.Temp, base, leftAt)
	}
	temp, err = d.Lstat(past.Temp)
	if err != nil {
		return "", err
	}
	if temp.Ino != past.staged.Stamp.Ino {
		return leftAt, nil // written at this moment
	}
	t.seam.at("remove what was staged")
	return "", d.RemoveAll(past.Temp)
}

// putBack moves what was displaced back, unless its place was taken since.
func (t *target) putBack(d *beneath.Dir, temp, base, leftAt string) (left string, err error) {
	t.seam.at("put back")
	err = t.noReplace(d, temp, base)
	if errors.Is(err, fs.ErrExist) {
		return leftAt, nil
	}
	return "", err
}

// isOurs reports whether what is in place is what was staged, and that nothing
// was written to it since.
func (t *target) isOurs(ctx context.Context, d *beneath.Dir, base string, s *stagedFor) (bool, error) {
	st, err := d.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || stampOf(&st).content() != s.Stamp.content() {
		return false, err
	}
	if typeOf(&st) != Dir {
		return true, nil
	}
	err = (View{Layers: []Layer{{Dir: d}}}).walk(ctx, base, []int{0}, func(_ string, e entry) error {
		if e.st.Mtim.Nano() > s.Until { // the ctime is of our own links too
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return false, nil
	}
	return err == nil, err
}

func (t *target) undoMeta(d *beneath.Dir, base string, past pastStep) error {
	n, err := d.Hold(base)
	if err != nil {
		return err
	}
	defer n.Close()
	st, err := n.Stat()
	if err != nil {
		return err
	}
	if st.Ino != past.Before.Ino || st.Mode&unix.S_IFMT != past.Before.Mode&unix.S_IFMT {
		return nil
	}
	t.seam.at("change permissions back")
	if o := past.Meta.OldOwner; o != nil && past.Meta.Owner != nil && *past.Meta.Owner == (Owner{st.Uid, st.Gid}) {
		if err := n.Chown(int(o.UID), int(o.GID)); err != nil {
			return err
		}
	}
	if st.Mode&0o7777 != past.Meta.Mode {
		return nil
	}
	return n.Chmod(past.Meta.OldMode)
}
