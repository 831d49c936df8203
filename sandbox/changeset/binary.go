package changeset

import (
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// wholly writes what cannot be shown line by line as git does (gitformat of
// "git diff --binary"): both contents, deflated and in base 85, and the names that
// git has for them, by which it makes sure of the old one.
func (p *patcher) wholly(from, to side) error {
	old, err := blobName(from)
	if err != nil {
		return err
	}
	new, err := blobName(to)
	if err != nil {
		return err
	}
	if old == new {
		return p.err
	}
	mode := ""
	if from.typ != "" && to.typ != "" && from.gitMode() == to.gitMode() {
		mode = " " + to.gitMode()
	}
	p.line(bold, "index "+old+".."+new+mode)
	p.line(bold, "GIT binary patch")
	for _, x := range []side{to, from} {
		if err := p.literal(x); err != nil {
			return err
		}
	}
	return p.err
}

// blobName is the name of a content in git: SHA-1, as in every repository that
// was not made for another.
func blobName(x side) (string, error) {
	if x.typ == "" {
		return strings.Repeat("0", 2*sha1.Size), nil
	}
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", x.size)
	if err := x.copyTo(sum); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// copyTo writes the content of a side, which must be as long as it was.
func (x side) copyTo(w io.Writer) error {
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
		err = ErrChanged
	}
	return err
}

// literal writes a whole content, and the empty line that ends it.
func (p *patcher) literal(x side) error {
	p.line("", fmt.Sprintf("literal %d", x.size))
	lines := &base85Lines{p: p}
	deflate := zlib.NewWriter(lines)
	if err := errors.Join(x.copyTo(deflate), deflate.Close()); err != nil {
		return err
	}
	lines.flush()
	p.line("", "")
	return p.err
}

// base85Lines writes lines of up to 52 bytes: a letter for their number, and each
// four of them as five digits.
type base85Lines struct {
	p    *patcher
	line [52]byte
	n    int
}

func (b *base85Lines) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		n := copy(b.line[b.n:], rest)
		b.n += n
		rest = rest[n:]
		if b.n == len(b.line) {
			b.flush()
		}
	}
	return len(data), b.p.err
}

func (b *base85Lines) flush() {
	if b.n == 0 {
		return
	}
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	clear(b.line[b.n:])
	out := make([]byte, 0, 1+len(b.line)/4*5)
	if b.n <= 26 {
		out = append(out, byte('A'+b.n-1))
	} else {
		out = append(out, byte('a'+b.n-27))
	}
	for i := 0; i < b.n; i += 4 {
		var group [5]byte
		word := binary.BigEndian.Uint32(b.line[i:])
		for j := len(group) - 1; j >= 0; j-- {
			group[j] = digits[word%85]
			word /= 85
		}
		out = append(out, group[:]...)
	}
	b.p.line("", string(out))
	b.n = 0
}
