package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sallyport/sallyport/images"
	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/internal/version"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/wire"
)

// StartOptions say how a session is made live.
type StartOptions struct {
	Driver Driver
	Limits Limits
	// Env is the host's environment, from which what may come along is taken.
	Env []string
}

// A Session is live: its containers can run calls. It is safe for use by
// several goroutines at once. Close ends every process in it; its layers stay
// with the [Stored] session that it was started from, which must stay held
// until then.
type Session struct {
	*Stored

	options   StartOptions
	limits    Limits
	who       identity
	env       []string
	userxattr bool
	layers    []layer
	unplaced  []string // denied paths whose directories do not exist
	names     names
	killed    atomic.Int64 // processes that were killed for want of memory, as last reported
	hand      *specs.Spec
	eye       *specs.Spec
	calls     *atomic.Uint64 // the number of the last call, of this session and its forks

	containers Containers
	watch      *diskWatch
	running    *running

	parent *Session // of a fork
	forkID string
	began  beginning

	removing sync.WaitGroup // the layers of forks that have ended
	sweeping sync.WaitGroup // what dead processes have left in the store

	mu     sync.Mutex
	boxes  map[Box]*box
	broken error          // why the session is over; nil while it is not
	ending sync.WaitGroup // a stop
	left   error          // what could not be removed
}

// A box is a container that has been opened.
type box struct {
	client   *wire.Client
	landlock int
	attempts string // in the eye and in forks: by what it is noticed what programs try to change
	env      []string
}

// Start makes the session live. It must be held.
func (s *Stored) Start(ctx context.Context, o StartOptions) (*Session, error) {
	if s.lock == nil {
		return nil, errors.New("starting a session that is not held")
	}
	if err := o.Limits.check(); err != nil {
		return nil, err
	}
	if o.Driver.Name() != s.Driver {
		return nil, fmt.Errorf("the session %s was made by the driver %s, not %s", s.Name, s.Driver, o.Driver.Name())
	}
	live := &Session{
		Stored: s, options: o, limits: o.Limits.withDefaults(),
		userxattr: os.Geteuid() != 0, calls: new(atomic.Uint64),
	}
	var err error
	if live.who, err = whoRuns(s.Workspace, variable(o.Env, "HOME")); err != nil {
		return nil, err
	}
	live.env = sessionEnv(o.Env, live.who, s.Expose)
	if err := live.start(ctx); err != nil {
		return nil, err
	}
	if s.store.sweepDue(time.Now()) {
		// What cannot be removed now is in nobody's way; sessions prune says why.
		live.sweeping.Go(func() { s.store.Sweep() })
	}
	return live, nil
}

// start makes the containers.
func (s *Session) start(ctx context.Context) (err error) {
	s.boxes, s.broken = make(map[Box]*box), nil
	if err := s.recoverApply(ctx); err != nil {
		return err
	}
	if s.watch, err = newDiskWatch(s); err != nil {
		return err
	}
	if err := s.guardNames(); err != nil {
		return err
	}
	s.containers, err = s.options.Driver.Start(ctx, &Start{
		ID: s.ID, Dir: s.dir, Process: s.processSpec(), Switch: s.who.switched,
		Resources: s.resources(), Required: s.options.Limits.given(),
		Specs: s.specs,
	})
	if err != nil {
		return errors.Join(err, s.releaseNames())
	}
	if s.running, err = newRunning(ctx, s); err == nil {
		_, err = s.open(ctx, Hand)
	}
	if err != nil {
		s.stop(ErrClosed)
	}
	return err
}

// specs prepares what lies on disk and describes the containers.
func (s *Session) specs() (hand, eye *specs.Spec, err error) {
	s.describeLayers()
	if err := s.prepareLayers(); err != nil {
		return nil, nil, err
	}
	root, err := images.Host(s.store.images(), images.HostOptions{
		User:     images.User{UID: s.who.uid, GID: s.who.gid, Name: s.who.name, Group: s.who.group, Home: s.who.home},
		Hostname: hostname, GitConfig: s.store.gitIdentity(), Mountpoints: s.mountpoints(),
	})
	if err != nil {
		return nil, nil, err
	}
	s.hand = s.handSpec(root)
	s.eye = s.eyeSpec(s.hand)
	return s.hand, s.eye, nil
}

// open returns a container of the session, which it starts when it is needed
// first.
func (s *Session) open(ctx context.Context, b Box) (*box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return nil, s.broken
	}
	if opened := s.boxes[b]; opened != nil {
		return opened, nil
	}
	if s.parent != nil {
		return nil, fmt.Errorf("a fork has no %s", b)
	}
	if b == Eye {
		if err := s.prepareLayer(s.eyeTmp()); err != nil {
			return nil, fmt.Errorf("preparing the eye: %w", err)
		}
	}
	conn, err := s.containers.Open(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("the %s: %w", b, err)
	}
	spec, writable := s.hand, s.writable()
	if b == Eye {
		spec, writable = s.eye, s.eyeWritable()
	}
	var notify []byte
	if b == Eye {
		if notify, err = changesFilter(); err != nil {
			return nil, err
		}
	}
	opened, err := s.greet(ctx, wire.NewClient(conn), spec, writable, notify)
	if err != nil {
		return nil, fmt.Errorf("the %s: %w", b, err)
	}
	s.boxes[b] = opened
	return opened, nil
}

// greet settles with a guest what it is to do. By the filter notify it notices what
// programs try to change; nil is none.
func (s *Session) greet(ctx context.Context, client *wire.Client, spec *specs.Spec, writable []string, notify []byte) (*box, error) {
	filter, err := startedFilter()
	if err != nil {
		return nil, err
	}
	hello := &wire.HelloRequest{Version: version.Version, Writable: bytesOf(writable), CallFilter: filter, NotifyFilter: notify, Env: bytesOf(spec.Process.Env)}
	if s.who.uid != 0 {
		hello.Processes = uint64(s.limits.Pids)
	}
	resp, err := client.Hello(ctx, hello)
	if err == nil && resp.Version != version.Version {
		err = fmt.Errorf("the guest is version %q, this is %s: install both from one build", changeset.Printable(resp.Version), version.Version)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	b := &box{client: client, landlock: int(resp.LandlockAbi), env: spec.Process.Env}
	if notify != nil {
		b.attempts = attemptsNoticed(resp)
	}
	return b, nil
}

// writable are the paths that a call in the hand may write.
func (s *Session) writable() []string {
	paths := []string{"/dev", "/proc"}
	for _, l := range s.layers {
		paths = append(paths, l.dest)
	}
	if s.Mode == Direct {
		paths = append(paths, s.Workspace)
	}
	return paths
}

// eyeWritable are the paths that a call in the eye may write: what is the eye's
// own. Landlock allows what lies below a path whatever is mounted there, and the
// mounts of the workspace and of what is exposed, though read-only, do not keep
// anybody from writing to a FIFO in them. So where one of them lies below /tmp,
// /tmp is not writable.
func (s *Session) eyeWritable() []string {
	for _, point := range s.mountpoints() {
		if point != "/tmp" && within(point, "/tmp") {
			return []string{"/dev"}
		}
	}
	return []string{"/tmp", "/dev"}
}

// mountpoints are the paths that the root filesystem must have for the mounts
// of the session.
func (s *Session) mountpoints() []string {
	points := []string{s.Workspace}
	for _, l := range s.layers {
		points = append(points, l.dest)
	}
	for _, d := range s.exposedDirs() {
		points = append(points, d.Path)
	}
	slices.Sort(points)
	return slices.Compact(points)
}

func bytesOf(list []string) [][]byte {
	b := make([][]byte, len(list))
	for i, s := range list {
		b[i] = []byte(s)
	}
	return b
}

// Close ends every process of the session and returns when nothing of it is
// left but its directory.
func (s *Session) Close() error {
	defer s.sweeping.Wait()
	return s.end(ErrClosed)
}

// end is stop for who goes on to the session's directory: it also waits for a
// stop that another has begun, as the watch of the disk does.
func (s *Session) end(why error) error {
	err := s.stop(why)
	s.ending.Wait()
	return err
}

// ErrClosed is the error of calls in a session that was closed.
var ErrClosed = errors.New("the session is closed")

// stop ends the session, once; why is what calls get from then on.
func (s *Session) stop(why error) error {
	s.mu.Lock()
	if s.broken != nil {
		s.mu.Unlock()
		return nil
	}
	s.broken = why
	s.ending.Add(1)
	defer s.ending.Done()
	boxes := s.boxes
	s.boxes = nil
	s.mu.Unlock()
	for _, b := range boxes {
		b.client.Close()
	}
	if s.parent != nil {
		return s.removeFork()
	}
	s.watch.stop()
	err := errors.Join(s.containers.Close(), s.releaseNames())
	if s.running != nil {
		s.running.close()
	}
	s.removing.Wait()
	if dir, openErr := beneath.Open(s.dir); openErr == nil {
		err = errors.Join(err, removeScratch(dir), dir.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.left)
}

// Home is the home directory inside.
func (s *Session) Home() string { return s.who.home }

// Mechanisms says by what each part of the isolation is held; and once a call has
// run in the eye, by what it is noticed that one tries to change something there.
func (s *Session) Mechanisms() map[string]string {
	m := s.containers.Mechanisms()
	m["limits.disk"] = "watched; RLIMIT_FSIZE for each file"
	m["writes"] = "mounts"
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[Hand]; b != nil && b.landlock > 0 {
		m["writes"] = fmt.Sprintf("mounts, Landlock ABI %d", b.landlock)
	}
	if b := s.boxes[Eye]; b != nil {
		m[AttemptsMechanism] = b.attempts
	}
	return m
}

// anyProcess reports whether any process runs in the hand beside the guest.
func (s *Session) anyProcess(ctx context.Context) (bool, error) {
	list, err := s.Processes(ctx)
	return len(list) > 0, err
}

// A Process runs in a session. What is said of it comes from inside.
type Process struct {
	PID     int    // in the session
	Command string // its command line
}

// Processes lists what runs in the hand: calls and what they left in the
// background.
func (s *Session) Processes(ctx context.Context) ([]Process, error) {
	b, err := s.open(ctx, Hand)
	if err != nil {
		return nil, err
	}
	got, err := b.client.Processes(ctx)
	if err != nil {
		return nil, s.over(err)
	}
	var list []Process
	for _, p := range got {
		list = append(list, Process{PID: int(p.Pid), Command: changeset.Printable(strings.ReplaceAll(strings.TrimRight(string(p.Command), "\x00"), "\x00", " "))})
	}
	return list, nil
}

// ErrBusy is the error of what cannot be done while something runs in the
// session.
var ErrBusy = errors.New("something still runs in the session")

// Apply is [Stored.Apply] for a live session. The changes must have been read
// since the last call ended. Nothing may run in the session; its containers are
// made anew afterwards, so that it sees the workspace without what was applied
// in its own layer.
func (s *Session) Apply(ctx context.Context, c *Changes, o ApplyOptions) (*changeset.Report, error) {
	var report *changeset.Report
	err := s.pause(ctx, func() (err error) {
		report, err = s.Stored.Apply(ctx, c, o)
		return err
	})
	return report, err
}

// Discard is [Stored.Discard] for a live session in which nothing runs.
func (s *Session) Discard(ctx context.Context, paths []string) error {
	return s.pause(ctx, func() error { return s.Stored.Discard(ctx, paths) })
}

// pause calls f while the session is not live.
func (s *Session) pause(ctx context.Context, f func() error) error {
	if s.parent != nil {
		return errors.New("a fork's changes leave through the session that it is a fork of")
	}
	idle, err := s.running.idle(ctx)
	if err != nil {
		return err
	}
	if !idle {
		return fmt.Errorf("%w: wait for it, or close the session", ErrBusy)
	}
	if err := s.end(errPaused); err != nil {
		return err
	}
	return errors.Join(f(), s.start(ctx))
}

var errPaused = errors.New("changes are being applied")
