package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// ErrClosed is what calls return when the connection to the guest has ended:
// the session was closed, or the container died.
var ErrClosed = errors.New("the container has ended")

// Grace is how long the guest may take to answer what needs no work, and to
// report the end of a call that was killed. A guest that takes longer is taken
// for hung and its connection is closed.
const Grace = 10 * time.Second

// A Client is the host's side of the connection to one guest. It may be used
// by several goroutines at once.
//
// Its calls are never abandoned half-way: when a context ends, the call is
// killed inside, and what the guest says of that end is awaited, for at most
// [Grace].
type Client struct {
	guard *guard
	ttrpc *ttrpc.Client
	guest GuestClient
}

// NewClient speaks to the guest at the other end of conn, which it closes when
// it is closed.
func NewClient(conn net.Conn) *Client {
	g := newGuard(Whole(conn))
	t := ttrpc.NewClient(g)
	return &Client{guard: g, ttrpc: t, guest: NewGuestClient(t)}
}

// Close ends the connection. The guest ends with it.
func (c *Client) Close() error { return c.ttrpc.Close() }

// Hello settles the version and tells the guest where it is.
func (c *Client) Hello(ctx context.Context, req *HelloRequest) (*HelloResponse, error) {
	return ask(ctx, c, c.guest.Hello, req)
}

// Input sends a running program standard input or a window size.
func (c *Client) Input(ctx context.Context, req *InputRequest) (*InputResponse, error) {
	// A program that does not read holds this up; only its end bounds it.
	return c.guest.Input(ctx, req)
}

// Kill signals all processes of a call.
func (c *Client) Kill(ctx context.Context, call uint64, sig unix.Signal) error {
	_, err := ask(ctx, c, c.guest.Kill, &KillRequest{Call: call, Signal: int32(sig)})
	return err
}

// Processes lists what runs in the container. The guest's word for it.
func (c *Client) Processes(ctx context.Context) ([]*Process, error) {
	resp, err := ask(ctx, c, c.guest.Processes, &ProcessesRequest{})
	return resp.GetProcesses(), err
}

// Exec runs a program and hands each piece of its output to sink, one at a
// time. It returns when the program has ended and all its output was consumed.
// When ctx ends, every process of the call is killed and the error is the
// context's. An error of sink does the same and is returned.
func (c *Client) Exec(ctx context.Context, req *ExecRequest, sink func(*ExecOutput) error) (*Exit, error) {
	defer c.guard.reading()()
	stream, err := c.guest.Exec(context.Background(), req)
	if err != nil {
		return nil, c.error(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := c.killWhenDone(ctx, req.Call)
	defer stop()

	w := window{client: c, call: req.Call}
	for {
		out, err := stream.Recv()
		if err != nil {
			return nil, c.ended(err)
		}
		c.guard.read()
		if exit := out.GetExit(); exit != nil {
			if err := drained(c, stream.Recv); err != nil {
				return nil, err
			}
			if err := exit.Attempts.check(); err != nil {
				return nil, c.violation("%w", err)
			}
			return exit, context.Cause(ctx)
		}
		if err := w.came(len(out.GetStdout()) + len(out.GetStderr())); err != nil {
			return nil, err
		}
		if ctx.Err() == nil {
			if err := sink(out); err != nil {
				cancel(err)
			}
		}
		if err := w.consumed(); err != nil {
			return nil, err
		}
	}
}

// A window is the host's account of what a call has sent.
type window struct {
	client  *Client
	call    uint64
	unacked uint64
}

// came checks a piece of n bytes that has come.
func (w *window) came(n int) error {
	if n == 0 || n > Chunk {
		return w.client.violation("a piece of output of %d bytes", n)
	}
	w.unacked += Charge(n)
	if w.unacked > Window {
		return w.client.violation("more output than the window allows")
	}
	return nil
}

// consumed makes room for more. One acknowledgement serves for a quarter of the
// window: a short output needs none.
func (w *window) consumed() error {
	if w.unacked <= Window/4 {
		return nil
	}
	ack := &AckRequest{Call: w.call, Bytes: w.unacked}
	w.unacked = 0
	_, err := ask(context.Background(), w.client, w.client.guest.Ack, ack)
	return err
}

// Returned is what a function of the guest returned.
type Returned struct {
	Data       []byte
	Background int // processes that it has left running
	Attempts   *Attempts
}

// Call runs a function of the guest and hands each piece of its progress to
// progress, which may be nil. Cancelling works as for [Client.Exec]. Returned is
// nil when the function did not return; it may come with an error.
func (c *Client) Call(ctx context.Context, req *CallRequest, progress func([]byte)) (*Returned, error) {
	if progress == nil {
		stop := c.killWhenDone(ctx, req.Call)
		defer stop()
		out, err := c.guest.Run(context.Background(), req)
		if err != nil {
			return nil, c.error(err)
		}
		return c.returned(ctx, out)
	}
	defer c.guard.reading()()
	stream, err := c.guest.Call(context.Background(), req)
	if err != nil {
		return nil, c.error(err)
	}
	stop := c.killWhenDone(ctx, req.Call)
	defer stop()
	w := window{client: c, call: req.Call}
	for {
		out, err := stream.Recv()
		if err != nil {
			return nil, c.ended(err)
		}
		c.guard.read()
		if piece, ok := out.Body.(*CallOutput_Progress); ok {
			if err := w.came(len(piece.Progress)); err != nil {
				return nil, err
			}
			if ctx.Err() == nil {
				progress(piece.Progress)
			}
			if err := w.consumed(); err != nil {
				return nil, err
			}
			continue
		}
		if out.Body == nil {
			return nil, c.violation("an empty message")
		}
		if err := drained(c, stream.Recv); err != nil {
			return nil, err
		}
		return c.returned(ctx, out)
	}
}

// returned is what the last message of a call says.
func (c *Client) returned(ctx context.Context, last *CallOutput) (*Returned, error) {
	if err := last.Attempts.check(); err != nil {
		return nil, c.violation("%w", err)
	}
	r := &Returned{Background: int(last.Background), Attempts: last.Attempts}
	switch body := last.Body.(type) {
	case *CallOutput_Result:
		r.Data = body.Result
		return r, context.Cause(ctx)
	case *CallOutput_Error:
		if err := context.Cause(ctx); err != nil {
			return r, err
		}
		return r, &CallFailure{Message: body.Error.GetMessage(), Errno: unix.Errno(body.Error.GetErrno())}
	}
	return nil, c.violation("a last message without a result")
}

// A CallFailure is an error that a function of the guest returned.
type CallFailure struct {
	Message string
	Errno   unix.Errno // 0 when there was none
}

func (e *CallFailure) Error() string { return e.Message }

func (e *CallFailure) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// NoWorkingDir begins the start error of a program whose working directory could
// not be entered.
const NoWorkingDir = "the working directory "

// killWhenDone kills a call when ctx ends before stop is called, again and
// again until then: the first may come before the guest has begun the call. A
// guest that does not end it loses its connection.
//
// When stop returns, a call that was killed has left no process: its program
// may have ended before what it had started.
func (c *Client) killWhenDone(ctx context.Context, call uint64) (stop func()) {
	ended, killed := make(chan struct{}), make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		defer close(killed)
		hung := time.After(Grace)
		for {
			c.Kill(context.Background(), call, unix.SIGKILL)
			select {
			case <-ended:
				c.Kill(context.Background(), call, unix.SIGKILL)
				return
			case <-time.After(100 * time.Millisecond):
			case <-hung:
				c.violation("a killed call did not end within %v", Grace)
				return
			}
		}
	})
	return func() {
		before := undo()
		close(ended)
		if !before {
			<-killed
		}
	}
}

// ask makes one call that must be answered within Grace.
func ask[Req, Resp any](ctx context.Context, c *Client, call func(context.Context, *Req) (*Resp, error), req *Req) (*Resp, error) {
	hung := time.AfterFunc(Grace, func() { c.violation("no answer within %v", Grace) })
	defer hung.Stop()
	// Not the caller's context: ttrpc would forget the request, and then take
	// its late answer for one that nobody asked for.
	resp, err := call(context.Background(), req)
	if err != nil {
		return nil, c.error(err)
	}
	return resp, ctx.Err()
}

// violation ends the connection because of what the guest did.
func (c *Client) violation(format string, args ...any) error {
	err := fmt.Errorf("%w: "+format, append([]any{ErrProtocol}, args...)...)
	c.guard.fail(err)
	return err
}

// drained reads the end of a stream whose last message has come.
func drained[T any](c *Client, recv func() (*T, error)) error {
	if _, err := recv(); err == nil {
		return c.violation("a message after the last one")
	} else if !errors.Is(err, io.EOF) {
		return c.error(err)
	}
	return nil
}

// ended says why a stream has ended before its last message.
func (c *Client) ended(err error) error {
	if errors.Is(err, io.EOF) {
		return c.violation("a call ended without a result")
	}
	return c.error(err)
}

// error translates an error of ttrpc.
func (c *Client) error(err error) error {
	if v := c.guard.violation(); v != nil {
		return v
	}
	switch {
	case errors.Is(err, ttrpc.ErrStreamFull):
		return c.violation("more output than the window allows")
	case errors.Is(err, proto.Error):
		return c.violation("a message that is none")
	}
	if s, ok := status.FromError(err); ok {
		return fmt.Errorf("the guest refused: %q", s.Message()) // quoted: it may hold anything
	}
	// The container may die in the middle of a message.
	if errors.Is(err, ttrpc.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(*net.OpError)) {
		return ErrClosed
	}
	return c.violation("%w", err)
}
