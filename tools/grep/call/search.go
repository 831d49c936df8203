package call

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"unicode/utf16"

	"github.com/sallyport/sallyport/tools/internal/tree"
)

// A search looks for a request's pattern in one file after another.
type search struct {
	ctx context.Context
	req Request
	m   *matcher
	out *collector
	// explicit says that the file itself was named.
	explicit bool
	buf      []byte
}

// Sizes of what is read, in bytes.
const (
	first     = 64 << 10 // what a NUL is looked for in before anything else
	window    = 8 << 20  // what is searched at once
	mostWhole = window   // of a file that is searched across lines
)

// done reports whether nothing more is to be searched.
func (s *search) done() bool {
	return s.ctx.Err() != nil || s.req.Mode == Content && s.out.full()
}

// A found file is one that is being searched.
type found struct {
	*search
	block   Block
	count   int // lines, or of Only matches, that matched
	line    int // number of the line at the position
	after   int // lines of context that are still to be shown
	printed int // what of the buffer was shown
	stop    bool
}

// file searches an open file.
func (s *search) file(fd int, size int64, path string) {
	f := &found{search: s, block: Block{Path: validPath([]byte(path))}, line: 1}
	if need := min(max(size, 0), window) + 1; int64(len(s.buf)) < need {
		s.buf = make([]byte, max(need, 256<<10))
	}
	buf := s.buf
	n, err := tree.Read(fd, buf[:min(first, len(buf))])
	data := buf[:n]
	isBinary := bytes.IndexByte(data, 0) >= 0
	_, wide := utf16Text(data)
	switch {
	case err != nil:
	case wide:
		isBinary = false
		if n, err = tree.Read(fd, buf[n:]); err == nil {
			if size > window {
				s.out.note(note(path, errors.New("only the first 8 MB of a file in UTF-16 are searched")))
			}
			text, _ := utf16Text(buf[:len(data)+n])
			f.text(text)
		}
	case isBinary && !s.explicit:
		return
	case s.m.lines:
		if size > mostWhole {
			s.out.note(note(path, errors.New("larger than 8 MB: not searched across lines")))
			return
		}
		var more int
		more, err = tree.Read(fd, buf[n:])
		data = withoutBOM(buf[:n+more])
		if isBinary {
			bytesReplace(data)
		}
		f.across(data)
		if isBinary {
			f.block.Lines = nil
		}
	default:
		isBinary, err = f.stream(fd, buf, n)
	}
	if err != nil {
		s.out.note(note(path, err))
	}
	if f.count == 0 {
		return
	}
	if isBinary {
		if s.req.Mode == Count && !s.explicit {
			return
		}
		if s.req.Mode == Content {
			s.out.note(binaryNote(path))
		}
	}
	if s.req.Mode == Count {
		f.block.Count = f.count
	}
	s.out.matched(f.count)
	if s.req.Mode != Content || len(f.block.Lines) > 0 {
		s.out.add(&f.block)
	}
}

func withoutBOM(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) }

func bytesReplace(data []byte) {
	for i, b := range data {
		if b == 0 {
			data[i] = '\n'
		}
	}
}

// utf16Text returns a text in UTF-16, which begins with its byte order, in
// UTF-8.
func utf16Text(data []byte) ([]byte, bool) {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	case !bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		return nil, false
	}
	units := make([]uint16, 0, len(data)/2)
	for data = data[2:]; len(data) >= 2; data = data[2:] {
		units = append(units, order.Uint16(data))
	}
	return []byte(string(utf16.Decode(units))), true
}

// text searches what is in memory as a whole.
func (f *found) text(data []byte) {
	if f.m.lines {
		f.across(data)
		return
	}
	f.m.in()
	f.lines(data, 0)
}

// stream searches a file window by window; n bytes of it are in buf already. It
// reports whether the file is binary. A file that was not named is then searched
// up to the line of the first NUL; of one that was, it is only of interest
// whether it matches.
func (f *found) stream(fd int, buf []byte, n int) (isBinary bool, err error) {
	start := 0 // what was not searched yet; before it are lines of context
	if bytes.HasPrefix(buf[:n], []byte("\xef\xbb\xbf")) {
		start, f.printed = 3, 3
	}
	checked := 0
	last := n < min(first, len(buf))
	for !f.stop && f.ctx.Err() == nil {
		if !last {
			more, err := tree.Read(fd, buf[n:])
			if err != nil {
				return isBinary, err
			}
			n += more
			last = n < len(buf)
		}
		end := n
		if i := bytes.IndexByte(buf[checked:n], 0); i >= 0 {
			isBinary = true
			if f.explicit {
				bytesReplace(buf[checked:n])
			} else {
				end = start + bytes.LastIndexByte(buf[start:checked+i], '\n') + 1
				last = true
			}
		}
		if !last {
			if i := bytes.LastIndexByte(buf[start:end], '\n'); i >= 0 {
				end = start + i + 1
			}
		}
		shown := len(f.block.Lines)
		f.m.in()
		f.lines(buf[:end], start)
		if isBinary && f.explicit {
			f.block.Lines = f.block.Lines[:shown]
		}
		if last {
			break
		}
		// Lines that may be context are kept, but not more than half of a window.
		keep := max(back(buf, end, f.req.Before, f.printed), end-len(buf)/2)
		n = copy(buf, buf[keep:n])
		checked, start, f.printed = n, end-keep, max(0, f.printed-keep)
	}
	return isBinary, nil
}

// back returns where the line begins that is so many lines before pos, but not
// before least.
func back(buf []byte, pos, lines, least int) int {
	for ; lines > 0 && pos > least; lines-- {
		pos = bytes.LastIndexByte(buf[least:pos-1], '\n') + 1 + least
	}
	return max(pos, least)
}

// lines searches the lines of buf from pos on.
func (f *found) lines(buf []byte, pos int) {
	for {
		start, end := f.m.next(buf, pos)
		if start < 0 {
			f.following(buf, pos, len(buf))
			f.line += bytes.Count(buf[pos:], []byte("\n"))
			return
		}
		f.matched(buf, pos, start, end)
		if f.stop {
			return
		}
		pos = end
	}
}

// matched takes lines that match; pos is behind the last ones.
func (f *found) matched(buf []byte, pos, start, end int) {
	f.count++
	content := f.req.Mode == Content
	if content {
		f.following(buf, pos, start)
	}
	f.line += bytes.Count(buf[pos:start], []byte("\n"))
	if content && f.req.Before > 0 {
		at := back(buf, start, f.req.Before, f.printed)
		f.show(buf[at:start], f.line-bytes.Count(buf[at:start], []byte("\n")), true)
	}
	switch {
	case f.req.Only && f.req.Mode != Files:
		f.only(buf[start:end])
	case content:
		f.show(buf[start:end], f.line, false)
	}
	f.line += bytes.Count(buf[start:end], []byte("\n"))
	f.printed, f.after = end, f.req.After
	f.stop = f.req.Mode == Files || content && len(f.block.Lines) >= f.out.want
}

// only takes the matches in lines that match.
func (f *found) only(lines []byte) {
	noEnd := len(lines) > 0 && lines[len(lines)-1] != '\n'
	if !f.m.lines {
		lines = trimEnd(lines)
	}
	all := f.m.re.FindAllIndex(lines, mostKept)
	// As ripgrep has it: behind a last line without an end nothing is empty.
	if n := len(all); noEnd && n > 1 && all[n-1][0] == len(lines) {
		all = all[:n-1]
	}
	if f.req.Mode == Count {
		f.count += len(all) - 1
		return
	}
	number, counted := f.line, 0
	for _, loc := range all {
		if loc[0] == len(lines) && loc[0] > 0 && lines[loc[0]-1] == '\n' {
			break // behind the last line's end
		}
		number += bytes.Count(lines[counted:loc[0]], []byte("\n"))
		counted = loc[0]
		f.show(lines[loc[0]:loc[1]], number, false)
		if loc[0] == loc[1] {
			f.block.add(number, nil, false)
		}
		if len(f.block.Lines) >= f.out.want {
			return
		}
	}
}

// following shows lines of context after a match.
func (f *found) following(buf []byte, pos, end int) {
	at, number := pos, f.line
	for ; f.after > 0 && at < end; f.after-- {
		stop := end
		if i := bytes.IndexByte(buf[at:end], '\n'); i >= 0 {
			stop = at + i + 1
		}
		f.block.add(number, trimEnd(buf[at:stop]), true)
		at = stop
		number++
	}
	if at > pos {
		f.printed = at
	}
}

// show adds lines.
func (f *found) show(lines []byte, number int, context bool) {
	for len(lines) > 0 && len(f.block.Lines) < f.out.want {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		f.block.add(number, line, context)
		number++
		lines = rest
	}
}

// across searches for matches that may span lines. Those whose lines touch are
// one, as in ripgrep.
func (f *found) across(buf []byte) {
	pos := 0
	from, to := -1, -1
	for _, loc := range f.m.re.FindAllIndex(buf, mostKept) {
		if loc[0] == len(buf) && (loc[0] == 0 || buf[loc[0]-1] == '\n') {
			break
		}
		start := bytes.LastIndexByte(buf[:loc[0]], '\n') + 1
		end := loc[1]
		if end == loc[0] || buf[end-1] != '\n' {
			if i := bytes.IndexByte(buf[end:], '\n'); i >= 0 {
				end += i + 1
			} else {
				end = len(buf)
			}
		}
		if from >= 0 && start <= to {
			to = max(to, end)
			continue
		}
		if from >= 0 {
			f.matched(buf, pos, from, to)
			if f.stop {
				return
			}
			pos = to
		}
		from, to = start, end
	}
	if from >= 0 {
		f.matched(buf, pos, from, to)
		pos = to
	}
	if !f.stop {
		f.following(buf, pos, len(buf))
	}
}
