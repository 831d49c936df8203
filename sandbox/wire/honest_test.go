package wire

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/ttrpc"
)

// honest is a guest behind the generated server: it writes as much as it may.
type honest struct {
	GuestService
	pieces, size int

	mu    sync.Mutex
	acked sync.Cond
	used  map[uint64]uint64 // of the window, by call
}

func (h *honest) Exec(_ context.Context, req *ExecRequest, stream Guest_ExecServer) error {
	for range h.pieces {
		h.wait(req.Call, h.size)
		if err := stream.Send(&ExecOutput{Body: &ExecOutput_Stdout{Stdout: make([]byte, h.size)}}); err != nil {
			return err
		}
	}
	return stream.Send(&ExecOutput{Body: &ExecOutput_Exit{Exit: &Exit{Code: int32(req.Call)}}})
}

// wait waits for room for a piece.
func (h *honest) wait(call uint64, size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.used[call]+Charge(size) > Window {
		h.acked.Wait()
	}
	h.used[call] += Charge(size)
}

func (h *honest) Ack(_ context.Context, req *AckRequest) (*AckResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used[req.Call] -= req.Bytes
	h.acked.Broadcast()
	return &AckResponse{}, nil
}

func (h *honest) Call(_ context.Context, req *CallRequest, stream Guest_CallServer) error {
	for range h.pieces {
		h.wait(req.Call, len(req.Input))
		if err := stream.Send(&CallOutput{Body: &CallOutput_Progress{Progress: req.Input}}); err != nil {
			return err
		}
	}
	return stream.Send(&CallOutput{Body: &CallOutput_Result{Result: req.Input}})
}

func (h *honest) Run(_ context.Context, req *CallRequest) (*CallOutput, error) {
	return &CallOutput{Body: &CallOutput_Result{Result: req.Input}, Background: 3}, nil
}

// serve has a guest at the other end of a client until the test ends.
func serve(t *testing.T, g *honest) *Client {
	t.Helper()
	g.acked.L, g.used = &g.mu, make(map[uint64]uint64)
	host, guest := net.Pipe()
	server, err := ttrpc.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	RegisterGuestService(server, g)
	l := &one{conns: make(chan net.Conn, 1)}
	l.conns <- guest
	go server.Serve(context.Background(), l)
	c := NewClient(host)
	t.Cleanup(func() {
		c.Close()
		close(l.conns)
		server.Close()
	})
	return c
}

type one struct{ conns chan net.Conn }

func (l *one) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *one) Close() error   { return nil }
func (l *one) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// Output waits for who takes it, for as long as that needs, in pieces of any
// size: a terminal may be stopped, a pager be read.
func TestOutputWaitsForASlowReader(t *testing.T) {
	for _, size := range []int{1, 100, Chunk} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pieces = 500
				c := serve(t, &honest{pieces: pieces, size: size})
				got := 0
				exit, err := c.Exec(t.Context(), &ExecRequest{Call: 5}, func(out *ExecOutput) error {
					if got == 0 {
						time.Sleep(time.Hour)
					}
					got += len(out.GetStdout())
					return nil
				})
				if err != nil || exit.Code != 5 || got != pieces*size {
					t.Errorf("%v, %v, %d bytes of %d", exit, err, got, pieces*size)
				}
				got = 0
				_, err = c.Call(t.Context(), &CallRequest{Call: 6, Input: make([]byte, size)}, func(p []byte) {
					if got == 0 {
						time.Sleep(time.Hour)
					}
					got += len(p)
				})
				if err != nil || got != pieces*size {
					t.Errorf("progress: %v, %d bytes of %d", err, got, pieces*size)
				}
			})
		})
	}
}

// A call whose output nobody takes does not hold up the others.
func TestManyCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, &honest{pieces: 20, size: 100})
		taken := make(chan struct{})
		var calls sync.WaitGroup
		calls.Go(func() {
			exit, err := c.Exec(t.Context(), &ExecRequest{Call: 999}, func(*ExecOutput) error { <-taken; return nil })
			if err != nil || exit.Code != 999 {
				t.Errorf("%v, %v", exit, err)
			}
		})
		var others sync.WaitGroup
		for i := range 100 {
			others.Go(func() {
				input := fmt.Appendf(nil, "input %d", i)
				progress := 0
				got, err := c.Call(t.Context(), &CallRequest{Call: uint64(i + 1), Input: input}, func(p []byte) {
					if !bytes.Equal(p, input) {
						t.Errorf("the progress of another: %q", p)
					}
					progress++
				})
				if err != nil || !bytes.Equal(got.Data, input) || progress != 20 {
					t.Errorf("%+v, %v, %d", got, err, progress)
				}
			})
		}
		others.Wait()
		close(taken)
		calls.Wait()
	})
}

// An error of who takes the output kills the call and is what Exec returns.
func TestCancelledContextIsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, &honest{pieces: 1, size: 1})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := fmt.Errorf("no longer wanted")
		cancel(why)
		for _, progress := range []func([]byte){nil, func([]byte) {}} {
			if _, err := c.Call(ctx, &CallRequest{Call: 1, Input: []byte("x")}, progress); err != why {
				t.Errorf("%v", err)
			}
		}
	})
}

// A call without progress, of any size that a message may have, returns what one
// with progress does.
func TestCallWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, &honest{})
		for _, size := range []int{0, 1, 4080, 4096, mostWhole - 100, mostWhole, mostWhole + 1, MaxFrame / 2, MaxFrame - 1024} {
			input := bytes.Repeat([]byte("x"), size)
			got, err := c.Call(t.Context(), &CallRequest{Call: 1, Input: input}, nil)
			if err != nil || !bytes.Equal(got.Data, input) || got.Background != 3 {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	})
}

// written counts what is written at once.
type written struct {
	net.Conn
	sizes []int
	data  bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	return w.data.Write(p)
}

// However a frame is handed over, it is written at once, unless it is large; and
// nothing of it is kept back.
func TestWhole(t *testing.T) {
	for _, size := range []int{0, 1, 5000, mostWhole - headerSize, 3 * mostWhole} {
		for _, piece := range []int{1, 7, headerSize, 4096, 1 << 20} {
			w := &written{}
			c := Whole(w)
			var want []byte
			for stream := range uint32(3) {
				f := frame(stream, typeData, 0, bytes.Repeat([]byte{byte(stream)}, size))
				want = append(want, f...)
				for rest := f; len(rest) > 0; {
					n, err := c.Write(rest[:min(piece, len(rest))])
					if err != nil || n != min(piece, len(rest)) {
						t.Fatal(n, err)
					}
					rest = rest[n:]
				}
			}
			if !bytes.Equal(w.data.Bytes(), want) {
				t.Errorf("%d bytes in pieces of %d: other bytes were written", size, piece)
			}
			if headerSize+size <= mostWhole && len(w.sizes) != 3 {
				t.Errorf("%d bytes in pieces of %d: written in %d parts", size, piece, len(w.sizes))
			}
		}
	}
}

func (h *honest) Kill(context.Context, *KillRequest) (*KillResponse, error) {
	return &KillResponse{}, nil
}
