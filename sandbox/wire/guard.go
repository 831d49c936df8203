package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
)

// ErrProtocol is what every call returns once the guest has broken the
// protocol. The session is over; its layers are not touched by it.
var ErrProtocol = errors.New("the guest broke the protocol")

// Frames of ttrpc: length (4 bytes), stream (4), type (1), flags (1).
// Source: PROTOCOL.md of containerd/ttrpc.
const (
	headerSize = 10

	typeRequest  = 1
	typeResponse = 2
	typeData     = 3

	flagRemoteClosed = 1
)

// A guard is the host's end of the connection. It reads the frame headers that
// pass in both directions and ends the connection at the first frame from the
// guest that nothing asked for: an answer to no request, a second answer, a
// frame larger than MaxFrame, a request of its own.
//
// ttrpc by itself logs such frames and goes on, or reads 4 GiB to discard
// them.
type guard struct {
	net.Conn

	in, out framer // in is used by the one reader, out by the one writer

	mu   sync.Mutex
	open map[uint32]*stream // that the host has opened
	// Messages that have come and that no call has read yet, and calls that read.
	unread, calls int
	err           error // the first violation
}

// A stream is a request that is not answered in full.
type stream struct {
	data bool // the answer may come in messages
	last bool // a message came that is too large for any but the last
}

// mostPiece is the largest message but the last of a stream: a piece of output
// or of progress. What the guest may have the host keep is bounded by it.
const mostPiece = Chunk + 64

// mostUnread bounds the messages that are kept for calls. ttrpc keeps 64 for
// each, then reads no more for a second, and from then on throws away what
// comes, as fast as it comes. Only then can more than what its buffer holds of
// the smallest frames be unread.
func mostUnread(calls int) int { return 64*calls + 512 }

// reading counts a call that reads messages until it is done.
func (g *guard) reading() (done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.calls--
	}
}

// read counts a message that a call has read.
func (g *guard) read() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unread = max(0, g.unread-1)
}

func newGuard(conn net.Conn) *guard {
	g := &guard{Conn: conn, open: make(map[uint32]*stream)}
	g.in.frame = g.received
	g.out.frame = g.sent
	return g
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if e := g.in.pass(p[:n]); e != nil {
		g.fail(e)
		return 0, e
	}
	return n, err
}

func (g *guard) Write(p []byte) (int, error) {
	if err := g.out.pass(p); err != nil {
		return 0, err
	}
	return g.Conn.Write(p)
}

// fail records a violation and ends the connection.
func (g *guard) fail(err error) {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
	}
	g.mu.Unlock()
	g.Conn.Close()
}

// violation returns what the guest did wrong, or nil.
func (g *guard) violation() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (g *guard) sent(h header) error {
	if h.typ == typeRequest {
		g.mu.Lock()
		g.open[h.stream] = &stream{data: h.flags&flagRemoteClosed != 0}
		g.mu.Unlock()
	}
	return nil
}

func (g *guard) received(h header) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.open[h.stream]
	switch {
	case h.length > MaxFrame:
		return fmt.Errorf("%w: a frame of %d bytes", ErrProtocol, h.length)
	case s == nil:
		return fmt.Errorf("%w: an answer to no request (stream %d)", ErrProtocol, h.stream)
	case h.typ != typeResponse && (h.typ != typeData || !s.data):
		return fmt.Errorf("%w: a frame of type %d on stream %d", ErrProtocol, h.typ, h.stream)
	case h.typ == typeData && s.last && h.length > 0:
		return fmt.Errorf("%w: a message after the last one", ErrProtocol)
	}
	if h.typ == typeData && h.flags&flagRemoteClosed == 0 {
		if g.unread++; g.unread > mostUnread(g.calls) {
			return fmt.Errorf("%w: %d messages that nobody has read", ErrProtocol, g.unread)
		}
	}
	s.last = s.last || h.length > mostPiece
	if h.typ == typeResponse || h.flags&flagRemoteClosed != 0 {
		delete(g.open, h.stream)
	}
	return nil
}

type header struct {
	length, stream uint32
	typ, flags     byte
}

// A framer finds the frame headers in a stream of bytes that comes in pieces.
type framer struct {
	frame func(header) error

	buf  [headerSize]byte
	have int    // bytes of buf that are filled
	skip uint32 // bytes of the payload that are still to come
}

// partial reports whether what has passed ends within a frame.
func (f *framer) partial() bool { return f.have > 0 || f.skip > 0 }

func (f *framer) pass(p []byte) error {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(uint32(len(p)), f.skip)
			f.skip -= n
			p = p[n:]
			continue
		}
		n := copy(f.buf[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have < headerSize {
			return nil
		}
		h := header{
			length: binary.BigEndian.Uint32(f.buf[:4]),
			stream: binary.BigEndian.Uint32(f.buf[4:8]),
			typ:    f.buf[8],
			flags:  f.buf[9],
		}
		if err := f.frame(h); err != nil {
			return err
		}
		f.have, f.skip = 0, h.length
	}
	return nil
}
