package native

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native/starter"
)

// Driver starts native sessions. The zero value is ready to use.
type Driver struct {
	// Guest is the path of sallyport-guest. When it is empty, the guest is
	// looked for beside the running executable, and then in PATH.
	Guest string
}

// Name implements [sandbox.Driver].
func (Driver) Name() string { return "native" }

// GuestName is the file name of the guest's executable.
const GuestName = "sallyport-guest"

// FindGuest returns the path of the guest's executable.
func (d Driver) FindGuest() (string, error) {
	if d.Guest != "" {
		if _, err := os.Stat(d.Guest); err != nil {
			return "", fmt.Errorf("the guest: %w; build it with make build", err)
		}
		return filepath.Abs(d.Guest)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), GuestName)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, GuestName)
		if _, err := os.Stat(path); err == nil && filepath.IsAbs(dir) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is neither beside this executable nor in PATH; install both with make install", GuestName)
}

// The numbers of a session's containers: hand and eye, then forks.
const (
	handNumber = 1
	eyeNumber  = 2
	firstFork  = 16
)

// containers are the live containers of one session.
type containers struct {
	start   *sandbox.Start
	hand    *specs.Spec
	eye     *specs.Spec
	pins    pins
	control *control
	cgroup  *cgroup
	refresh []int // what the overlays can be configured anew by
	// readOnly says which of them have no upper.
	readOnly []bool

	mu       sync.Mutex
	opened   net.Conn // of the hand, until it is asked for
	forks    map[string]uint32
	nextFork uint32
	spare    *prepared // for the next fork, once there has been one

	sweeping sync.WaitGroup // what dead sessions have left
	closing  sync.Once
	closed   error
}

// Start implements [sandbox.Driver].
func (d Driver) Start(ctx context.Context, s *sandbox.Start) (_ sandbox.Containers, err error) {
	guest, err := d.FindGuest()
	if err != nil {
		return nil, err
	}
	c := &containers{start: s, forks: make(map[string]uint32), nextFork: firstFork}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.control, err = starterOf(guest); err != nil {
		return nil, err
	}
	if c.cgroup, err = systemCgroups().newCgroup(s.ID, s.Resources, s.Required); err != nil {
		return nil, err
	}
	stage := c.stage()
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return nil, err
	}
	// The hand begins to start while it is found out what is in it.
	defer func() {
		if errors.Is(err, errStarterEnded) {
			err = fmt.Errorf("%w: %s is no guest of this version, or was killed; install it and sallyport from one build", err, guest)
		}
	}()
	hand, err := c.prepare(handNumber, s.Process)
	if err != nil {
		return nil, err
	}
	defer hand.close()
	if c.hand, c.eye, err = s.Specs(); err != nil {
		return nil, err
	}
	mounts, err := translate(c.hand)
	if err != nil {
		return nil, err
	}
	if c.pins, err = pinned(s.Dir, mounts); err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if m.Type == starter.Mount_OVERLAY {
			c.readOnly = append(c.readOnly, len(m.Upper) == 0)
		}
	}
	// By the pins, which are compared with what the host looked at: a path can
	// lead elsewhere at any time.
	c.pins.rewrite(mounts, stage)
	create := &starter.Create{Stage: []byte(stage), Pins: c.pins.list, Mounts: mounts, Container: handNumber}
	c.refresh, err = c.control.ask(&starter.Request{Session: s.ID, Body: &starter.Request_Create{Create: create}})
	if c.opened, err = hand.dressed(err); err != nil {
		return nil, err
	}
	if sweepDue(time.Now()) {
		c.sweeping.Go(systemCgroups().sweep)
	}
	return c, nil
}

// stage is an empty directory of the session's to mount on.
func (c *containers) stage() string { return filepath.Join(c.start.Dir, "driver") }

// Open implements [sandbox.Containers].
func (c *containers) Open(ctx context.Context, b sandbox.Box) (net.Conn, error) {
	if b == sandbox.Hand {
		c.mu.Lock()
		defer c.mu.Unlock()
		conn := c.opened
		c.opened = nil
		return conn, nil
	}
	mounts, err := readOnlyView(c.hand, c.eye)
	if err != nil {
		return nil, err
	}
	p, err := c.prepare(eyeNumber, c.eye)
	if err != nil {
		return nil, err
	}
	return c.dress(p, mounts)
}

// Fork implements [sandbox.Containers].
func (c *containers) Fork(ctx context.Context, id string, spec *specs.Spec) (net.Conn, error) {
	mounts, err := changedView(c.hand, spec)
	if err != nil {
		return nil, err
	}
	p, err := c.takeSpare(id, spec)
	if err != nil {
		return nil, err
	}
	return c.dress(p, mounts)
}

// takeSpare returns a container to be dressed as a fork, and has the next one
// prepared: one fork is seldom the last.
func (c *containers) takeSpare(id string, spec *specs.Spec) (*prepared, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.forks[id]; taken {
		return nil, fmt.Errorf("fork %s exists", id)
	}
	p := c.spare
	c.spare = nil
	if p == nil {
		var err error
		if p, err = c.prepare(c.nextFork, spec); err != nil {
			return nil, err
		}
		c.nextFork++
	}
	c.forks[id] = p.number
	if next, err := c.prepare(c.nextFork, spec); err == nil {
		c.spare = next
		c.nextFork++
	}
	return p, nil
}

// Remove implements [sandbox.Containers].
func (c *containers) Remove(id string) error {
	c.mu.Lock()
	n, ok := c.forks[id]
	delete(c.forks, id)
	c.mu.Unlock()
	if !ok {
		return nil
	}
	_, err := c.control.ask(&starter.Request{Session: c.start.ID, Body: &starter.Request_Stop{Stop: &starter.Stop{Container: n}}})
	return err
}

// A prepared container has no root yet.
type prepared struct {
	number uint32
	wire   *os.File // the host's end
	wait   func() ([]int, error)
}

func (p *prepared) close() { p.wire.Close() }

// prepare begins to start a container. Of the spec it takes what is not the
// filesystem.
func (c *containers) prepare(number uint32, spec *specs.Spec) (*prepared, error) {
	r, err := translateProcess(spec)
	if err != nil {
		return nil, err
	}
	if limit := c.cgroup.dataLimit(); limit != math.MaxUint64 {
		r.Rlimits = append(r.Rlimits, &starter.Rlimit{Resource: unix.RLIMIT_DATA, Value: limit})
	}
	r.Container, r.Stage, r.Cgroup = number, []byte(c.stage()), c.cgroup.forStarter()
	r.User.Switch = c.start.Switch
	wire, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the wire: %w", err)
	}
	wait := c.control.send(&starter.Request{Session: c.start.ID, Body: &starter.Request_Prepare{Prepare: r}}, wire[1], c.control.log)
	unix.Close(wire[1])
	return &prepared{number: number, wire: os.NewFile(uintptr(wire[0]), "wire"), wait: wait}, nil
}

// dress gives a prepared container its root, and returns the host's end of its
// wire.
func (c *containers) dress(p *prepared, mounts []*starter.Mount) (net.Conn, error) {
	defer p.close()
	c.pins.rewrite(mounts, "/") // the init has left the host's root
	dress := &starter.Dress{Container: p.number, Mounts: mounts}
	_, err := c.control.ask(&starter.Request{Session: c.start.ID, Body: &starter.Request_Dress{Dress: dress}})
	return p.dressed(err)
}

// dressed completes the start of a container whose root was made, or not.
func (p *prepared) dressed(rootErr error) (net.Conn, error) {
	// The guest may still be starting; a container that failed explains why its
	// root could not be given to it.
	if _, err := p.wait(); err != nil {
		return nil, fmt.Errorf("starting the container: %w", explain(err))
	}
	if rootErr != nil {
		return nil, fmt.Errorf("making the container's root filesystem: %w", explain(rootErr))
	}
	conn, err := net.FileConn(p.wire) // has a copy of it
	if err != nil {
		return nil, fmt.Errorf("the wire: %w", err)
	}
	return conn, nil
}

// Refresh implements [sandbox.Containers]. The kernel drops what an overlay has
// cached of names when it is configured anew, even if nothing changes; a name
// that is in use stays. The caller owns the user namespace that the overlay was
// mounted in, which is what the kernel asks for.
func (c *containers) Refresh(ctx context.Context) error {
	for i, fd := range c.refresh {
		err := error(nil)
		if c.readOnly[i] {
			err = unix.FsconfigSetFlag(fd, "ro") // or it would be made writable
		}
		if err == nil {
			err = unix.FsconfigReconfigure(fd)
		}
		if err != nil {
			return fmt.Errorf("refreshing the workspace: %w", err)
		}
	}
	return nil
}

// Mechanisms implements [sandbox.Containers].
func (c *containers) Mechanisms() map[string]string {
	m := c.cgroup.mechanisms()
	if by := "limits." + string(sandbox.LimitPids); c.start.Process.Process.User.UID == 0 && m[by] == nprocRlimit {
		m[by] = "nothing: " + nprocRlimit + " does not bind uid 0"
	}
	m["filesystem"] = "mount namespace, pivot_root"
	m["namespaces"] = "user, mount, pid, net, ipc, uts, cgroup"
	m["system calls"] = "seccomp"
	return m
}

// Report implements [sandbox.Containers].
func (c *containers) Report() sandbox.Report {
	return sandbox.Report{OutOfMemory: c.cgroup.outOfMemory(), RefusedForks: c.cgroup.refusedForks()}
}

// Close implements [sandbox.Containers].
func (c *containers) Close() error {
	c.closing.Do(func() {
		c.sweeping.Wait()
		if c.control != nil {
			_, c.closed = c.control.ask(&starter.Request{Session: c.start.ID, Body: &starter.Request_End{End: &starter.End{}}})
			if errors.Is(c.closed, errStarterEnded) {
				c.closed = nil // and the containers with it
			}
		}
		for _, fd := range c.refresh {
			unix.Close(fd)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.opened != nil {
			c.opened.Close()
		}
		if c.spare != nil {
			c.spare.close()
		}
		if c.cgroup != nil {
			c.closed = errors.Join(c.closed, c.cgroup.remove())
		}
	})
	return c.closed
}
