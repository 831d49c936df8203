package call

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"sync"
)

// A parser reads what ripgrep prints, as it comes, in bounded memory:
//
//	files     path NUL
//	count     path NUL number LF
//	content   path NUL number (":" | "-") text LF, and between blocks "--" LF
//
// Every path begins with the root's name, and a text has no LF, so all this is
// without doubt. Only ripgrep's message that it has stopped in a binary file is a
// line without NUL; it is known by its text, and by the path of the block before.
type parser struct {
	mode   Mode
	only   bool
	most   int // lines of one file
	prefix string
	out    *collector

	rest     []byte // of a record whose end has not come
	skipping bool   // up to the next LF
	block    *Block
	unwanted bool // the lines of block are not kept
	records  int
	err      error
}

// mostRecord is how much of a record is held before its end.
const mostRecord = 64 << 10

var errNotRipgrep = errors.New("the program rg printed what ripgrep does not print")

func newParser(req Request, prefix string, out *collector) *parser {
	return &parser{mode: req.Mode, only: req.Only, most: out.want, prefix: prefix, out: out}
}

// Write implements io.Writer and never fails.
func (p *parser) Write(b []byte) (int, error) {
	n := len(b)
	if p.err != nil {
		return n, nil
	}
	if len(p.rest) > 0 {
		p.rest = append(p.rest, b...)
		b = p.rest
	}
	left := p.parse(b)
	if p.err != nil {
		left = nil
	}
	p.rest = append(p.rest[:0], left...)
	return n, nil
}

// end reads what was left.
func (p *parser) end() {
	if len(p.rest) > 0 && p.err == nil && !p.message(p.rest) {
		p.err = errNotRipgrep
	}
	p.flush()
}

// parse reads whole records and returns what follows them.
func (p *parser) parse(b []byte) []byte {
	for len(b) > 0 && p.err == nil {
		if p.skipping {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				p.cut(len(b))
				return nil
			}
			p.cut(i)
			b, p.skipping = b[i+1:], false
			continue
		}
		if p.mode == Content && b[0] == '-' {
			if len(b) < 3 {
				return b
			}
			if string(b[:3]) != "--\n" {
				p.err = errNotRipgrep
			}
			b = b[3:]
			continue
		}
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			if len(b) > mostRecord {
				p.err = errNotRipgrep
			}
			return b
		}
		path := b[:end]
		if p.mode == Content && p.block != nil {
			if i := bytes.IndexByte(path, '\n'); i >= 0 && p.message(path[:i+1]) {
				b = b[i+1:]
				continue
			}
		}
		if !bytes.HasPrefix(path, []byte(p.prefix)) {
			p.err = errNotRipgrep
			return nil
		}
		path = path[len(p.prefix):]
		after := b[end+1:]
		if p.mode == Files {
			p.records++
			p.out.matched(0)
			p.out.add(&Block{Path: validPath(path)})
			b = after
			continue
		}
		line, next, whole := bytes.Cut(after, []byte("\n"))
		if !whole && len(line) < mostRecord {
			return b
		}
		p.line(path, line)
		b, p.skipping = next, !whole
	}
	return b
}

// line takes what stands after a path.
func (p *parser) line(path, line []byte) {
	digits := 0
	for digits < len(line) && digits < 10 && line[digits] >= '0' && line[digits] <= '9' {
		digits++
	}
	number, err := strconv.Atoi(string(line[:digits]))
	if err != nil || p.mode == Count && digits != len(line) {
		p.err = errNotRipgrep
		return
	}
	p.records++
	if p.mode == Count {
		p.out.matched(number)
		p.out.add(&Block{Path: validPath(path), Count: number})
		return
	}
	if digits == len(line) || line[digits] != ':' && line[digits] != '-' {
		p.err = errNotRipgrep
		return
	}
	if p.block == nil || p.block.Path != string(path) {
		p.flush()
		p.block = &Block{Path: string(path)}
		p.unwanted = !p.out.wants(validPath(path))
	}
	if !p.unwanted && len(p.block.Lines) < p.most {
		p.block.add(number, line[digits+1:], line[digits] == '-')
	}
}

// cut counts what was skipped of the last line.
func (p *parser) cut(n int) {
	if p.block != nil && !p.unwanted && len(p.block.Lines) > 0 && len(p.block.Lines) < p.most {
		p.block.Lines[len(p.block.Lines)-1].Cut += n
	}
}

// flush hands on the block that is complete.
func (p *parser) flush() {
	if p.block == nil {
		return
	}
	p.out.matched(len(p.block.Lines))
	if !p.unwanted {
		p.block.Path = validPath([]byte(p.block.Path))
		p.out.add(p.block)
	}
	p.block = nil
}

// Of releases 12 to 15.
var binaryMessage = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^: (WARNING: stopped searching )?binary file (matches|after match) \(found "[^\n]{1,8}" byte around offset [0-9]+\)\n$`)
})

// message reads a line that is ripgrep's own, and reports whether it is one.
func (p *parser) message(line []byte) bool {
	path := bytes.TrimPrefix(line, []byte(p.prefix))
	if i := bytes.LastIndex(path, []byte(": WARNING: stopped ")); i >= 0 && binaryMessage().Match(path[i:]) {
		if p.block == nil || p.block.Path != string(path[:i]) {
			return false
		}
		p.out.note(binaryNote(validPath(path[:i])))
		return true
	}
	i := max(bytes.LastIndex(path, []byte(": binary file ")), bytes.LastIndex(path, []byte(": Binary file ")))
	if i >= 0 && binaryMessage().Match(path[i:]) {
		p.out.note(binaryNote(validPath(path[:i])))
		return true
	}
	return false
}

func binaryNote(path string) string {
	return note(path, errors.New("a binary file that matches; it is shown up to its first NUL"))
}

func validPath(path []byte) string {
	s, _ := cutText(path, 8<<10)
	return s
}
