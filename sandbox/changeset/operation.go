package changeset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// A group of operations is carried out wholly or not at all.
type group struct {
	ops     []*operation
	changes []*Change // that it carries out
}

// An operation is a step of an apply, and what it is made from.
type operation struct {
	step
	change *Change
	nodes  []node // of stepPut: one, or a directory and all that goes into it
	known  *known // what Path is to be, if it is anything
	whole  bool   // what is below Path goes too

	n         int         // in the journal
	was       unix.Stat_t // of Before
	staged    *stagedFor
	committed bool
}

// A node is one file of what is put.
type node struct {
	change   *Change
	implicit bool // only made to hold others
}

// join makes one group of all.
func join(groups []*group) *group {
	all := new(group)
	for _, g := range groups {
		all.ops = append(all.ops, g.ops...)
		all.changes = append(all.changes, g.changes...)
	}
	slices.SortStableFunc(all.ops, func(x, y *operation) int { return cmp.Compare(x.rank(), y.rank()) })
	return all
}

// rank orders operations. Directories are opened for what is put into them, and
// closed after; what is renamed is put before it is removed.
func (op *operation) rank() int {
	switch {
	case op.Kind == stepMeta && op.change.Type == Dir:
		if op.Meta.Mode&^op.Meta.OldMode&0o700 != 0 {
			return 0
		}
		return 3
	case op.Kind == stepRemove:
		return 2
	}
	return 1
}

// carryOut does all operations of a group or, if one fails, undoes them.
func (a *applier) carryOut(g *group) error {
	for i, op := range g.ops {
		op.n = i
		if err := a.check(op); err != nil {
			return &opError{op.change, err}
		}
	}
	err := a.stageAll(g)
	if err == nil {
		err = a.commitAll(g)
	}
	if err != nil {
		return errors.Join(err, a.undoAll(g))
	}
	for _, op := range g.ops {
		if err := a.clean(&op.step); err != nil {
			return &brokenError{err}
		}
	}
	a.seam.at("reset the journal")
	if err := a.journal.reset(); err != nil {
		return &brokenError{err}
	}
	return nil
}

// undoAll undoes what was done of a group.
func (a *applier) undoAll(g *group) error {
	for _, op := range slices.Backward(g.ops) {
		op.committed = false
		for _, n := range op.nodes {
			delete(a.where, n.change.Path)
		}
		left, err := a.undo(context.WithoutCancel(a.ctx), pastStep{op.step, op.staged})
		if err != nil {
			return &brokenError{fmt.Errorf("putting %q back: %w", op.Path, err)}
		}
		if left != "" {
			a.report.Left = append(a.report.Left, left)
		}
	}
	a.seam.at("reset the journal")
	if err := a.journal.reset(); err != nil {
		return &brokenError{err}
	}
	return nil
}

// check confirms that an operation may be done: that the upper still has the
// change, and the target what the change was made on.
func (a *applier) check(op *operation) error {
	name := string(op.Path)
	if op.Kind != stepPut { // what is put is checked when it is staged
		if err := a.stillInUpper(op); err != nil {
			return err
		}
	}
	st, err := a.dir.Lstat(name)
	switch {
	case err == nil:
		before := stampOf(&st)
		op.Before, op.was = &before, st
		if op.Kind == stepMeta {
			a.describeMeta(op)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case op.Kind == stepMeta:
		return conflict("deleted since in the workspace")
	}
	if a.opts.Force {
		return nil
	}
	reason, err := look{a.ctx, a.view, a.bases.asOf}.confirm(name, op.known, op.whole)
	if err == nil && reason != "" {
		err = conflict(reason)
	}
	return err
}

// stillInUpper checks that what the upper has for an operation is what it had
// when the set was read.
func (a *applier) stillInUpper(op *operation) error {
	name, how := string(op.Path), op.change.how
	if op.change.Kind == Renamed {
		how = op.change.fromHow
	}
	upper := a.set.layers.Upper
	st, err := upper.Lstat(name)
	same := false
	switch how {
	case byEntry:
		same = err == nil && (stampOf(&st) == op.change.new || typeOf(&st) == Dir && st.Mode == op.change.new.Mode)
	case byWhiteout:
		same = err == nil && typeOf(&st) == whiteout
	case byOpaque:
		if isGone(err) {
			same, err = a.hidden(name)
		}
	}
	if err != nil && !isGone(err) {
		return err
	}
	if !same {
		return ErrChanged
	}
	return nil
}

// hidden reports whether a directory above name is opaque in the upper.
func (a *applier) hidden(name string) (bool, error) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		opaque, err := a.set.layers.Lower.isOpaque(a.set.layers.Upper, dir)
		if opaque || err != nil && !isGone(err) {
			return opaque, err
		}
	}
	return false, nil
}

// stageAll makes all that a group puts, beside its place.
func (a *applier) stageAll(g *group) error {
	for _, op := range g.ops {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		a.seam.at("journal a step")
		if err := a.journal.write(note{Step: &op.step}); err != nil {
			return err
		}
		if op.Kind != stepPut {
			continue
		}
		if err := a.stage(g, op); err != nil {
			return &opError{op.change, err}
		}
		a.seam.at("journal that a step is staged")
		if err := a.journal.write(note{Staged: op.staged}); err != nil {
			return err
		}
	}
	return nil
}

// commitAll puts everything in its place.
func (a *applier) commitAll(g *group) error {
	if err := a.sync.flush(a.target); err != nil {
		return err
	}
	if a.opts.Atomic {
		if err := a.journal.sync(); err != nil {
			return err
		}
	}
	for _, op := range g.ops {
		if err := a.commit(op); err != nil {
			return &opError{op.change, err}
		}
		op.committed = true
		a.sync.dir(string(op.Path))
	}
	if a.opts.Atomic {
		if err := a.sync.finish(a.target); err != nil {
			return err
		}
	}
	a.seam.at("journal that all is done")
	if err := a.journal.write(note{Done: true}); err != nil {
		return err
	}
	if a.opts.Atomic {
		return a.journal.sync()
	}
	return nil
}

// commit does one operation. What it displaces is then at Temp, and is looked
// at again: nobody can have changed it in between unnoticed.
func (a *applier) commit(op *operation) error {
	name := string(op.Path)
	d, base, err := a.parent(name)
	if err != nil {
		return err
	}
	if err := a.inPlace(name); err != nil {
		return err
	}
	if op.Kind == stepMeta {
		return a.commitMeta(op)
	}
	if op.Before == nil {
		a.seam.at("put into place")
		err := a.noReplace(d, op.Temp, base)
		if errors.Is(err, fs.ErrExist) {
			return conflict("made since in the workspace")
		}
		return err
	}
	st, err := d.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return conflict("deleted since in the workspace")
	case err != nil:
		return err
	case stampOf(&st) != *op.Before:
		return conflict("changed since in the workspace")
	}
	if op.Kind == stepRemove {
		a.seam.at("move away")
		err = a.noReplace(d, base, op.Temp)
	} else {
		a.seam.at("exchange")
		err = a.exchange(d, op.Temp, base)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return conflict("deleted since in the workspace")
	}
	if err != nil {
		return err
	}
	st, err = d.Lstat(op.Temp)
	if err != nil {
		return err
	}
	if !stampOf(&st).moved(*op.Before) {
		return conflict("changed at this moment in the workspace")
	}
	if typeOf(&st) != Dir || a.opts.Force {
		return nil
	}
	// The directory itself has a new ctime since it was moved.
	in := look{a.ctx, View{Layers: []Layer{{Dir: d}}}, a.bases.asOf}
	old, err := in.unchangedIn(op.Temp, []int{0}, name, op.known.Until)
	if err == nil && !old {
		err = conflict("changed at this moment in the workspace")
	}
	return err
}

// describeMeta fills in what a change of permissions and owner does to what is
// there.
func (a *applier) describeMeta(op *operation) {
	st := &op.was
	m := &meta{OldMode: st.Mode & 0o7777, Mode: op.change.Mode}
	var parent unix.Stat_t
	if d, _, err := a.parent(string(op.Path)); err == nil {
		parent, _ = d.Lstat(".")
	}
	upper, err := a.set.layers.Upper.Lstat(string(op.Path))
	if err == nil {
		if want := a.owner(&upper, st, &parent); want != nil && *want != (Owner{st.Uid, st.Gid}) {
			m.OldOwner, m.Owner = &Owner{st.Uid, st.Gid}, want
		}
	}
	op.Meta = m
}

// commitMeta changes permissions and owner of the very file that was checked.
func (a *applier) commitMeta(op *operation) error {
	d, base, err := a.parent(string(op.Path))
	if err != nil {
		return err
	}
	n, err := d.Hold(base)
	if err != nil {
		return err
	}
	defer n.Close()
	st, err := n.Stat()
	if err != nil {
		return err
	}
	if now := stampOf(&st); now != *op.Before && (typeOf(&st) != Dir || now.Ino != op.Before.Ino || now.Mode != op.Before.Mode) {
		return conflict("changed since in the workspace")
	}
	a.seam.at("change permissions")
	if op.Meta.Owner != nil {
		if err := n.Chown(int(op.Meta.Owner.UID), int(op.Meta.Owner.GID)); err != nil {
			return err
		}
	}
	return n.Chmod(op.Meta.Mode)
}
