package call

import (
	"bytes"
	"strings"

	"github.com/sallyport/sallyport/tools/files"
)

// Bounds of what is shown of a change.
const (
	around   = 4       // lines before and after
	mostView = 8 << 10 // bytes
	mostBack = 1 << 10 // bytes of the lines before
)

// MostSnippet is more bytes than any Snippet has.
const MostSnippet = 3 * mostView

// A view keeps of a file that is being written the lines around the first change.
type view struct {
	from int64 // the first byte that is kept
	head int   // how many of those are before the change
	line int   // the number of its line
	new  int   // bytes that the change has, at least

	at   int64
	kept []byte
}

func newView(content []byte, c *change) *view {
	v := &view{new: len(c.new)}
	start := c.first
	for n := 0; n <= around && start > 0; n++ {
		start = bytes.LastIndexByte(content[:start], '\n')
		if start < 0 || c.first-start > mostBack {
			break
		}
		v.head = c.first - start - 1
	}
	if start <= 0 && c.first <= mostBack {
		v.head = c.first
	}
	v.from = int64(c.first - v.head)
	v.line = 1 + bytes.Count(content[:v.from], []byte{'\n'})
	return v
}

// begin begins again: a file that cannot be written one way is written another.
func (v *view) begin() { v.at, v.kept = 0, nil }

func (v *view) take(p []byte) {
	skip := min(max(v.from-v.at, 0), int64(len(p)))
	v.at += int64(len(p))
	p = p[skip:]
	v.kept = append(v.kept, p[:min(len(p), mostView-len(v.kept))]...)
}

// lines are the lines, and the number of the first.
func (v *view) lines() (string, int) {
	text := v.kept
	end := min(v.head+v.new, len(text))
	for n := 0; n <= around && end < len(text); n++ {
		next := bytes.IndexByte(text[end:], '\n')
		if next < 0 {
			end = len(text)
			break
		}
		end += next + 1
	}
	text = text[:end]
	text = bytes.TrimSuffix(plainEnds(text), []byte{'\n'})
	if v.from == 0 {
		text = bytes.TrimPrefix(text, files.BOM)
	}
	return strings.ToValidUTF8(string(text), "\ufffd"), v.line
}
