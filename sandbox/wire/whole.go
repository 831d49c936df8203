package wire

import "net"

// Whole returns a connection on which every frame is written at once. ttrpc
// writes one of more than 4 KiB in parts, each of which would wake the other side
// for nothing. As there, one goroutine writes.
func Whole(conn net.Conn) net.Conn {
	return &whole{Conn: conn, framer: framer{frame: func(header) error { return nil }}}
}

type whole struct {
	net.Conn
	framer framer
	buf    []byte // of a frame that is not complete
}

// mostWhole is how much of a frame is kept back, in bytes: what is larger is
// more than a socket takes at once.
const mostWhole = 128 << 10

func (w *whole) Write(p []byte) (int, error) {
	if err := w.framer.pass(p); err != nil {
		return 0, err
	}
	switch {
	case w.framer.partial() && len(w.buf)+len(p) <= mostWhole:
		w.buf = append(w.buf, p...)
		return len(p), nil
	case len(w.buf) == 0:
		return w.Conn.Write(p)
	}
	w.buf = append(w.buf, p...)
	_, err := w.Conn.Write(w.buf)
	w.buf = w.buf[:0]
	return len(p), err
}
