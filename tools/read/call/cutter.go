package call

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// A cutter takes the bytes of a file, in pieces, and keeps the lines that are
// asked for, as far as they may be shown.
type cutter struct {
	offset, limit int

	out   []byte
	lines int  // whole ones in out
	done  bool // no line is taken any more
	full  bool // because of the size
	more  bool // something came after the last that was taken
	far   bool // the file was not looked at to its end

	line  int   // ended so far: the current one is line+1
	start int   // of the current line in out
	long  int64 // bytes of the current line, also those that are not kept
	shown int   // size of the lines in out, with their numbers
}

const (
	// keptLine is more bytes than mostLine characters have.
	keptLine = utf8.UTFMax*mostLine + utf8.UTFMax
	// numbered is what a line's number, and its end, add to it.
	numbered = 8
)

func (c *cutter) feed(p []byte) {
	for len(p) > 0 {
		if c.done {
			c.more = true
			return
		}
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if c.line+1 >= c.offset {
			c.keep(part)
		}
		c.long += int64(len(part))
		if end < 0 {
			return
		}
		c.endLine(true)
		p = p[end+1:]
	}
}

// keep takes a part of the current line.
func (c *cutter) keep(part []byte) {
	if c.long == 0 && c.start == len(c.out) && c.lines > 0 {
		c.out = append(c.out, '\n')
		c.start++
	}
	c.out = append(c.out, part[:min(len(part), keptLine-(len(c.out)-c.start))]...)
}

// end takes what the file ends with, if that is a line without an end.
func (c *cutter) end() {
	if c.long > 0 && !c.done {
		c.endLine(false)
	}
}

// endLine ends the current line; ended says whether by a newline.
func (c *cutter) endLine(ended bool) {
	c.line++
	long := c.long
	c.long = 0
	if c.line < c.offset {
		return
	}
	line := c.out[c.start:]
	if kept := len(line); ended && int64(kept) == long && kept > 0 && line[kept-1] == '\r' {
		line = line[:kept-1]
		long--
	}
	if at := cutAt(line); at < len(line) || int64(len(line)) < long {
		line = fmt.Appendf(line[:at], "... [%d more bytes of this line are not shown]", long-int64(at))
	}
	if c.lines > 0 && c.shown+len(line)+numbered > mostBytes {
		c.out = c.out[:c.start-1]
		c.done, c.full, c.more = true, true, true
		return
	}
	c.out = append(c.out[:c.start], line...)
	c.start = len(c.out)
	c.shown += len(line) + numbered
	c.lines++
	c.done = c.lines >= c.limit
}

// cutAt is where a line has mostLine characters, or its end.
func cutAt(line []byte) int {
	if len(line) <= mostLine {
		return len(line)
	}
	at := 0
	for n := 0; n < mostLine && at < len(line); n++ {
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	return at
}
