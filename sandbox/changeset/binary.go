package changeset

import (
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// binary writes what git diff --binary does for contents that are not compared
// line by line: both of them whole, and the names that git has for them, which
// git apply checks. They are read as they are written, not held.
func (p *patcher) binary(from, to side) error {
	var names [2]string
	for i, x := range []side{from, to} {
		var err error
		if names[i], err = blobName(x); err != nil {
			return err
		}
	}
	if names[0] == names[1] {
		return p.err // only a mode has changed
	}
	p.line("", "index "+names[0]+".."+names[1])
	p.line("", "GIT binary patch")
	if err := p.literal(to); err != nil {
		return err
	}
	return p.literal(from)
}

// blobName is the name of a content in a repository; of nothing, zeros.
func blobName(x side) (string, error) {
	if x.typ == "" {
		return strings.Repeat("0", 2*sha1.Size), nil
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", x.size)
	if err := x.copy(h); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copy writes the content, which must have its size.
func (x side) copy(w io.Writer) error {
	if x.typ == "" {
		return nil
	}
	r, err := x.open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(w, io.LimitReader(r, x.size+1))
	if err == nil && n != x.size {
		err = fmt.Errorf("its size changed from %d bytes while it was read", x.size)
	}
	return err
}

// literal writes a content as one part of a binary patch.
func (p *patcher) literal(x side) error {
	size := x.size
	if x.typ == "" {
		size = 0
	}
	p.line("", fmt.Sprintf("literal %d", size))
	lines := &base85{p: p}
	z := zlib.NewWriter(lines)
	if err := x.copy(z); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	lines.flush()
	p.line("", "")
	return p.err
}

// base85 writes lines as git does: how many bytes there are, up to 52, as one
// letter, and five characters for each four of them.
type base85 struct {
	p    *patcher
	line [perLine]byte
	n    int
}

const (
	perLine  = 52
	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
)

func (b *base85) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		n := copy(b.line[b.n:], rest)
		b.n += n
		rest = rest[n:]
		if b.n == perLine {
			b.flush()
		}
	}
	return len(data), b.p.err
}

func (b *base85) flush() {
	if b.n == 0 {
		return
	}
	var out strings.Builder
	if b.n <= 26 {
		out.WriteByte(byte('A' + b.n - 1))
	} else {
		out.WriteByte(byte('a' + b.n - 27))
	}
	clear(b.line[b.n:])
	for i := 0; i < b.n; i += 4 {
		v := binary.BigEndian.Uint32(b.line[i:])
		var five [5]byte
		for j := len(five) - 1; j >= 0; j-- {
			five[j] = alphabet[v%85]
			v /= 85
		}
		out.Write(five[:])
	}
	b.n = 0
	b.p.line("", out.String())
}
