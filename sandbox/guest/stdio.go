package guest

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/wire"
)

// stdio are the standard streams of a program, both ends.
type stdio struct {
	child    [3]*os.File // what the program gets
	stdin    *os.File    // nil when standard input is empty
	terminal *os.File    // nil without a terminal
	outputs  []*output
}

func newStdio(req *wire.ExecRequest) (s *stdio, err error) {
	s = &stdio{}
	defer func() {
		if err != nil {
			s.closeInside()
			s.close()
		}
	}()
	if req.Terminal {
		return s, s.openTerminal(req.Size)
	}
	if req.Stdin {
		s.child[0], s.stdin, err = os.Pipe()
	} else {
		s.child[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return s, err
	}
	for i, stderr := range []bool{false, true} {
		r, w, err := os.Pipe()
		if err != nil {
			return s, err
		}
		s.child[1+i] = w
		s.outputs = append(s.outputs, &output{file: r, stderr: stderr})
	}
	return s, nil
}

func (s *stdio) openTerminal(size *wire.WindowSize) error {
	master, slave, err := pty.Open()
	if err != nil {
		return err
	}
	s.child = [3]*os.File{slave, slave, slave}
	s.stdin, s.terminal = master, master
	s.outputs = []*output{{file: master, terminal: true}}
	if size == nil {
		return nil
	}
	return pty.Setsize(master, &pty.Winsize{Rows: uint16(size.Rows), Cols: uint16(size.Columns)})
}

// inside returns the descriptors of the program.
func (s *stdio) inside() []uintptr {
	return []uintptr{s.child[0].Fd(), s.child[1].Fd(), s.child[2].Fd()}
}

// closeInside closes what only the program needs.
func (s *stdio) closeInside() {
	for _, f := range s.child {
		if f != nil {
			f.Close() // a second time is no harm
		}
	}
}

// close lets go of the streams. A background process of the program may still
// hold the other ends: its input ends, and what it writes is taken and thrown
// away, so that it is not killed by writing.
func (s *stdio) close() {
	if s.stdin != nil && s.stdin != s.terminal {
		s.stdin.Close()
	}
	for _, out := range s.outputs {
		go func() {
			defer out.file.Close()
			io.Copy(io.Discard, out.file)
		}()
	}
}

// An output is the reading end of what a program writes.
type output struct {
	file   *os.File
	stderr bool
	// terminal carries standard error as well.
	terminal bool
	// heard, unless it is nil, is told of what is read.
	heard func(piece []byte)
	left  int // after the program's end: how much more is read of what is there
}

// mostLeft is how much may be left in a pipe: the largest size that a process
// without privilege can give one (fs.pipe-max-size).
const mostLeft = 1 << 20

// programEnded makes read return what the program has left, and then io.EOF,
// although background processes may hold the pipe open.
func (o *output) programEnded() {
	o.file.SetReadDeadline(time.Now())
}

func (o *output) read(buf []byte) (int, error) {
	n, err := o.readSome(buf)
	if o.heard != nil && n > 0 {
		o.heard(buf[:n])
	}
	return n, err
}

func (o *output) readSome(buf []byte) (int, error) {
	if o.left == 0 {
		n, err := o.file.Read(buf)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		o.left = mostLeft
		o.file.SetReadDeadline(time.Time{})
	}
	raw, err := o.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	n := 0
	raw.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), buf)
		return true // never wait
	})
	if n <= 0 || n >= o.left {
		return max(n, 0), io.EOF
	}
	o.left -= n
	return n, nil
}
