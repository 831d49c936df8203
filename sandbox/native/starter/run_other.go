//go:build !amd64

package starter

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// forkFlags: the child has a copy of this process's memory.
const forkFlags = 0

// forkAndRun forks. In the child it does not return.
//
// The child is a copy of this process with the calling thread alone. It must
// not allocate, grow its stack, be preempted or take a lock: other threads held
// locks when they were left behind. Hence nosplit, and system calls that the
// runtime is not told of.
//
//go:norace
//go:nosplit
func forkAndRun(args *cloneArgs, calls []call, results []uintptr, status int) (child uintptr, failure uintptr) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, uintptr(errno)
	}
	for i := 0; i < len(calls); i++ {
		c := &calls[i]
		args := c.args
		for j := range args {
			if c.from[j] != 0 {
				args[j] = results[c.from[j]]
			}
		}
		r, _, errno := unix.RawSyscall6(c.nr, args[0], args[1], args[2], args[3], args[4], args[5])
		switch {
		case errno == unix.EINTR:
			i-- // no handler interrupts; a stop and continuation may
			continue
		case errno != 0 && c.skip >= 0 && (errno == unix.ENOENT || errno == unix.ENOTDIR || errno == unix.ELOOP):
			i += c.skip
		case errno != 0:
			results[0] = uintptr(i)<<32 | uintptr(errno)
			unix.RawSyscall(unix.SYS_WRITE, uintptr(status), uintptr(unsafe.Pointer(&results[0])), 8)
			exit()
		}
		results[i+1] = r
	}
	// Ending takes the kernel a while; nobody has to wait for that.
	results[0] = programDone
	unix.RawSyscall(unix.SYS_WRITE, uintptr(status), uintptr(unsafe.Pointer(&results[0])), 8)
	exit()
	return 0, 0
}

//go:norace
//go:nosplit
func exit() {
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
