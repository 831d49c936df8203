package call

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// A collector keeps of all blocks, in whatever order they come, those that are
// first in the order of paths, as many as the result can have. What it holds is
// bounded by the result and not by what is found, and the result does not depend
// on the order.
type collector struct {
	mode          Mode
	limit, offset int
	want          int // lines or files up to which blocks are kept: offset, limit and one more

	blocks []*Block
	units  int // in blocks
	bytes  int // in blocks
	cut    bool
	bound  string // when cut: nothing after this path is kept

	files, matches int
	notes          []string
	notesLeftOut   int

	progress func([]byte)
	when     sometimes
}

func newCollector(req Request, progress func([]byte)) *collector {
	c := &collector{mode: req.Mode, limit: req.Limit, offset: req.Offset, progress: progress}
	c.want = mostKept
	if req.Limit > 0 {
		c.want = min(mostKept, req.Offset+req.Limit+1)
	}
	return c
}

// wants reports whether the lines of a file can be part of the result.
func (c *collector) wants(path string) bool { return !c.cut || path <= c.bound }

// full reports whether nothing that comes later in the order of paths can be
// part of the result.
func (c *collector) full() bool { return c.units >= c.want || c.bytes >= mostBytes }

// matched counts a file that has matches.
func (c *collector) matched(count int) {
	c.files++
	c.matches += count
	if c.progress != nil && c.when.now() {
		if data, err := json.Marshal(Progress{c.matches, c.files}); err == nil {
			c.progress(data)
		}
	}
}

// add takes a block, all of whose lines were added to it.
func (c *collector) add(b *Block) {
	if !c.wants(b.Path) {
		return
	}
	c.blocks = append(c.blocks, b)
	c.units += b.units(c.mode)
	c.bytes += b.bytes()
	if c.units >= 2*c.want+1024 || c.bytes >= 2*mostBytes {
		c.prune()
	}
}

// prune drops what can no longer be part of the result.
func (c *collector) prune() {
	slices.SortFunc(c.blocks, func(a, b *Block) int { return strings.Compare(a.Path, b.Path) })
	units, bytes := 0, 0
	for i, b := range c.blocks {
		units += b.units(c.mode)
		bytes += b.bytes()
		if (units >= c.want || bytes >= mostBytes) && i+1 < len(c.blocks) {
			clear(c.blocks[i+1:])
			c.blocks = c.blocks[:i+1]
			c.cut, c.bound = true, b.Path
		}
		if i+1 >= len(c.blocks) {
			break
		}
	}
	c.units, c.bytes = units, bytes
}

func (c *collector) note(s string) {
	if len(c.notes) >= mostNotes {
		c.notesLeftOut++
		return
	}
	text, _ := cutText([]byte(s), 500)
	c.notes = append(c.notes, text)
}

// result returns what was asked for of what was kept.
func (c *collector) result() *Result {
	c.prune()
	r := &Result{Files: c.files, Matches: c.matches, More: c.cut, Notes: c.notes, Blocks: []Block{}}
	if c.notesLeftOut > 0 {
		r.Notes = append(r.Notes, "... and more of that kind")
	}
	switch c.mode {
	case Content:
		r.Files, r.Matches = 0, 0
	case Files:
		r.Matches = 0
	}
	left, bytes := c.offset, 0
	room := c.limit
	if room == 0 {
		room = mostKept
	}
	for _, b := range c.blocks {
		n := b.units(c.mode)
		if left >= n {
			left -= n
			continue
		}
		out := Block{Path: b.Path, Count: b.Count}
		if c.mode == Content {
			out.Lines = b.Lines[left:]
			if len(out.Lines) > room {
				out.Lines, r.More = out.Lines[:room], true
			}
			for i := range out.Lines {
				if bytes += out.Lines[i].bytes; bytes > mostBytes && i+len(r.Blocks) > 0 {
					out.Lines, r.More, room = out.Lines[:i], true, i
					break
				}
			}
			n = len(out.Lines)
		} else {
			n = 1
			bytes += b.bytes()
		}
		if room == 0 || bytes > mostBytes && c.mode != Content && len(r.Blocks) > 0 {
			r.More = true
			break
		}
		left = 0
		room -= n
		if n > 0 {
			r.Blocks = append(r.Blocks, out)
		}
	}
	return r
}

func (b *Block) units(m Mode) int {
	if m == Content {
		return len(b.Lines)
	}
	return 1
}

func (b *Block) bytes() int {
	n := jsonBytes(b.Path) + 40
	for i := range b.Lines {
		n += b.Lines[i].bytes
	}
	return n
}

// jsonBytes is at least what a text needs in JSON.
func jsonBytes(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == '<' || c == '>' || c == '&':
			n += 5
		case c == '"' || c == '\\' || c == 0x7f:
			n++
		case c == 0xe2: // of U+2028
			n += 3
		}
	}
	return n
}

// add adds a line, whose end is not part of the text.
func (b *Block) add(number int, text []byte, context bool) {
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	s, cut := cutText(text, mostText)
	b.Lines = append(b.Lines, Line{Number: number, Text: s, Context: context, Cut: cut, bytes: jsonBytes(s) + 40})
}

// cutText returns at most so many bytes of a text, in UTF-8, and how many it
// lacks.
func cutText(text []byte, most int) (string, int) {
	cut := 0
	if len(text) > most {
		end := most
		for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		cut = len(text) - end
		text = text[:end]
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), cut
}
