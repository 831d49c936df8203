package starter

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program is a list of system calls for a forked child to make, one after the
// other. A call that fails ends the child, after it has said which one it was.
// After the last call the child says so and ends, unless that one was an execve.
// Descriptors are not closed one by one: both ends close them.
type program struct {
	calls  []call
	keep   []any // what arguments point to
	fds    fds
	status int // the starter's end of fds.status
	// executes: the last call is an execve, and ends the status.
	executes bool
}

// fds are descriptors that the child has from its parent; -1 are those that a
// program has no use for. All are closed by an exec.
type fds struct {
	status int // where a failure is written, and descriptors are sent
	ready  int // a pipe's end: the container has changed its root
	guest  int // the guest's executable
	wire   int // the guest's end of the wire
	log    int // its standard error
	net    int // a network namespace that is ready, if there is one
	mnt    int // the session's mount namespace
	pid    int // the container's first process
	user   int // the user namespace that the container is to enter
}

// free returns a number from which on descriptors may be overwritten: none of
// these, and out of the way of those that the calls of a program make.
func (f fds) free() int {
	return max(f.status, f.ready, f.guest, f.wire, f.log, f.net, f.mnt, f.pid, f.user) + 256
}

// A call is one system call.
type call struct {
	what string // being done, in words
	nr   uintptr
	args [6]uintptr
	// from says for each argument which call's result it is, counted from 1; 0
	// means the argument as it stands.
	from [6]int32
	// When the call fails because a path is not there or is a link, skip as many
	// of the calls that follow, and go on. Negative: the failure is final.
	skip int
}

// A reg is the result of an earlier call.
type reg int32

// do appends a call. Arguments are numbers, regs, strings and byte slices (as
// pointers, strings terminated by NUL), and pointers made by ptr.
func (p *program) do(what string, nr uintptr, args ...any) reg {
	c := call{what: what, nr: nr, skip: -1}
	for i, a := range args {
		switch a := a.(type) {
		case int:
			c.args[i] = uintptr(a)
		case uint64:
			c.args[i] = uintptr(a)
		case uintptr:
			c.args[i] = a
		case reg:
			c.from[i] = int32(a)
		case string:
			c.args[i] = p.bytes(append([]byte(a), 0))
		case []byte:
			c.args[i] = p.bytes(a)
		default:
			panic(fmt.Sprintf("starter: an argument of type %T", a))
		}
	}
	if p.calls == nil {
		p.calls = make([]call, 0, 512)
	}
	p.calls = append(p.calls, c)
	return reg(len(p.calls))
}

// bytes returns the address of b, which stays where it is.
func (p *program) bytes(b []byte) uintptr {
	if len(b) == 0 {
		return 0
	}
	p.keep = append(p.keep, b)
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

// ptr returns the address of what v points to, which must be on the heap.
func ptr[T any](p *program, v *T) uintptr {
	p.keep = append(p.keep, v)
	return uintptr(unsafe.Pointer(v))
}

// strings returns the address of an array of strings, as execve(2) takes it.
func (p *program) strings(list ...string) uintptr {
	array := make([]uintptr, len(list)+1)
	for i, s := range list {
		array[i] = p.bytes(append([]byte(s), 0))
	}
	p.keep = append(p.keep, array)
	return uintptr(unsafe.Pointer(unsafe.SliceData(array)))
}

// rights returns the address of a struct msghdr with a byte of data and
// descriptors beside it.
func (p *program) rights(fds []int) uintptr {
	control := unix.UnixRights(fds...)
	data := []byte{0}
	iov := &unix.Iovec{Base: &data[0]}
	iov.SetLen(len(data))
	msg := &unix.Msghdr{Iov: iov, Iovlen: 1, Control: &control[0]}
	msg.SetControllen(len(control))
	p.keep = append(p.keep, control, data, iov)
	return ptr(p, msg)
}

// optional lets the program go on behind the calls that have been appended
// since, when the first of them fails because a path is not there.
func (p *program) optional(since int) { p.calls[since].skip = len(p.calls) - since - 1 }

// openDir opens a directory by its path (O_PATH).
func (p *program) openDir(what, path string) reg {
	return p.do(what, unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
}

// run forks the calling thread, which must be locked, with flags of clone(2) and
// into a cgroup v2 directory unless that is -1, and has the child run the
// program. It returns the child's pid.
//
// The child has all signals blocked, and must unblock them before an execve.
func (p *program) run(flags uintptr, cgroup int) (int, error) {
	results := make([]uintptr, len(p.calls)+1) // by reg; the first is for messages
	args := &cloneArgs{flags: uint64(flags | forkFlags), exitSignal: uint64(unix.SIGCHLD)}
	if cgroup >= 0 {
		args.flags |= unix.CLONE_INTO_CGROUP
		args.cgroup = uint64(cgroup)
	}
	// No handler of this process may run in the child, where there is no
	// runtime to serve it.
	all, old := ^uint64(0), uint64(0)
	if err := sigmask(&all, &old); err != nil {
		return 0, err
	}
	p.keep = append(p.keep, results) // the child may still use them
	pid, errno := forkAndRun(args, p.calls, results, p.fds.status)
	if err := sigmask(&old, nil); err != nil {
		return 0, err
	}
	if errno != 0 {
		return 0, unix.Errno(errno)
	}
	return int(pid), nil
}

// cloneArgs is the kernel's struct clone_args (clone3(2)), up to cgroup.
type cloneArgs struct {
	flags      uint64
	_          [3]uint64 // pidfd, child_tid, parent_tid
	exitSignal uint64
	_          [5]uint64 // stack, stack_size, tls, set_tid, set_tid_size
	cgroup     uint64
}

func sigmask(set, old *uint64) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// programDone is what a child writes to its status after the last call. A
// failure is written as the number of the call and the errno, in eight bytes
// too.
const programDone = 1<<64 - 1
