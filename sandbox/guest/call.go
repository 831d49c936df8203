package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/sandbox/wire"
)

// Call implements the wire.
func (g *Guest) Call(_ context.Context, req *wire.CallRequest, stream wire.Guest_CallServer) error {
	last, err := g.call(req, func(r *running, piece []byte) {
		r.reserve(wire.Charge(len(piece)))
		stream.Send(&wire.CallOutput{Body: &wire.CallOutput_Progress{Progress: piece}})
	})
	if err != nil {
		return err
	}
	return stream.Send(last)
}

// Run implements the wire.
func (g *Guest) Run(_ context.Context, req *wire.CallRequest) (*wire.CallOutput, error) {
	return g.call(req, func(*running, []byte) {})
}

// call runs a function, and returns what is sent last.
func (g *Guest) call(req *wire.CallRequest, progress func(r *running, piece []byte)) (*wire.CallOutput, error) {
	f, ok := g.functions[req.Name]
	if !ok {
		return failed(fmt.Errorf("no function %q in this guest", req.Name)), nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := g.newRunning(cancel)
	if err := g.begin(req.Call, r); err != nil {
		return nil, err
	}
	defer g.end(req.Call)

	defer r.attempts.end()
	p := &programs{guest: g, req: req, attempts: r.attempts}
	c := &inside.Call{
		Input: req.Input, Programs: p, Env: g.env,
		Progress: func(data []byte) {
			for piece := range slices.Chunk(data, wire.Chunk) {
				progress(r, piece)
			}
		},
	}
	var result []byte
	run := func() (err error) {
		result, err = f.Run(ctx, c)
		return err
	}
	var err error
	if f.Pure {
		err = run()
	} else {
		err = g.function(req.Envelope, run)
	}
	if err == nil && len(result) > wire.MaxFrame-1024 {
		err = fmt.Errorf("the result of %d bytes is larger than a message", len(result))
	}
	last := &wire.CallOutput{Body: &wire.CallOutput_Result{Result: result}}
	if err != nil {
		last = failed(err)
	}
	if p.started {
		last.Background = g.marks.count(req.Call)
		// A result may fill a message; evidence takes what is left.
		last.Attempts = r.attempts.end().Within(wire.MaxFrame - 1024 - len(result))
	}
	return last, nil
}

func failed(err error) *wire.CallOutput {
	var errno unix.Errno
	errors.As(err, &errno)
	return &wire.CallOutput{Body: &wire.CallOutput_Error{
		Error: &wire.CallError{Message: err.Error(), Errno: int32(errno)},
	}}
}

// programs are those of one call of a function.
type programs struct {
	guest   *Guest
	req     *wire.CallRequest
	started bool

	attempts *attempts
}

// Run implements [inside.Programs].
func (p *programs) Run(ctx context.Context, prog inside.Program) (*inside.Exit, error) {
	streams, err := newFunctionStdio(prog)
	if err != nil {
		return nil, err
	}
	defer streams.close()
	ended, err := p.start(prog, streams)
	streams.closeInside()
	if err != nil {
		return nil, err
	}
	var pumps sync.WaitGroup
	for _, out := range streams.outputs {
		w := prog.Stdout
		if out.stderr {
			w = prog.Stderr
		}
		out.heard = p.guest.suspicion(p.attempts, out)
		pumps.Go(func() { out.copyTo(w) })
	}
	killed := make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		defer close(killed)
		p.guest.marks.kill(p.req.Call)
	})
	e := <-ended
	for _, out := range streams.outputs {
		out.programEnded()
	}
	pumps.Wait()
	if !undo() {
		<-killed
	}
	exit := &inside.Exit{User: duration(e.usage.Utime), Sys: duration(e.usage.Stime)}
	if e.status.Signaled() {
		exit.Signal = int(e.status.Signal())
	} else {
		exit.Code = e.status.ExitStatus()
	}
	if p.attempts != nil && e.status != 0 {
		p.attempts.failed()
	}
	return exit, ctx.Err()
}

// Start implements [inside.Programs].
func (p *programs) Start(prog inside.Program) error {
	streams, err := newFunctionStdio(prog)
	if err != nil {
		return err
	}
	defer streams.close() // what it writes to nobody is taken from it
	_, err = p.start(prog, streams)
	streams.closeInside()
	return err
}

func (p *programs) start(prog inside.Program, streams *stdio) (<-chan exited, error) {
	p.started = true
	files := streams.inside()
	for _, f := range prog.Files {
		files = append(files, f.Fd())
	}
	return p.guest.launch(p.req.Call, p.req.Envelope, p.attempts, prog.Args, &syscall.ProcAttr{
		Dir: prog.Dir, Env: prog.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// newFunctionStdio makes the standard streams of a program that a function
// starts: files as they are, anything else through a pipe.
func newFunctionStdio(prog inside.Program) (s *stdio, err error) {
	s = &stdio{}
	defer func() {
		if err != nil {
			s.closeInside()
			s.close()
		}
	}()
	if s.child[0], err = os.Open(os.DevNull); err != nil {
		return nil, err
	}
	for i, w := range []io.Writer{prog.Stdout, prog.Stderr} {
		if f, ok := w.(*os.File); ok {
			fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			s.child[1+i] = os.NewFile(uintptr(fd), f.Name())
			continue
		}
		if w == nil {
			if s.child[1+i], err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
				return nil, err
			}
			continue
		}
		r, pipe, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.child[1+i] = pipe
		s.outputs = append(s.outputs, &output{file: r, stderr: i == 1})
	}
	return s, nil
}

// copyTo hands a writer what comes. One that takes no more does not keep the
// program from writing.
func (o *output) copyTo(w io.Writer) {
	buf := make([]byte, wire.Chunk)
	for {
		n, err := o.read(buf)
		if n > 0 {
			w.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func duration(t unix.Timeval) time.Duration {
	return time.Duration(t.Sec)*time.Second + time.Duration(t.Usec)*time.Microsecond
}
