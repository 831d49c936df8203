package changeset

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// stage makes what an operation puts, at its temporary name. A file of a tree
// that cannot be made is reported and left out, unless all is to be applied or
// nothing.
func (a *applier) stage(g *group, op *operation) error {
	d, _, err := a.parent(string(op.Path))
	if err != nil {
		return err
	}
	parent, err := d.Lstat(".")
	if err != nil {
		return err
	}
	var dirs []node
	failed := ""
	for i, n := range op.nodes {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		c := n.change
		if failed != "" && within(c.Path, failed) {
			a.drop(g, c, errors.New("its directory is not applied"))
			continue
		}
		err := a.make(d, op, c, &parent)
		switch {
		case err == nil:
			a.where[c.Path] = op
			if c.Type == Dir {
				dirs = append(dirs, n)
			}
		case i == 0 || a.opts.Atomic:
			return err
		default:
			a.drop(g, c, err)
			failed = c.Path
			if err := d.RemoveAll(op.temp(c.Path)); err != nil {
				return err
			}
		}
	}
	for _, n := range slices.Backward(dirs) {
		if err := a.closeDir(d, op.temp(n.change.Path), n.change, &parent); err != nil {
			return err
		}
	}
	st, err := d.Lstat(op.Temp)
	if err != nil {
		return err
	}
	op.staged = &stagedFor{Step: op.n, Stamp: stampOf(&st), Until: time.Now().UnixNano()}
	return nil
}

// drop takes a change out of its group.
func (a *applier) drop(g *group, c *Change, err error) {
	if i := slices.Index(g.changes, c); i >= 0 {
		g.changes = slices.Delete(g.changes, i, i+1)
		a.problem(c, err)
	}
}

// temp is where the file that is to be at name is made.
func (op *operation) temp(name string) string {
	return op.Temp + strings.TrimPrefix(name, string(op.Path))
}

// make makes one file of what an operation puts.
func (a *applier) make(d *beneath.Dir, op *operation, c *Change, parent *unix.Stat_t) error {
	temp := op.temp(c.Path)
	upper, err := a.set.layers.Upper.Lstat(c.Path)
	if err != nil {
		return errors.Join(ErrChanged, err)
	}
	if now := stampOf(&upper); now != c.new && (c.Type != Dir || now.Mode != c.new.Mode) {
		return ErrChanged
	}
	a.seam.at("make " + string(c.Type))
	switch c.Type {
	case Dir:
		return d.Mkdir(temp, 0o700)
	case Symlink:
		if err := d.Symlink(c.Target, temp); err != nil {
			return err
		}
	default:
		if c.Kind == Link {
			if linked, err := a.link(c, d, temp); linked || err != nil {
				return err
			}
		}
		if err := a.copy(d, op, c); err != nil {
			return err
		}
	}
	var replaced *unix.Stat_t
	if c.Path == string(op.Path) && op.Before != nil && c.Type == typeOf(&op.was) {
		replaced = &op.was
	}
	return a.dress(d, temp, c, &upper, replaced, parent)
}

// closeDir gives a directory its permissions when all is in it.
func (a *applier) closeDir(d *beneath.Dir, temp string, c *Change, parent *unix.Stat_t) error {
	upper, err := a.set.layers.Upper.Lstat(c.Path)
	if err != nil {
		return errors.Join(ErrChanged, err)
	}
	sub, err := d.OpenFile(temp, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = a.sync.file(sub)
	sub.Close()
	if err != nil {
		return err
	}
	a.seam.at("close a directory")
	return a.dress(d, temp, c, &upper, nil, parent)
}

// dress gives what was made its owner and permissions.
func (a *applier) dress(d *beneath.Dir, temp string, c *Change, upper, replaced, parent *unix.Stat_t) error {
	n, err := d.Hold(temp)
	if err != nil {
		return err
	}
	defer n.Close()
	if o := a.owner(upper, replaced, parent); o != nil {
		if err := n.Chown(int(o.UID), int(o.GID)); err != nil {
			return err
		}
	}
	if c.Type == Symlink {
		return nil
	}
	mode := c.Mode & 0o777
	if c.Type == Dir {
		mode = c.Mode & 0o3777
	}
	return n.Chmod(mode)
}

// owner says whose a file is to be, nil if that cannot be chosen. In a user's
// tree nothing becomes root's.
func (a *applier) owner(upper, replaced, parent *unix.Stat_t) *Owner {
	if a.opts.Owner != nil {
		return a.opts.Owner
	}
	if os.Geteuid() != 0 {
		return nil
	}
	o := Owner{upper.Uid, upper.Gid}
	instead := parent
	if replaced != nil {
		instead = replaced
	}
	if o.UID == 0 {
		o.UID = instead.Uid
	}
	if o.GID == 0 {
		o.GID = instead.Gid
	}
	return &o
}

// link makes temp another name of the file that the change is a link to, if that
// was applied before or is in the target as it is in the upper.
func (a *applier) link(c *Change, d *beneath.Dir, temp string) (bool, error) {
	op := a.where[c.From]
	if op == nil {
		if c.first.Kind != "" && c.first.Kind != Mode {
			return false, nil // it is not applied
		}
		st, err := a.dir.Lstat(c.From)
		if err != nil || stampOf(&st).content() != c.first.old.content() {
			return false, nil //nolint:nilerr // then it is copied
		}
	}
	name := c.From
	if op != nil && !op.committed {
		dir, _ := splitPath(string(op.Path))
		name = path.Join(dir, op.temp(c.From))
	}
	err := a.dir.Link(name, d, temp)
	if errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EPERM) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// copy copies a file of the upper, with its attributes.
func (a *applier) copy(d *beneath.Dir, op *operation, c *Change) error {
	src, err := c.open(nil)
	if err != nil {
		return err
	}
	defer src.Close()
	temp := op.temp(c.Path)
	dst, err := d.OpenFile(temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	a.seam.at("copy")
	if err := copyData(a.ctx, dst, src.f, c.Size); err != nil {
		return err
	}
	if err := src.check(); err != nil {
		return err
	}
	if c.sum != nil {
		sum, err := hashAll(a.ctx, io.NewSectionReader(dst, 0, c.Size))
		if err != nil {
			return err
		}
		if sum != *c.sum {
			return ErrChanged
		}
	}
	if err := a.copyAttributes(d, temp, op, c); err != nil {
		return err
	}
	return a.sync.file(dst)
}

// posixACL is the attribute that holds a file's access control list.
const posixACL = "system.posix_acl_access"

// copyAttributes gives a copy the user's extended attributes of the upper's
// file, except overlayfs's own, and the access control list of what it replaces.
// Others, such as capabilities, stay behind.
func (a *applier) copyAttributes(d *beneath.Dir, temp string, op *operation, c *Change) error {
	to, err := d.Hold(temp)
	if err != nil {
		return err
	}
	defer to.Close()
	from, err := a.set.layers.Upper.Hold(c.Path)
	if err != nil {
		return err
	}
	defer from.Close()
	names, err := from.Xattrs()
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	for _, attr := range names {
		if !strings.HasPrefix(attr, "user.") || strings.HasPrefix(attr, "user.overlay.") {
			continue
		}
		value, err := from.Xattr(attr)
		if err == nil {
			err = to.SetXattr(attr, value)
		}
		if errors.Is(err, unix.EOPNOTSUPP) {
			break // not kept here
		}
		if err != nil && !errors.Is(err, unix.ENODATA) {
			return err
		}
	}
	if c.Path != string(op.Path) || op.Before == nil || typeOf(&op.was) != File {
		return nil
	}
	_, base := splitPath(c.Path)
	old, err := d.Hold(base)
	if err != nil {
		return err
	}
	defer old.Close()
	acl, err := old.Xattr(posixACL)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err == nil {
		err = to.SetXattr(posixACL, acl)
	}
	return err
}
