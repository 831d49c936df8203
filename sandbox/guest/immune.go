package guest

import (
	"fmt"
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
	// struct sigaction of the kernel; all zero is SIG_DFL.
	var action struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}
	for sig := unix.Signal(1); sig <= 64; sig++ {
		switch sig {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGURG:
			continue
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return fmt.Errorf("default action of %v: %w", sig, errno)
		}
	}
	return nil
}
