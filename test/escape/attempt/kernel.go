package main

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of calls that are the same everywhere and that golang.org/x/sys may
// not have.
const (
	sysStatmount    = 457
	sysListmount    = 458
	sysOpenTreeAttr = 467
	sysListns       = 470
)

// mount tries to change the view by the old calls.
func mount(r *report, args []string) {
	work := args[0]
	r.step("tmpfs", unix.Mount("none", work, "tmpfs", 0, ""))
	r.step("proc", unix.Mount("none", work, "proc", 0, ""))
	r.step("bind", unix.Mount("/usr", work, "", unix.MS_BIND|unix.MS_REC, ""))
	r.step("remount", unix.Mount("none", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	r.step("remount-workspace", unix.Mount("none", work, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	r.step("propagation", unix.Mount("none", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
	r.step("move", unix.Mount("/proc", work, "", unix.MS_MOVE, ""))
	r.step("umount", unix.Unmount(work, unix.MNT_DETACH))
	r.step("umount-proc", unix.Unmount("/proc", 0))
	r.step("pivot_root", unix.PivotRoot(work, work))
	r.step("chroot", unix.Chroot(work))
}

// newMount tries to by the new ones.
func newMount(r *report, args []string) {
	work := args[0]
	r.step("fsopen", second(unix.Fsopen("tmpfs", 0)))
	r.step("fspick", second(unix.Fspick(unix.AT_FDCWD, work, 0)))
	r.step("fsconfig", unix.FsconfigCreate(0))
	r.step("fsmount", second(unix.Fsmount(0, 0, 0)))
	r.step("open_tree", second(unix.OpenTree(unix.AT_FDCWD, work, unix.OPEN_TREE_CLONE)))
	r.step("open_tree_attr", call(sysOpenTreeAttr, 0, 0, 0, 0, 0))
	r.step("move_mount", unix.MoveMount(unix.AT_FDCWD, "/proc", unix.AT_FDCWD, work, 0))
	r.step("mount_setattr", unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
}

var namespaceFlags = []struct {
	name string
	flag uintptr
}{
	{"user", unix.CLONE_NEWUSER}, {"mnt", unix.CLONE_NEWNS}, {"pid", unix.CLONE_NEWPID}, {"net", unix.CLONE_NEWNET},
	{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"cgroup", unix.CLONE_NEWCGROUP}, {"time", unix.CLONE_NEWTIME},
}

// namespaces tries to make new ones and to enter those of PID 1.
func namespaces(r *report, _ []string) {
	runtime.LockOSThread()
	for _, ns := range namespaceFlags {
		r.step("unshare-"+ns.name, unix.Unshare(int(ns.flag)))
	}
	r.step("unshare-user-mnt", unix.Unshare(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	for _, ns := range namespaceFlags[:len(namespaceFlags)-1] { // clone has no bit for time
		r.step("clone-"+ns.name, clone(ns.flag|uintptr(unix.SIGCHLD)))
	}
	args := struct{ flags, pidfd, childTID, parentTID, exit, stack, size, tls uint64 }{
		flags: unix.CLONE_NEWUSER, exit: uint64(unix.SIGCHLD),
	}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno == 0 && pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	r.step("clone3", noneIfZero(errno))
	for _, ns := range namespaceFlags {
		fd, err := unix.Open("/proc/self/ns/"+ns.name, unix.O_RDONLY, 0)
		if err == nil {
			err = unix.Setns(fd, int(ns.flag))
		}
		r.step("setns-"+ns.name, err)
	}
	fd, err := unix.PidfdOpen(1, 0)
	if err == nil {
		err = unix.Setns(fd, unix.CLONE_NEWUSER|unix.CLONE_NEWNS)
	}
	r.step("setns-pidfd", err)
}

// clone makes a child, which ends at once.
func clone(flags uintptr) error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

func noneIfZero(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// doors tries the kernel's larger doors. Each call is well-formed enough to be
// refused for what it is, not for its arguments.
func doors(r *report, _ []string) {
	p := fixed(make([]byte, 4096))
	str := func(s string) uintptr { return fixed([]byte(s + "\x00")) }
	for _, c := range []struct {
		name   string
		number uintptr
		args   []uintptr
	}{
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, []uintptr{8, p}},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, []uintptr{0, 1, 0, 0, 0}},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, []uintptr{0, 0, 0, 0}},
		{"bpf", unix.SYS_BPF, []uintptr{0, p, 72}},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, []uintptr{p, 0, ^uintptr(0), ^uintptr(0), 0}},
		{"userfaultfd", unix.SYS_USERFAULTFD, []uintptr{1 /* UFFD_USER_MODE_ONLY */}},
		{"add_key", unix.SYS_ADD_KEY, []uintptr{str("user"), str("attempt"), p, 1, ^uintptr(2) /* session keyring */}},
		{"request_key", unix.SYS_REQUEST_KEY, []uintptr{str("user"), str("attempt"), 0, ^uintptr(2)}},
		{"keyctl", unix.SYS_KEYCTL, []uintptr{0, ^uintptr(2), 1}},
		{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, []uintptr{^uintptr(99), str("/"), p, p + 512, 0}},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, []uintptr{^uintptr(99), p, 0}},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, []uintptr{unix.FAN_REPORT_FID, 0}},
		{"kexec_load", unix.SYS_KEXEC_LOAD, []uintptr{0, 0, 0, 0}},
		{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, []uintptr{0, 0, 0, 0, 0}},
		{"init_module", unix.SYS_INIT_MODULE, []uintptr{p, 1, p}},
		{"finit_module", unix.SYS_FINIT_MODULE, []uintptr{0, p, 0}},
		{"delete_module", unix.SYS_DELETE_MODULE, []uintptr{str("loop"), 0}},
		// Its magic is wrong, so that nothing would happen outside a session.
		{"reboot", unix.SYS_REBOOT, []uintptr{1, 2, 3, 0}},
		{"swapon", unix.SYS_SWAPON, []uintptr{str("/nowhere"), 0}},
		{"acct", unix.SYS_ACCT, []uintptr{str("/nowhere")}},
		{"quotactl", unix.SYS_QUOTACTL, []uintptr{0, 0, 0, 0}},
		{"syslog", unix.SYS_SYSLOG, []uintptr{10, 0, 0}},
		{"settimeofday", unix.SYS_SETTIMEOFDAY, []uintptr{0, 0}},
		{"clock_settime", unix.SYS_CLOCK_SETTIME, []uintptr{0, 0}},
		{"sethostname", unix.SYS_SETHOSTNAME, []uintptr{str("attempt"), 7}},
		{"setdomainname", unix.SYS_SETDOMAINNAME, []uintptr{str("attempt"), 7}},
		{"vhangup", unix.SYS_VHANGUP, nil},
	} {
		r.step(c.name, call(c.number, c.args...))
	}
	r.step("adjtimex", second(unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_OFFSET_SINGLESHOT})))
	hardware(r)
}

// describe tries what tells of mounts, namespaces and processes that are none
// of the session's.
func describe(r *report, _ []string) {
	for _, c := range []struct {
		name   string
		number uintptr
	}{
		{"statmount", sysStatmount}, {"listmount", sysListmount}, {"listns", sysListns},
		{"kcmp", unix.SYS_KCMP}, {"pidfd_getfd", unix.SYS_PIDFD_GETFD},
		{"process_madvise", unix.SYS_PROCESS_MADVISE}, {"process_mrelease", unix.SYS_PROCESS_MRELEASE},
	} {
		r.step(c.name, call(c.number, 1, 1, 0, 0, 0))
	}
	host, err := os.Hostname()
	r.step("hostname", err)
	r.say("hostname-is", host)
}
