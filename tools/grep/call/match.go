package call

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"
)

// A matcher finds the lines that match.
type matcher struct {
	re *regexp.Regexp
	// needs are texts one of which is in every match; nil when there are none.
	needs []need
	// lines says that a match may span lines.
	lines bool
}

// newMatcher compiles the pattern of a request.
func newMatcher(req Request) (*matcher, error) {
	flags := "m" // as in ripgrep, ^ and $ are about lines
	if req.IgnoreCase {
		flags += "i"
	}
	if req.Multiline {
		flags += "s"
	}
	if err := onlyRipgrep(req.Pattern); err != nil {
		return nil, err
	}
	if _, err := regexp.Compile(req.Pattern); err != nil {
		return nil, fmt.Errorf("the pattern is no regular expression: %w", err)
	}
	expr := "(?" + flags + ":" + req.Pattern + ")"
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("the pattern is no regular expression: %w", err)
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if !req.Multiline && hasNewline(parsed) {
		return nil, fmt.Errorf("the pattern has a line's end in it; set multiline to search across lines")
	}
	return &matcher{re: re, needs: literals(parsed), lines: req.Multiline && spansLines(parsed)}, nil
}

// onlyRipgrep refuses what ripgrep and Go both take, but not for the same.
func onlyRipgrep(pattern string) error {
	in := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case !in && c == '[':
			in = true
			if i+1 < len(pattern) && pattern[i+1] == '^' {
				i++
			}
			if i+1 < len(pattern) && pattern[i+1] == ']' {
				i++
			}
		case in && c == ']':
			in = false
		case in && c == '[':
			end := bytes.Index([]byte(pattern[i:]), []byte(":]"))
			if i+1 >= len(pattern) || pattern[i+1] != ':' || end < 0 {
				return fmt.Errorf(`a [ in a class of characters is not understood here; write \[`)
			}
			i += end + 1
		case in && i+1 < len(pattern) && pattern[i+1] == c && (c == '&' || c == '-' || c == '~'):
			return fmt.Errorf("%c%c in a class of characters is not understood here", c, c)
		}
	}
	return nil
}

func hasNewline(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n') || slices.ContainsFunc(re.Sub, hasNewline)
}

// spansLines reports whether a match can have a line's end in it.
func spansLines(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar:
		return true
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i] <= '\n' && '\n' <= re.Rune[i+1] {
				return true
			}
		}
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	}
	return slices.ContainsFunc(re.Sub, spansLines)
}

// in begins another buffer.
func (m *matcher) in() {
	for i := range m.needs {
		n := &m.needs[i]
		n.at, n.lower, n.upper = -1, -1, -1
	}
}

// next returns the first line of buf at or behind pos, which begins a line, that
// matches; its end is behind its newline. Without one start is -1. Of one buffer,
// pos only grows.
func (m *matcher) next(buf []byte, pos int) (start, end int) {
	for pos < len(buf) {
		at := pos
		if m.needs != nil {
			if at = m.candidate(buf, pos); at < 0 {
				return -1, -1
			}
		}
		start = bytes.LastIndexByte(buf[pos:at], '\n') + 1 + pos
		end = len(buf)
		if i := bytes.IndexByte(buf[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if m.re.Match(trimEnd(buf[start:end])) {
			return start, end
		}
		pos = end
	}
	return -1, -1
}

func trimEnd(line []byte) []byte { return bytes.TrimSuffix(line, []byte("\n")) }

// candidate returns where the first needed text is.
func (m *matcher) candidate(buf []byte, pos int) int {
	first := -1
	for i := range m.needs {
		n := &m.needs[i]
		if n.at < pos {
			n.at = n.find(buf, pos)
		}
		if n.at < len(buf) && (first < 0 || n.at < first) {
			first = n.at
		}
	}
	return first
}

// A need is a text that a match has.
type need struct {
	text []byte // in lower case when fold is set
	fold bool
	// Where it was found last, and where the two forms of its first letter were;
	// the buffer's length for nowhere, less than the position for not yet.
	at, lower, upper int
}

// find returns where the text is at or behind pos; len(buf) for nowhere.
func (n *need) find(buf []byte, pos int) int {
	if !n.fold {
		if i := bytes.Index(buf[pos:], n.text); i >= 0 {
			return pos + i
		}
		return len(buf)
	}
	lower, upper := n.text[0], n.text[0]
	if 'a' <= lower && lower <= 'z' {
		upper -= 'a' - 'A'
	}
	for {
		if n.lower < pos {
			n.lower = indexFrom(buf, pos, lower)
		}
		if n.upper < pos {
			if n.upper = n.lower; upper != lower {
				n.upper = indexFrom(buf, pos, upper)
			}
		}
		at := min(n.lower, n.upper)
		if at+len(n.text) > len(buf) {
			return len(buf)
		}
		if equalFold(buf[at:at+len(n.text)], n.text) {
			return at
		}
		pos = at + 1
	}
}

func indexFrom(buf []byte, pos int, c byte) int {
	if i := bytes.IndexByte(buf[pos:], c); i >= 0 {
		return pos + i
	}
	return len(buf)
}

func equalFold(s, lower []byte) bool {
	for i, c := range lower {
		d := s[i]
		if 'A' <= d && d <= 'Z' {
			d += 'a' - 'A'
		}
		if c != d {
			return false
		}
	}
	return true
}

// mostNeeds bounds the texts that are looked for at once.
const mostNeeds = 8

// literals returns texts one of which every match has; nil when the expression
// does not say so.
func literals(re *syntax.Regexp) []need {
	switch re.Op {
	case syntax.OpLiteral:
		text, fold := re.Rune, re.Flags&syntax.FoldCase != 0
		if fold {
			text = plainest(text)
		}
		if len(text) == 0 {
			return nil
		}
		lower := make([]rune, len(text))
		for i, r := range text {
			lower[i] = r
			if fold {
				lower[i] = unicode.ToLower(r)
			}
		}
		return []need{{text: []byte(string(lower)), fold: fold}}
	case syntax.OpCapture, syntax.OpPlus:
		return literals(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literals(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []need
		for _, sub := range re.Sub {
			if ns := literals(sub); ns != nil && (best == nil || shortest(ns) > shortest(best)) {
				best = ns
			}
		}
		return best
	case syntax.OpAlternate:
		var all []need
		for _, sub := range re.Sub {
			ns := literals(sub)
			if ns == nil {
				return nil
			}
			if all = append(all, ns...); len(all) > mostNeeds {
				return nil
			}
		}
		return all
	}
	return nil
}

func shortest(ns []need) int {
	n := len(ns[0].text)
	for _, m := range ns {
		n = min(n, len(m.text))
	}
	return n
}

// plainest is the longest part whose letters have no other forms than their two
// of ASCII: k and s have more.
func plainest(text []rune) []rune {
	var best []rune
	start := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && text[i] < 0x80 && !bytes.ContainsRune([]byte("kKsS"), text[i]) {
			continue
		}
		if i-start > len(best) {
			best = text[start:i]
		}
		start = i + 1
	}
	return best
}
