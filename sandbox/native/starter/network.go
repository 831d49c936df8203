package starter

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Making a network namespace takes longer than all the others together, so one
// is kept ready, made beside other work.
type spareNetworks struct {
	ready chan int    // holds a descriptor, -1 if it could not be made
	busy  atomic.Bool // one is ready, or being made
}

func newSpareNetworks() *spareNetworks { return &spareNetworks{ready: make(chan int, 1)} }

// prepare begins to make the next one, if there is none.
func (n *spareNetworks) prepare() {
	if !n.busy.CompareAndSwap(false, true) {
		return
	}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is in the namespace
		fd, err := newNetwork()
		if err != nil {
			fd = -1 // whoever needs one makes it, and says what fails
		}
		n.ready <- fd
	}()
}

// take returns the one that is ready, or -1. After it, prepare is to be called,
// when there is time.
func (n *spareNetworks) take() int {
	select {
	case fd := <-n.ready:
		n.busy.Store(false)
		return fd
	default:
		return -1
	}
}

// newNetwork makes a network namespace with lo up. It moves the calling thread
// there.
func newNetwork() (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(s)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(loUp()))); errno != 0 {
		return -1, errno
	}
	return unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// loUp is a struct ifreq that brings up lo.
func loUp() *[40]byte {
	ifr := new([40]byte) // a name, then flags
	copy(ifr[:], "lo")
	ifr[unix.IFNAMSIZ] = unix.IFF_UP
	return ifr
}
