package seccomp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/sallyport/sallyport/seccomp/load"
	"golang.org/x/sys/unix"
)

// These tests install the filters for real, in copies of the test program.

// A role is what such a copy does, under which profile.
type role struct {
	Options Options
	Errno   uint     // in place of EPERM, if not 0
	Exec    []string // a program to become; otherwise run the probes
}

func TestMain(m *testing.M) {
	s, ok := os.LookupEnv("SECCOMP_TEST_ROLE")
	if !ok {
		os.Exit(m.Run())
	}
	if err := play(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(s string) error {
	var r role
	if err := json.Unmarshal([]byte(s), &r); err != nil {
		return err
	}
	if err := os.Unsetenv("SECCOMP_TEST_ROLE"); err != nil {
		return err
	}
	p := Default(r.Options)
	if r.Errno != 0 {
		p.DefaultErrnoRet = &r.Errno
	}
	filter, err := Compile(p, runtime.GOARCH)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, err := load.Install(load.Bytes(filter), unix.SECCOMP_FILTER_FLAG_TSYNC); err != nil {
		return err
	}
	if len(r.Exec) > 0 {
		return unix.Exec(r.Exec[0], r.Exec, os.Environ())
	}
	results := make(map[string]unix.Errno)
	for _, pr := range probes() {
		results[pr.name] = pr.run()
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

func (r role) command(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	// Under a wrong filter it might not even be able to exit.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "SECCOMP_TEST_ROLE="+string(b))
	return cmd
}

// A probe makes a call that would do no harm if it were let through: it names
// nothing that exists.
type probe struct {
	name string
	run  func() unix.Errno
	want [2]unix.Errno // under the default profile, and for a reader
}

const (
	nobody = 0x3fff_ffff // no process has this number
	noFile = ^uintptr(0) // no descriptor either
)

func probes() []probe {
	const ok = unix.Errno(0)
	call := func(nr uintptr, args ...uintptr) func() unix.Errno {
		return func() unix.Errno {
			var a [6]uintptr
			copy(a[:], args)
			_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
			return errno
		}
	}
	limit := func(pid, resource uintptr, set bool) func() unix.Errno {
		return func() unix.Errno {
			var rlim unix.Rlimit
			_, _, errno := unix.Syscall6(unix.SYS_PRLIMIT64, 0, resource, 0, uintptr(unsafe.Pointer(&rlim)), 0, 0)
			if errno == 0 && set {
				_, _, errno = unix.Syscall6(unix.SYS_PRLIMIT64, pid, resource, uintptr(unsafe.Pointer(&rlim)), 0, 0, 0)
			}
			return errno
		}
	}
	socket := func(family, kind, protocol int) func() unix.Errno {
		return func() unix.Errno {
			fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
			if err != nil {
				return err.(unix.Errno)
			}
			return errnoOf(unix.Close(fd))
		}
	}
	pair := func(kind int) func() unix.Errno {
		return func() unix.Errno {
			fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
			if err != nil {
				return errnoOf(err)
			}
			return errnoOf(errors.Join(unix.Close(fds[0]), unix.Close(fds[1])))
		}
	}
	refused := [2]unix.Errno{unix.EPERM, unix.EPERM}
	allowed := [2]unix.Errno{}
	answers := func(errno unix.Errno) [2]unix.Errno { return [2]unix.Errno{errno, errno} }

	return []probe{
		{"io_uring_setup", call(unix.SYS_IO_URING_SETUP, 1, 0), refused},
		{"userfaultfd", call(unix.SYS_USERFAULTFD, noFile), refused},
		{"bpf", call(unix.SYS_BPF, noFile), refused},
		{"perf_event_open", call(unix.SYS_PERF_EVENT_OPEN, 0, 0, noFile, noFile), refused},
		{"keyctl", call(unix.SYS_KEYCTL, noFile), refused},
		{"add_key", call(unix.SYS_ADD_KEY, 0), refused},
		{"unshare", call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER), refused},
		{"setns", call(unix.SYS_SETNS, noFile, 0), refused},
		// The kernel would refuse this combination with EINVAL.
		{"clone into a user namespace", call(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_FS), refused},
		{"clone3", call(unix.SYS_CLONE3, 0, 0), answers(unix.ENOSYS)},
		{"mount", call(unix.SYS_MOUNT, 0, 0, 0, 0, 0), refused},
		{"umount", call(unix.SYS_UMOUNT2, 0, 0), refused},
		{"fsopen", call(unix.SYS_FSOPEN, 0, 0), refused},
		{"open_tree", call(unix.SYS_OPEN_TREE, noFile, 0, 0), refused},
		{"chroot", call(unix.SYS_CHROOT, 0), refused},
		{"open_by_handle_at", call(unix.SYS_OPEN_BY_HANDLE_AT, noFile, 0, 0), refused},
		{"name_to_handle_at", call(unix.SYS_NAME_TO_HANDLE_AT, noFile, 0, 0, 0, 0), refused},
		{"reboot without its magic", call(unix.SYS_REBOOT, 0, 0, 0, 0), refused},
		{"pidfd_getfd", call(unix.SYS_PIDFD_GETFD, noFile, 0, 0), refused},
		{"ptrace", call(unix.SYS_PTRACE, unix.PTRACE_CONT, nobody), [2]unix.Errno{unix.EPERM, unix.ESRCH}},
		{"process_vm_readv", call(unix.SYS_PROCESS_VM_READV, nobody, 0, 0, 0, 0, 1), [2]unix.Errno{unix.EPERM, unix.EINVAL}},

		{"a Unix socket", socket(unix.AF_UNIX, unix.SOCK_STREAM, 0), [2]unix.Errno{ok, unix.EPERM}},
		{"a pair of stream sockets", pair(unix.SOCK_STREAM), allowed},
		{"a pair of datagram sockets", pair(unix.SOCK_DGRAM), [2]unix.Errno{ok, unix.EPERM}},
		{"a TCP socket", socket(unix.AF_INET, unix.SOCK_STREAM, 0), allowed},
		{"a UDP socket", socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP), allowed},
		{"a route socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), allowed},
		{"an audit socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), refused},
		{"a raw socket", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), refused},
		{"a packet socket", socket(unix.AF_PACKET, unix.SOCK_RAW, 0), refused},
		{"a cryptography socket", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), refused},
		{"a virtual machine's socket", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0), refused},
		{"an SCTP socket", socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP), refused},

		{"TIOCSTI", call(unix.SYS_IOCTL, noFile, unix.TIOCSTI, 0), refused},
		{"TIOCSTI with a high bit", call(unix.SYS_IOCTL, noFile, unix.TIOCSTI|1<<32, 0), refused},
		{"TIOCLINUX", call(unix.SYS_IOCTL, noFile, unix.TIOCLINUX, 0), refused},
		{"TCGETS", call(unix.SYS_IOCTL, noFile, unix.TCGETS, 0), answers(unix.EBADF)},
		{"F_SETSIG with a fault", call(unix.SYS_FCNTL, noFile, unix.F_SETSIG, uintptr(unix.SIGSEGV)), refused},
		{"F_SETSIG with another signal", call(unix.SYS_FCNTL, noFile, unix.F_SETSIG, uintptr(unix.SIGUSR1)), answers(unix.EBADF)},
		{"F_SETOWN", call(unix.SYS_FCNTL, noFile, unix.F_SETOWN, 1), answers(unix.EBADF)},
		{"sigqueue of a fault", call(unix.SYS_RT_SIGQUEUEINFO, nobody, uintptr(unix.SIGSEGV), 0), refused},
		{"sigqueue of another signal", call(unix.SYS_RT_SIGQUEUEINFO, nobody, uintptr(unix.SIGTERM), 0), answers(unix.EFAULT)},
		{"kill with a fault", call(unix.SYS_KILL, nobody, uintptr(unix.SIGSEGV)), answers(unix.ESRCH)},
		{"pidfd_send_signal with a siginfo", call(unix.SYS_PIDFD_SEND_SIGNAL, noFile, uintptr(unix.SIGTERM), 1, 0), refused},
		{"pidfd_send_signal without", call(unix.SYS_PIDFD_SEND_SIGNAL, noFile, uintptr(unix.SIGTERM), 0, 0), answers(unix.EBADF)},

		{"setting one's own limit", limit(0, unix.RLIMIT_NOFILE, true), allowed},
		{"setting another's limit", limit(nobody, unix.RLIMIT_CPU, true), refused},
		{"reading the mark", limit(0, unix.RLIMIT_RTTIME, false), allowed},
		{"setting the mark", limit(0, unix.RLIMIT_RTTIME, true), refused},
		{"setting the mark by setrlimit", call(unix.SYS_SETRLIMIT, unix.RLIMIT_RTTIME, 0), refused},
		{"setting another limit by setrlimit", call(unix.SYS_SETRLIMIT, unix.RLIMIT_CORE, 0), answers(unix.EFAULT)},
		{"setting the number of processes", limit(0, unix.RLIMIT_NPROC, true), refused},
		{"sched_setaffinity of oneself", call(unix.SYS_SCHED_SETAFFINITY, 0, 8, 0), answers(unix.EFAULT)},
		{"sched_setaffinity of another", call(unix.SYS_SCHED_SETAFFINITY, nobody, 8, 0), refused},
		{"setpriority of oneself", call(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 19), allowed},
		{"setpriority of another", call(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, nobody, 19), refused},

		{"personality, the question", call(unix.SYS_PERSONALITY, 0xffffffff), allowed},
		{"personality without ASLR", call(unix.SYS_PERSONALITY, 0x40000), refused},
		{"set_mempolicy", call(unix.SYS_SET_MEMPOLICY, 0, 0, 0), allowed},
		{"getpid", call(unix.SYS_GETPID), allowed},
		{"a call of the future", call(600), answers(unix.ENOSYS)},
	}
}

func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	return err.(unix.Errno)
}

// TestKernel makes each probe under both profiles, and again with an errno
// that no kernel returns in place of EPERM: then it is the filter that refused.
func TestKernel(t *testing.T) {
	const marker = unix.ENOTUNIQ
	for i, o := range []Options{{}, {NoUnixSockets: true, Ptrace: true}} {
		for _, errno := range []unix.Errno{0, marker} {
			t.Run(fmt.Sprintf("%+v errno %d", o, errno), func(t *testing.T) {
				cmd := role{Options: o, Errno: uint(errno)}.command(t)
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				var results map[string]unix.Errno
				if err := json.Unmarshal(out, &results); err != nil {
					t.Fatal(err)
				}
				for _, p := range probes() {
					want := p.want[i]
					if want == unix.EPERM && errno != 0 {
						want = errno
					}
					if got := results[p.name]; got != want {
						t.Errorf("%s: errno %d (%v), want %d (%v)", p.name, got, got, want, want)
					}
				}
			})
		}
	}
}
