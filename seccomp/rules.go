package seccomp

import (
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// A rule replaces what a profile says of some calls.
//
// It only ever allows: a call is let through if any of the alternatives holds,
// and gets the default action otherwise. Every reader of a profile understands
// that in the same way, whereas a refusal placed before a permission means
// nothing to libseccomp. The price is that "anything but X" is spelled out, as
// the blocks of numbers around X (see except).
type rule struct {
	calls string
	why   string
	allow alternatives
}

// alternatives are ways for a call to be allowed, each a list of comparisons
// that must all hold.
type alternatives [][]specs.LinuxSeccompArg

var (
	never  = alternatives{}
	always = alternatives{{}}
)

// rules are the differences between containerd's default profile, for a
// container without capabilities, and ours: profile.json is the one with the
// other applied, and a test holds it to that. Many of the refusals are
// containerd's too. They stand here so that a new default cannot undo them.
//
// clone3 is not here. Its flags are behind a pointer, and containerd has it fail
// with ENOSYS, so that libc uses clone.
func rules() []rule {
	return []rule{
		// The kernel's larger, newer or rarely used doors.
		{"io_uring_setup io_uring_enter io_uring_register",
			"performs other calls where no filter sees them; six in ten kernelCTF exploits of 2023",
			never},
		{"bpf perf_event_open",
			"run code in the kernel, or watch what runs there",
			never},
		{"userfaultfd",
			"stops the kernel in the middle of a copy, which turns its races into certainties",
			never},
		{"add_key keyctl request_key",
			"keyrings are shared with the host (CVE-2016-0728)",
			never},
		{"init_module finit_module delete_module create_module query_module get_kernel_syms kexec_load kexec_file_load reboot",
			"replace or stop the kernel",
			never},
		{"acct swapon swapoff quotactl quotactl_fd nfsservctl syslog lookup_dcookie _sysctl sysfs ustat uselib vhangup sethostname setdomainname settimeofday clock_settime",
			"administer the machine, or are obsolete",
			never},
		{"iopl ioperm modify_ldt",
			"reach hardware, or segments that only 16-bit programs need",
			never},

		// The view: nothing is mounted, and nothing is reached but by its path.
		{"mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr",
			"change the view",
			never},
		{"statmount listmount listns",
			"describe mounts and namespaces other than the caller's",
			never},
		{"name_to_handle_at open_by_handle_at",
			"name files without a path (the shocker escape)",
			never},
		{"setns unshare",
			"enter or make namespaces, in which the caller would have every capability",
			never},
		{"clone",
			"the same; CLONE_NEWTIME has no bit here, where it would be part of the exit signal",
			all(without(0, unix.CLONE_NEWNS|unix.CLONE_NEWCGROUP|unix.CLONE_NEWUTS|unix.CLONE_NEWIPC|
				unix.CLONE_NEWUSER|unix.CLONE_NEWPID|unix.CLONE_NEWNET))},

		// Other processes: a call's tree is the business of nobody but itself,
		// and PID 1 is in the same namespace and has the same user.
		{"ptrace process_vm_readv process_vm_writev",
			"reach into another process; see Options.Ptrace",
			never},
		{"kcmp pidfd_getfd process_madvise process_mrelease",
			"reach into another process",
			never},
		{"sched_setaffinity sched_setattr sched_setparam sched_setscheduler migrate_pages move_pages",
			"starve another process; 0 is the caller",
			all(in(0, 0))},
		{"setpriority",
			"the same",
			all(in(0, unix.PRIO_PROCESS), in(1, 0))},
		{"ioprio_set",
			"the same",
			all(in(0, 1 /* IOPRIO_WHO_PROCESS */), in(1, 0))},
		{"prlimit64",
			"a limit on the processor's time kills PID 1; RTTIME is the supervisor's mark on a call's processes, NPROC bounds them",
			either(all(null(2)), all(in(0, 0), except(1, 4, unix.RLIMIT_NPROC, unix.RLIMIT_RTTIME)))},
		{"setrlimit",
			"the same",
			all(except(0, 4, unix.RLIMIT_NPROC, unix.RLIMIT_RTTIME))},

		// A program's own faults come as signals that a Go runtime takes for
		// real if they do not look as if kill(2) had sent them. Each of these
		// can forge them. (kill, tkill and tgkill cannot, nor can the plain
		// SIGIO of an F_SETOWN without F_SETSIG.)
		{"rt_sigqueueinfo",
			"forges a fault of another process",
			all(except(1, 7, faults...))},
		{"rt_tgsigqueueinfo",
			"the same",
			all(except(2, 7, faults...))},
		{"pidfd_send_signal",
			"the same, if it brings a siginfo",
			all(null(2))},
		{"fcntl",
			"F_SETSIG has the kernel send any signal to any process that F_SETOWN may name",
			either(all(except(1, 11, unix.F_SETSIG)), all(in(1, unix.F_SETSIG), except(2, 7, faults...)))},

		// The terminal. The kernel looks at 32 bits of the request, whatever
		// the others are (CVE-2019-10063).
		{"ioctl",
			"type into the terminal that the call shares with its user (CVE-2017-5226, CVE-2023-28100); load a line discipline (CVE-2017-2636)",
			all(except(1, 32, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD))},

		// The network: protocols that programs use, not every one that the
		// kernel has a module for. Raw sockets are for netlink alone, where the
		// type is without meaning and libc asks for that one.
		{"socket",
			"loads the module of any family or protocol; AF_VSOCK and AF_ALG leave the container",
			either(unixSockets(), netSockets())},
		{"socketpair",
			"the same",
			all(in(0, unix.AF_UNIX))},

		{"personality",
			"turns off protections; these are Linux, its 32-bit and old-version faces, and the question",
			all(in(0, 0, 0x8, 0x20000, 0x20008, 0xffffffff))},

		// What containerd ties to a capability, a kernel version or the machine
		// it runs on, and the kernel itself keeps to the caller.
		{"get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
			"where the caller's own memory is",
			always},
		{"arch_prctl",
			"thread-local storage on x86",
			always},
		{"file_getattr file_setattr rseq_slice_yield",
			"newer than containerd's list; no more than ioctl and sched_yield do",
			always},
	}
}

func unixSockets() alternatives {
	return all(in(0, unix.AF_UNIX), kind(unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET))
}

func netSockets() alternatives {
	return either(
		all(in(0, unix.AF_INET, unix.AF_INET6), kind(unix.SOCK_STREAM), in(2, 0, unix.IPPROTO_TCP, unix.IPPROTO_MPTCP)),
		all(in(0, unix.AF_INET, unix.AF_INET6), kind(unix.SOCK_DGRAM), in(2, 0, unix.IPPROTO_UDP)),
		all(in(0, unix.AF_INET), kind(unix.SOCK_DGRAM), in(2, unix.IPPROTO_ICMP)),
		all(in(0, unix.AF_INET6), kind(unix.SOCK_DGRAM), in(2, unix.IPPROTO_ICMPV6)),
		all(in(0, unix.AF_NETLINK), kind(unix.SOCK_RAW, unix.SOCK_DGRAM), in(2, unix.NETLINK_ROUTE)))
}

// faults are the signals by which the processor or the kernel reports a
// program's own fault.
var faults = []uint32{
	uint32(unix.SIGILL), uint32(unix.SIGTRAP), uint32(unix.SIGABRT), uint32(unix.SIGBUS),
	uint32(unix.SIGFPE), uint32(unix.SIGSEGV), uint32(unix.SIGSTKFLT), uint32(unix.SIGSYS),
}

// all returns the ways to satisfy each of several lists of comparisons by one
// of its own.
func all(lists ...[]specs.LinuxSeccompArg) alternatives {
	ways := always
	for _, list := range lists {
		var longer alternatives
		for _, way := range ways {
			for _, arg := range list {
				longer = append(longer, append(slices.Clip(way), arg))
			}
		}
		ways = longer
	}
	return ways
}

func either(ways ...alternatives) alternatives { return slices.Concat(ways...) }

// in compares an argument of 32 bits with some values. The kernel ignores the
// upper half of the register; so does this, and a caller may leave rubbish there.
func in(index uint, values ...uint32) []specs.LinuxSeccompArg {
	var list []specs.LinuxSeccompArg
	for _, v := range values {
		list = append(list, masked(index, 1<<32-1, v))
	}
	return list
}

// except compares an argument of 32 bits with the numbers below 1<<bits that
// are none of values: with as many blocks as it takes, each of a power of two
// numbers that have their upper bits in common.
func except(index uint, bits int, values ...uint32) []specs.LinuxSeccompArg {
	var blocks []specs.LinuxSeccompArg
	var split func(first uint32, bits int)
	split = func(first uint32, bits int) {
		mask := ^uint32(0) << bits
		switch {
		case !slices.ContainsFunc(values, func(v uint32) bool { return v&mask == first }):
			blocks = append(blocks, masked(index, mask, first))
		case bits > 0:
			split(first, bits-1)
			split(first|1<<(bits-1), bits-1)
		}
	}
	split(0, bits)
	return blocks
}

// kind compares the type of a socket, which shares its argument with flags.
func kind(types ...uint32) []specs.LinuxSeccompArg {
	var list []specs.LinuxSeccompArg
	for _, t := range types {
		list = append(list, masked(1, 0xf, t)) // SOCK_TYPE_MASK
	}
	return list
}

func without(index uint, flags uint32) []specs.LinuxSeccompArg {
	return []specs.LinuxSeccompArg{masked(index, flags, 0)}
}

func masked(index uint, mask, value uint32) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: uint64(mask), ValueTwo: uint64(value), Op: specs.OpMaskedEqual}
}

// null compares a pointer, all of it, with NULL.
func null(index uint) []specs.LinuxSeccompArg {
	return []specs.LinuxSeccompArg{{Index: index, Op: specs.OpEqualTo}}
}

// apply makes the profile say of the rule's calls what the rule says.
func (r rule) apply(p *specs.LinuxSeccomp) {
	names := strings.Fields(r.calls)
	for i, s := range p.Syscalls {
		p.Syscalls[i].Names = slices.DeleteFunc(s.Names, func(name string) bool {
			return slices.Contains(names, name)
		})
	}
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(s specs.LinuxSyscall) bool { return len(s.Names) == 0 })
	for _, way := range r.allow {
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{
			Names:  slices.Clone(names),
			Action: specs.ActAllow,
			Args:   way,
		})
	}
}
