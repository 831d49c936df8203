// Package glob matches paths by patterns in which
//
//   - is any run of characters of one component
//     ?      is one character of a component
//     [a-c]  is one of these, [!a-c] and [^a-c] none of these
//     **     as a whole component is any number of components, also none
//     {a,b}  is a or b
//     \x     is x
//
// A pattern matches a whole path. Its time is bounded by the product of the
// lengths of the two, whatever either says. Paths are bytes; a character is a
// rune where they are UTF-8, and a byte elsewhere.
package glob

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a pattern.
const (
	MaxLength = 4096 // bytes
	MaxAlts   = 256  // paths without braces that it stands for
)

// A Pattern is a compiled pattern. It may be used by several goroutines at once.
type Pattern struct {
	// alts are the patterns without braces that it stands for, of which one has
	// to match.
	alts [][]segment
}

// A segment is the part of a pattern that matches a component.
type segment struct {
	kind   kind
	text   string // of literal, prefix, suffix
	tokens []token
}

type kind uint8

const (
	general kind = iota
	literal
	suffix  // * and a text
	prefix  // a text and *
	anyDirs // **
)

type token struct {
	kind   tokenKind
	r      rune
	ranges []rune // pairs
	negate bool
}

type tokenKind uint8

const (
	one tokenKind = iota // the rune r
	any
	star
	class
)

var (
	errLong     = errors.New("the glob is longer than 4096 bytes")
	errMany     = errors.New("the glob stands for more than 256 patterns: use fewer braces")
	errClass    = errors.New("the glob has a [ without a ]; write \\[ for the character")
	errRange    = errors.New("the glob has a range whose end is before its start")
	errUnclosed = errors.New("the glob has a { without a }; write \\{ for the character")
	errUnopened = errors.New("the glob has a } without a {; write \\} for the character")
	errEscape   = errors.New("the glob ends in a single \\")
)

// Compile reads a pattern. Empty components are left out.
func Compile(pattern string) (*Pattern, error) {
	if len(pattern) > MaxLength {
		return nil, errLong
	}
	alts, err := expand(pattern)
	if err != nil {
		return nil, err
	}
	p := &Pattern{}
	for _, alt := range alts {
		var segs []segment
		for _, text := range split(alt) {
			if text == "" {
				continue
			}
			seg, err := readSegment(text)
			if err != nil {
				return nil, err
			}
			if n := len(segs); n > 0 && seg.kind == anyDirs && segs[n-1].kind == anyDirs {
				continue // as much as one
			}
			segs = append(segs, seg)
		}
		p.alts = append(p.alts, segs)
	}
	return p, nil
}

// Match reports whether the pattern matches a path, which has no empty
// component.
func (p *Pattern) Match(path string) bool {
	for _, alt := range p.alts {
		if matchPath(alt, path) {
			return true
		}
	}
	return false
}

func matchPath(segs []segment, path string) bool {
	i, pos := 0, 0
	starAt, starPos := -1, 0
	for pos <= len(path) && path != "" {
		end := strings.IndexByte(path[pos:], '/')
		if end < 0 {
			end = len(path)
		} else {
			end += pos
		}
		switch {
		case i < len(segs) && segs[i].kind == anyDirs:
			starAt, starPos = i, pos
			i++
		case i < len(segs) && segs[i].match(path[pos:end]):
			i++
			pos = end + 1
		case starAt >= 0:
			// The last ** takes one more component. Giving more to one before it
			// would not help: this one takes any.
			next := strings.IndexByte(path[starPos:], '/')
			if next < 0 {
				starPos = len(path) + 1
			} else {
				starPos += next + 1
			}
			i, pos = starAt+1, starPos
		default:
			return false
		}
	}
	for i < len(segs) && segs[i].kind == anyDirs {
		i++
	}
	return i == len(segs)
}

// A Prefix is how far a pattern has matched the directories of a path, for a
// walk that descends only where something can match. Its zero value can match
// nothing.
type Prefix struct{ at []place }

// A place is a segment that comes next.
type place struct {
	segs []segment // of one alternative
	i    int
}

// Prefix is that of no directory.
func (p *Pattern) Prefix() Prefix {
	var f Prefix
	for _, alt := range p.alts {
		f.add(place{alt, 0})
	}
	return f
}

// add adds a place, and where ** stands those behind it, since it may be nothing.
func (f *Prefix) add(at place) {
	for {
		// Alternatives are apart, and in each a walk comes to a place in order.
		if slices.ContainsFunc(f.at, func(o place) bool { return o.i == at.i && same(o.segs, at.segs) }) {
			return
		}
		f.at = append(f.at, at)
		if at.i == len(at.segs) || at.segs[at.i].kind != anyDirs {
			return
		}
		at.i++
	}
}

func same(a, b []segment) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Into is the prefix with one more directory. ok is false when nothing below it
// can match.
func (f Prefix) Into(dir string) (below Prefix, ok bool) {
	for _, at := range f.at {
		switch {
		case at.i == len(at.segs):
		case at.segs[at.i].kind == anyDirs:
			below.add(at)
		case at.segs[at.i].match(dir):
			below.add(place{at.segs, at.i + 1})
		}
	}
	for _, at := range below.at {
		ok = ok || at.i < len(at.segs)
	}
	return below, ok
}

// Match reports whether the pattern matches the prefix and one more component.
func (f Prefix) Match(name string) bool {
	for _, at := range f.at {
		if at.i == len(at.segs) || !at.segs[at.i].match(name) {
			continue
		}
		rest := at.segs[at.i+1:]
		if !slices.ContainsFunc(rest, func(s segment) bool { return s.kind != anyDirs }) {
			return true
		}
	}
	return false
}

// match reports whether the segment matches a component.
func (s *segment) match(name string) bool {
	switch s.kind {
	case literal:
		return name == s.text
	case suffix:
		return strings.HasSuffix(name, s.text)
	case prefix:
		return strings.HasPrefix(name, s.text)
	case anyDirs:
		return true
	}
	i, pos := 0, 0
	starAt, starPos := -1, 0
	for pos < len(name) {
		r, size := utf8.DecodeRuneInString(name[pos:])
		if r == utf8.RuneError && size == 1 {
			r = 0x110000 + rune(name[pos]) // a byte that is no character equals itself only
		}
		switch {
		case i < len(s.tokens) && s.tokens[i].kind == star:
			starAt, starPos = i, pos
			i++
		case i < len(s.tokens) && s.tokens[i].match(r):
			i++
			pos += size
		case starAt >= 0:
			_, size := utf8.DecodeRuneInString(name[starPos:])
			starPos += size
			i, pos = starAt+1, starPos
		default:
			return false
		}
	}
	for i < len(s.tokens) && s.tokens[i].kind == star {
		i++
	}
	return i == len(s.tokens)
}

func (t *token) match(r rune) bool {
	switch t.kind {
	case one:
		return r == t.r
	case any:
		return true
	}
	for i := 0; i < len(t.ranges); i += 2 {
		if t.ranges[i] <= r && r <= t.ranges[i+1] {
			return !t.negate
		}
	}
	return t.negate
}

// readSegment reads what stands between two slashes, without braces.
func readSegment(text string) (segment, error) {
	if text == "**" {
		return segment{kind: anyDirs}, nil
	}
	var s segment
	var plain strings.Builder // what the runes among the tokens spell
	stars, others := 0, 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		raw := text[i : i+size]
		if r == utf8.RuneError && size == 1 {
			r = 0x110000 + rune(text[i])
		}
		i += size
		switch r {
		case '*':
			if n := len(s.tokens); n > 0 && s.tokens[n-1].kind == star {
				continue
			}
			s.tokens = append(s.tokens, token{kind: star})
			stars++
			continue
		case '?':
			s.tokens = append(s.tokens, token{kind: any})
			others++
			continue
		case '[':
			end := classEnd(text, i-1)
			if end < 0 {
				return s, errClass
			}
			t, err := readClass(text[i : end-1])
			if err != nil {
				return s, err
			}
			s.tokens = append(s.tokens, t)
			others++
			i = end
			continue
		case '\\':
			if i == len(text) {
				return s, errEscape
			}
			r, size = utf8.DecodeRuneInString(text[i:])
			raw = text[i : i+size]
			if r == utf8.RuneError && size == 1 {
				r = 0x110000 + rune(text[i])
			}
			i += size
		}
		s.tokens = append(s.tokens, token{r: r})
		plain.WriteString(raw)
	}
	n := len(s.tokens)
	switch {
	case others > 0 || stars > 1:
	case stars == 0:
		return segment{kind: literal, text: plain.String()}, nil
	case s.tokens[0].kind == star:
		return segment{kind: suffix, text: plain.String()}, nil
	case s.tokens[n-1].kind == star:
		return segment{kind: prefix, text: plain.String()}, nil
	}
	return s, nil
}

// readClass reads what stands between the brackets.
func readClass(text string) (token, error) {
	t := token{kind: class}
	if text[0] == '!' || text[0] == '^' {
		t.negate = true
		text = text[1:]
	}
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		lo, hi := runes[i], runes[i]
		if i+2 < len(runes) && runes[i+1] == '-' {
			hi = runes[i+2]
			i += 2
		}
		if hi < lo {
			return t, errRange
		}
		t.ranges = append(t.ranges, lo, hi)
	}
	return t, nil
}

// classEnd returns where the class that begins at i ends, behind its bracket; -1
// when it does not.
func classEnd(s string, i int) int {
	j := i + 1
	if j < len(s) && (s[j] == '!' || s[j] == '^') {
		j++
	}
	if j < len(s) && s[j] == ']' {
		j++
	}
	if j >= len(s) {
		return -1
	}
	end := strings.IndexByte(s[j:], ']')
	if end < 0 {
		return -1
	}
	return j + end + 1
}

// skip returns where the unit of the pattern that begins at i ends: an escape, a
// class or a byte.
func skip(s string, i int) int {
	switch s[i] {
	case '\\':
		return min(i+2, len(s))
	case '[':
		if end := classEnd(s, i); end > 0 {
			return end
		}
	}
	return i + 1
}

// split splits at the slashes that are in no class. One that is escaped is a
// slash too.
func split(s string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(s); {
		end := skip(s, i)
		if s[i] == '/' || s[i] == '\\' && s[i+1:end] == "/" {
			parts = append(parts, s[start:i])
			start = end
		}
		i = end
	}
	return append(parts, s[start:])
}

// expand returns the patterns without braces that one stands for.
func expand(s string) ([]string, error) {
	todo, done := []string{s}, []string(nil)
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		before, alts, after, err := firstBraces(s)
		if err != nil {
			return nil, err
		}
		if alts == nil {
			done = append(done, s)
		}
		if len(todo)+len(done)+len(alts) > MaxAlts {
			return nil, errMany
		}
		for i := len(alts) - 1; i >= 0; i-- {
			todo = append(todo, before+alts[i]+after)
		}
	}
	return done, nil
}

// firstBraces finds the first group of braces; alts is nil when there is none.
func firstBraces(s string) (before string, alts []string, after string, err error) {
	depth, open, start := 0, 0, 0
	for i := 0; i < len(s); {
		switch s[i] {
		case '{':
			if depth++; depth == 1 {
				open, start = i, i+1
			}
		case ',':
			if depth == 1 {
				alts = append(alts, s[start:i])
				start = i + 1
			}
		case '}':
			if depth--; depth < 0 {
				return "", nil, "", errUnopened
			}
			if depth == 0 {
				return s[:open], append(alts, s[start:i]), s[i+1:], nil
			}
		}
		i = skip(s, i)
	}
	if depth > 0 {
		return "", nil, "", errUnclosed
	}
	return s, nil, "", nil
}
