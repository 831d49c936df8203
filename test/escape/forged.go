package escape

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/containerd/ttrpc"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/wire"
)

// A forger is a driver whose guests are honest, but somebody sits on the wire:
// what a guest could say that an agent has taken over.
type forger struct {
	sandbox.Driver
	// forge makes of a frame of the guest's those that the host gets.
	forge func(f frame) []frame
	on    *atomic.Bool // until then, frames pass
}

// A frame of ttrpc: its header and what follows.
type frame struct {
	length uint32 // as the header says
	stream uint32
	kind   byte
	flags  byte
	data   []byte
	// hangUp ends the connection after the frame, or without one if it has no data.
	hangUp bool
}

const (
	kindRequest = 1
	kindData    = 3

	flagRemoteClosed = 1
)

func (d forger) Start(ctx context.Context, s *sandbox.Start) (sandbox.Containers, error) {
	c, err := d.Driver.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	return forgedContainers{c, d}, nil
}

type forgedContainers struct {
	sandbox.Containers
	forger forger
}

func (c forgedContainers) Open(ctx context.Context, b sandbox.Box) (net.Conn, error) {
	conn, err := c.Containers.Open(ctx, b)
	if err != nil {
		return nil, err
	}
	return c.forger.between(conn), nil
}

func (c forgedContainers) Fork(ctx context.Context, id string, spec *specs.Spec) (net.Conn, error) {
	conn, err := c.Containers.Fork(ctx, id, spec)
	if err != nil {
		return nil, err
	}
	return c.forger.between(conn), nil
}

// between returns the host's end of a wire to a guest.
func (d forger) between(guest net.Conn) net.Conn {
	host, ours := net.Pipe()
	var once sync.Once
	end := func() {
		once.Do(func() {
			guest.Close()
			ours.Close()
		})
	}
	go func() {
		defer end()
		io.Copy(guest, ours)
	}()
	go func() {
		defer end()
		for {
			f, err := readFrame(guest)
			if err != nil {
				return
			}
			frames := []frame{f}
			if d.on.Load() {
				frames = d.forge(f)
			}
			for _, f := range frames {
				if f.data == nil && f.hangUp {
					return
				}
				if _, err := ours.Write(f.bytes()); err != nil || f.hangUp {
					return
				}
			}
		}
	}()
	return host
}

func readFrame(r io.Reader) (frame, error) {
	var h [10]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	f := frame{
		length: binary.BigEndian.Uint32(h[:]), stream: binary.BigEndian.Uint32(h[4:]), kind: h[8], flags: h[9],
	}
	f.data = make([]byte, f.length)
	_, err := io.ReadFull(r, f.data)
	return f, err
}

func (f frame) bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, f.length)
	b = binary.BigEndian.AppendUint32(b, f.stream)
	b = append(b, f.kind, f.flags)
	return append(b, f.data...)
}

// with returns the frame with other contents.
func (f frame) with(data []byte) frame {
	f.data, f.length = data, uint32(len(data))
	return f
}

// said returns the frame with a message of the guest's in place of its own.
func (f frame) said(m proto.Message) frame {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return f.with(data)
}

// A forgery is what the host is told instead of what was said.
type forgery struct {
	name  string
	forge func(f frame) []frame
	// closed: all that can be seen is that the connection has ended.
	closed bool
}

// lie changes the data frames, those of the call that runs.
func lie(change func(f frame) []frame) func(f frame) []frame {
	return func(f frame) []frame {
		if f.kind != kindData {
			return []frame{f}
		}
		return change(f)
	}
}

func garbage(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func stdout(n int) *wire.ExecOutput {
	return &wire.ExecOutput{Body: &wire.ExecOutput_Stdout{Stdout: make([]byte, n)}}
}

var forgeries = []forgery{
	{name: "an answer to no request", forge: lie(func(f frame) []frame {
		f.stream += 1000
		return []frame{f}
	})},
	{name: "an answer for an earlier call", forge: lie(func(f frame) []frame {
		f.stream = 1 // hello's
		return []frame{f}
	})},
	{name: "a second answer", forge: func(f frame) []frame {
		return []frame{f, f, f, f}
	}},
	{name: "a message after the last one", forge: lie(func(f frame) []frame {
		exit := f.said(&wire.ExecOutput{Body: &wire.ExecOutput_Exit{Exit: &wire.Exit{}}})
		exit.flags = 0
		return []frame{exit, exit, exit}
	})},
	{name: "a request of its own", forge: lie(func(f frame) []frame {
		f.kind = kindRequest
		return []frame{f}
	})},
	{name: "a frame of no known type", forge: lie(func(f frame) []frame {
		f.kind = 99
		return []frame{f}
	})},
	{name: "an oversize frame", forge: lie(func(f frame) []frame {
		return []frame{f.with(make([]byte, wire.MaxFrame+1))}
	})},
	{name: "a frame of 4 GiB", forge: lie(func(f frame) []frame {
		f.length = 1<<32 - 1
		return []frame{f}
	})},
	{name: "a flood", forge: lie(func(f frame) []frame {
		piece := f.said(stdout(wire.Chunk))
		piece.flags = 0
		flood := make([]frame, 100)
		for i := range flood {
			flood[i] = piece
		}
		return flood
	})},
	{name: "an oversize piece", forge: lie(func(f frame) []frame {
		return []frame{f.said(stdout(wire.Chunk + 1))}
	})},
	{name: "an empty piece", forge: lie(func(f frame) []frame {
		return []frame{f.said(&wire.ExecOutput{})}
	})},
	{name: "an end without a result", forge: func(f frame) []frame {
		if f.kind == kindData && f.flags&flagRemoteClosed == 0 {
			return nil
		}
		return []frame{f}
	}},
	{name: "garbage in a message", forge: lie(func(f frame) []frame {
		return []frame{f.with(append([]byte{0xff}, garbage(100)...))}
	})},
	{name: "garbage on the wire", forge: func(f frame) []frame {
		return []frame{{length: 0xfefefefe, stream: 0xfdfdfdfd, kind: 0xfc, data: garbage(10_000)}}
	}},
	{name: "half a frame", closed: true, forge: lie(func(f frame) []frame {
		f.data, f.hangUp = f.data[:len(f.data)/2], true
		return []frame{f}
	})},
	{name: "hanging up", closed: true, forge: func(frame) []frame { return []frame{{hangUp: true}} }},
}

// testForged runs a call over a wire with each forgery: it must fail, and the
// session be over, with all that ran in it; another one goes on.
func testForged(t *testing.T, s *suite) {
	if s.kind.name == "owner" {
		t.Skip("skipped: tested as root in a workspace of root's own; the host's side is the same")
	}
	other := s.session(t, "", sandbox.Limits{})
	for _, f := range forgeries {
		t.Run(f.name, func(t *testing.T) {
			live, on := s.forged(t, f.forge)
			mark := "mark-" + rand.Text()
			if got := try(t.Context(), live, sandbox.Hand, "sh", "-c", "attempt wait "+mark+" >/dev/null 2>&1 & echo started"); got != "started" {
				t.Fatal(got)
			}
			on.Store(true)
			_, err := live.Exec(t.Context(), sandbox.Command{Args: []string{"echo", "here"}})
			want := wire.ErrProtocol
			if f.closed {
				want = wire.ErrClosed
			}
			if !errors.Is(err, want) {
				t.Errorf("the call ended with %v, want %v", err, want)
			}
			if got := try(t.Context(), live, sandbox.Hand, "echo", "here"); !strings.Contains(got, "the session is over") {
				t.Errorf("afterwards, the session answers %q", got)
			}
			if left := processesWith(t, mark); len(left) > 0 {
				t.Errorf("the session has left %q", left)
			}
			answers(t, other, "a forgery in another session")
		})
	}
	t.Run("another version", func(t *testing.T) {
		on := new(atomic.Bool)
		on.Store(true)
		d := forger{Driver: s.driver, on: on, forge: func(f frame) []frame {
			hello, err := proto.Marshal(&wire.HelloResponse{Version: "0.0.0\x1b[2J"})
			if err != nil {
				panic(err)
			}
			return []frame{f.said(&ttrpc.Response{Payload: hello})}
		}}
		_, err := (&suite{driver: d, kind: s.kind, tool: s.tool}).start(t, "", sandbox.Limits{})
		if err == nil || !strings.Contains(err.Error(), "the guest is version") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("the session started with %q", err)
		}
	})
}

// forged returns a live session with a forgery that can be turned on.
func (s *suite) forged(t *testing.T, forge func(f frame) []frame) (*sandbox.Session, *atomic.Bool) {
	on := new(atomic.Bool)
	forging := &suite{driver: forger{s.driver, forge, on}, kind: s.kind, tool: s.tool}
	return forging.session(t, "", sandbox.Limits{}), on
}

// startStalled begins a call in a session whose guest falls silent, and cancels
// it. It returns what waits for the host to lose its patience.
func startStalled(t *testing.T, s *suite) func(t *testing.T) {
	live, on := s.forged(t, func(frame) []frame { return nil })
	mark := "mark-" + rand.Text()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := live.Exec(ctx, sandbox.Command{Args: []string{"attempt", "tree", "plain", mark}, Stdout: onWrite(func() {
			on.Store(true)
			cancel()
		})})
		ended <- err
	}()
	return func(t *testing.T) {
		if err := <-ended; !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("the call ended with %v", err)
		}
		if got := try(t.Context(), live, sandbox.Hand, "echo", "here"); !strings.Contains(got, "the session is over") {
			t.Errorf("afterwards, the session answers %q", got)
		}
		if left := processesWith(t, mark); len(left) > 0 {
			t.Errorf("the session has left %q", left)
		}
	}
}
