// Package call is what Read does in the container.
package call

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/files"
)

// Bounds of what one call returns.
const (
	DefaultLimit = 2000      // lines
	mostLine     = 2000      // characters of a line
	mostBytes    = 256 << 10 // of all lines with their numbers: some 64,000 tokens
	// MostContent is more than any Content has.
	MostContent = mostBytes + 8*mostLine
	// mostScanned is how far into a file lines are looked for.
	mostScanned = 1 << 30
	piece       = 64 << 10
)

// A Request asks for lines of a file.
type Request struct {
	Path      []byte `json:"path"`
	Resolved  bool   `json:"resolved,omitempty"`
	Workspace string `json:"workspace"` // for messages
	Offset    int    `json:"offset"`    // number of the first line, from 1
	Limit     int    `json:"limit"`     // lines, at least 1
}

// An Output is lines of a file.
type Output struct {
	// Content is the lines, without the ends of the last one and without carriage
	// returns before a line's end. Long lines are cut, and say so.
	Content string `json:"content"`
	Start   int    `json:"start"` // number of the first line
	Lines   int    `json:"lines"` // how many there are; 0: none from Start on
	Total   int    `json:"total"` // lines of the whole file; -1 when not counted
	Size    int64  `json:"size"`  // bytes
	// Next is the line to read on with; 0 when the last one was reached.
	Next int `json:"next,omitempty"`
	// Full says that it ended because of its size, not at the limit of lines.
	Full bool `json:"full,omitempty"`
	// Far says that the file goes on beyond what is looked at.
	Far bool `json:"far,omitempty"`
	// Hash is the SHA-256 of the whole file, in hex; "" for one that is larger
	// than [files.MostHashed].
	Hash string `json:"hash,omitempty"`
}

// Text implements [inside.Texter].
func (o *Output) Text() *string { return &o.Content }

// A buffer is what one call needs of memory.
type buffer struct {
	piece [piece]byte
	out   []byte
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// Run reads lines of a file. Its memory is bounded, whatever the file is.
func Run(ctx context.Context, _ *inside.Call, req Request) (Output, error) {
	path := string(req.Path)
	f, err := inside.Open(path, req.Resolved)
	if err != nil {
		if kind := (*inside.KindError)(nil); errors.As(err, &kind) {
			if kind.Kind == "a directory" {
				return Output{}, fmt.Errorf("%w; use Bash ls or Glob to see what is in it", err)
			}
			return Output{}, fmt.Errorf("%w; Read reads only those", err)
		}
		return Output{}, files.Explain(err, path, req.Resolved, req.Workspace)
	}
	defer f.Close()
	out, err := read(ctx, f, f.Stat.Size, req.Offset, req.Limit)
	if err != nil {
		if own := (*inside.PathError)(nil); !errors.As(err, &own) {
			err = fmt.Errorf("%s: %w", inside.Quote(path), err)
		}
		return Output{}, err
	}
	return out, nil
}

// read reads lines of r, of which size bytes are known; a file of /proc has more.
func read(ctx context.Context, r io.Reader, size int64, offset, limit int) (Output, error) {
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)

	var sum hash.Hash
	if size <= files.MostHashed {
		sum = sha256.New()
	}
	c := cutter{offset: offset, limit: limit, out: buf.out[:0]}
	defer func() { buf.out = c.out }()
	var n int64
	ends, last := 0, byte('\n')
	for first := true; ; first = false {
		data, err := fill(r, buf.piece[:])
		if err != nil && err != io.EOF {
			return Output{}, err
		}
		if err := ctx.Err(); err != nil {
			return Output{}, err
		}
		n += int64(len(data))
		if n > files.MostHashed {
			sum = nil
		}
		if sum != nil {
			sum.Write(data)
		}
		if first {
			if textErr := files.CheckText(data, max(size, n)); textErr != nil {
				return Output{}, textErr
			}
		}
		if len(data) > 0 {
			ends += bytes.Count(data, []byte{'\n'})
			last = data[len(data)-1]
		}
		if first {
			data = bytes.TrimPrefix(data, files.BOM)
		}
		c.feed(data)
		switch {
		case err == io.EOF:
			c.end()
			if last != '\n' {
				ends++
			}
			return c.output(n, ends, sum), nil
		case sum == nil && c.done && c.more:
			return c.output(max(size, n), -1, nil), nil
		case sum == nil && n >= mostScanned:
			if c.line+1 < offset {
				return Output{}, fmt.Errorf("line %d is beyond the first %d MiB, as far as Read looks; use Bash (tail, sed -n)", offset, mostScanned>>20)
			}
			c.far = true
			c.end()
			return c.output(max(size, n), -1, nil), nil
		}
	}
}

// fill reads until the buffer is full or nothing is left, which is io.EOF.
func fill(r io.Reader, buf []byte) ([]byte, error) {
	n := 0
	for n < len(buf) {
		m, err := r.Read(buf[n:])
		n += m
		if err != nil {
			return buf[:n], err
		}
	}
	return buf[:n], nil
}

func (c *cutter) output(size int64, total int, sum hash.Hash) Output {
	o := Output{
		Content: string(c.out), Start: c.offset, Lines: c.lines, Total: total, Size: size,
		Full: c.full, Far: c.far,
	}
	if c.done && c.more {
		o.Next = c.offset + c.lines
	}
	if sum != nil {
		o.Hash = hex.EncodeToString(sum.Sum(nil))
	}
	return o
}
