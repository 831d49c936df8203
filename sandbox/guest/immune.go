package guest

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// becomeImmune protects this process, PID 1, from what it will start.
//
// The kernel protects the first process of a PID namespace by itself: a signal
// from inside does nothing to it as long as the signal's action is the default
// one. The Go runtime takes that protection away by installing handlers, and a
// handler is not enough: a SIGSEGV that another process sends with a forged
// siginfo (sigqueue, fcntl F_SETSIG) looks to it like a fault of its own. So
// the default actions are put back. A true fault of the guest then ends it
// without a stack trace, and the container with it.
//
// SIGURG keeps its handler: the runtime interrupts goroutines with it, and
// takes it well from anyone.
func becomeImmune() error {
	// Not dumpable: /proc/1 belongs to root, ptrace and process_vm_readv are
	// refused.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming undumpable: %w", err)
	}
	for sig := unix.Signal(1); sig <= 64; sig++ {
		switch sig {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGURG:
			continue
		}
		old, err := setAction(sig, sigaction{})
		if err != nil {
			return err
		}
		if sig == perThread {
			perThreadAction = old
		}
	}
	return nil
}

// sigaction is the kernel's; all zero is SIG_DFL.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

func setAction(sig unix.Signal, action sigaction) (old sigaction, err error) {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if errno != 0 {
		return old, fmt.Errorf("the action of %v: %w", sig, errno)
	}
	return old, nil
}

// perThread is the signal by which the runtime makes each thread do a system
// call, perThreadAction what it does on it.
const perThread = unix.Signal(33)

var perThreadAction sigaction

// onAllThreads makes all threads of this process do a system call, which must
// come to the same on each. It is for the time before anything else runs in the
// container: meanwhile a signal from inside could be taken for the runtime's.
func onAllThreads(trap, a1, a2, a3 uintptr) error {
	if _, err := setAction(perThread, perThreadAction); err != nil {
		return err
	}
	_, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3)
	if _, err := setAction(perThread, sigaction{}); err != nil {
		return err
	}
	if errno != 0 {
		return errno
	}
	return nil
}
