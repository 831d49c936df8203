package guest

import (
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/seccomp/load"
)

// A watch has the kernel tell of what programs try to change (seccomp_unotify(2)).
// It is evidence only: every call goes on, and what may not be changed is held by
// mounts and Landlock. So it does not matter that a program can change the memory
// in which a path was read before the kernel reads it.
type watch struct {
	filter []byte // nil when programs are not watched
	flags  uint
	asked  bool       // that they be
	errno  unix.Errno // why they are not, if asked
}

// newWatch finds out whether programs can be watched, by taking the filter on a
// thread that is then thrown away. They cannot where something above has a
// listener already, as there is one for all filters of a process.
func newWatch(filter []byte) watch {
	w := watch{asked: len(filter) > 0}
	if !w.asked {
		return w
	}
	tried := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		// Linux 5.19: once a call was received, only a signal that kills
		// interrupts it, so that it is neither made twice nor fails with EINTR.
		w.flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
		listener, err := load.Install(filter, w.flags)
		if errnoOf(err) == unix.EINVAL {
			w.flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
			listener, err = load.Install(filter, w.flags)
		}
		if err == nil {
			unix.Close(listener)
		}
		tried <- err
	}()
	if err := <-tried; err != nil {
		w.errno = errnoOf(err)
		return w
	}
	w.filter = filter
	return w
}

// watched holds the calling thread, and what it starts, to the filter, and returns
// who answers what they try.
func (g *Guest) watched(on *attempts) (*listener, error) {
	if err := on.join(); err != nil {
		return nil, err
	}
	fd, err := load.Install(g.watch.filter, g.watch.flags)
	if err != nil {
		on.leave()
		return nil, err
	}
	// Linux 6.6: who waits and who answers take turns on one processor.
	unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return &listener{fd: fd, guest: g, on: on}, nil
}

// A listener answers the calls of the processes that one program became.
type listener struct {
	fd    int
	guest *Guest
	on    *attempts
}

// struct seccomp_notif and struct seccomp_notif_resp
type (
	notification struct {
		id         uint64
		pid, flags uint32
		nr         int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	response struct {
		id         uint64
		val        int64
		err, flags int32
	}
)

// during answers on the calling thread, which is held to the filter itself, until
// the call ends. It must be that thread: the kernel lets nobody read a process who
// is not in its Landlock domain or one around it, and each thread of PID 1 that there
// was at Hello has a domain of its own. It makes no call that it would have to answer.
func (l *listener) during() {
	for !l.on.ended() {
		ready := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}, {Fd: int32(l.on.wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && err != unix.EINTR {
			return
		}
		if ready[0].Revents&unix.POLLIN != 0 && !l.one(true) {
			return
		}
	}
}

// after lets every call of the processes that outlive the call go on, until there
// is none left. Should it fail before, further calls fail with ENOSYS.
func (l *listener) after() {
	if err := unix.SetNonblock(l.fd, true); err != nil { // has the runtime wait for it
		unix.Close(l.fd)
		return
	}
	file := os.NewFile(uintptr(l.fd), "seccomp")
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(uintptr) (done bool) {
		for {
			// To receive waits, whatever the flags of the descriptor.
			ready := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
			n, err := unix.Poll(ready, 0)
			switch {
			case err == unix.EINTR:
				continue
			case err != nil:
				return true
			case n == 0:
				return false
			case ready[0].Revents&unix.POLLIN == 0:
				return true // POLLHUP: nobody uses the filter
			}
			if !l.one(false) {
				return true
			}
		}
	})
}

// one answers one call.
func (l *listener) one(look bool) bool {
	var n notification
	switch control(l.fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) {
	case 0:
	case unix.ENOENT, unix.EINTR: // it was killed meanwhile
		return true
	default:
		return false
	}
	if look {
		l.look(&n, func() bool { return control(l.fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)) == 0 })
	}
	r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	errno := control(l.fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
	return errno == 0 || errno == unix.ENOENT || errno == unix.EINTR
}

// look puts what a process tries on the list. What was read of the process is of
// that process only if the call is still waiting afterwards: numbers of processes
// are used again.
func (l *listener) look(n *notification, valid func() bool) {
	p := process(n.pid)
	mem := p.memory()
	defer mem.close()
	try, ok := l.guest.tried(n, p, mem)
	if !ok || !valid() {
		return
	}
	program := p.program()
	if !valid() {
		program = ""
	}
	l.on.add(try, program)
}

func control(fd int, request uint, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	return errno
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if err != nil && !errors.As(err, &errno) {
		return unix.EIO
	}
	return errno
}
