package starter

import (
	"fmt"
	"path"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A tree is a root filesystem that is being put together: mounts are attached
// below its root and nowhere else, whatever symbolic links lie on the way. An
// agent writes some of what is mounted, so every destination is resolved with
// openat2 and named by its descriptor from then on.
type tree struct {
	*program
	root reg // the root's descriptor
	base reg // of the tree that KEEP takes from
}

// find opens what is at a path of the tree.
func (t tree) find(what string, name []byte) reg {
	rel := strings.Trim(path.Clean("/"+string(name)), "/")
	if rel == "" {
		rel = "."
	}
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	}
	return t.do(what, unix.SYS_OPENAT2, t.root, rel, ptr(t.program, how), unix.SizeofOpenHow)
}

// add makes one mount.
func (t tree) add(m *Mount) error {
	what := fmt.Sprintf("mounting %s %s", strings.ToLower(m.Type.String()), m.Destination)
	dest := t.find(what, m.Destination)
	first := len(t.calls) - 1
	switch m.Type {
	case Mount_BIND:
		t.bind(what, unix.AT_FDCWD, string(m.Source), m, dest)
	case Mount_SELF:
		if path.Clean(string(m.Destination)) == "/" {
			// A mount on the root would hide the tree from what comes after.
			t.setAttributes(what, t.root, m.Attributes, m.Recursive)
			break
		}
		t.bind(what, dest, "", m, dest)
	case Mount_KEEP:
		from := tree{program: t.program, root: t.base}
		source := from.find(what, m.Destination)
		t.bind(what, source, "", &Mount{Recursive: true, Attributes: m.Attributes}, dest)
	case Mount_TMPFS:
		t.attach(what, t.newFS(what, "tmpfs", m.Options, m.Attributes), dest)
	case Mount_OVERLAY:
		t.overlay(what, m, dest)
	case Mount_DEV:
		t.dev(what, m, dest)
	default:
		return fmt.Errorf("%s: unknown type", what)
	}
	if m.Optional {
		t.optional(first)
	}
	return nil
}

// bind attaches a copy of the tree at source to dest.
func (t tree) bind(what string, dir any, source string, m *Mount, dest reg) {
	flags := unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW
	if m.Recursive {
		flags |= unix.AT_RECURSIVE
	}
	fd := t.do(what, unix.SYS_OPEN_TREE, dir, source, flags)
	t.setAttributes(what, fd, m.Attributes, m.Recursive)
	t.attach(what, fd, dest)
}

func (p *program) setAttributes(what string, fd reg, attributes uint64, recursive bool) {
	if attributes == 0 {
		return
	}
	flags := unix.AT_EMPTY_PATH
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	attr := &unix.MountAttr{Attr_set: attributes}
	p.do(what, unix.SYS_MOUNT_SETATTR, fd, "", flags, ptr(p, attr), int(unsafe.Sizeof(*attr)))
}

func (p *program) attach(what string, fd, dest reg) {
	p.do(what, unix.SYS_MOVE_MOUNT, fd, "", dest, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// newFS makes a filesystem that is attached nowhere yet.
func (p *program) newFS(what, kind, options string, attributes uint64) reg {
	fs := p.do(what, unix.SYS_FSOPEN, kind, unix.FSOPEN_CLOEXEC)
	for option := range strings.SplitSeq(options, ",") {
		key, value, hasValue := strings.Cut(option, "=")
		what := what + ", option " + option
		switch {
		case key == "":
		case hasValue:
			p.do(what, unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_STRING, key, value, 0)
		default:
			p.do(what, unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_FLAG, key, 0, 0)
		}
	}
	p.do(what, unix.SYS_FSCONFIG, fs, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	return p.do(what, unix.SYS_FSMOUNT, fs, unix.FSMOUNT_CLOEXEC, attributes)
}

// overlay mounts an overlay. Its layers are opened first and named by their
// descriptors, so that neither a colon in a path nor a race means anything. It
// goes through mount(2): fsconfig(2) takes no string above 255 bytes.
func (t tree) overlay(what string, m *Mount, dest reg) {
	destFd := t.fds.free() // numbers that are known when the options are written
	next := destFd + 1
	layer := func(name []byte) string {
		what := fmt.Sprintf("%s, layer %s", what, name)
		fd := t.do(what, unix.SYS_OPENAT, unix.AT_FDCWD, string(name), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		t.do(what, unix.SYS_DUP3, fd, next, unix.O_CLOEXEC)
		next++
		return fdPath(next - 1)
	}
	lowers := make([]string, len(m.Lower))
	for i, name := range m.Lower {
		lowers[i] = layer(name)
	}
	options := "lowerdir=" + strings.Join(lowers, ":")
	if len(m.Upper) > 0 {
		options += ",upperdir=" + layer(m.Upper)
		options += ",workdir=" + layer(m.Work)
	}
	if m.Options != "" {
		options += "," + m.Options
	}
	t.do(what, unix.SYS_DUP3, dest, destFd, unix.O_CLOEXEC)
	t.do(what, unix.SYS_MOUNT, "overlay", fdPath(destFd), "overlay", mountFlags(m.Attributes), options)
}

// mountFlags translates the attributes that an overlay is given at once.
func mountFlags(attributes uint64) uintptr {
	var flags uintptr
	for _, f := range []struct {
		attribute uint64
		flag      uintptr
	}{
		{unix.MOUNT_ATTR_RDONLY, unix.MS_RDONLY},
		{unix.MOUNT_ATTR_NOSUID, unix.MS_NOSUID},
		{unix.MOUNT_ATTR_NODEV, unix.MS_NODEV},
		{unix.MOUNT_ATTR_NOEXEC, unix.MS_NOEXEC},
	} {
		if attributes&f.attribute != 0 {
			flags |= f.flag
		}
	}
	return flags
}

func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// The device nodes of a container: those that the OCI runtime specification
// asks for. All are bound from the host's, since a user namespace may not make
// any.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// Links of /dev, by name.
var deviceLinks = [][2]string{
	{"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"},
	{"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
}

// dev makes a /dev. Options are those of its shm. The nodes are the host's, or
// those of the /dev that it replaces.
func (t tree) dev(what string, m *Mount, dest reg) {
	const flags = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	fs := t.newFS(what, "tmpfs", "mode=755,size=64k,nr_inodes=64", flags)
	at := tree{program: t.program, root: fs}
	for _, name := range devices {
		t.do(what, unix.SYS_OPENAT, fs, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY|unix.O_CLOEXEC, 0o444)
	}
	for _, dir := range []string{"pts", "shm"} {
		t.do(what, unix.SYS_MKDIRAT, fs, dir, 0o755)
	}
	for _, link := range deviceLinks {
		t.do(what, unix.SYS_SYMLINKAT, link[1], fs, link[0])
	}
	t.attach(what, fs, dest)
	for _, name := range devices {
		what := what + "/" + name
		var node reg
		if t.base != 0 {
			from := tree{program: t.program, root: t.base}
			old := from.find(what, []byte("dev/"+name))
			node = t.do(what, unix.SYS_OPEN_TREE, old, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
		} else {
			node = t.do(what, unix.SYS_OPEN_TREE, unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		}
		t.setAttributes(what, node, flags, false)
		at.place(what, node, name)
	}
	at.place(what, t.newFS(what, "devpts", "newinstance,ptmxmode=0666,mode=0620", flags), "pts")
	at.place(what, t.newFS(what, "tmpfs", "mode=1777,nr_inodes=65536,"+m.Options, flags|unix.MOUNT_ATTR_NODEV), "shm")
	t.setAttributes(what, fs, unix.MOUNT_ATTR_RDONLY, false)
}

// place attaches a mount at a name of the tree.
func (t tree) place(what string, mount reg, name string) {
	t.attach(what, mount, t.find(what, []byte(name)))
}
