package starter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Main is the starter of a host process. It must be called from the main
// goroutine at the start; it serves the host until the channel ends, and returns
// the exit code.
func Main() int {
	// The kernel ties a child to the thread that forked it, and signals the
	// thread's end to it. All are forked here.
	runtime.LockOSThread()
	guest, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sallyport-guest: opening this executable:", err)
		return 1
	}
	s := &starter{guest: guest, sessions: make(map[string]*session), spare: newSpareNetworks()}
	s.spare.prepare()
	defer s.endAll()

	buf := make([]byte, MaxMessage)
	oob := make([]byte, unix.CmsgSpace(4*4))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(ControlFd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return 0 // the host has ended
		}
		fds, err := descriptors(oob[:oobn])
		if err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			return 1
		}
		req := &Request{}
		if err := proto.Unmarshal(buf[:n], req); err != nil {
			return 1
		}
		// What takes time is left to others: the children, and who waits for
		// them.
		rest, err := s.begin(req, fds)
		closeAll(fds)
		go s.answer(req.Id, rest, err)
	}
}

// A starter is the state of the process.
type starter struct {
	guest    int // its executable
	spare    *spareNetworks
	sessions map[string]*session

	send sync.Mutex // one response at a time
}

// A session is a root filesystem and the containers on it.
type session struct {
	boxes map[uint32]*box

	mu    sync.Mutex
	ended bool
	mnt   int // its mount namespace, -1 while it has none
}

// A box is a container.
type box struct {
	pidfd  int
	ready  int           // a pipe's end: its first process has changed its root
	reaped chan struct{} // closed when its first process is gone, and so all in it
}

// begin begins to do what was asked, and returns what completes it: with
// descriptors for the host.
func (s *starter) begin(req *Request, fds []int) (rest func() ([]int, error), err error) {
	x := s.sessions[req.Session]
	if x == nil {
		x = &session{mnt: -1, boxes: make(map[uint32]*box)}
		s.sessions[req.Session] = x
	}
	switch body := req.Body.(type) {
	case *Request_Prepare:
		if len(fds) != 2 {
			return nil, unix.EINVAL
		}
		return s.prepare(x, body.Prepare, fds[0], fds[1])
	case *Request_Create:
		return s.create(x, body.Create)
	case *Request_Dress:
		return s.dress(x, body.Dress)
	case *Request_Stop:
		b := x.boxes[body.Stop.Container]
		delete(x.boxes, body.Stop.Container)
		return func() ([]int, error) {
			if b != nil {
				b.kill()
				b.gone()
			}
			return nil, nil
		}, nil
	case *Request_End:
		delete(s.sessions, req.Session)
		return func() ([]int, error) { x.end(); return nil, nil }, nil
	}
	return nil, errors.New("unknown request")
}

// answer completes a request and answers it.
func (s *starter) answer(id uint64, rest func() ([]int, error), err error) {
	var fds []int
	if err == nil {
		fds, err = rest()
	}
	resp := &Response{Id: id}
	if err != nil {
		resp.Error, resp.Errno = err.Error(), int32(errnoOf(err))
	}
	data, err := proto.Marshal(resp)
	if err != nil {
		panic(err) // strings and numbers
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	s.send.Lock()
	// A host that is gone is noticed by reading.
	unix.Sendmsg(ControlFd, data, rights, nil, unix.MSG_NOSIGNAL)
	s.send.Unlock()
	closeAll(fds)
}

// prepare makes a container, up to the guest.
func (s *starter) prepare(x *session, r *Prepare, wire, log int) (rest func() ([]int, error), err error) {
	if x.boxes[r.Container] != nil {
		return nil, fmt.Errorf("container %d exists", r.Container)
	}
	p, err := newProgram()
	if err != nil {
		return nil, err
	}
	p.fds.guest, p.fds.wire, p.fds.log = s.guest, wire, log
	if p.fds.net = s.spare.take(); p.fds.net >= 0 {
		defer unix.Close(p.fds.net)
	}
	if p.fds.user, err = newUserNamespace(r.User); err != nil {
		p.discard()
		return nil, err
	}
	defer unix.Close(p.fds.user)
	var ready [2]int
	if err := unix.Pipe2(ready[:], unix.O_CLOEXEC); err != nil {
		p.discard()
		return nil, err
	}
	p.fds.ready = ready[1]
	b := &box{ready: ready[0], reaped: make(chan struct{})}
	pid := 0
	if err = containerProgram(r, p); err == nil {
		pid, err = p.fork(containerFlags, r.Cgroup)
	}
	unix.Close(ready[1])
	if err == nil {
		b.pidfd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		unix.Close(ready[0])
		p.discard()
		if pid != 0 {
			unix.Kill(pid, unix.SIGKILL)
			reap(pid)
		}
		return nil, err
	}
	go func() {
		defer close(b.reaped)
		reap(pid)
	}()
	x.boxes[r.Container] = b
	return p.wait, nil
}

// create makes the session's root, and gives it to a container.
func (s *starter) create(x *session, r *Create) (rest func() ([]int, error), err error) {
	wait, err := s.program(x, r.Container, rootFlags, func(p *program) error { return createProgram(r, p) })
	if err != nil {
		return nil, err
	}
	return func() ([]int, error) {
		got, err := wait()
		if err != nil {
			closeAll(got)
			return nil, err
		}
		mnt, pins, refresh := got[0], got[1:1+len(r.Pins)], got[1+len(r.Pins):]
		err = verify(r.Pins, pins)
		closeAll(pins)
		x.mu.Lock()
		defer x.mu.Unlock()
		if err == nil && (x.ended || x.mnt >= 0) {
			err = errors.New("the session exists, or has ended")
		}
		if err != nil {
			unix.Close(mnt)
			closeAll(refresh)
			return nil, err
		}
		x.mnt = mnt
		return refresh, nil
	}, nil
}

// dress gives a container its root.
func (s *starter) dress(x *session, r *Dress) (rest func() ([]int, error), err error) {
	return s.program(x, r.Container, 0, func(p *program) error { return dressProgram(r, p) })
}

// program forks a child that ends by dressing a container, and returns what
// waits for its end.
func (s *starter) program(x *session, container uint32, flags uintptr, write func(*program) error) (wait func() ([]int, error), err error) {
	b := x.boxes[container]
	if b == nil {
		return nil, fmt.Errorf("container %d is not prepared", container)
	}
	p, err := newProgram()
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	p.fds.mnt = x.mnt
	x.mu.Unlock()
	p.fds.pid, p.fds.ready = b.pidfd, b.ready
	pid := 0
	if err = write(p); err == nil {
		pid, err = p.fork(flags, nil)
	}
	if err != nil {
		p.discard()
		return nil, err
	}
	return func() ([]int, error) {
		defer func() {
			go reap(pid)
			s.spare.prepare()
		}()
		return p.wait()
	}, nil
}

// kill ends the container. Once its first process is reaped, pidfd leads to
// none.
func (b *box) kill() { unix.PidfdSendSignal(b.pidfd, unix.SIGKILL, nil, 0) }

// gone waits until nothing of the container is left.
func (b *box) gone() {
	<-b.reaped
	unix.Close(b.pidfd)
	unix.Close(b.ready)
}

// end ends all containers of a session that nobody asks for any more.
func (x *session) end() {
	for _, b := range x.boxes {
		b.kill() // all at once, and then one after the other
	}
	for _, b := range x.boxes {
		b.gone()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	if x.mnt >= 0 {
		unix.Close(x.mnt)
		x.mnt = -1
	}
}

func (s *starter) endAll() {
	for _, x := range s.sessions {
		x.end()
	}
}

// newProgram returns a program without calls.
func newProgram() (*program, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &program{status: pair[0], fds: fds{pair[1], -1, -1, -1, -1, -1, -1, -1, -1}}, nil
}

// discard lets go of a program that wait is not called for.
func (p *program) discard() {
	unix.Close(p.status)
	if p.fds.status >= 0 {
		unix.Close(p.fds.status)
	}
}

// fork has a child run a program, and returns its pid.
func (p *program) fork(flags uintptr, cg *Cgroup) (int, error) {
	pid, err := cg.born(p, flags)
	unix.Close(p.fds.status) // so that the child's end of it is seen
	p.fds.status = -1
	if err != nil {
		return 0, fmt.Errorf("a process in new namespaces: %w", err)
	}
	return pid, nil
}

// maxHanded is how many descriptors a message can carry (SCM_MAX_FD).
const maxHanded = 253

// wait returns when the child has done its last call or executed the guest: the
// descriptors that it handed over, or what failed.
func (p *program) wait() (fds []int, err error) {
	defer p.discard()
	buf := make([]byte, 8)
	oob := make([]byte, unix.CmsgSpace(4*maxHanded))
	for {
		n, oobn, _, _, readErr := unix.Recvmsg(p.status, buf, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case readErr == unix.EINTR:
			continue
		case readErr != nil:
			return fds, readErr
		case n == 0 && !p.executes && err == nil:
			return fds, errors.New("a process that makes a container was killed")
		case n == 0:
			return fds, err
		case oobn > 0:
			fds, err = descriptors(oob[:oobn])
		case n == 8:
			v := binary.NativeEndian.Uint64(buf)
			if v == programDone {
				return fds, err
			}
			err = fmt.Errorf("%s: %w", p.calls[v>>32].what, unix.Errno(uint32(v)))
		}
	}
}

// reap waits for the end of a child.
func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != unix.EINTR {
			return
		}
	}
}

func descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// verify checks that what was bound is what the host has looked at: its path
// may have led elsewhere by then.
func verify(pins []*Pin, bound []int) error {
	for i, pin := range pins {
		var st unix.Stat_t
		if err := unix.Fstat(bound[i], &st); err != nil {
			return fmt.Errorf("%s: %w", pin.Path, err)
		}
		if st.Dev != pin.Dev || st.Ino != pin.Ino {
			return fmt.Errorf("%s was replaced while the session started", pin.Path)
		}
	}
	return nil
}

// errnoOf returns the errno in an error, 0 if there is none.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	errors.As(err, &errno)
	return errno
}

// A Failure is an error that the starter has put into words.
type Failure struct {
	Message string
	Errno   unix.Errno // 0 when there was none
}

func (e *Failure) Error() string { return e.Message }

func (e *Failure) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// Err returns the failure that a response carries, or nil.
func (r *Response) Err() error {
	if r.GetError() == "" {
		return nil
	}
	return &Failure{Message: r.GetError(), Errno: unix.Errno(r.GetErrno())}
}
