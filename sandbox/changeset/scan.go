package changeset

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// Layers are the layers of an overlay mount.
type Layers struct {
	// Upper is what the session wrote. It need not be unmounted to be read.
	Upper *beneath.Dir
	Lower View
}

// Scan records the bases of the entries that are new in the upper. It is called
// at the end of each call that may have written, and once before the session
// runs. What did not change since the last Scan is not read again; an error
// leaves what was not recorded to the next one.
func (b *Bases) Scan(ctx context.Context, l Layers) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.scan(ctx, l)
	if err := errors.Join(err, b.write()); err != nil {
		return fmt.Errorf("recording bases: %w", err)
	}
	return nil
}

func (b *Bases) scan(ctx context.Context, l Layers) error {
	// A call that wrote nothing is no reason to look at anything else. That the
	// next one is judged by an earlier start can only make it a conflict.
	same, err := b.root.unchanged(l.Upper, ".")
	if err != nil || same {
		b.behind = b.behind && !same
		return err
	}
	view, done, err := l.Lower.sameMount()
	if err != nil {
		return err
	}
	defer done()
	// Both clocks are read before anything else: what is made from here on is
	// younger.
	now, err := view.Clock()
	if err != nil && !errors.Is(err, ErrNoClock) {
		return err
	}
	upperNow, err := clock(l.Upper)
	if err != nil && !errors.Is(err, ErrNoClock) {
		return err
	}
	s := scanner{Bases: b, ctx: ctx, upper: l.Upper, view: view, now: upperNow, times: b.times}
	if setBack(b.times.Call, now) || setBack(b.times.Fresh, now) {
		s.times = Times{}
	}
	st, err := l.Upper.Lstat(".")
	if err != nil {
		return err
	}
	s.todo = []upperDir{{".", b.root, stampOf(&st)}}
	for len(s.todo) > 0 {
		d := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.dir(d); err != nil {
			return err
		}
	}
	b.times.Call, b.behind = now, false
	if b.pending.Len() > 0 {
		b.note(line{Times: &b.times})
	}
	return nil
}

type scanner struct {
	*Bases
	ctx   context.Context
	upper *beneath.Dir
	view  View
	now   Time // by the upper's clock
	times Times
	todo  []upperDir
}

// An upperDir is a directory of the upper that covers nothing.
type upperDir struct {
	name  string
	node  *scanNode
	stamp stamp
}

// dir reads a directory of the upper if it changed, and goes on to those in it.
func (s *scanner) dir(d upperDir) error {
	changed := !d.node.settled || d.stamp != d.node.stamp
	if !changed && !d.node.hasDirs() {
		return nil
	}
	up, err := s.upper.OpenDir(d.name)
	switch {
	case isGone(err):
		d.node.settled = false
		return nil
	case errors.Is(err, unix.EACCES) && d.name != ".":
		// What the session does in there cannot be seen when it is done, and
		// could not be told from what it does later.
		s.set(d.name, record{State: BaseConflict, Covers: true})
		return nil
	case err != nil:
		return err
	}
	defer up.Close()
	if changed {
		if err := s.read(d, up); err != nil {
			return err
		}
	}
	for base, kid := range d.node.kids {
		if kid.Covers {
			continue
		}
		st, err := up.Lstat(base)
		if isGone(err) {
			d.node.settled = false
			continue
		}
		if err != nil {
			return err
		}
		s.todo = append(s.todo, upperDir{path.Join(d.name, base), kid, stampOf(&st)})
	}
	return nil
}

// unchanged reports whether no directory of the upper that covers nothing has
// changed since it was read.
func (n *scanNode) unchanged(upper *beneath.Dir, name string) (bool, error) {
	if !n.settled {
		return false, nil
	}
	st, err := upper.Lstat(name)
	if isGone(err) {
		return false, nil
	}
	if err != nil || stampOf(&st) != n.stamp {
		return false, err
	}
	for base, kid := range n.kids {
		if kid.Covers {
			continue
		}
		if same, err := kid.unchanged(upper, path.Join(name, base)); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (n *scanNode) hasDirs() bool {
	for _, kid := range n.kids {
		if !kid.Covers {
			return true
		}
	}
	return false
}

// read records what is new in a directory of the upper.
func (s *scanner) read(d upperDir, up *beneath.Dir) error {
	// The stamp is from before the names are read, and of what is read.
	st, err := up.Lstat(".")
	if err != nil {
		return err
	}
	low, dirPlaced, lowErr := s.lower(d.name)
	if low != nil {
		defer low.close()
	}
	seen := make(map[string]bool)
	for base, err := range up.Entries() {
		if err != nil {
			return err
		}
		if len(seen)%1024 == 0 && s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		seen[base] = true
		kid := d.node.kids[base]
		if kid != nil && kid.Covers {
			continue
		}
		st, err := up.Lstat(base)
		if isGone(err) {
			delete(seen, base)
			continue
		}
		if err != nil {
			return err
		}
		name := path.Join(d.name, base)
		covers, e, isPlaced := true, entry{}, false
		if err = lowErr; err == nil {
			covers, e, isPlaced, err = s.entry(up, &st, low, base)
		}
		switch {
		case err != nil:
			s.set(name, record{State: BaseConflict, Covers: true})
		case kid == nil:
			s.set(name, judge(e, dirPlaced && isPlaced, covers, s.times.Call, s.times.Fresh))
		case covers:
			if err := s.cover(name, kid, e, dirPlaced && isPlaced); err != nil {
				return err
			}
		}
	}
	for base := range d.node.kids {
		if !seen[base] {
			s.forget(path.Join(d.name, base))
		}
	}
	d.node.stamp = stampOf(&st)
	d.node.settled = s.now.before(st.Ctim.Nano())
	return nil
}

// lower opens a directory of the view, nil if there is none, and reports whether
// it has had its place since the view was fresh.
func (s *scanner) lower(name string) (*viewDir, bool, error) {
	isPlaced := true
	e, err := s.view.find(name, func(d *viewDir, base string, e entry) error {
		ok, err := placed(d, base, e, s.times.Fresh)
		isPlaced = isPlaced && ok
		return err
	})
	if err != nil || !e.isDir() {
		return nil, isPlaced, err
	}
	d, err := s.view.open(name, e.layers)
	return d, isPlaced, err
}

// entry looks at what the view has where the upper has an entry, and says whether
// that covers it.
func (s *scanner) entry(up *beneath.Dir, st *unix.Stat_t, low *viewDir, base string) (covers bool, e entry, isPlaced bool, err error) {
	isPlaced = true
	if low != nil {
		if e, err = low.child(base); err != nil {
			return
		}
		if isPlaced, err = placed(low, base, e, s.times.Fresh); err != nil {
			return
		}
	}
	if typeOf(st) != Dir || !e.isDir() {
		return true, e, isPlaced, nil
	}
	covers, err = s.view.isOpaque(up, base)
	return
}

// cover makes the record of a directory that is now removed, replaced or made
// opaque. The session saw in it what the view has, except where the upper had
// entries: what is below those has to be as it was recorded. From here on the
// directory is looked at as a whole.
func (s *scanner) cover(name string, kid *scanNode, e entry, isPlaced bool) error {
	r := judge(e, isPlaced, true, s.times.Call, s.times.Fresh)
	now := look{s.ctx, s.view, s.untouched}
	err := kid.each(name, func(name string, below record) error {
		if !below.Covers || r.State != BaseProved {
			return nil
		}
		reason, err := now.confirm(name, &known{below, name}, true)
		if reason != "" || isGone(err) {
			r.State, err = BaseConflict, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if r.State != BaseProved {
		r.State = BaseConflict
	}
	s.set(name, r)
	return nil
}
