package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/sandbox/native/starter"
)

// A control is this process's starter and the channel to it.
type control struct {
	fd     int
	log    int // where guests' standard error goes
	nextID atomic.Uint64

	mu      sync.Mutex
	waiting map[uint64]chan<- answer // by request; nil when the starter has ended

	reaped chan struct{} // closed when the starter has been waited for
}

type answer struct {
	resp *starter.Response
	fds  []int
}

// errStarterEnded is what requests to a starter that is gone get.
var errStarterEnded = errors.New("the process that starts containers has ended")

// starters are the starters of this process, by the executable that they run:
// one, unless a program uses several guests. Each is started when it is needed
// first and ends with this process.
var starters struct {
	sync.Mutex
	byGuest map[string]*control
}

// Shutdown ends the starters of this process and waits for them. The kernel ends
// them with the process anyway; but then they are left to the init of the machine
// to wait for, and that of a container often waits for nobody.
func Shutdown() {
	starters.Lock()
	defer starters.Unlock()
	for _, c := range starters.byGuest {
		c.shutdown()
	}
}

// shutdown ends the starter and waits for it, but not for one that sticks.
func (c *control) shutdown() {
	unix.Shutdown(c.fd, unix.SHUT_RDWR)
	select {
	case <-c.reaped:
	case <-time.After(time.Second):
	}
}

// starterOf returns the starter that runs an executable.
func starterOf(guest string) (*control, error) {
	starters.Lock()
	defer starters.Unlock()
	if c := starters.byGuest[guest]; c != nil && c.alive() {
		return c, nil
	}
	c, err := newControl(guest)
	if err != nil {
		return nil, err
	}
	if starters.byGuest == nil {
		starters.byGuest = make(map[string]*control)
	}
	starters.byGuest[guest] = c
	return c, nil
}

func newControl(guest string) (*control, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the channel to the starter: %w", err)
	}
	defer unix.Close(pair[1])
	// Room for the largest request.
	unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, starter.MaxMessage)
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	attr := &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOGC=400"},
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(null), uintptr(pair[1])},
		Sys: &syscall.SysProcAttr{
			Setsid:    true, // a signal to the terminal's processes is for the host to handle
			Pdeathsig: syscall.SIGKILL,
		},
	}
	if os.Geteuid() != 0 {
		enterUserNamespace(attr.Sys)
	}
	forked, reaped := make(chan error), make(chan struct{})
	go func() {
		defer close(reaped)
		// The kernel delivers the death signal when the thread that forked ends.
		runtime.LockOSThread()
		pid, err := syscall.ForkExec(guest, []string{"sallyport-guest", starter.Arg}, attr)
		forked <- err
		for err == nil {
			if _, waitErr := unix.Wait4(pid, nil, 0, nil); waitErr != unix.EINTR {
				return
			}
		}
	}()
	if err := <-forked; err != nil {
		unix.Close(pair[0])
		unix.Close(null)
		return nil, fmt.Errorf("starting %s: %w", guest, explainNamespaces(err))
	}
	c := &control{fd: pair[0], log: null, waiting: make(map[uint64]chan<- answer), reaped: reaped}
	go c.receive()
	return c, nil
}

// enterUserNamespace has a process be started in a user namespace of its own, in
// which it may do all that it must.
func enterUserNamespace(attr *syscall.SysProcAttr) {
	uid, gid := os.Geteuid(), os.Getegid()
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	for c := range starter.Capabilities() {
		attr.AmbientCaps = append(attr.AmbientCaps, uintptr(c)) // or the exec would take them
	}
}

func (c *control) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting != nil
}

// ask sends a request with descriptors beside it, and waits for the answer and
// the descriptors beside that.
func (c *control) ask(req *starter.Request, fds ...int) ([]int, error) {
	return c.send(req, fds...)()
}

// send sends a request with descriptors beside it, and returns what waits for
// the answer.
func (c *control) send(req *starter.Request, fds ...int) (wait func() ([]int, error)) {
	failed := func(err error) func() ([]int, error) {
		return func() ([]int, error) { return nil, err }
	}
	req.Id = c.nextID.Add(1)
	data, err := proto.Marshal(req)
	if err != nil {
		return failed(err)
	}
	if len(data) > starter.MaxMessage {
		return failed(fmt.Errorf("the session has too many mounts: a request of %d bytes", len(data)))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	answered := make(chan answer, 1)
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return failed(errStarterEnded)
	}
	c.waiting[req.Id] = answered
	c.mu.Unlock()
	// A starter that is gone is noticed by receive, which answers.
	unix.Sendmsg(c.fd, data, rights, nil, unix.MSG_NOSIGNAL)
	return func() ([]int, error) {
		a := <-answered
		if a.resp == nil {
			return nil, errStarterEnded
		}
		return a.fds, a.resp.Err()
	}
}

// receive hands responses to those who wait for them, until the starter ends.
func (c *control) receive() {
	buf := make([]byte, 64<<10)
	oob := make([]byte, unix.CmsgSpace(4*253)) // SCM_MAX_FD
	for {
		n, oobn, _, _, err := unix.Recvmsg(c.fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		a := answer{resp: &starter.Response{}}
		if err := proto.Unmarshal(buf[:n], a.resp); err != nil {
			break
		}
		if messages, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil {
			for i := range messages {
				fds, _ := unix.ParseUnixRights(&messages[i])
				a.fds = append(a.fds, fds...)
			}
		}
		c.mu.Lock()
		waiting := c.waiting[a.resp.Id]
		delete(c.waiting, a.resp.Id)
		c.mu.Unlock()
		if waiting != nil {
			waiting <- a
		}
	}
	// One that talks nonsense ends, and its containers with it. The descriptor
	// stays: somebody may be sending.
	unix.Shutdown(c.fd, unix.SHUT_RDWR)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting {
		w <- answer{}
	}
	c.waiting = nil
}
