package changeset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// An Item is what an upper has at one path, as it is: where a [Change] says what a
// person wants to know, an item says all that it takes to make another upper
// equal. Renames and the rest are not inferred; what is in a directory that is no
// more has items too.
//
// Nothing in it was checked for anything but being true.
type Item struct {
	// Path is relative to the layer; "." is the layer's own directory.
	Path string
	// Type is what the path is; empty if it is no more.
	Type Type
	Mode uint32 // permission bits, with setuid, setgid and sticky
	Owner
	Size         int64 // bytes, of files
	Atime, Mtime int64 // nanoseconds since 1970
	Target       string
	Xattrs       []Xattr
	// Link is the path, of an item before this one, that is the same file; empty
	// if there is none.
	Link string
	// Old is what the view has; nil is nothing.
	Old *Old
	// Same says that the file has the content that the view has, the link the
	// target, or that both are directories.
	Same bool
	// Replaced says that nothing that the view has in the directory is left, but
	// what has an item.
	Replaced bool
	// Refused says why the item cannot be made again exactly; empty if it can.
	Refused string
	// Overtaken says why the upper may have been written on something else than
	// Old; empty if it was not.
	Overtaken string

	change *Change
	id     fileID
	links  uint64
}

// A fileID is a file, whatever its name.
type fileID struct{ dev, ino uint64 }

// An Xattr is an extended attribute that a program can set.
type Xattr struct{ Name, Value string }

// Old is what the view has at the path of an Item.
type Old struct {
	Type                Type
	Mode                uint32 // permission bits, with setuid, setgid and sticky
	Bits                uint32 // Mode, and what the kernel has for Type
	Size                int64
	Atime, Mtime, Ctime int64
	// Links are the names of the file in its layer.
	Links uint64
	// Xattrs says that the extended attributes are those of the item. It is known
	// only if Item.Same.
	Xattrs bool
	// Top says that it is in the view's topmost layer.
	Top bool
	// Loose says that no more is asked of the directory than to be one: only what
	// is in it was changed. Moved, that others have changed what is in it too.
	Loose, Moved bool

	stamps []stamp // in each layer that has it, if it is a directory and not Loose; else in the topmost
	layers []int
	id     fileID
}

// Seen says since when an upper was written, by which it is judged whether what
// the view shows now is what the upper was written on.
type Seen struct {
	// Since is from before the first writer began; see View.Clock.
	Since Time
	// Quiet says that nothing was written in the view's topmost layer since then.
	Quiet bool
}

// Items are what the upper has, ordered by path, if Options.Items was given; the
// first is its own directory. Incomplete says why they are not all; empty if they
// are.
func (s *Set) Items() (items []*Item, incomplete string) { return s.items, s.incomplete }

// Bounds of what is kept as items. What is beyond is for running, not for making
// again.
const (
	mostItems  = 300_000
	mostXattrs = 128 << 10 // bytes of the extended attributes of one file
	allXattrs  = 64 << 20  // and of all
)

func (r *reader) keep(i *Item) {
	if len(r.set.items) == mostItems {
		r.set.incomplete = fmt.Sprintf("more than %d paths have changed", mostItems)
		return
	}
	r.set.items = append(r.set.items, i)
}

// Open opens the content of a file, as Change.Open does.
func (i *Item) Open() (*Content, error) {
	if i.Type != File || i.change == nil {
		return nil, fmt.Errorf("opening the content of %q: there is none", i.Path)
	}
	c, err := i.change.open(i.change.sum)
	if err != nil {
		return nil, err
	}
	return &Content{c}, nil
}

// A Content is that of a file, and is held to what it was when the set was read.
type Content struct{ *content }

// SkipHole goes on to where there is something else than zeros, as far as it is
// known, and returns where that is.
func (c *Content) SkipHole() int64 {
	if c.hash != nil {
		return c.read // all of it has to be read
	}
	switch at, err := c.f.Seek(c.read, unix.SEEK_DATA); {
	case errors.Is(err, unix.ENXIO):
		c.read = c.stamp.Size
	case err == nil:
		c.read = min(at, c.stamp.Size)
	}
	return c.read
}

// proved reports whether what the layer has under a time of change is known to
// have been there when the upper was first written.
func (r *reader) proved(layer int, ctime int64) bool {
	s := r.opts.Items
	return layer == 0 && s.Quiet || s.Since.before(ctime)
}

// item notes what the upper has at a path. next is the directory to be read, if
// it is one.
func (r *reader) item(p *place, c *Change, base string, st *unix.Stat_t, e entry, opaque bool) error {
	if r.opts.Items == nil {
		return nil
	}
	i := &Item{
		Path: c.Path, Type: c.Type, Mode: st.Mode & 0o7777, Owner: Owner{st.Uid, st.Gid},
		Size: st.Size, Atime: st.Atim.Nano(), Mtime: st.Mtim.Nano(), Target: c.Target,
		Same:   e.exists() && c.OldType == c.Type && c.Kind != Modified,
		change: c, id: fileID{st.Dev, st.Ino}, links: st.Nlink,
	}
	if i.Type != File {
		i.Size = 0
	}
	i.Replaced = i.Type == Dir && opaque
	var err error
	if i.Refused, err = r.unadoptable(p, c, base); err != nil {
		return err
	}
	if i.Type == Symlink || i.Refused == tooLong || i.Refused == unreadable {
		// A link has no attributes that a program can set.
	} else if i.Xattrs, err = r.xattrs(p.up, base, i); err != nil {
		return err
	}
	if e.exists() {
		loose := i.Type == Dir && i.Same && !i.Replaced && i.Mode == e.st.Mode&0o7777
		if err := r.old(i, e, loose); err != nil {
			return err
		}
		if c.moving {
			i.Overtaken = changedMeanwhile
		}
		if i.Same && i.Type != Symlink {
			had, err := r.xattrs(p.low.top(e), base, &Item{})
			if err != nil {
				return err
			}
			i.Old.Xattrs = slices.Equal(had, i.Xattrs)
		}
	}
	r.absence(p, i)
	r.keep(i)
	return nil
}

// itemGone notes that what the view has at a path is no more.
func (r *reader) itemGone(p *place, c *Change, base string, e entry) error {
	if r.opts.Items == nil {
		return nil
	}
	i := &Item{Path: c.Path, change: c}
	var err error
	if i.Refused, err = r.unadoptable(p, c, base); err != nil {
		return err
	}
	if err := r.old(i, e, false); err != nil {
		return err
	}
	if c.moving {
		i.Overtaken = changedMeanwhile
	}
	r.absence(p, i)
	r.keep(i)
	return nil
}

// itemBelow notes what was in a directory that is no more.
func (r *reader) itemBelow(name string, e entry) error {
	if r.opts.Items == nil {
		return nil
	}
	i := &Item{Path: name}
	if err := r.old(i, e, false); err != nil {
		return err
	}
	r.keep(i)
	return nil
}

// itemRoot notes the upper's own directory.
func (r *reader) itemRoot(e entry) error {
	if r.opts.Items == nil {
		return nil
	}
	st, err := r.upper.Lstat(".")
	if err != nil {
		return err
	}
	i := &Item{
		Path: ".", Type: Dir, Mode: st.Mode & 0o7777, Owner: Owner{st.Uid, st.Gid},
		Atime: st.Atim.Nano(), Mtime: st.Mtim.Nano(), Same: true,
	}
	if i.Xattrs, err = r.xattrs(r.upper, ".", i); err != nil {
		return err
	}
	if err := r.old(i, e, i.Mode == e.st.Mode&0o7777); err != nil {
		return err
	}
	had, err := r.xattrs(r.view.Layers[0].Dir, ".", &Item{})
	i.Old.Xattrs = slices.Equal(had, i.Xattrs)
	r.keep(i)
	return err
}

// old fills in what the view has, and whether it is proved.
func (r *reader) old(i *Item, e entry, loose bool) error {
	top := e.layers[0]
	o := &Old{
		Type: typeOf(&e.st), Mode: e.st.Mode & 0o7777, Bits: e.st.Mode, Atime: e.st.Atim.Nano(), Mtime: e.st.Mtim.Nano(), Ctime: e.st.Ctim.Nano(),
		Links: e.st.Nlink, Top: top == 0, Loose: loose, layers: e.layers[:1], id: fileID{e.st.Dev, e.st.Ino},
	}
	i.Old = o
	if o.Type == File {
		o.Size = e.st.Size
	}
	o.stamps = []stamp{stampOf(&e.st)}
	proved := r.proved(top, o.Ctime)
	if o.Type == Dir && !loose {
		o.layers = e.layers
		for _, layer := range e.layers[1:] {
			st, err := r.view.Layers[layer].Dir.Lstat(i.Path)
			if err != nil {
				return err
			}
			o.stamps = append(o.stamps, stampOf(&st))
			proved = proved && r.proved(layer, st.Ctim.Nano())
		}
	}
	o.Moved = loose && !proved
	if !proved && !loose {
		r.unproved(i, "it was changed so shortly before that it is not known which version was seen")
	}
	return nil
}

// unproved notes why it is not known what the upper was written on. Where nothing
// would ever prove it, no other try will.
func (r *reader) unproved(i *Item, why string) {
	switch {
	case r.opts.Items.Since != Time{}:
		i.Overtaken = why
	case i.Refused == "":
		i.Refused = "the time stamps of its file system do not prove what was seen"
	}
}

// absence judges whether what the view does not have at a path, in a layer that
// would show it first, was not there before either.
func (r *reader) absence(p *place, i *Item) {
	if p.low == nil || i.Overtaken != "" || i.Old != nil && i.Old.Loose {
		return
	}
	for k, layer := range p.low.layers {
		if i.Old != nil && layer >= i.Old.layers[0] {
			return
		}
		if r.view.Layers[layer].Policy {
			continue
		}
		if st, err := p.low.dirs[k].Lstat("."); err != nil || !r.proved(layer, st.Ctim.Nano()) {
			r.unproved(i, "the names in its directory were changed so shortly before that it is not known what was seen")
			return
		}
	}
}

// unadoptable says why an item cannot be made again.
func (r *reader) unadoptable(p *place, c *Change, base string) (string, error) {
	switch {
	case !beneath.Valid(c.Path):
		return tooLong, nil
	case c.Refused == unreadable:
		return unreadable, nil
	case c.Type == Device:
		return "it is a device", nil
	case c.Size > r.opts.MaxFileSize:
		return fmt.Sprintf("it is larger than %d bytes", r.opts.MaxFileSize), nil
	}
	denied, err := p.policy.denies(base)
	if denied || err != nil {
		return "denied by policy", err
	}
	if c.denied != "" {
		return c.denied, nil
	}
	return r.opts.Refuse(c.Path), nil
}

// xattrs reads the extended attributes that a program can have set. An item that
// has others is refused.
func (r *reader) xattrs(d *beneath.Dir, base string, i *Item) ([]Xattr, error) {
	n, err := d.Hold(base)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	names, err := n.Xattrs()
	if errors.Is(err, unix.EOPNOTSUPP) || len(names) == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var list []Xattr
	size := 0
	for _, name := range names {
		switch {
		case name == "security.capability", r.view.UserXattr && strings.HasPrefix(name, "user.overlay.") && !ownXattrs[strings.TrimPrefix(name, "user.overlay.")]:
			if i.Refused == "" {
				i.Refused = "it has the attribute " + name
			}
			continue
		case r.view.UserXattr && strings.HasPrefix(name, "user.overlay."):
			continue
		case !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl_"):
			continue // the file system's own, or a security policy's
		}
		value, err := n.Xattr(name)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if errors.Is(err, unix.EACCES) {
			if i.Refused == "" {
				i.Refused = unreadable
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		size += len(name) + len(value)
		r.xattrSize += len(name) + len(value)
		if size > mostXattrs || r.xattrSize > allXattrs {
			if i.Refused == "" {
				i.Refused = "it has too many attributes"
			}
			return list, nil
		}
		list = append(list, Xattr{name, string(value)})
	}
	return list, nil
}

// ownXattrs are the marks that the kernel's overlay makes for itself.
var ownXattrs = map[string]bool{
	"opaque": true, "redirect": true, "origin": true, "impure": true, "nlink": true, "upper": true, "uuid": true,
	"metacopy": true, "protattr": true,
}

// finishItems orders the items, and finds which are names of one file.
func (r *reader) finishItems() {
	items := r.set.items
	slices.SortFunc(items, func(a, b *Item) int {
		switch {
		case a.Path == ".":
			return -1
		case b.Path == ".":
			return 1
		}
		return comparePaths(a.Path, b.Path)
	})
	first := make(map[fileID]*Item)
	found := make(map[fileID]uint64)
	for _, i := range items {
		if i.Type == "" || i.Type == Dir || i.links < 2 {
			continue
		}
		found[i.id]++
		if f := first[i.id]; f != nil {
			i.Link = f.Path
		} else {
			first[i.id] = i
		}
	}
	for id, i := range first {
		if found[id] != i.links && i.Refused == "" {
			i.Refused = "it has a name that was not found"
		}
	}
	r.splitLinks()
}

// splitLinks refuses what the overlay cannot have done as its view would have: a
// file of the view's topmost layer that has several names there is split from the
// others when it is written to, where in the view itself it stays one.
func (r *reader) splitLinks() {
	linked := make(map[fileID][]*Item)
	added := false
	for _, i := range r.set.items {
		if i.Old == nil {
			added = added || i.Type != "" && i.Type != Dir && i.Type != Symlink
			continue
		}
		if i.Old.Top && i.Old.Type != Dir && i.Old.Links > 1 && i.Changed() {
			linked[i.Old.id] = append(linked[i.Old.id], i)
		}
	}
	for _, id := range slices.Collect(maps.Keys(linked)) {
		names := linked[id]
		gone := !added && uint64(len(names)) == names[0].Old.Links
		for _, i := range names {
			gone = gone && i.Type == ""
		}
		if gone {
			continue // all of its names, and none of them was given to something new
		}
		for _, i := range names {
			if i.Refused == "" {
				i.Refused = "the file has other names (hard links), which were not changed with it in the copy"
			}
		}
	}
}

// Changed reports whether the item is anything else than what the view has.
func (i *Item) Changed() bool {
	if i.Old == nil || !i.Same || i.Link != "" || i.Replaced || i.Mode != i.Old.Mode && i.Type != Symlink {
		return true
	}
	return i.Mtime != i.Old.Mtime || !i.Old.Xattrs && i.Type != Symlink
}
