// Package load installs seccomp filters.
//
// It is apart from the compiler because it is linked into PID 1 of every
// container: it imports nothing but golang.org/x/sys/unix, and trusts whoever
// sent it the filter. A filter travels as the kernel's own array of struct
// sock_filter, whose bytes are the same on amd64 and arm64.
package load

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const size = int(unsafe.Sizeof(unix.SockFilter{}))

// Bytes returns a filter as Install takes it.
func Bytes(filter []unix.SockFilter) []byte {
	b := make([]byte, 0, size*len(filter))
	for _, f := range filter {
		b = append(b, byte(f.Code), byte(f.Code>>8), f.Jt, f.Jf,
			byte(f.K), byte(f.K>>8), byte(f.K>>16), byte(f.K>>24))
	}
	return b
}

// Install adds a filter to those of the calling thread, for as long as it and
// everything it starts live: the goroutine must be locked to it. flags are those
// of seccomp(2); with SECCOMP_FILTER_FLAG_TSYNC the filter binds every thread of
// the process.
//
// With SECCOMP_FILTER_FLAG_NEW_LISTENER it returns the descriptor, close-on-exec,
// on which calls with the action NOTIFY are reported; otherwise -1.
//
// The thread must have no_new_privs set (or CAP_SYS_ADMIN): otherwise the error
// is EACCES. Install does not set it, since a sandbox that has not by then is
// missing more than that.
func Install(filter []byte, flags uint) (listener int, err error) {
	n := len(filter) / size
	if n == 0 || n > unix.BPF_MAXINSNS || len(filter)%size != 0 {
		return -1, fmt.Errorf("install seccomp filter: %d bytes are not 1 to %d instructions", len(filter), unix.BPF_MAXINSNS)
	}
	prog := unix.SockFprog{
		Len:    uint16(n),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0])), // only the kernel reads it: it need not be aligned
	}
	ret, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, uintptr(flags), uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return -1, fmt.Errorf("install seccomp filter: %w", errno)
	case flags&unix.SECCOMP_FILTER_FLAG_NEW_LISTENER != 0:
		return int(ret), nil
	case ret != 0:
		// Only TSYNC: a thread has a filter that the others do not share.
		return -1, fmt.Errorf("install seccomp filter: thread %d has one of its own", ret)
	}
	return -1, nil
}
