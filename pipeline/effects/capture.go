package effects

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// mostCaptured is how much of an output is kept, and Flood how much of it is too
// much, in bytes.
const (
	mostCaptured = 1 << 20
	Flood        = 64 << 20
)

// A Capture keeps the beginning of what is written, and hands it on to Then if that
// is not nil. What is beyond is neither kept nor handed on.
type Capture struct {
	Then io.Writer
	// Flooded is called when there is too much, if it is not nil.
	Flooded func()
	Cut     bool // there was more

	data bytes.Buffer
	n    int64
}

func (c *Capture) Write(p []byte) (int, error) {
	keep := p
	if room := mostCaptured - c.data.Len(); len(p) > room {
		c.Cut, keep = true, p[:room]
	}
	c.data.Write(keep)
	if c.n += int64(len(p)); c.n > Flood && c.Flooded != nil {
		c.Flooded()
	}
	if c.Then != nil && len(keep) > 0 {
		if _, err := c.Then.Write(keep); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c *Capture) String() string { return c.data.String() }

// NotText is what was written if it is no text, which JSON could not hold.
func (c *Capture) NotText() []byte {
	if utf8.Valid(c.data.Bytes()) {
		return nil
	}
	return c.data.Bytes()
}
