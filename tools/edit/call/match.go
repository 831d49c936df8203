package call

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/sallyport/sallyport/tools/files"
)

var (
	errSame     = errors.New("old_string and new_string are the same: nothing would change")
	errNotEmpty = errors.New("an empty old_string makes a new file, and this one has content; give the text to replace, or use Write to replace all of it")
)

// mostNamed is how many lines an error names.
const mostNamed = 10

// A change is where one string is to be replaced by another. Line ends are not
// told apart in what is looked for, since Read does not show them apart; what
// takes its place has those of the lines that it comes to.
type change struct {
	old, new []byte // with plain line ends; old is empty for a new file
	count    int    // how often old is there
	first    int    // where, in the content
	plain    []byte // the content with plain line ends; nil when it has no others
}

// find looks for old in a file.
func find(content, old, new []byte, all bool) (*change, error) {
	if bytes.HasPrefix(content, files.BOM) {
		old, new = bytes.TrimPrefix(old, files.BOM), bytes.TrimPrefix(new, files.BOM)
		if len(old) == 0 {
			return nil, errors.New("old_string is only the mark at the beginning of the file, which is kept")
		}
	}
	c := &change{old: plainEnds(old), new: new}
	if bytes.Contains(content, crlf) {
		c.plain = plainEnds(content)
		c.new = plainEnds(new)
	}
	for at := range c.matches(content) {
		if c.count == 0 {
			c.first = at.start
		}
		c.count++
	}
	switch {
	case c.count == 0:
		return nil, whyAbsent(content, old)
	case c.count > 1 && !all:
		return nil, fmt.Errorf("old_string is there %d times (%s); give more of the text around it, or set replace_all", c.count, c.named(content))
	case bytes.Equal(c.old, c.new) && c.same(content):
		return nil, errSame
	}
	return c, nil
}

// same reports whether nothing would change.
func (c *change) same(content []byte) bool {
	for at := range c.matches(content) {
		if !bytes.Equal(content[at.start:at.end], c.replacement(content, at)) {
			return false
		}
	}
	return true
}

var crlf = []byte("\r\n")

func plainEnds(p []byte) []byte { return bytes.ReplaceAll(p, crlf, crlf[1:]) }

// A span is a part of the content.
type span struct{ start, end int }

// matches yields where old is, from the front, none overlapping.
func (c *change) matches(content []byte) iter.Seq[span] {
	return func(yield func(span) bool) {
		if len(c.old) == 0 {
			return
		}
		text := c.plain
		if text == nil {
			text = content
		}
		// at is a place in text that is real in the content.
		at, real := 0, 0
		onTo := func(place int) int {
			if c.plain == nil {
				return place
			}
			for at < place {
				end := bytes.IndexByte(text[at:place], '\n')
				if end < 0 {
					real += place - at
					at = place
					break
				}
				at, real = at+end, real+end
				if content[real] == '\r' {
					real++
				}
				at, real = at+1, real+1
			}
			return real
		}
		for from := 0; ; {
			i := bytes.Index(text[from:], c.old)
			if i < 0 {
				return
			}
			start := onTo(from + i)
			from += i + len(c.old)
			if !yield(span{start, onTo(from)}) {
				return
			}
		}
	}
}

// replacement is what takes the place of a part, with the line ends that are
// there.
func (c *change) replacement(content []byte, at span) []byte {
	if c.plain == nil || bytes.IndexByte(c.new, '\n') < 0 {
		return c.new
	}
	end := bytes.IndexByte(content[at.start:], '\n')
	if end >= 0 {
		end += at.start
	} else {
		end = bytes.LastIndexByte(content[:at.start], '\n')
	}
	if end < 1 || content[end-1] != '\r' {
		return c.new
	}
	return bytes.ReplaceAll(c.new, crlf[1:], crlf)
}

// pieces yields what the file is to be, in order. They are only valid until the
// next.
func (c *change) pieces(content []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(c.old) == 0 {
			yield(c.new)
			return
		}
		from := 0
		for at := range c.matches(content) {
			if !yield(content[from:at.start]) || !yield(c.replacement(content, at)) {
				return
			}
			from = at.end
		}
		yield(content[from:])
	}
}

// size is how many bytes the file is to have.
func (c *change) size(content []byte) (size int64) {
	for p := range c.pieces(content) {
		size += int64(len(p))
	}
	return size
}

// emit writes what the file is to be, many small pieces as one.
func (c *change) emit(content []byte, write func([]byte) error) error {
	const most = 64 << 10
	var buf []byte
	for p := range c.pieces(content) {
		if len(buf)+len(p) > most && len(buf) > 0 {
			if err := write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		if len(p) > most {
			if err := write(p); err != nil {
				return err
			}
			continue
		}
		buf = append(buf, p...)
	}
	return write(buf)
}

// named says in which lines old is.
func (c *change) named(content []byte) string {
	var b strings.Builder
	line, from, n := 1, 0, 0
	for at := range c.matches(content) {
		line += bytes.Count(content[from:at.start], []byte{'\n'})
		from = at.start
		switch {
		case n == mostNamed:
			b.WriteString(" ...")
			return b.String()
		case n == 0:
			b.WriteString("lines ")
		default:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, line)
		n++
	}
	return b.String()
}
