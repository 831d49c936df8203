package starter

import (
	"errors"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Where things are in the mount namespace of a session, in which its
// containers' roots are put together.
const (
	baseRoot = "/base" // the session's root: the hand's view
	treePath = "/tree" // the root of another container, in a copy of the namespace
)

// rootFlags are those of the child that makes a session's mount namespace.
const rootFlags = unix.CLONE_NEWNS

// createProgram is that of the child that makes a session's mount namespace and
// puts the session's root together in it.
func createProgram(c *Create, p *program) error {
	p.privateMounts()
	own := p.stage(string(c.Stage), "proc", "pin", "base", "tree")
	t := tree{program: p, root: own}
	// For the descriptors by which overlays name their layers.
	if err := t.add(&Mount{Destination: []byte("proc"), Source: []byte("/proc"), Recursive: true}); err != nil {
		return err
	}
	for i, pin := range c.Pins {
		name := PinPath(i)[1:]
		p.do("pinning "+string(pin.Path), unix.SYS_MKDIRAT, own, name, 0o755)
		if err := t.add(&Mount{Destination: []byte(name), Source: pin.Path, Recursive: true}); err != nil {
			return err
		}
	}
	if len(c.Mounts) == 0 {
		return errors.New("a session needs a root")
	}
	first := proto.CloneOf(c.Mounts[0])
	first.Destination = []byte(baseRoot)
	if err := t.add(first); err != nil {
		return err
	}
	t.root = t.find("opening the root", []byte(baseRoot))
	for _, m := range c.Mounts[1:] {
		if err := t.add(m); err != nil {
			return err
		}
	}
	// Nothing else of the host stays in the namespace.
	p.changeRoot(own)
	p.handOver(c)
	if c.Container != 0 {
		p.dress(baseRoot)
	}
	return nil
}

// dressProgram is that of the child that gives a container a root made of the
// session's and other mounts.
func dressProgram(d *Dress, p *program) error {
	p.do("joining the session's mount namespace", unix.SYS_SETNS, p.fds.mnt, unix.CLONE_NEWNS)
	if len(d.Mounts) == 0 {
		p.dress(baseRoot)
		return nil
	}
	p.do("a mount namespace", unix.SYS_UNSHARE, unix.CLONE_NEWNS)
	const what = "the container's root"
	own := p.openDir(what, "/")
	base := p.openDir(what, baseRoot)
	t := tree{program: p, root: own, base: base}
	if err := t.add(&Mount{Destination: []byte(treePath), Source: []byte(baseRoot), Recursive: true}); err != nil {
		return err
	}
	t.root = p.openDir(what, treePath)
	for _, m := range d.Mounts {
		if err := t.add(m); err != nil {
			return err
		}
	}
	p.dress(treePath)
	return nil
}

// dress makes a tree the root of the container, which has changed to an empty
// one itself: the processes that have that as their root get the new one.
func (p *program) dress(root string) {
	const what = "giving the container its root"
	copied := p.do(what, unix.SYS_OPEN_TREE, unix.AT_FDCWD, root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	p.do(what, unix.SYS_READ, p.fds.ready, make([]byte, 1), 1)
	p.do(what, unix.SYS_SETNS, p.fds.pid, unix.CLONE_NEWNS)
	p.attach(what, copied, p.openDir(what, "/"+newRoot))
	// The container's own /proc goes along.
	t := tree{program: p, root: copied}
	dest := t.find(what, []byte("proc"))
	p.do(what, unix.SYS_MOVE_MOUNT, unix.AT_FDCWD, "/proc", dest, "", unix.MOVE_MOUNT_T_EMPTY_PATH)
	p.changeRoot(copied)
}

// handOver sends the starter the session's mount namespace, its pins, and what
// its overlays can be configured anew by.
func (p *program) handOver(c *Create) {
	const what = "handing over the session's mount namespace"
	next := p.fds.free()
	var fds []int
	number := func(r reg) {
		p.do(what, unix.SYS_DUP3, r, next, unix.O_CLOEXEC)
		fds = append(fds, next)
		next++
	}
	number(p.do(what, unix.SYS_OPENAT, unix.AT_FDCWD, "/proc/self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC))
	for i := range c.Pins {
		number(p.openDir(what, PinPath(i)))
	}
	base := p.openDir(what, baseRoot)
	for _, m := range c.Mounts {
		if m.Type == Mount_OVERLAY {
			dest := tree{program: p, root: base}.find(what, m.Destination)
			number(p.do(what, unix.SYS_FSPICK, dest, "", unix.FSPICK_EMPTY_PATH|unix.FSPICK_CLOEXEC))
		}
	}
	p.do(what, unix.SYS_SENDMSG, p.fds.status, p.rights(fds), unix.MSG_NOSIGNAL)
}
