package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/containerd/log"
	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// The guests of these tests write frames themselves. All is done in a bubble of
// its own (testing/synctest): no goroutine of the client may be left at its end,
// and time passes at once when all wait for it.

func init() { log.L.Logger.SetOutput(io.Discard) }

type fakeGuest struct {
	t    *testing.T
	conn net.Conn
}

// withGuest calls test with a client whose guest is played by play, which
// returns when the host has hung up.
func withGuest(t *testing.T, play func(fakeGuest), test func(*Client)) {
	synctest.Test(t, func(t *testing.T) {
		host, guest := net.Pipe()
		c := NewClient(host)
		played := make(chan struct{})
		go func() {
			defer close(played)
			play(fakeGuest{t, guest})
			io.Copy(io.Discard, guest) // until the host hangs up
		}()
		test(c)
		c.Close()
		<-played
		guest.Close()
		synctest.Wait()
	})
}

// next reads a request: its stream and what is asked.
func (g fakeGuest) next() (uint32, *ttrpc.Request) {
	var h [headerSize]byte
	if _, err := io.ReadFull(g.conn, h[:]); err != nil {
		return 0, nil
	}
	payload := make([]byte, binary.BigEndian.Uint32(h[:4]))
	if _, err := io.ReadFull(g.conn, payload); err != nil {
		return 0, nil
	}
	req := &ttrpc.Request{}
	if err := proto.Unmarshal(payload, req); err != nil {
		g.t.Error(err)
	}
	return binary.BigEndian.Uint32(h[4:8]), req
}

func frame(stream uint32, typ, flags byte, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(append(b, typ, flags), payload...)
}

// send writes a frame. That the host has hung up is no failure of a guest's.
func (g fakeGuest) send(stream uint32, typ, flags byte, payload []byte) bool {
	_, err := g.conn.Write(frame(stream, typ, flags, payload))
	return err == nil
}

// end ends a stream.
func (g fakeGuest) end(stream uint32) { g.send(stream, typeData, flagRemoteClosed|4, nil) } // 4: no data

func marshal(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func stdout(n int) []byte {
	return marshal(&ExecOutput{Body: &ExecOutput_Stdout{Stdout: make([]byte, n)}})
}

func exited(code int32) []byte {
	return marshal(&ExecOutput{Body: &ExecOutput_Exit{Exit: &Exit{Code: code}}})
}

// attempting ends a program that has tried something.
func attempting(list ...*Attempt) func(fakeGuest, uint32) {
	return func(g fakeGuest, s uint32) {
		g.send(s, typeData, 0, marshal(&ExecOutput{Body: &ExecOutput_Exit{Exit: &Exit{Attempts: &Attempts{Attempts: list}}}}))
		g.end(s)
	}
}

func result(b []byte) []byte { return marshal(&CallOutput{Body: &CallOutput_Result{Result: b}}) }

// ok is the answer to a request that is no stream, or the end of one.
func ok(m proto.Message) []byte {
	resp := &ttrpc.Response{}
	if m != nil {
		resp.Payload = marshal(m)
	}
	return marshal(resp)
}

func run(c *Client) error {
	_, err := c.Exec(context.Background(), &ExecRequest{Call: 1}, func(*ExecOutput) error { return nil })
	return err
}

func call(c *Client) error {
	_, err := c.Call(context.Background(), &CallRequest{Call: 1}, func([]byte) {})
	return err
}

func callAtOnce(c *Client) error {
	_, err := c.Call(context.Background(), &CallRequest{Call: 1}, nil)
	return err
}

func ask1(c *Client) error { return c.Kill(context.Background(), 1, unix.SIGTERM) }

// What a guest may not do ends its connection, and every call on it fails with
// ErrProtocol.
func TestGuestThatBreaksTheProtocol(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*Client) error
		play func(fakeGuest, uint32) // after the request of that stream
		want string
	}{
		"answers no request":               {ask1, func(g fakeGuest, s uint32) { g.send(s+2, typeResponse, 0, ok(nil)) }, "an answer to no request"},
		"uses a stream of its own":         {run, func(g fakeGuest, s uint32) { g.send(s+1, typeData, 0, stdout(1)) }, "an answer to no request"},
		"asks something":                   {run, func(g fakeGuest, s uint32) { g.send(s, typeRequest, 0, nil) }, "a frame of type 1"},
		"sends a frame of no type":         {run, func(g fakeGuest, s uint32) { g.send(s, 0, 0, nil) }, "a frame of type 0"},
		"sends a frame of an unknown type": {run, func(g fakeGuest, s uint32) { g.send(s, 77, 0, nil) }, "a frame of type 77"},
		"streams where nothing streams":    {ask1, func(g fakeGuest, s uint32) { g.send(s, typeData, 0, ok(nil)) }, "a frame of type 3"},
		"sends a frame that is too large": {run, func(g fakeGuest, s uint32) {
			g.conn.Write(frame(s, typeData, 0, make([]byte, MaxFrame+1))[:headerSize])
		}, "a frame of 4194305 bytes"},
		"announces four gigabytes": {ask1, func(g fakeGuest, s uint32) {
			g.conn.Write([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, byte(s), typeResponse, 0})
		}, "a frame of 4294967295 bytes"},
		"answers twice": {run, func(g fakeGuest, s uint32) {
			g.send(s, typeData, 0, exited(0))
			g.end(s)
			g.send(s, typeResponse, 0, ok(nil))
		}, "an answer to no request"},
		"answers a stream that it has closed": {run, func(g fakeGuest, s uint32) {
			g.send(s, typeData, flagRemoteClosed, stdout(1))
			g.send(s, typeData, 0, stdout(1))
		}, ""},
		"sends output after the exit": {run, func(g fakeGuest, s uint32) {
			g.send(s, typeData, 0, exited(0))
			g.send(s, typeData, 0, stdout(1))
		}, "a message after the last one"},
		"exits twice": {run, func(g fakeGuest, s uint32) {
			g.send(s, typeData, 0, exited(0))
			g.send(s, typeData, 0, exited(1))
		}, "a message after the last one"},
		"ends without an exit":             {run, func(g fakeGuest, s uint32) { g.end(s) }, "without a result"},
		"sends an empty message":           {run, func(g fakeGuest, s uint32) { g.send(s, typeData, 0, nil) }, "a piece of output of 0 bytes"},
		"sends an empty piece":             {run, func(g fakeGuest, s uint32) { g.send(s, typeData, 0, stdout(0)) }, "a piece of output of 0 bytes"},
		"sends a piece that is too large":  {run, func(g fakeGuest, s uint32) { g.send(s, typeData, 0, stdout(Chunk+1)) }, "a piece of output of 32769 bytes"},
		"sends what is no message":         {run, func(g fakeGuest, s uint32) { g.send(s, typeData, 0, []byte{0xff, 0xff, 0xff}) }, ""},
		"answers with what is no response": {ask1, func(g fakeGuest, s uint32) { g.send(s, typeResponse, 0, []byte{0xff, 0xff}) }, ""},
		"sends what is no response at the end": {run, func(g fakeGuest, s uint32) {
			g.send(s, typeData, 0, exited(0))
			g.send(s, typeResponse, 0, []byte{0xff, 0xff})
		}, ""},
		"does not wait for the window": {run, func(g fakeGuest, s uint32) {
			for g.send(s, typeData, 0, stdout(Chunk)) {
			}
		}, ""},
		"does not wait for the window, in small pieces": {run, func(g fakeGuest, s uint32) {
			for g.send(s, typeData, 0, stdout(1)) {
			}
		}, ""},
		"two results": {call, func(g fakeGuest, s uint32) {
			g.send(s, typeData, 0, result(nil))
			g.send(s, typeData, 0, result(nil))
		}, "a message after the last one"},
		"two large results": {call, func(g fakeGuest, s uint32) {
			for g.send(s, typeData, 0, result(make([]byte, MaxFrame/2))) {
			}
		}, "a message after the last one"},
		"no result":                    {call, func(g fakeGuest, s uint32) { g.end(s) }, "without a result"},
		"a message with nothing in it": {call, func(g fakeGuest, s uint32) { g.send(s, typeData, 0, nil) }, "an empty message"},
		"an answer with nothing in it": {callAtOnce, func(g fakeGuest, s uint32) { g.send(s, typeResponse, 0, ok(nil)) }, "a last message without a result"},
		"progress for an answer": {callAtOnce, func(g fakeGuest, s uint32) {
			g.send(s, typeResponse, 0, ok(&CallOutput{Body: &CallOutput_Progress{Progress: []byte("x")}}))
		}, "a last message without a result"},
		"a stream for an answer":                    {callAtOnce, func(g fakeGuest, s uint32) { g.send(s, typeData, 0, result(nil)) }, "a frame of type 3"},
		"an answer that is none":                    {callAtOnce, func(g fakeGuest, s uint32) { g.send(s, typeResponse, 0, ok(&CallRequest{Call: 1})) }, ""},
		"too many attempts":                         {run, attempting(slices.Repeat([]*Attempt{{Op: Op_OP_WRITE}}, MaxAttempts+1)...), "65 attempts"},
		"an attempt at nothing":                     {run, attempting(&Attempt{Path: []byte("/x")}), "an attempt at operation 0"},
		"an attempt at what nobody knows":           {run, attempting(&Attempt{Op: 77}), "an attempt at operation 77"},
		"an attempt at a relative path":             {run, attempting(&Attempt{Op: Op_OP_WRITE, Path: []byte("x")}), "an attempt at what is no path, of 1 bytes"},
		"an attempt at a path that goes up":         {run, attempting(&Attempt{Op: Op_OP_WRITE, Path: []byte("/x/../y")}), "an attempt at what is no path"},
		"an attempt at a path with a zero":          {run, attempting(&Attempt{Op: Op_OP_WRITE, Path: []byte("/x\x00y")}), "an attempt at what is no path"},
		"an attempt at a path that is too long":     {run, attempting(&Attempt{Op: Op_OP_WRITE, Path: bytes.Repeat([]byte("/xxxxxxx"), 513)}), "an attempt at what is no path, of 4104 bytes"},
		"an attempt to write an address":            {run, attempting(&Attempt{Op: Op_OP_WRITE, Path: []byte("1.2.3.4:5")}), "an attempt at what is no path"},
		"an attempt to reach a name":                {run, attempting(&Attempt{Op: Op_OP_CONNECT, Path: []byte("evil.example:80")}), "an attempt at what is no path"},
		"an attempt to reach an address twice over": {run, attempting(&Attempt{Op: Op_OP_SEND, Path: []byte("[::0001]:80")}), "an attempt at what is no path"},
		"an attempt of no program":                  {run, attempting(&Attempt{Op: Op_OP_WRITE, Program: []byte("sh\n")}), "an attempt of what is no program, of 3 bytes"},
		"an attempt of no program, with a result": {call, func(g fakeGuest, s uint32) {
			g.send(s, typeData, 0, marshal(&CallOutput{
				Body: &CallOutput_Result{}, Attempts: &Attempts{Attempts: []*Attempt{{Op: Op_OP_WRITE, Program: []byte("sh")}}},
			}))
			g.end(s)
			g.send(s, typeResponse, 0, ok(nil))
		}, ""},
		"an attempt of no program, with an answer": {callAtOnce, func(g fakeGuest, s uint32) {
			g.send(s, typeResponse, 0, ok(&CallOutput{
				Body: &CallOutput_Result{}, Attempts: &Attempts{Attempts: []*Attempt{{Op: Op_OP_WRITE, Program: []byte("sh")}}},
			}))
		}, "an attempt of what is no program"},
		"a progress that is too large": {call, func(g fakeGuest, s uint32) {
			g.send(s, typeData, 0, marshal(&CallOutput{Body: &CallOutput_Progress{Progress: make([]byte, Chunk+1)}}))
		}, "a piece of output of 32769 bytes"},
		"answers nothing": {ask1, func(fakeGuest, uint32) {}, "no answer within"},
		"acknowledges nothing": {run, func(g fakeGuest, s uint32) {
			for range 3 {
				g.send(s, typeData, 0, stdout(Chunk))
			}
		}, "no answer within"},
	} {
		t.Run(name, func(t *testing.T) {
			withGuest(t, func(g fakeGuest) {
				stream, _ := g.next()
				// What the host has to say meanwhile is not listened to, but taken.
				go io.Copy(io.Discard, g.conn)
				test.play(g, stream)
			}, func(c *Client) {
				err := test.do(c)
				if name == "answers twice" {
					synctest.Wait() // the first answer may have been enough for the call
					err = ask1(c)
				}
				if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				for _, again := range []func(*Client) error{run, call, callAtOnce, ask1} {
					if err := again(c); !errors.Is(err, ErrProtocol) {
						t.Errorf("the next call: %v", err)
					}
				}
			})
		})
	}
}

// A container that dies is no breach, wherever it was.
func TestGuestThatDies(t *testing.T) {
	whole := func(s uint32) []byte { return frame(s, typeData, 0, stdout(1000)) }
	for name, cut := range map[string]int{"between frames": 0, "in a header": 5, "after a header": headerSize, "in a frame": 500} {
		t.Run(name, func(t *testing.T) {
			withGuest(t, func(g fakeGuest) {
				s, _ := g.next()
				g.conn.Write(whole(s)[:cut])
				g.conn.Close()
			}, func(c *Client) {
				if err := run(c); err != ErrClosed {
					t.Errorf("%v, want ErrClosed", err)
				}
				if err := ask1(c); err != ErrClosed {
					t.Errorf("the next call: %v, want ErrClosed", err)
				}
			})
		})
	}
}

func TestAnswerAfterClose(t *testing.T) {
	withGuest(t, func(g fakeGuest) {
		s, _ := g.next()
		g.conn.Read(make([]byte, 1)) // until the host has hung up
		if g.send(s, typeResponse, 0, ok(nil)) {
			t.Error("the connection is open")
		}
	}, func(c *Client) {
		asked := make(chan error)
		go func() { asked <- ask1(c) }()
		synctest.Wait()
		c.Close()
		if err := <-asked; err != ErrClosed {
			t.Errorf("%v, want ErrClosed", err)
		}
	})
}

// A refusal is quoted: it comes from inside, and ends up on a terminal.
func TestRefusal(t *testing.T) {
	withGuest(t, func(g fakeGuest) {
		s, _ := g.next()
		g.send(s, typeResponse, 0, marshal(&ttrpc.Response{Status: &status.Status{Code: 9, Message: "no\x1b[2J"}}))
	}, func(c *Client) {
		if err := ask1(c); err == nil || err.Error() != `the guest refused: "no\x1b[2J"` {
			t.Errorf("%v", err)
		}
	})
}

// A call that was given up is killed until it ends; a guest that never ends it
// is hung.
func TestKilledCallThatDoesNotEnd(t *testing.T) {
	kills := 0
	withGuest(t, func(g fakeGuest) {
		for {
			s, req := g.next()
			if req == nil {
				return
			}
			if req.Method == "Kill" {
				kills++
				g.send(s, typeResponse, 0, ok(&KillResponse{}))
			}
		}
	}, func(c *Client) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := c.Exec(ctx, &ExecRequest{Call: 1}, nil)
		if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "did not end within") {
			t.Errorf("%v", err)
		}
	})
	if kills < 10 {
		t.Errorf("killed %d times", kills)
	}
}
