package changeset

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// entry looks at one entry of the upper. It returns the directory to be read,
// if it is one.
func (r *reader) entry(p *place, base string) (*readDir, error) {
	st, err := p.up.Lstat(base)
	if err != nil {
		return nil, err
	}
	c := &Change{set: r.set, Path: path.Join(p.name, base), Type: typeOf(&st), Mode: st.Mode & 0o7777, new: stampOf(&st)}
	var e entry
	if p.low != nil {
		if e, err = p.low.child(base); err != nil {
			return nil, err
		}
	}
	if c.Type == whiteout {
		c.how = byWhiteout
		if !e.exists() {
			return nil, nil
		}
		return nil, r.deleted(p, c, base, e)
	}
	if e.exists() {
		if err := describeOld(p, c, base, e); err != nil {
			return nil, err
		}
		if st.Uid != e.st.Uid || st.Gid != e.st.Gid {
			c.Owner = &Owner{st.Uid, st.Gid}
		}
	}
	if c.Refused, err = r.refusal(p, c, base); err != nil {
		return nil, err
	}
	if c.Kind, err = r.kind(p, c, base, e); err != nil {
		return nil, err
	}
	if c.Type == File && st.Nlink > 1 && c.Refused == "" {
		r.linked[st.Ino] = append(r.linked[st.Ino], linkName{c, e.st.Ino})
	}
	if c.Kind != "" {
		if err := r.add(c, e); err != nil {
			return nil, err
		}
	}
	var next *readDir
	if c.Type == Dir && c.Refused != tooLong && c.Refused != unreadable {
		if next, err = r.below(p, c, base, e); err != nil {
			return nil, err
		}
	}
	if c.Kind == "" && (next == nil || !next.opaque) {
		r.same = append(r.same, c)
	}
	return next, r.item(p, c, base, &st, e, next != nil && next.opaque)
}

// kind says what happened to an entry, empty if nothing did, and fills in what
// its type has.
func (r *reader) kind(p *place, c *Change, base string, e entry) (Kind, error) {
	same := false
	var err error
	switch c.Type {
	case Dir:
		c.Mode &^= unix.S_ISUID // means nothing on a directory
		same = c.OldType == Dir
		if d, err := p.up.OpenDir(base); err == nil {
			d.Close()
		} else if errors.Is(err, unix.EACCES) {
			c.Refused = unreadable
		}
	case File:
		c.Size = c.new.Size
		same, err = r.compare(p, c, base, e)
	case Symlink:
		if c.Target, err = p.up.Readlink(base); err == nil {
			same = c.OldType == Symlink && c.Target == c.OldTarget
			c.Outside, err = r.outside(c.Path, c.Target)
		}
	}
	switch {
	case err != nil:
		return "", err
	case c.OldType == "":
		return Added, nil
	case !same:
		return Modified, nil
	case c.Owner != nil || c.Mode != c.OldMode || c.Refused == unreadable:
		return Mode, nil
	}
	return "", nil
}

// below is the directory c, to be read.
func (r *reader) below(p *place, c *Change, base string, e entry) (*readDir, error) {
	d := &readDir{name: c.Path, opaque: p.opaque}
	if !e.isDir() {
		d.refused = c.Refused // it will not be made
		return d, nil
	}
	d.layers = e.layers
	if d.opaque {
		return d, nil
	}
	var err error
	d.opaque, err = r.view.isOpaque(p.up, base)
	return d, err
}

const (
	tooLong    = "its path is too long"
	unreadable = "cannot be read"
)

// refusal says why a change can never leave.
func (r *reader) refusal(p *place, c *Change, base string) (string, error) {
	switch {
	case p.refused != "":
		return p.refused, nil
	case !beneath.Valid(c.Path):
		return tooLong, nil
	case strings.HasPrefix(base, TempPrefix):
		return "the name is reserved", nil
	case c.Type == File && c.Mode&0o7000 != 0:
		return "setuid, setgid or sticky file", nil
	case c.Type == File && c.new.Size > r.opts.MaxFileSize:
		return fmt.Sprintf("larger than %d bytes", r.opts.MaxFileSize), nil
	case c.Type == FIFO, c.Type == Socket, c.Type == Device:
		return string(c.Type), nil
	}
	denied, err := p.policy.denies(base)
	if denied || err != nil {
		return "denied by policy", err
	}
	return r.opts.Refuse(c.Path), nil
}

// describeOld fills in what the view has.
func describeOld(p *place, c *Change, base string, e entry) (err error) {
	c.OldType, c.OldMode, c.old = typeOf(&e.st), e.st.Mode&0o7777, stampOf(&e.st)
	switch c.OldType {
	case Dir:
		c.OldMode &^= unix.S_ISUID
	case File:
		c.OldSize = e.st.Size
	case Symlink:
		c.OldTarget, err = p.low.top(e).Readlink(base)
	}
	return err
}

// deleted adds the deletion of what the view has. That may be of any type: it
// is the user's.
func (r *reader) deleted(p *place, c *Change, base string, e entry) error {
	err := describeOld(p, c, base, e)
	if err != nil {
		return err
	}
	c.Kind, c.Type, c.Mode = Deleted, c.OldType, 0
	if c.Refused, err = r.refusal(p, &Change{Path: c.Path}, base); err != nil {
		return err
	}
	if err := r.add(c, e); err != nil {
		return err
	}
	return r.itemGone(p, c, base, e)
}

// add puts a change into the set.
func (r *reader) add(c *Change, e entry) error {
	c.Protected = r.opts.Protected(c.Path) || c.Type == Symlink && c.Kind != Deleted && r.opts.Protected(c.Path+"/")
	r.set.Changes = append(r.set.Changes, c)
	if c.OldType == Dir && c.Type != Dir || c.Kind == Deleted && c.Type == Dir {
		return r.removedDir(c, e)
	}
	if c.Kind == Deleted && c.Type == File && c.Refused == "" {
		r.gone = append(r.gone, goneFile{name: c.Path, old: stampOf(&e.st), change: c})
	}
	return nil
}

// removedDir looks at what was in a directory that is deleted or replaced.
func (r *reader) removedDir(c *Change, e entry) error {
	denied, err := r.deniesBelow(c.Path)
	if err != nil {
		return err
	}
	if denied {
		c.denied = "it holds what is denied by policy"
		if c.Refused == "" {
			c.Refused = "holds what is denied by policy"
		}
	}
	err = r.view.walk(r.ctx, c.Path, e.layers, func(name string, e entry) error {
		if err := r.count(); err != nil {
			return err
		}
		c.Below++
		c.Protected = c.Protected || r.opts.Protected(name)
		if reason := r.opts.Refuse(name); reason != "" {
			c.denied = "it holds what is refused: " + reason
			if c.Refused == "" {
				c.Refused = "holds what is refused: " + reason
			}
		}
		if err := r.itemBelow(name, e); err != nil {
			return err
		}
		if typeOf(&e.st) == File && c.Refused == "" {
			r.gone = append(r.gone, goneFile{name: name, old: stampOf(&e.st), change: c})
		}
		return nil
	})
	if isGone(err) {
		c.moving = true
		return nil // the user is at work in it: applying looks again
	}
	return err
}

// outside reports whether a link's target is not a file of the workspace.
func (r *reader) outside(name, target string) (bool, error) {
	if path.IsAbs(target) || target == "" {
		return true, nil
	}
	to := path.Join(path.Dir(name), target)
	if to == ".." || strings.HasPrefix(to, "../") || !beneath.Valid(to) {
		return true, nil
	}
	merged := View{UserXattr: r.view.UserXattr, Layers: append([]Layer{{Dir: r.upper}}, r.view.Layers...)}
	e, err := merged.find(to, nil)
	if err != nil {
		return true, nil //nolint:nilerr // what cannot be reached is outside
	}
	return !e.exists(), nil
}
