package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/wire"
)

// running is a call that has not ended.
type running struct {
	cancel func()

	stdin    *os.File // nil when standard input is empty
	terminal *os.File // nil without a terminal

	mu       sync.Mutex
	drained  sync.Cond // signalled when room in the window may have come
	inFlight uint64    // sent and not acknowledged, as wire.Charge has it

	attempts *attempts // nil where nobody asks for them
}

func (g *Guest) newRunning(cancel func()) *running {
	r := &running{cancel: cancel, attempts: g.newAttempts()}
	r.drained.L = &r.mu
	return r
}

// Exec implements the wire.
func (g *Guest) Exec(_ context.Context, req *wire.ExecRequest, stream wire.Guest_ExecServer) error {
	streams, err := newStdio(req)
	if err != nil {
		return stream.Send(&wire.ExecOutput{Body: &wire.ExecOutput_Exit{Exit: notStarted(err)}})
	}
	defer streams.close()
	// From here on there is something that takes input.
	r := g.newRunning(func() {})
	r.stdin, r.terminal = streams.stdin, streams.terminal
	if err := g.begin(req.Call, r); err != nil {
		streams.closeInside()
		return err
	}
	defer g.end(req.Call)
	exit := g.exec(req, r, streams, stream)
	return stream.Send(&wire.ExecOutput{Body: &wire.ExecOutput_Exit{Exit: exit}})
}

// exec runs the program and returns how it ended, all that it wrote having been
// sent.
func (g *Guest) exec(req *wire.ExecRequest, r *running, streams *stdio, stream wire.Guest_ExecServer) *wire.Exit {
	defer r.attempts.end()
	ended, err := g.launch(req.Call, req.Envelope, r.attempts, strs(req.Args), &syscall.ProcAttr{
		Dir: string(req.Dir), Env: strs(req.Env), Files: streams.inside(),
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: streams.terminal != nil},
	})
	streams.closeInside()
	if err != nil {
		return notStarted(err)
	}
	var pumps sync.WaitGroup
	for _, out := range streams.outputs {
		out.heard = g.suspicion(r.attempts, out)
		pumps.Go(func() { r.pump(out, stream) })
	}
	e := <-ended
	for _, out := range streams.outputs {
		out.programEnded()
	}
	pumps.Wait()

	exit := &wire.Exit{
		Background: g.marks.count(req.Call),
		UserUs:     micros(e.usage.Utime),
		SystemUs:   micros(e.usage.Stime),
	}
	if e.status.Signaled() {
		exit.Signal = int32(e.status.Signal())
	} else {
		exit.Code = int32(e.status.ExitStatus())
	}
	if r.attempts != nil && e.status != 0 {
		r.attempts.failed()
	}
	exit.Attempts = r.attempts.end()
	return exit
}

func micros(t unix.Timeval) uint64 { return uint64(t.Sec)*1e6 + uint64(t.Usec) }

func notStarted(err error) *wire.Exit {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		errno = syscall.EIO
	}
	return &wire.Exit{StartErrno: int32(errno), StartError: err.Error()}
}

// launch starts a program, marked as the call's and held to its envelope. What it
// tries is put on the list, unless that is nil.
func (g *Guest) launch(call uint64, env *wire.Envelope, on *attempts, args []string, attr *syscall.ProcAttr) (<-chan exited, error) {
	if len(args) == 0 {
		return nil, syscall.EINVAL
	}
	path, err := lookPath(args[0], attr.Env, attr.Dir)
	if err != nil {
		return nil, err
	}
	var ended <-chan exited
	err = g.confined(env, g.callFilter, on, func() (err error) {
		_, ended, err = g.reaper.start(func() (int, error) {
			return syscall.ForkExec(path, args, attr)
		})
		return err
	}, func(fork func() error) error { return g.marks.during(call, fork) })
	if err != nil {
		if st, statErr := os.Stat(attr.Dir); statErr != nil || !st.IsDir() {
			return nil, fmt.Errorf("%s%s: %w", wire.NoWorkingDir, attr.Dir, err)
		}
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return ended, nil
}

func strs(b [][]byte) []string {
	s := make([]string, len(b))
	for i := range b {
		s[i] = string(b[i])
	}
	return s
}

// lookPath finds a program as a shell does: by PATH of the environment that it
// will have, unless its name has a slash.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	path := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	err := error(unix.ENOENT)
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		file := filepath.Join(d, name)
		if e := executable(file); e == nil {
			return file, nil
		} else if e == unix.EACCES {
			err = e
		}
	}
	return "", fmt.Errorf("%s: %w", name, err)
}

func executable(file string) error {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EACCES
	}
	return unix.Access(file, unix.X_OK)
}

// pump sends what a program writes, as fast as the host takes it.
func (r *running) pump(out *output, stream wire.Guest_ExecServer) {
	buf := make([]byte, wire.Chunk)
	for {
		n, err := out.read(buf)
		if n > 0 {
			r.reserve(wire.Charge(n))
			msg := &wire.ExecOutput{Body: &wire.ExecOutput_Stdout{Stdout: buf[:n]}}
			if out.stderr {
				msg.Body = &wire.ExecOutput_Stderr{Stderr: buf[:n]}
			}
			if stream.Send(msg) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// reserve waits for room in the window.
func (r *running) reserve(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.inFlight+n > wire.Window {
		r.drained.Wait()
	}
	r.inFlight += n
}

// Ack implements the wire.
func (g *Guest) Ack(_ context.Context, req *wire.AckRequest) (*wire.AckResponse, error) {
	if r := g.find(req.Call); r != nil {
		r.mu.Lock()
		r.inFlight -= min(r.inFlight, req.Bytes)
		r.drained.Broadcast()
		r.mu.Unlock()
	}
	return &wire.AckResponse{}, nil
}

// Input implements the wire.
func (g *Guest) Input(_ context.Context, req *wire.InputRequest) (*wire.InputResponse, error) {
	r := g.find(req.Call)
	if r == nil {
		return &wire.InputResponse{Closed: true}, nil
	}
	if s := req.Size; s != nil && r.terminal != nil {
		pty.Setsize(r.terminal, &pty.Winsize{Rows: uint16(s.Rows), Cols: uint16(s.Columns)})
	}
	in := r.stdin
	if in == nil {
		return &wire.InputResponse{Closed: len(req.Stdin) > 0}, nil
	}
	resp := &wire.InputResponse{}
	if len(req.Stdin) > 0 {
		// This waits until the program reads. Its end closes the pipe's other
		// end, or the terminal.
		if _, err := in.Write(req.Stdin); err != nil {
			resp.Closed = true
		}
	}
	if req.CloseStdin && r.terminal == nil {
		in.Close()
	}
	return resp, nil
}
