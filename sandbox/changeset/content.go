package changeset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrChanged is wrapped by the errors for a file that is not what it was when
// the set was read.
var ErrChanged = errors.New("changed since the change set was read")

const blockSize = 128 << 10

// Open opens the new content of a file. Reading it fails with ErrChanged, at the
// end at the latest, if it is not the content that the set was read from.
func (c *Change) Open() (io.ReadCloser, error) {
	if c.Kind == Deleted || c.Type != File || c.Refused != "" {
		return nil, fmt.Errorf("opening the new content of %q: there is none", c.Path)
	}
	return c.open(c.sum)
}

func (c *Change) open(sum *[32]byte) (*content, error) {
	f, err := c.set.layers.Upper.OpenRegular(c.Path)
	if err != nil {
		return nil, err
	}
	r := &content{f: f, name: c.Path, stamp: c.new, sum: sum}
	if sum != nil {
		r.hash = sha256.New()
	}
	if err := r.check(); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// OpenOld opens the content that the file had in the view, at From if it was
// renamed. It fails as Open does if the user has changed it since.
func (c *Change) OpenOld() (io.ReadCloser, error) {
	if c.OldType != File {
		return nil, fmt.Errorf("opening the old content of %q: there is none", c.Path)
	}
	name := c.Path
	if c.Kind == Renamed {
		name = c.From
	}
	f, err := c.set.layers.Lower.Open(name)
	if err != nil {
		return nil, err
	}
	r := &content{f: f, name: name, stamp: c.old}
	if err := r.check(); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// content reads a file and holds it to the state it is to be in.
type content struct {
	f     *os.File
	name  string
	stamp stamp
	sum   *[32]byte // if it is known
	hash  hash.Hash
	read  int64
}

func (r *content) Read(p []byte) (int, error) {
	// What is appended meanwhile is not waited for.
	if int64(len(p)) > r.stamp.Size-r.read {
		p = p[:r.stamp.Size-r.read]
	}
	n := 0
	err := error(io.EOF)
	if len(p) > 0 {
		n, err = r.f.Read(p)
		r.read += int64(n)
	}
	if r.hash != nil {
		r.hash.Write(p[:n])
	}
	if errors.Is(err, io.EOF) || err == nil && r.read == r.stamp.Size {
		if e := r.check(); e != nil {
			return n, e
		}
		if r.read != r.stamp.Size || r.hash != nil && [32]byte(r.hash.Sum(nil)) != *r.sum {
			return n, fmt.Errorf("%q: %w", r.name, ErrChanged)
		}
	}
	return n, err
}

func (r *content) Close() error { return r.f.Close() }

func (r *content) check() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(r.f.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: r.name, Err: err}
	}
	if stampOf(&st) != r.stamp {
		return fmt.Errorf("%q: %w", r.name, ErrChanged)
	}
	return nil
}

// hash returns the SHA-256 of the new content.
func (c *Change) hash(ctx context.Context) ([32]byte, error) {
	if c.sum != nil {
		return *c.sum, nil
	}
	r, err := c.open(nil)
	if err != nil {
		return [32]byte{}, err
	}
	defer r.Close()
	sum, err := hashAll(ctx, r)
	if err == nil {
		c.sum = &sum
	}
	return sum, err
}

// hashOld returns the SHA-256 of a file of the view.
func (r *reader) hashOld(g *goneFile) ([32]byte, error) {
	e, err := r.view.find(g.name, nil)
	if err != nil {
		return [32]byte{}, err
	}
	if !e.exists() {
		return [32]byte{}, unix.ENOENT
	}
	f, err := r.view.Layers[e.layers[0]].Dir.OpenRegular(g.name)
	if err != nil {
		return [32]byte{}, err
	}
	in := &content{f: f, name: g.name, stamp: g.old}
	defer in.Close()
	return hashAll(r.ctx, in)
}

func hashAll(ctx context.Context, r io.Reader) ([32]byte, error) {
	h := sha256.New()
	err := eachBlock(ctx, r, func(b []byte) bool { h.Write(b); return true })
	return [32]byte(h.Sum(nil)), err
}

// blocks are buffers that eachBlock is done with.
var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// eachBlock reads r block by block until f returns false.
func eachBlock(ctx context.Context, r io.Reader, f func([]byte) bool) error {
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	buf := block[:]
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(r, buf)
		if n > 0 && !f(buf[:n]) {
			return nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// sniffed is how much of a file decides whether it is binary, as git does it.
const sniffed = 8000

func isBinary(head []byte) bool {
	return bytes.IndexByte(head[:min(len(head), sniffed)], 0) >= 0
}

// compare reports whether the file of the upper has the content that the view
// has, and notes whether either is binary. A file that cannot be read is
// refused.
func (r *reader) compare(p *place, c *Change, base string, e entry) (bool, error) {
	if c.Refused == tooLong || c.Size > r.opts.MaxFileSize {
		return false, nil
	}
	f, err := p.up.OpenRegular(base)
	if errors.Is(err, unix.EACCES) {
		c.Refused = unreadable
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now := &content{f: f, name: c.Path, stamp: c.new}
	defer now.Close()
	var old io.Reader
	if c.OldType == File {
		f, err := p.low.top(e).OpenRegular(base)
		switch {
		case errors.Is(err, unix.EACCES):
			// Nor could the session read it: it is not the same.
		case err != nil:
			return false, err
		default:
			defer f.Close()
			old = f
		}
	}
	same := old != nil && c.Size == c.OldSize
	if old == nil {
		old = bytes.NewReader(nil)
	}
	a, b := make([]byte, sniffed), make([]byte, sniffed)
	n, err := io.ReadFull(now, a)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		if errors.Is(err, ErrChanged) {
			return false, nil
		}
		return false, err
	}
	m, err := io.ReadFull(old, b)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return false, err
	}
	c.Binary = isBinary(a[:n]) || isBinary(b[:m])
	if !same || !bytes.Equal(a[:n], b[:m]) || n < sniffed {
		return same && bytes.Equal(a[:n], b[:m]), nil
	}
	other := make([]byte, blockSize)
	err = eachBlock(r.ctx, now, func(block []byte) bool {
		n, err := io.ReadFull(old, other[:len(block)])
		same = err == nil && bytes.Equal(block, other[:n])
		return same
	})
	if errors.Is(err, ErrChanged) {
		return false, nil
	}
	return same, err
}

// Digest returns a SHA-256, in hex, of all that the set would do: each change
// with its content; only those at and below paths, if there are any. What is
// refused is in it too, but not its content. It reads
// all new content that was not read before.
func (s *Set) Digest(ctx context.Context, paths ...string) (string, error) {
	h := sha256.New()
	field := func(b string) {
		// Lengths make the form unambiguous.
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		io.WriteString(h, b)
	}
	field("sallyport changeset 1")
	for _, c := range s.Changes {
		if selected, _ := c.selectedBy(paths); len(paths) > 0 && !selected {
			continue
		}
		var sum [32]byte
		if c.Kind != Deleted && c.Type == File && c.Refused == "" {
			var err error
			if sum, err = c.hash(ctx); err != nil {
				return "", fmt.Errorf("digesting the changes: %w", err)
			}
		}
		owner := ""
		if c.Owner != nil {
			owner = fmt.Sprint(c.Owner.UID, ":", c.Owner.GID)
		}
		for _, v := range []string{
			string(c.Kind), string(c.Type), string(c.OldType), c.Path, c.From, octal(c.Mode), owner,
			c.Target, fmt.Sprint(c.Size), string(sum[:]), c.Refused,
		} {
			field(v)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
