package guest

import (
	"encoding/binary"
	"net/netip"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/wire"
)

// A try is what a call would do; path is "" when it is not known.
type try struct {
	op   wire.Op
	path string
}

// A target is where a call's arguments say what it changes.
type target struct {
	op   wire.Op
	dir  int // the argument that is the directory; none is the working directory
	path int // the argument that is the path; none is what dir has open
	// self: an empty path, or none, means what dir has open.
	self bool
	need existence
}

const none = -1

// existence is what must be there for a call to change anything. Where it is not,
// the call fails in the hand as well.
type existence int

const (
	there  existence = iota // the path
	absent                  // the directory of the path, and not the path
)

// targets are the calls that name what they change by one path. What else is
// notified is in tried. The kernel has them on every architecture.
var targets = map[int32]target{
	unix.SYS_UNLINKAT:      {op: wire.Op_OP_REMOVE, dir: 0, path: 1},
	unix.SYS_LINKAT:        {op: wire.Op_OP_LINK, dir: 2, path: 3, need: absent},
	unix.SYS_SYMLINKAT:     {op: wire.Op_OP_SYMLINK, dir: 1, path: 2, need: absent},
	unix.SYS_MKDIRAT:       {op: wire.Op_OP_MKDIR, dir: 0, path: 1, need: absent},
	unix.SYS_MKNODAT:       {op: wire.Op_OP_MKNOD, dir: 0, path: 1, need: absent},
	unix.SYS_FCHMOD:        {op: wire.Op_OP_CHMOD, dir: 0, path: none, self: true},
	unix.SYS_FCHMODAT:      {op: wire.Op_OP_CHMOD, dir: 0, path: 1},
	unix.SYS_FCHMODAT2:     {op: wire.Op_OP_CHMOD, dir: 0, path: 1, self: true},
	unix.SYS_FCHOWN:        {op: wire.Op_OP_CHOWN, dir: 0, path: none, self: true},
	unix.SYS_FCHOWNAT:      {op: wire.Op_OP_CHOWN, dir: 0, path: 1, self: true},
	unix.SYS_UTIMENSAT:     {op: wire.Op_OP_UTIME, dir: 0, path: 1, self: true},
	unix.SYS_TRUNCATE:      {op: wire.Op_OP_TRUNCATE, dir: none, path: 0},
	unix.SYS_SETXATTR:      {op: wire.Op_OP_XATTR, dir: none, path: 0},
	unix.SYS_LSETXATTR:     {op: wire.Op_OP_XATTR, dir: none, path: 0},
	unix.SYS_FSETXATTR:     {op: wire.Op_OP_XATTR, dir: 0, path: none, self: true},
	unix.SYS_SETXATTRAT:    {op: wire.Op_OP_XATTR, dir: 0, path: 1, self: true},
	unix.SYS_REMOVEXATTR:   {op: wire.Op_OP_XATTR, dir: none, path: 0},
	unix.SYS_LREMOVEXATTR:  {op: wire.Op_OP_XATTR, dir: none, path: 0},
	unix.SYS_FREMOVEXATTR:  {op: wire.Op_OP_XATTR, dir: 0, path: none, self: true},
	unix.SYS_REMOVEXATTRAT: {op: wire.Op_OP_XATTR, dir: 0, path: 1, self: true},
	unix.SYS_FILE_SETATTR:  {op: wire.Op_OP_XATTR, dir: 0, path: 1, self: true},
}

// renames are the calls that name an old path and a new one: the arguments that
// are their directories and paths.
var renames = map[int32][2]target{
	unix.SYS_RENAMEAT:  {{dir: 0, path: 1}, {dir: 2, path: 3}},
	unix.SYS_RENAMEAT2: {{dir: 0, path: 1}, {dir: 2, path: 3}},
}

// tried is what a call would change, if it is anything that may not be changed and
// the call would change it elsewhere.
func (g *Guest) tried(n *notification, p process, mem memory) (try, bool) {
	switch n.nr {
	case unix.SYS_OPENAT:
		return g.opening(target{dir: 0, path: 1}, n.args[2], false, n, p, mem)
	case unix.SYS_OPENAT2:
		var how [24]byte // struct open_how: flags, mode, resolve
		if mem.read(how[:], n.args[2]) < len(how) {
			return try{}, false // it may be to read, or to fail
		}
		flags, resolve := binary.NativeEndian.Uint64(how[:]), binary.NativeEndian.Uint64(how[16:])
		return g.opening(target{dir: 0, path: 1}, flags, resolve&unix.RESOLVE_IN_ROOT != 0, n, p, mem)
	case unix.SYS_CONNECT:
		return reached(wire.Op_OP_CONNECT, mem, n.args[1], n.args[2])
	case unix.SYS_SENDTO:
		return reached(wire.Op_OP_SEND, mem, n.args[4], n.args[5])
	}
	if at, flags, ok := legacyOpening(n); ok {
		return g.opening(at, flags, false, n, p, mem)
	}
	if names, ok := either(renames, legacyRenames, n.nr); ok {
		return g.renaming(names, n, p, mem)
	}
	at, ok := either(targets, legacyTargets, n.nr)
	if !ok {
		return try{}, false
	}
	path, ok := at.of(n, p, mem, false)
	if !ok || g.free(path) || !at.need.met(path) {
		return try{}, false
	}
	return try{at.op, path}, true
}

func either[T any](a, b map[int32]T, nr int32) (T, bool) {
	if v, ok := a[nr]; ok {
		return v, true
	}
	v, ok := b[nr]
	return v, ok
}

// of is the path that a call means, "" when it is not known. Without ok it means
// none.
func (at target) of(n *notification, p process, mem memory, inRoot bool) (path string, ok bool) {
	fd := uint64(uint32(0xffffff9c)) // AT_FDCWD
	if at.dir != none {
		fd = n.args[at.dir]
	}
	if at.path == none || at.self && n.args[at.path] == 0 {
		return p.at(fd), true
	}
	name, known := mem.text(n.args[at.path])
	switch {
	case !known:
		return "", true
	case name == "":
		return p.at(fd), at.self
	case name[0] == '/' && !inRoot:
		path = filepath.Clean(name)
	default:
		dir := p.at(fd)
		if dir == "" {
			return "", true
		}
		path = filepath.Join(dir, name)
	}
	if len(path) > wire.MaxAttemptPath {
		return "", true
	}
	return path, true
}

// free reports whether a path may be written anyway, or is a process's own.
func (g *Guest) free(path string) bool {
	for _, root := range g.writable {
		if beneath(path, root) {
			return true
		}
	}
	// /proc/self, /proc/thread-self, /proc/1234
	first, _, below := strings.Cut(strings.TrimPrefix(path, "/proc/"), "/")
	return below && strings.HasPrefix(path, "/proc/") && (strings.HasSuffix(first, "self") || strings.Trim(first, "0123456789") == "")
}

func beneath(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

// met reports whether what a call needs is there, as far as it is known.
func (e existence) met(path string) bool {
	if path == "" {
		return true
	}
	_, found := look(path, unix.AT_SYMLINK_NOFOLLOW)
	if e == there {
		return found
	}
	_, dir := look(filepath.Dir(path), 0)
	return dir && !found
}

// look reports whether there is something at a path, and of what mode.
func look(path string, flags int) (mode uint32, found bool) {
	var st unix.Stat_t
	err := unix.Fstatat(unix.AT_FDCWD, path, &st, flags)
	return st.Mode, err != unix.ENOENT && err != unix.ENOTDIR
}

// opening is what it means to open a file with flags.
func (g *Guest) opening(at target, flags uint64, inRoot bool, n *notification, p process, mem memory) (try, bool) {
	writes := flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
	if !writes && flags&unix.O_CREAT == 0 || flags&unix.O_PATH != 0 {
		return try{}, false
	}
	path, ok := at.of(n, p, mem, inRoot)
	if !ok || g.free(path) {
		return try{}, false
	}
	if path == "" {
		return try{wire.Op_OP_WRITE, ""}, true
	}
	mode, found := look(path, 0)
	switch kind := mode & unix.S_IFMT; {
	case found && flags&unix.O_TMPFILE == unix.O_TMPFILE:
		return try{wire.Op_OP_CREATE, path}, true
	case found && (!writes || kind == unix.S_IFCHR || kind == unix.S_IFDIR || flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL):
		return try{}, false // it is read, may be written, or fails
	case found:
		return try{wire.Op_OP_WRITE, path}, true
	case flags&unix.O_CREAT == 0:
		return try{}, false
	}
	_, dir := look(filepath.Dir(path), 0)
	return try{wire.Op_OP_CREATE, path}, dir
}

// renaming names the old path, or the new one where the old one may be changed.
func (g *Guest) renaming(names [2]target, n *notification, p process, mem memory) (try, bool) {
	from, ok := names[0].of(n, p, mem, false)
	if !ok || !there.met(from) {
		return try{}, false
	}
	if !g.free(from) {
		return try{wire.Op_OP_RENAME, from}, true
	}
	to, ok := names[1].of(n, p, mem, false)
	return try{wire.Op_OP_RENAME, to}, ok && !g.free(to) && there.met(filepath.Dir(to))
}

// reached is the address of another machine, or of a port of this one. A socket of
// another family reaches nobody in the eye; port 0 is how the C library finds out
// which address it has itself.
func reached(op wire.Op, mem memory, address, length uint64) (try, bool) {
	var sockaddr [28]byte // struct sockaddr_in6
	n := mem.read(sockaddr[:min(length, uint64(len(sockaddr)))], address)
	if n < 2 {
		return try{op: op}, mem < 0
	}
	var ip netip.Addr
	switch family := binary.NativeEndian.Uint16(sockaddr[:]); {
	case family == unix.AF_INET && n >= 16:
		ip = netip.AddrFrom4([4]byte(sockaddr[4:8]))
	case family == unix.AF_INET6 && n >= 24:
		ip = netip.AddrFrom16([16]byte(sockaddr[8:24])).Unmap()
	default:
		return try{}, false
	}
	port := binary.BigEndian.Uint16(sockaddr[2:])
	return try{op, netip.AddrPortFrom(ip, port).String()}, port != 0
}
