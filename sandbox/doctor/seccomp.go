package doctor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// seccompHas reports whether filters can take an action.
func seccompHas(action uint32) bool {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
}
