package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/wire"
)

// A Command is a program to run in a session.
type Command struct {
	// Args are the program and its arguments. A program without a slash is
	// looked for in the session's PATH.
	Args []string
	// Dir is the working directory, absolute or relative to the workspace;
	// empty is the workspace.
	Dir string
	// Env adds to the session's environment, or replaces parts of it.
	Env []string
	// Stdin is what the program reads; nil is nothing. When it is a terminal or
	// another source that does not end, a read of it may outlast the call.
	Stdin io.Reader
	// Stdout and Stderr take what the program writes; nil throws it away. They
	// are written to by one goroutine at a time; when both are one terminal's,
	// the order within each is kept.
	Stdout, Stderr io.Writer
	// Terminal runs the program on a terminal of its own, whose output goes to
	// Stdout. Nil runs it without.
	Terminal *Terminal
	// Signals are sent to all processes of the call while it runs; nil is none.
	// What must end it is the context.
	Signals <-chan unix.Signal
	// Envelope is what the kernel holds the call to.
	Envelope Envelope
}

// A Terminal describes a pseudo-terminal.
type Terminal struct {
	Rows, Columns uint16
	// Resize carries new sizes while the program runs; nil is never.
	Resize <-chan [2]uint16 // rows, columns
}

// An Exit is how a program ended.
type Exit struct {
	Code   int         // the exit code, when Signal is 0
	Signal unix.Signal // the signal that ended it
	// OutOfMemory is how many processes of the session were killed at its memory
	// limit, of a program that failed: since the last one that did. Often the
	// program is one of them.
	OutOfMemory int
	// Background is how many processes it left running in the session.
	Background int
	// Quarantined are paths that appeared in a direct workspace where nothing may
	// (Settings.Absent), and were moved to the session's directory.
	Quarantined []string
	// Attempts are what it tried to change in the eye, until it ended;
	// AttemptsDropped is how many more there were.
	Attempts        []Attempt
	AttemptsDropped int
	User, Sys       time.Duration // processor time
}

// Status is the exit code as a shell gives it.
func (e *Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// A StartError says that a program could not be started at all.
type StartError struct {
	Program string
	Errno   unix.Errno
	Message string
	Dir     bool // for want of its working directory
}

func (e *StartError) Error() string { return e.Message }

func (e *StartError) Unwrap() error { return e.Errno }

// ErrTime is the error of a call that took longer than its envelope allows.
var ErrTime = errors.New("the time limit has passed")

// Exec runs a program and returns when it has ended and its output was written.
// Processes that it leaves in the background live on.
//
// The error is a [*StartError] when the program could not be started, and wraps
// [ErrTime] or the context's error when it was stopped, with all its processes.
// An exit code other than 0 is no error. Any other error means that the call
// could not be run or that the session is over; Err tells which.
func (s *Session) Exec(ctx context.Context, cmd Command) (*Exit, error) {
	b, env, err := s.enter(ctx, cmd.Envelope)
	if err != nil {
		return nil, err
	}
	if err := s.running.begin(ctx); err != nil {
		return nil, err
	}
	exit, err := s.exec(ctx, b, s.calls.Add(1), env, cmd)
	background := exit == nil || exit.Background > 0
	moved, moveErr := s.quarantine()
	if exit != nil {
		exit.Quarantined = moved
		if exit.Status() != 0 {
			exit.OutOfMemory = s.OutOfMemory()
		}
	}
	err = errors.Join(err, moveErr)
	return exit, errors.Join(err, s.running.end(ctx, cmd.Envelope.Box == Hand, background && cmd.Envelope.Box == Hand))
}

// OutOfMemory is how many processes of the session were killed at its memory
// limit since it was last asked.
func (s *Session) OutOfMemory() int {
	n := int64(s.containers.Report().OutOfMemory)
	return int(n - s.root().killed.Swap(n))
}

// enter opens the box of an envelope, and checks that the envelope can be held
// there.
func (s *Session) enter(ctx context.Context, e Envelope) (*box, *wire.Envelope, error) {
	b, err := s.open(ctx, e.Box)
	if err != nil {
		return nil, nil, err
	}
	if e.Memory != 0 || e.CPUs != 0 || e.Pids != 0 {
		return nil, nil, fmt.Errorf("%w: memory, processors and processes are limited for the session, not for one call; fork the session", ErrNotHeld)
	}
	env := &wire.Envelope{}
	if e.Writable != nil {
		if b.landlock == 0 {
			return nil, nil, fmt.Errorf("%w: this kernel has no Landlock (Linux 5.19) to narrow what may be written", ErrNotHeld)
		}
		env.Narrow = true
		// Device nodes and the call's own /proc are always there to be written.
		env.Writable = bytesOf(append([]string{"/dev", "/proc"}, e.Writable...))
	}
	return b, env, nil
}

func (s *Session) exec(ctx context.Context, b *box, call uint64, env *wire.Envelope, cmd Command) (*Exit, error) {
	if cmd.Envelope.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cmd.Envelope.Time, ErrTime)
		defer cancel()
	}
	if err := cmd.check(); err != nil {
		return nil, err
	}
	req := &wire.ExecRequest{
		Call: call, Args: bytesOf(cmd.Args), Env: bytesOf(mergeEnv(b.env, cmd.Env)),
		Dir: []byte(s.absolute(cmd.Dir)), Stdin: cmd.Stdin != nil, Envelope: env,
	}
	if t := cmd.Terminal; t != nil {
		req.Terminal = true
		req.Size = &wire.WindowSize{Rows: uint32(t.Rows), Columns: uint32(t.Columns)}
	}
	input, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if cmd.Stdin != nil {
		go feed(input, b.client, call, cmd.Stdin)
	}
	if cmd.Signals != nil {
		go signals(input, b.client, call, cmd.Signals)
	}
	if cmd.Terminal != nil && cmd.Terminal.Resize != nil {
		go resize(input, b.client, call, cmd.Terminal.Resize)
	}
	got, err := b.client.Exec(ctx, req, func(out *wire.ExecOutput) error {
		w, data := cmd.Stdout, out.GetStdout()
		if data == nil {
			w, data = cmd.Stderr, out.GetStderr()
		}
		if w == nil {
			return nil
		}
		_, err := w.Write(data)
		return err
	})
	if got == nil {
		return nil, s.over(err)
	}
	if got.StartErrno != 0 {
		return nil, &StartError{
			Program: cmd.Args[0], Errno: unix.Errno(got.StartErrno), Message: changeset.Printable(got.StartError),
			Dir: strings.HasPrefix(got.StartError, wire.NoWorkingDir),
		}
	}
	exit := &Exit{
		Code: int(uint8(got.Code)), Signal: unix.Signal(got.Signal & 0x7f), Background: int(got.Background),
		User: time.Duration(got.UserUs) * time.Microsecond, Sys: time.Duration(got.SystemUs) * time.Microsecond,
	}
	exit.Attempts, exit.AttemptsDropped = attempts(got.Attempts)
	return exit, err
}

// mostInput is the most that one call can be given, in bytes: a message has room
// for it and for the rest.
const mostInput = wire.MaxFrame - 64<<10

// check refuses what no guest has to be asked for.
func (cmd *Command) check() error {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return &StartError{Errno: unix.EINVAL, Message: "no program was given"}
	}
	size := 0
	for _, s := range slices.Concat(cmd.Args, cmd.Env) {
		size += len(s) + 8
	}
	if size > mostInput {
		return &StartError{
			Program: cmd.Args[0], Errno: unix.E2BIG,
			Message: fmt.Sprintf("%.100s: %d bytes of arguments and environment are too long; use a file, or standard input", cmd.Args[0], size),
		}
	}
	return nil
}

// absolute returns a path of the session for a working directory.
func (s *Session) absolute(dir string) string {
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(s.Workspace, dir)
}

// mergeEnv replaces and adds variables.
func mergeEnv(base, extra []string) []string {
	if len(extra) == 0 {
		return base
	}
	env := slices.Clone(base)
	for _, kv := range extra {
		name := kv[:max(0, strings.IndexByte(kv, '='))]
		env = slices.DeleteFunc(env, func(old string) bool { return old[:max(0, strings.IndexByte(old, '='))] == name })
		env = append(env, kv)
	}
	return env
}

// over ends the session after an error of the wire, and says why it ended: the
// guest may have been killed for want of memory.
func (s *Session) over(err error) error {
	if err == nil || !errors.Is(err, wire.ErrClosed) && !errors.Is(err, wire.ErrProtocol) {
		return err
	}
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken != nil {
		return broken
	}
	switch r := s.containers.Report(); {
	case r.RefusedForks > 0:
		// PID 1 itself needs a thread now and then.
		err = fmt.Errorf("%w: it was at its limit of %d processes; raise it with --pids", err, s.limits.Pids)
	case r.OutOfMemory > 0:
		n := r.OutOfMemory
		err = fmt.Errorf("%w: %d processes were killed at the memory limit of %d MiB; raise it with --memory", err, n, s.limits.Memory>>20)
	}
	err = fmt.Errorf("the session is over: %w", err)
	s.stop(err)
	return err
}

// begun waits until the guest has begun a call, to which nothing could be sent
// before, or the call is over.
func begun(ctx context.Context, client *wire.Client, call uint64) bool {
	for wait := 20 * time.Microsecond; ctx.Err() == nil; wait = min(2*wait, 10*time.Millisecond) {
		resp, err := client.Input(context.Background(), &wire.InputRequest{Call: call})
		if err != nil || !resp.Closed {
			return err == nil
		}
		time.Sleep(wait)
	}
	return false
}

// feed sends what in gives to a program until either ends.
func feed(ctx context.Context, client *wire.Client, call uint64, in io.Reader) {
	if !begun(ctx, client, call) {
		return
	}
	buf := make([]byte, wire.Chunk)
	for ctx.Err() == nil {
		n, err := in.Read(buf)
		if ctx.Err() != nil {
			return
		}
		req := &wire.InputRequest{Call: call, Stdin: buf[:n], CloseStdin: err != nil}
		resp, sendErr := client.Input(context.Background(), req)
		if sendErr != nil || resp.Closed || err != nil {
			return
		}
	}
}

func resize(ctx context.Context, client *wire.Client, call uint64, sizes <-chan [2]uint16) {
	if !begun(ctx, client, call) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			client.Input(context.Background(), &wire.InputRequest{
				Call: call, Size: &wire.WindowSize{Rows: uint32(size[0]), Columns: uint32(size[1])},
			})
		}
	}
}

func signals(ctx context.Context, client *wire.Client, call uint64, signals <-chan unix.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig, ok := <-signals:
			if !ok {
				return
			}
			if begun(ctx, client, call) {
				client.Kill(ctx, call, sig)
			}
		}
	}
}

// Returned is what a function of the guest returned, and what it did beside.
type Returned struct {
	Data        []byte   // comes from inside, and is not to be trusted
	Background  int      // processes that it left running in the session
	Quarantined []string // as in Exit
	// As in Exit, of the programs that it started.
	Attempts        []Attempt
	AttemptsDropped int
}

// Call runs a function of the guest: what a tool does inside. The input and the
// result are the function's own affair. progress may be nil. What was returned
// can come with an error: that of a context which ended while the function ran.
// An error of the function is a [*wire.CallFailure].
func (s *Session) Call(ctx context.Context, name string, input []byte, e Envelope, progress func([]byte)) (*Returned, error) {
	if len(input) > mostInput {
		return nil, fmt.Errorf("the input of %s is too large: %d bytes, of at most %d", name, len(input), mostInput)
	}
	b, env, err := s.enter(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := s.running.begin(ctx); err != nil {
		return nil, err
	}
	if e.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.Time, ErrTime)
		defer cancel()
	}
	req := &wire.CallRequest{Call: s.calls.Add(1), Name: name, Input: input, Envelope: env}
	got, err := b.client.Call(ctx, req, progress)
	if failure := (*wire.CallFailure)(nil); errors.As(err, &failure) {
		failure.Message = printableLines(failure.Message)
	}
	moved, moveErr := s.quarantine()
	var r *Returned
	if got != nil {
		r = &Returned{Data: got.Data, Background: got.Background, Quarantined: moved}
		r.Attempts, r.AttemptsDropped = attempts(got.Attempts)
	}
	background := e.Box == Hand && (got == nil || got.Background > 0)
	return r, errors.Join(s.over(err), moveErr, s.running.end(ctx, e.Box == Hand, background))
}

// printableLines is a text of the guest's that keeps its lines, as what a
// compiler of patterns says of a place in one needs them.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = changeset.Printable(line)
	}
	return strings.Join(lines, "\n")
}
