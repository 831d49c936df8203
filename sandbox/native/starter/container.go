package starter

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// containerFlags are the namespaces that a container's first process is born
// in. It joins that of its network, and enters that of its user last.
const containerFlags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// containerProgram is that of the first process of a container. It gives up its
// rights and becomes the guest, on a root with nothing in it but /proc and a
// place for the container's own root.
func containerProgram(r *Prepare, p *program) error {
	if p.fds.net >= 0 {
		p.do("joining a network namespace", unix.SYS_SETNS, p.fds.net, unix.CLONE_NEWNET)
	} else {
		p.do("a network namespace", unix.SYS_UNSHARE, unix.CLONE_NEWNET)
		p.loopbackUp()
	}
	p.do("a session of its own", unix.SYS_SETSID)
	p.do("setting the host name", unix.SYS_SETHOSTNAME, []byte(r.Hostname), len(r.Hostname))
	p.do("setting the umask", unix.SYS_UMASK, 0o022)
	for _, l := range r.Rlimits {
		if err := p.lowerRlimit(l); err != nil {
			return err
		}
	}
	proc := p.emptyRoot(r)
	one := []byte{1}
	p.do("telling that the root is changed", unix.SYS_WRITE, p.fds.ready, one, len(one))
	if r.User.Switch {
		p.do("leaving the groups", unix.SYS_SETGROUPS, 0, 0)
	}

	// From here on the process has no right over its mounts and its other
	// namespaces: they belong to the user namespace that it leaves.
	p.do("entering the user namespace", unix.SYS_SETNS, p.fds.user, unix.CLONE_NEWUSER)
	// No capability may come from a user namespace made inside, whatever system
	// call asks for it.
	p.write("forbidding user namespaces", proc, "sys/user/max_user_namespaces", "0")
	// The kernel counts these for the user, whatever namespace they are made in:
	// something must be left for the user's other programs.
	p.share(proc, "max_inotify_instances", "/proc/sys/fs/inotify/max_user_instances", 4)
	p.share(proc, "max_inotify_watches", "/proc/sys/fs/inotify/max_user_watches", 2)
	if r.User.Switch {
		gid, uid := uintptr(r.User.Gid), uintptr(r.User.Uid)
		p.do(fmt.Sprintf("taking group %d", gid), unix.SYS_SETRESGID, gid, gid, gid)
		p.do(fmt.Sprintf("taking user %d", uid), unix.SYS_SETRESUID, uid, uid, uid)
	}
	p.dropCapabilities()

	// After the last change of credentials, which forgets it.
	p.do("asking for the parent's death", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	p.do("passing on the log", unix.SYS_DUP3, p.fds.log, 2, 0)
	p.do("passing on the wire", unix.SYS_DUP3, p.fds.wire, WireFd, 0)
	// Whoever started the host process may have left descriptors open in it that
	// an exec keeps, and a directory among them leads out of any root.
	p.do("closing what is not the guest's", unix.SYS_CLOSE_RANGE, WireFd+1, uint64(math.MaxUint32), unix.CLOSE_RANGE_CLOEXEC)
	p.do("installing the system call filter", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, p.filter(r.Seccomp))
	p.do("unblocking signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, ptr(p, new(uint64)), 0, 8)
	p.do("executing the guest", unix.SYS_EXECVEAT, p.fds.guest, "", p.strings("sallyport-guest"), p.strings(
		// One processor is enough for what PID 1 does itself, and spares the
		// wake-up of another thread for every message.
		"GOMAXPROCS=1",
	), unix.AT_EMPTY_PATH)
	p.executes = true
	return nil
}

// loopbackUp brings up lo, the only interface of a new network namespace.
func (p *program) loopbackUp() {
	const what = "bringing up lo"
	s := p.do(what, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	p.do(what, unix.SYS_IOCTL, s, unix.SIOCSIFFLAGS, ptr(p, loUp()))
}

// newRoot is where, on the empty root, the container's own root comes.
const newRoot = "new"

// emptyRoot changes to a root with a new /proc in it. It returns a second mount
// of /proc, attached nowhere, that can be written.
func (p *program) emptyRoot(r *Prepare) reg {
	p.privateMounts()
	const flags = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	root := p.stage(string(r.Stage), "proc", newRoot)
	at := tree{program: p, root: root}
	const what = "mounting /proc"
	proc := p.newFS(what, "proc", "", flags)
	at.place(what, p.newFS(what, "proc", "", flags|unix.MOUNT_ATTR_RDONLY), "proc")
	p.mask(at, r.Masked)
	p.changeRoot(root)
	return proc
}

// privateMounts keeps what is mounted from reaching the host, and the reverse.
func (p *program) privateMounts() {
	p.do("making the mounts private", unix.SYS_MOUNT, "", "/", "", unix.MS_REC|unix.MS_PRIVATE, 0)
}

// stage mounts a small file system with some directories on a directory, and
// returns it.
func (p *program) stage(path string, dirs ...string) reg {
	what := "staging on " + path
	fs := p.newFS(what, "tmpfs", "mode=755,size=1m,nr_inodes=256", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	for _, dir := range dirs {
		p.do(what, unix.SYS_MKDIRAT, fs, dir, 0o755)
	}
	p.attach(what, fs, p.openDir(what, path))
	return fs
}

// mask covers files below /proc by /dev/null, directories by empty ones. What a
// path is the host's /proc tells.
func (p *program) mask(root tree, paths [][]byte) {
	const flags = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	for _, name := range paths {
		info, err := os.Stat(string(name))
		if err != nil {
			continue // nor has a new /proc of this kernel it
		}
		what := "masking " + string(name)
		dest := root.find(what, name)
		first := len(p.calls) - 1
		if info.IsDir() {
			p.attach(what, p.newFS(what, "tmpfs", "mode=555,size=4k,nr_inodes=1", flags), dest)
		} else {
			null := p.do(what, unix.SYS_OPEN_TREE, unix.AT_FDCWD, "/dev/null", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			p.setAttributes(what, null, flags&^unix.MOUNT_ATTR_NODEV, false)
			p.attach(what, null, dest)
		}
		p.optional(first)
	}
}

// changeRoot makes a mounted directory the root of this process, and of all
// others that have the same, and lets go of the old one.
func (p *program) changeRoot(dir reg) {
	const what = "changing the root"
	p.do(what, unix.SYS_FCHDIR, dir)
	// With both arguments the same, the old root ends up mounted on the new
	// one, and is detached from there (pivot_root(2), NOTES).
	p.do(what, unix.SYS_PIVOT_ROOT, ".", ".")
	p.do(what, unix.SYS_UMOUNT2, ".", unix.MNT_DETACH)
	p.do(what, unix.SYS_CHDIR, "/")
}

// lowerRlimit sets a limit that nothing inside can raise again. A limit that is
// lower already stays.
func (p *program) lowerRlimit(r *Rlimit) error {
	limit := &unix.Rlimit{}
	if err := unix.Getrlimit(int(r.Resource), limit); err != nil {
		return fmt.Errorf("rlimit %d: %w", r.Resource, err)
	}
	limit.Max = min(limit.Max, r.Value)
	limit.Cur = min(limit.Cur, limit.Max)
	p.do(fmt.Sprintf("rlimit %d", r.Resource), unix.SYS_PRLIMIT64, 0, int(r.Resource), ptr(p, limit), 0)
	return nil
}

// Secure bits: uid 0 means nothing, a change of uid changes no capability, and
// none can be kept or made ambient; each with its lock (capabilities(7)).
const (
	secureNoRoot  = 1<<0 | 1<<1
	secureNoFixup = 1<<2 | 1<<3
	secureNoKeep  = 1 << 5
	secureNoRaise = 1<<6 | 1<<7
)

// write writes a whole file below a directory.
func (p *program) write(what string, dir reg, path, data string) {
	fd := p.do(what, unix.SYS_OPENAT, dir, path, unix.O_WRONLY|unix.O_CLOEXEC)
	p.do(what, unix.SYS_WRITE, fd, []byte(data), len(data))
}

// share limits the user namespace to a part of what a user may have of
// something.
func (p *program) share(proc reg, name, most string, part int) {
	data, err := os.ReadFile(most)
	if err != nil {
		return // nor has this kernel what is counted
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return
	}
	first := len(p.calls)
	p.write("limiting "+name, proc, "sys/user/"+name, strconv.Itoa(max(n/part, 1)))
	p.optional(first)
}

// dropCapabilities gives up every capability, in every set and for good.
func (p *program) dropCapabilities() {
	const what = "dropping capabilities"
	p.do(what, unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secureNoRoot|secureNoFixup|secureNoKeep|secureNoRaise, 0, 0, 0)
	for c := range Capabilities() {
		p.do(what, unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	p.do(what, unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	p.do(what, unix.SYS_CAPSET, ptr(p, header), ptr(p, new([2]unix.CapUserData)))
	p.do(what, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// Capabilities counts those of this kernel.
func Capabilities() int {
	for c := 0; ; c++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err != nil {
			return c
		}
	}
}

// filter is a struct sock_fprog.
func (p *program) filter(bytes []byte) uintptr {
	prog := &unix.SockFprog{
		Len:    uint16(len(bytes) / int(unsafe.Sizeof(unix.SockFilter{}))),
		Filter: (*unix.SockFilter)(unsafe.Pointer(unsafe.SliceData(bytes))),
	}
	p.keep = append(p.keep, bytes)
	return ptr(p, prog) // the kernel refuses an empty one
}
