package seccomp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	containerd "github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// TestProfile checks that profile.json is containerd's default with our rules
// applied, and with -update makes it so.
func TestProfile(t *testing.T) {
	p := containerd.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	for _, r := range rules() {
		r.apply(p)
	}

	// The one file serves both architectures. What containerd adds on either
	// is a matter of 32-bit calls, or stands in our rules.
	p.Architectures = []specs.Arch{specs.ArchX86_64, specs.ArchAARCH64}
	var unconditional []string
	var rest []specs.LinuxSyscall
	for _, s := range p.Syscalls {
		s.Names = slices.DeleteFunc(s.Names, func(name string) bool {
			i, ok := lookup(name)
			return ok && syscalls[i].amd64 < 0 && syscalls[i].arm64 < 0
		})
		switch {
		case s.Action == specs.ActAllow && len(s.Args) == 0:
			unconditional = append(unconditional, s.Names...)
		case len(s.Names) > 0:
			rest = append(rest, s)
		}
	}
	slices.Sort(unconditional)
	slices.SortStableFunc(rest, func(a, b specs.LinuxSyscall) int { return strings.Compare(a.Names[0], b.Names[0]) })
	p.Syscalls = append([]specs.LinuxSyscall{{Names: slices.Compact(unconditional), Action: specs.ActAllow}}, rest...)

	golden(t, "profile.json", encode(t, p))
}

// encode writes a profile as JSON with a line for each rule but the first.
func encode(t *testing.T, p *specs.LinuxSeccomp) []byte {
	t.Helper()
	marshal := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	head := *p
	head.Syscalls = p.Syscalls[:1]
	b, err := json.MarshalIndent(head, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.TrimSuffix(b, []byte("\n\t]\n}"))
	for _, s := range p.Syscalls[1:] {
		b = append(append(b, ",\n\t\t"...), marshal(s)...)
	}
	return append(b, "\n\t]\n}\n"...)
}

var variants = []Options{
	{},
	{Ptrace: true},
	{NoUnixSockets: true},
	{Ptrace: true, NoUnixSockets: true},
}

// TestRules checks the table itself: that each call exists and is spoken of
// once, and that the profile means the same to every reader (see rule).
func TestRules(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range rules() {
		if r.why == "" {
			t.Errorf("%s: no reason", r.calls)
		}
		for _, name := range strings.Fields(r.calls) {
			if _, ok := lookup(name); !ok || seen[name] {
				t.Errorf("%s is unknown or named twice", name)
			}
			seen[name] = true
		}
	}
	for _, o := range variants {
		rules := make(map[string][]specs.LinuxSyscall)
		for _, s := range Default(o).Syscalls {
			for _, name := range s.Names {
				rules[name] = append(rules[name], s)
			}
		}
		for name, list := range rules {
			for _, s := range list {
				if s.Action != list[0].Action || len(list) > 1 && len(s.Args) == 0 {
					t.Errorf("%+v: the rules of %s depend on their order", o, name)
				}
			}
		}
	}
}

const (
	high = 1 << 32 // a bit that the kernel ignores in an argument of 32
	ptr  = 0x7f00_0000_1000
)

// TestVerdicts is what the profile lets through and what it refuses, for calls
// that an architecture has.
func TestVerdicts(t *testing.T) {
	plain, ptrace, eye := Options{}, Options{Ptrace: true}, Options{NoUnixSockets: true}
	type row struct {
		o    Options
		call string
		args []uint64
		want uint32
	}
	tests := []row{
		{plain, "socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{plain, "socket", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0}, allow},
		{plain, "socket", []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_NONBLOCK, 0}, allow},
		{plain, "socket", []uint64{unix.AF_UNIX, unix.SOCK_RAW, 0}, eperm},
		{plain, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, allow},
		{plain, "socket", []uint64{unix.AF_INET | high, unix.SOCK_STREAM | high, high}, allow},
		{plain, "socket", []uint64{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, allow},
		{plain, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, allow},
		{plain, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, eperm},
		{plain, "socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, unix.IPPROTO_UDP}, allow},
		{plain, "socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, allow},
		{plain, "socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, allow},
		{plain, "socket", []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, eperm},
		{plain, "socket", []uint64{unix.AF_INET6, unix.SOCK_RAW | unix.SOCK_CLOEXEC, 0}, eperm},
		{plain, "socket", []uint64{unix.AF_INET, unix.SOCK_PACKET, 0}, eperm},
		{plain, "socket", []uint64{unix.AF_INET, unix.SOCK_SEQPACKET, 0}, eperm},
		{plain, "socket", []uint64{unix.AF_INET, unix.SOCK_DCCP, 0}, eperm},
		{plain, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, allow},
		{plain, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_ROUTE}, allow},
		{plain, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, eperm},
		{plain, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, eperm},
		{plain, "socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, eperm},
		{plain, "socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, eperm},
		{plain, "socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, eperm},
		{plain, "socket", []uint64{unix.AF_VSOCK | high, unix.SOCK_STREAM, 0}, eperm},
		{plain, "socket", []uint64{unix.AF_KEY, unix.SOCK_DGRAM, 0}, eperm},
		{plain, "socket", []uint64{0, unix.SOCK_STREAM, 0}, eperm},
		{plain, "socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0, ptr}, allow},
		{plain, "socketpair", []uint64{unix.AF_TIPC, unix.SOCK_STREAM, 0, ptr}, eperm},
		{eye, "socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, eperm},
		{eye, "socket", []uint64{unix.AF_UNIX | high, unix.SOCK_DGRAM, 0}, eperm},
		{eye, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, allow},
		{eye, "socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0, ptr}, allow},
		{eye, "socketpair", []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, ptr}, allow},
		{eye, "socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0, ptr}, eperm},
		{eye, "socketpair", []uint64{unix.AF_UNIX, unix.SOCK_RAW, 0, ptr}, eperm},
		{eye, "shmget", []uint64{1, 4096, 0o1600}, allow},

		{plain, "clone", []uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, allow},
		{plain, "clone", []uint64{uint64(unix.SIGCHLD)}, allow},
		{plain, "clone", []uint64{0x3d0f00}, allow}, // a thread of glibc
		{plain, "clone", []uint64{unix.CLONE_NEWTIME}, allow},
		{plain, "clone", []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, eperm},
		{plain, "clone", []uint64{unix.CLONE_NEWNS | high}, eperm},
		{plain, "clone", []uint64{unix.CLONE_NEWCGROUP}, eperm},
		{plain, "clone", []uint64{unix.CLONE_NEWUTS}, eperm},
		{plain, "clone", []uint64{unix.CLONE_NEWIPC}, eperm},
		{plain, "clone", []uint64{unix.CLONE_NEWPID}, eperm},
		{plain, "clone", []uint64{unix.CLONE_NEWNET}, eperm},
		{plain, "clone3", []uint64{ptr, 88}, nosys},
		{plain, "unshare", []uint64{unix.CLONE_NEWTIME}, eperm},
		{plain, "unshare", []uint64{unix.CLONE_NEWUSER}, eperm},
		{plain, "setns", []uint64{3, 0}, eperm},

		{plain, "ioctl", []uint64{0, unix.TIOCSTI, ptr}, eperm},
		{plain, "ioctl", []uint64{0, unix.TIOCSTI | high, ptr}, eperm},
		{plain, "ioctl", []uint64{0, unix.TIOCSTI | 1<<63, ptr}, eperm},
		{plain, "ioctl", []uint64{0, unix.TIOCLINUX, ptr}, eperm},
		{plain, "ioctl", []uint64{0, unix.TIOCLINUX | high, ptr}, eperm},
		{plain, "ioctl", []uint64{0, unix.TIOCSETD, ptr}, eperm},
		{plain, "ioctl", []uint64{0, unix.TIOCSTI - 1, ptr}, allow},
		{plain, "ioctl", []uint64{0, unix.TIOCSTI + 1, ptr}, allow},
		{plain, "ioctl", []uint64{0, unix.TCGETS, ptr}, allow},
		{plain, "ioctl", []uint64{0, unix.TIOCGPTN, ptr}, allow},
		{plain, "ioctl", []uint64{0, 0xffff_ffff, ptr}, allow},
		{plain, "ioctl", []uint64{0, 0, ptr}, allow},

		{plain, "fcntl", []uint64{3, unix.F_SETFD, 1}, allow},
		{plain, "fcntl", []uint64{3, unix.F_SETOWN, 1}, allow},
		{plain, "fcntl", []uint64{3, unix.F_GETSIG, 0}, allow},
		{plain, "fcntl", []uint64{3, unix.F_ADD_SEALS, 1}, allow},
		{plain, "fcntl", []uint64{3, unix.F_SETSIG, 0}, allow},
		{plain, "fcntl", []uint64{3, unix.F_SETSIG, 34}, allow},
		{plain, "fcntl", []uint64{3, unix.F_SETSIG, 64}, allow},
		{plain, "fcntl", []uint64{3, unix.F_SETSIG, uint64(unix.SIGSEGV)}, eperm},
		{plain, "fcntl", []uint64{3, unix.F_SETSIG | high, uint64(unix.SIGBUS) | high}, eperm},

		{plain, "rt_sigqueueinfo", []uint64{1, uint64(unix.SIGTERM), ptr}, allow},
		{plain, "rt_sigqueueinfo", []uint64{1, 0, ptr}, allow},
		{plain, "rt_sigqueueinfo", []uint64{1, 64, ptr}, allow},
		{plain, "rt_sigqueueinfo", []uint64{1, uint64(unix.SIGILL), ptr}, eperm},
		{plain, "rt_sigqueueinfo", []uint64{1, uint64(unix.SIGTRAP), ptr}, eperm},
		{plain, "rt_sigqueueinfo", []uint64{1, uint64(unix.SIGABRT), ptr}, eperm},
		{plain, "rt_sigqueueinfo", []uint64{1, uint64(unix.SIGBUS), ptr}, eperm},
		{plain, "rt_sigqueueinfo", []uint64{1, uint64(unix.SIGFPE), ptr}, eperm},
		{plain, "rt_sigqueueinfo", []uint64{1, uint64(unix.SIGSEGV) | high, ptr}, eperm},
		{plain, "rt_sigqueueinfo", []uint64{1, uint64(unix.SIGSTKFLT), ptr}, eperm},
		{plain, "rt_sigqueueinfo", []uint64{1, uint64(unix.SIGSYS), ptr}, eperm},
		{plain, "rt_tgsigqueueinfo", []uint64{1, 1, uint64(unix.SIGUSR1), ptr}, allow},
		{plain, "rt_tgsigqueueinfo", []uint64{1, 1, uint64(unix.SIGSEGV), ptr}, eperm},
		{plain, "pidfd_send_signal", []uint64{3, uint64(unix.SIGSEGV), 0, 0}, allow},
		{plain, "pidfd_send_signal", []uint64{3, uint64(unix.SIGTERM), ptr, 0}, eperm},
		{plain, "pidfd_send_signal", []uint64{3, uint64(unix.SIGTERM), high, 0}, eperm},

		{plain, "prlimit64", []uint64{0, unix.RLIMIT_NOFILE, ptr, 0}, allow},
		{plain, "prlimit64", []uint64{high, unix.RLIMIT_CORE | high, ptr, ptr}, allow},
		{plain, "prlimit64", []uint64{1, unix.RLIMIT_CPU, ptr, 0}, eperm},
		{plain, "prlimit64", []uint64{1, unix.RLIMIT_CPU, high, 0}, eperm},
		{plain, "prlimit64", []uint64{1, unix.RLIMIT_CPU, 0, ptr}, allow},
		{plain, "prlimit64", []uint64{0, unix.RLIMIT_RTTIME, ptr, 0}, eperm},
		{plain, "prlimit64", []uint64{0, unix.RLIMIT_RTTIME | high, ptr, 0}, eperm},
		{plain, "prlimit64", []uint64{0, unix.RLIMIT_RTTIME, 0, ptr}, allow},
		{plain, "prlimit64", []uint64{0, unix.RLIMIT_NPROC, ptr, 0}, eperm},
		{plain, "prlimit64", []uint64{0, unix.RLIMIT_RTPRIO, ptr, 0}, allow},
		{plain, "setrlimit", []uint64{unix.RLIMIT_NOFILE, ptr}, allow},
		{plain, "setrlimit", []uint64{unix.RLIMIT_RTTIME, ptr}, eperm},
		{plain, "setrlimit", []uint64{unix.RLIMIT_NPROC | high, ptr}, eperm},
		{plain, "sched_setaffinity", []uint64{0, 8, ptr}, allow},
		{plain, "sched_setaffinity", []uint64{high, 8, ptr}, allow},
		{plain, "sched_setaffinity", []uint64{1, 8, ptr}, eperm},
		{plain, "sched_setscheduler", []uint64{1, 0, ptr}, eperm},
		{plain, "sched_setparam", []uint64{1, ptr}, eperm},
		{plain, "sched_setattr", []uint64{1, ptr, 0}, eperm},
		{plain, "setpriority", []uint64{unix.PRIO_PROCESS, 0, 5}, allow},
		{plain, "setpriority", []uint64{unix.PRIO_PROCESS, 1, 5}, eperm},
		{plain, "setpriority", []uint64{unix.PRIO_USER, 0, 5}, eperm},
		{plain, "setpriority", []uint64{unix.PRIO_PGRP, 0, 5}, eperm},
		{plain, "ioprio_set", []uint64{1, 0, 0}, allow},
		{plain, "ioprio_set", []uint64{1, 1, 0}, eperm},
		{plain, "ioprio_set", []uint64{3, 0, 0}, eperm},
		{plain, "migrate_pages", []uint64{0, 64, ptr, ptr}, allow},
		{plain, "migrate_pages", []uint64{1, 64, ptr, ptr}, eperm},
		{plain, "move_pages", []uint64{1, 1, ptr, ptr, ptr, 0}, eperm},

		{plain, "personality", []uint64{0}, allow},
		{plain, "personality", []uint64{0xffff_ffff}, allow},
		{plain, "personality", []uint64{0xffff_ffff_ffff_ffff}, allow},
		{plain, "personality", []uint64{0x0008}, allow},
		{plain, "personality", []uint64{0x20000}, allow},
		{plain, "personality", []uint64{0x400000}, eperm}, // READ_IMPLIES_EXEC
		{plain, "personality", []uint64{0x40000}, eperm},  // ADDR_NO_RANDOMIZE

		{plain, "ptrace", []uint64{0}, eperm},
		{ptrace, "ptrace", []uint64{0}, allow},
		{plain, "process_vm_readv", nil, eperm},
		{ptrace, "process_vm_readv", nil, allow},
		{plain, "process_vm_writev", nil, eperm},
		{ptrace, "process_vm_writev", nil, allow},
		{ptrace, "pidfd_getfd", []uint64{3, 0, 0}, eperm},
		{ptrace, "kcmp", nil, eperm},
	}
	for _, name := range strings.Fields(`io_uring_setup io_uring_enter io_uring_register
		userfaultfd bpf perf_event_open keyctl add_key request_key mount umount2 pivot_root
		open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
		statmount listmount listns name_to_handle_at open_by_handle_at kexec_load
		kexec_file_load chroot swapon swapoff reboot init_module finit_module delete_module
		quotactl quotactl_fd acct settimeofday clock_settime lookup_dcookie nfsservctl vhangup
		iopl ioperm modify_ldt uselib ustat sysfs process_madvise process_mrelease syslog
		sethostname setdomainname fanotify_init`) {
		for _, o := range variants {
			tests = append(tests, row{o, name, nil, eperm})
		}
	}
	// What programs, shells, compilers and runtimes need.
	for _, name := range strings.Fields(`read write openat openat2 close close_range mmap
		mprotect brk fork vfork execve execveat exit exit_group wait4 waitid kill tgkill tkill
		rt_sigaction rt_sigprocmask rt_sigreturn rt_sigtimedwait signalfd4 sigaltstack
		epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 inotify_init1
		inotify_add_watch poll ppoll select pselect6 eventfd2 pipe2 dup3 landlock_create_ruleset
		landlock_add_rule landlock_restrict_self seccomp prctl memfd_create memfd_secret
		getrandom rseq futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list
		get_robust_list set_tid_address membarrier arch_prctl timer_create timer_settime
		timerfd_create timerfd_settime setitimer clock_gettime clock_nanosleep
		copy_file_range sendfile splice tee vmsplice statx newfstatat fstat stat statfs
		faccessat faccessat2 fchmodat fchmodat2 fchownat utimensat renameat2 linkat symlinkat
		unlinkat mkdirat mknod mknodat getdents64 getcwd chdir fadvise64 fallocate ftruncate
		flock fsync fdatasync sync syncfs sync_file_range readahead mlock mlock2 mlockall
		munlock madvise mincore mremap msync mseal mq_open mq_timedsend mq_notify shmget shmat
		shmctl semget semop semtimedop msgget msgsnd set_mempolicy get_mempolicy mbind
		cachestat map_shadow_stack setxattr setxattrat getxattr getxattrat listxattrat
		removexattrat file_getattr file_setattr getpriority ioprio_get sched_getaffinity
		sched_getattr sched_yield pidfd_open connect bind listen accept4 sendmsg recvmsg
		sendmmsg recvmmsg sendto recvfrom getsockopt setsockopt shutdown capget capset setsid
		setpgid getrlimit getrusage sysinfo uname umask setuid setgid setgroups setresuid
		pkey_alloc pkey_mprotect io_setup io_submit io_getevents`) {
		for _, o := range variants {
			tests = append(tests, row{o, name, nil, allow})
		}
	}

	tables := kernelTables(t)
	machines := make(map[string]machine)
	for _, goarch := range []string{"amd64", "arm64"} {
		for _, o := range variants {
			machines[fmt.Sprint(goarch, o)] = mustCompile(t, Default(o), goarch)
		}
	}
	for _, tt := range tests {
		found := false
		for _, goarch := range []string{"amd64", "arm64"} {
			nr, ok := tables[goarch][tt.call]
			if !ok {
				continue
			}
			found = true
			c := call{nr: uint32(nr), arch: audit[goarch]}
			copy(c.args[:], tt.args)
			if got := machines[fmt.Sprint(goarch, tt.o)].run(t, c); got != tt.want {
				t.Errorf("%s %+v: %s(%#x) is %#x, want %#x", goarch, tt.o, tt.call, tt.args, got, tt.want)
			}
		}
		if !found {
			t.Errorf("no architecture has %s", tt.call)
		}
	}
}

// TestForeignConventions checks that no other way into the kernel is open.
func TestForeignConventions(t *testing.T) {
	m := map[string]machine{"amd64": mustCompile(t, Default(Options{}), "amd64"), "arm64": mustCompile(t, Default(Options{}), "arm64")}
	for _, tt := range []struct {
		goarch   string
		arch, nr uint32
		want     uint32
	}{
		{"amd64", unix.AUDIT_ARCH_X86_64, 39, allow},          // getpid,
		{"amd64", unix.AUDIT_ARCH_I386, 20, kill},             // getpid
		{"amd64", unix.AUDIT_ARCH_I386, 102, kill},            // socketcall
		{"amd64", unix.AUDIT_ARCH_AARCH64, 172, kill},         // getpid
		{"amd64", unix.AUDIT_ARCH_X86_64, 0x40000000, kill},   // x32 read
		{"amd64", unix.AUDIT_ARCH_X86_64, 0x40000027, kill},   // x32 getpid
		{"amd64", unix.AUDIT_ARCH_X86_64, 0xfffffffe, kill},   // x32 bit and more
		{"amd64", unix.AUDIT_ARCH_X86_64, 0xffffffff, nosys},  // a skipped call
		{"amd64", unix.AUDIT_ARCH_X86_64, 0x3fffffff, nosys},  // a call of the future
		{"amd64", unix.AUDIT_ARCH_X86_64, 600, nosys},         //
		{"arm64", unix.AUDIT_ARCH_AARCH64, 172, allow},        // getpid
		{"arm64", unix.AUDIT_ARCH_ARM, 20, kill},              // getpid
		{"arm64", unix.AUDIT_ARCH_X86_64, 39, kill},           //
		{"arm64", unix.AUDIT_ARCH_AARCH64, 0x40000000, nosys}, //
		{"arm64", unix.AUDIT_ARCH_AARCH64, 0xffffffff, nosys}, //
	} {
		if got := m[tt.goarch].run(t, call{nr: tt.nr, arch: tt.arch}); got != tt.want {
			t.Errorf("%s: call %#x of %#x is %#x, want %#x", tt.goarch, tt.nr, tt.arch, got, tt.want)
		}
	}
}
