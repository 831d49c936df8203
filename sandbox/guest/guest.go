package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"

	"github.com/containerd/log"
	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/sandbox/wire"
)

// A Function is one that the host can run: what a tool does inside.
type Function struct {
	Run inside.Function
	// Pure functions touch neither files nor processes, so nothing has to hold
	// them.
	Pure bool
}

// A Guest is PID 1 of a container.
type Guest struct {
	version   string
	functions map[string]Function

	// Set by Hello, before any call.
	ready          bool
	landlock       int // ABI, 0 when the kernel has none
	defaultRuleset int // -1 without Landlock
	callFilter     []byte
	writable       []string // by a call that is not narrowed
	env            []string // of programs that functions start
	watch          watch

	marks  *marks
	reaper *reaper

	mu      sync.Mutex
	running map[uint64]*running
}

// Main serves the host at the other end of the descriptor until it hangs up,
// and returns the exit code. It must be called from the main goroutine, at the
// start. The functions that the host may call are in functions.
func Main(version string, wireFd int, functions map[string]Function) int {
	runtime.LockOSThread() // see confined
	err := serve(version, wireFd, functions)
	fmt.Fprintln(os.Stderr, "sallyport-guest:", err)
	return 1
}

func serve(version string, wireFd int, functions map[string]Function) error {
	if os.Getpid() != 1 {
		return errors.New("this is the inside of a container; it is started by sallyport")
	}
	if err := becomeImmune(); err != nil {
		return err
	}
	f := os.NewFile(uintptr(wireFd), "wire")
	conn, err := net.FileConn(f)
	if err != nil {
		return fmt.Errorf("the wire: %w", err)
	}
	f.Close()
	m, err := newMarks()
	if err != nil {
		return err
	}
	g := &Guest{
		version: version, functions: functions,
		defaultRuleset: -1, marks: m, reaper: newReaper(),
		running: make(map[uint64]*running),
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	wire.RegisterGuestService(server, g)
	log.L.Logger.SetOutput(io.Discard) // the host knows all it has to say

	hungUp := make(chan struct{})
	l := &oneConn{conn: &watched{Conn: wire.Whole(conn), end: func() { os.Exit(0) }}, done: hungUp}
	go server.Serve(context.Background(), l)
	g.reaper.run()
	return nil
}

// oneConn is a listener for the one connection that there is.
type oneConn struct {
	conn net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, io.EOF
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// watched calls end when the other side hangs up: the container ends with the
// host that owns it.
type watched struct {
	net.Conn
	end func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.end()
	}
	return n, err
}

// Hello implements the wire.
func (g *Guest) Hello(_ context.Context, req *wire.HelloRequest) (*wire.HelloResponse, error) {
	if req.Version != g.version {
		return nil, status.Errorf(codes.FailedPrecondition, "the guest is version %s, the host %s: install both from one build", g.version, req.Version)
	}
	if g.ready {
		return nil, status.Error(codes.FailedPrecondition, "hello was said before")
	}
	if g.landlock = landlockABI(); g.landlock > 0 {
		ruleset, err := newRuleset(g.landlock, req.Writable, false)
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		g.defaultRuleset = ruleset
		if err := onAllThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); err != nil {
			return nil, status.Errorf(codes.FailedPrecondition, "taking the Landlock rules: %v", err)
		}
	}
	g.callFilter, g.writable = req.CallFilter, strs(req.Writable)
	g.marks.processes = req.Processes
	g.env = strs(req.Env)
	g.watch = newWatch(req.NotifyFilter)
	g.ready = true
	return &wire.HelloResponse{
		Version: g.version, LandlockAbi: int32(g.landlock),
		Notifies: g.watch.filter != nil, NotifyErrno: int32(g.watch.errno),
	}, nil
}

// begin registers a call under its number, which the host never uses again.
func (g *Guest) begin(call uint64, r *running) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ready {
		return status.Error(codes.FailedPrecondition, "hello was not said")
	}
	if _, taken := g.running[call]; taken || call == 0 {
		return status.Errorf(codes.InvalidArgument, "call %d exists", call)
	}
	g.running[call] = r
	return nil
}

func (g *Guest) end(call uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, call)
}

func (g *Guest) find(call uint64) *running {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running[call]
}

// Kill implements the wire.
func (g *Guest) Kill(_ context.Context, req *wire.KillRequest) (*wire.KillResponse, error) {
	sig := unix.Signal(req.Signal)
	if sig != unix.SIGKILL {
		n, err := g.marks.signal(req.Call, sig)
		return &wire.KillResponse{Killed: n}, err
	}
	if r := g.find(req.Call); r != nil {
		r.cancel()
	}
	return &wire.KillResponse{}, g.marks.kill(req.Call)
}

// Processes implements the wire.
func (g *Guest) Processes(context.Context, *wire.ProcessesRequest) (*wire.ProcessesResponse, error) {
	const most, longest = 1000, 200
	resp := &wire.ProcessesResponse{}
	err := g.marks.each(func(pid int, call uint64) {
		if len(resp.Processes) == most {
			return
		}
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		resp.Processes = append(resp.Processes, &wire.Process{
			Pid: int32(pid), Call: call, Command: command[:min(len(command), longest)],
		})
	})
	return resp, err
}
