package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// bytesConn gives what a guest sent, in pieces.
type bytesConn struct {
	net.Conn
	data   []byte
	piece  int
	closed bool
}

func (c *bytesConn) Read(p []byte) (int, error) {
	if c.closed {
		return 0, net.ErrClosed
	}
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(len(c.data), c.piece)])
	c.data = c.data[n:]
	return n, nil
}

func (c *bytesConn) Write(p []byte) (int, error) { return len(p), nil }
func (c *bytesConn) Close() error                { c.closed = true; return nil }

func seeds() [][]byte {
	return [][]byte{
		nil,
		{0, 0, 0},
		frame(1, typeResponse, 0, []byte("x")),
		frame(3, typeData, 0, stdout(3)),
		append(frame(3, typeData, 0, exited(1)), frame(3, typeData, flagRemoteClosed|4, nil)...),
		append(frame(3, typeData, flagRemoteClosed, exited(1)), frame(3, typeData, 0, nil)...),
		frame(5, typeData, 0, nil),
		frame(3, typeRequest, 0, nil),
		{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 3, typeData, 0},
		append(frame(1, typeResponse, 0, nil), frame(1, typeResponse, 0, nil)...),
	}
}

// FuzzGuard has a guest send anything in any pieces to a host that has asked
// twice, once for one message (stream 1) and once for several (3). What is
// passed on is checked against another reading of the same frames.
func FuzzGuard(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s, uint16(1))
		f.Add(s, uint16(4096))
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint16) {
		conn := &bytesConn{data: data, piece: int(piece)%4096 + 1}
		g := newGuard(conn)
		done := g.reading()
		defer done()
		for _, req := range [][]byte{frame(1, typeRequest, 0, []byte("ask")), frame(3, typeRequest, flagRemoteClosed, nil)} {
			if _, err := g.Write(req); err != nil {
				t.Fatal(err)
			}
		}
		passed, err := io.ReadAll(g)
		if !errors.Is(err, ErrProtocol) && err != nil {
			t.Fatalf("%v", err)
		}
		if broken := errors.Is(err, ErrProtocol); broken != conn.closed || broken != (g.violation() != nil) {
			t.Fatalf("%v, but closed: %v, %v", err, conn.closed, g.violation())
		}
		if string(passed) != string(data[:len(passed)]) {
			t.Fatal("bytes were changed")
		}
		open := map[uint32]bool{1: false, 3: true}
		for rest := passed; len(rest) >= headerSize; {
			length := int(rest[0])<<24 | int(rest[1])<<16 | int(rest[2])<<8 | int(rest[3])
			stream := uint32(rest[4])<<24 | uint32(rest[5])<<16 | uint32(rest[6])<<8 | uint32(rest[7])
			streams, ok := open[stream]
			if !ok || length > MaxFrame || rest[8] != typeResponse && !(rest[8] == typeData && streams) {
				t.Fatalf("passed % x", rest[:headerSize])
			}
			if rest[8] == typeResponse || rest[9]&flagRemoteClosed != 0 {
				delete(open, stream)
			}
			rest = rest[min(len(rest), headerSize+length):]
		}
	})
}

// FuzzClient has a guest answer anything to a real client, which may fail but
// not panic, hang or leave a call without an end.
func FuzzClient(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Add(append(frame(1, typeData, 0, result([]byte("r"))), frame(1, typeData, flagRemoteClosed|4, nil)...))
	f.Add(frame(1, typeResponse, 0, ok(&CallOutput{Body: &CallOutput_Result{Result: []byte("r")}})))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, do := range []func(*Client) error{run, call, callAtOnce, ask1, func(c *Client) error {
			_, err := c.Hello(context.Background(), &HelloRequest{})
			return err
		}, func(c *Client) error {
			_, err := c.Processes(context.Background())
			return err
		}} {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			host, guest := fileConn(t, fds[0]), fileConn(t, fds[1])
			c := NewClient(host)
			go func() {
				guest.Read(make([]byte, 1)) // a request
				guest.Write(data)
				guest.(*net.UnixConn).CloseWrite()
				io.Copy(io.Discard, guest)
				guest.Close()
			}()
			if err := do(c); err == nil && len(data) < headerSize {
				t.Errorf("a call without an answer has succeeded: % x", data)
			}
			c.Close()
		}
	})
}

func fileConn(t *testing.T, fd int) net.Conn {
	f := os.NewFile(uintptr(fd), "pair")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
