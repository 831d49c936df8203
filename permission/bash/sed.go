package bash

import (
	"strings"
	"sync"
)

var sedFlags = sync.OnceValue(func() *flags {
	return flagSet("-nErsuz -i? -e= -l= --quiet --silent --regexp-extended --separate --unbuffered --null-data --in-place? --expression= --line-length= --posix --debug --version --help")
})

// sed is what its script is: it may write and run anything. With -i it changes
// its operands.
func sed(_ *walker, words []Word, d dirs) verdict {
	a, err := sedFlags().read(words[1:], false)
	if err != nil {
		v := verdict{kind: Read, open: true, code: true, why: "sed: " + err.Error()}
		v.rough(words[1:], d)
		return v
	}
	v := verdict{kind: Read, code: true} // until it is read
	scripts := append(a.all("e"), a.all("expression")...)
	files := a.operands
	if len(scripts) == 0 && len(files) > 0 {
		scripts, files = files[:1], files[1:]
	}
	if len(a.all("e")) > 0 && len(a.all("expression")) > 0 {
		return v.refuse("sed: the order of its scripts is not known")
	}
	texts := make([]string, len(scripts))
	for i, script := range scripts {
		if !script.Known {
			return v.refuse("sed: its script is not known")
		}
		texts[i] = script.Value
	}
	s := sedScript{rest: strings.Join(texts, "\n")}
	if why := s.parse(); why != "" {
		return v.refuse("sed: " + why)
	}
	v.code = a.unsure
	for _, name := range s.reads {
		v.read(lit(name), d, false)
	}
	inPlace := a.has("i", "in-place")
	if inPlace {
		v.kind, v.why = Write, "sed -i changes files"
	} else if a.unsure {
		v.why = "sed: a word may become a flag when it is expanded"
	}
	for _, f := range files {
		v.path(f, d, false, inPlace)
	}
	v.open = v.open || a.unsure
	v.edits = inPlace && !v.open && len(v.globs) == 0
	for _, suffix := range a.all("i", "in-place") {
		v.edits = v.edits && suffix.Known && suffix.Value == "" // it names another file
	}
	return v
}

// A sedScript is a script of sed that is read. What sed's kinds would read
// differently is refused, and so is all that writes or runs something.
type sedScript struct {
	rest   string
	reads  []string
	labels bool // the end of a label is not the same in all kinds
}

// parse says why the script does more than print.
func (s *sedScript) parse() string {
	if !isASCII(s.rest) {
		return "its script has letters that a locale may take apart"
	}
	for {
		s.skip(" \t\n;")
		if s.rest == "" {
			return ""
		}
		if why := s.addresses(); why != "" {
			return why
		}
		if why := s.command(); why != "" {
			return why
		}
	}
}

func (s *sedScript) skip(chars string) { s.rest = strings.TrimLeft(s.rest, chars) }

func (s *sedScript) addresses() string {
	for i := 0; ; i++ {
		s.skip(" \t")
		found, why := s.address(i > 0)
		if why != "" {
			return why
		}
		if !found {
			break
		}
		s.skip(" \t")
		if !strings.HasPrefix(s.rest, ",") || i > 0 {
			break
		}
		s.rest = s.rest[1:]
	}
	s.skip(" \t!")
	return ""
}

func (s *sedScript) address(second bool) (found bool, why string) {
	if s.rest == "" {
		return false, ""
	}
	switch c := s.rest[0]; {
	case c == '$':
		s.rest = s.rest[1:]
	case c >= '0' && c <= '9', second && (c == '+' || c == '~'):
		s.rest = s.rest[1:]
		s.skip("0123456789~")
	case c == '/' || c == '\\' && len(s.rest) > 1:
		if c == '\\' {
			s.rest = s.rest[1:]
		}
		if _, ok := s.delimited(s.rest[0], 1, true); !ok {
			return false, "a regular expression of its script is not understood"
		}
		s.skip("IM")
	default:
		return false, ""
	}
	return true, ""
}

// delimited reads a delimiter and n texts that end with it.
func (s *sedScript) delimited(by byte, n int, regex bool) (texts []string, ok bool) {
	if by == '\\' || by == '\n' || by == ' ' || by == ';' || by == '}' || by == '[' {
		return nil, false
	}
	s.rest = s.rest[1:]
	for i := range n {
		end := endOf(s.rest, by, regex && i == 0)
		if end < 0 {
			return nil, false
		}
		texts = append(texts, s.rest[:end])
		s.rest = s.rest[end+1:]
	}
	return texts, true
}

// endOf finds the delimiter that ends a text. It is -1 where there is none on
// the line, and where it depends on whether a bracket expression hides it.
func endOf(s string, by byte, regex bool) int {
	bracket := -1
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\n':
			return -1
		case c == '\\':
			// In a bracket expression a backslash is itself, for some.
			if i++; i < len(s) && (s[i] == '\n' || bracket >= 0 && (s[i] == ']' || s[i] == by)) {
				return -1
			}
		case c == by:
			if bracket >= 0 {
				return -1
			}
			return i
		case !regex:
		case bracket < 0 && c == '[':
			bracket = i
			if i+1 < len(s) && s[i+1] == '^' {
				i++
			}
			if i+1 < len(s) && s[i+1] == ']' {
				i++
			}
		case bracket >= 0 && c == '[' && i+1 < len(s) && strings.IndexByte(":.=", s[i+1]) >= 0:
			end := strings.Index(s[i+2:], s[i+1:i+2]+"]")
			if end < 0 || strings.IndexByte(s[i:i+2+end], by) >= 0 || strings.ContainsAny(s[i:i+2+end], "\n\\") {
				return -1
			}
			i += end + 3
		case bracket >= 0 && c == ']':
			bracket = -1
		}
	}
	return -1
}

func (s *sedScript) command() string {
	if s.rest == "" {
		return "its script ends without a command"
	}
	c := s.rest[0]
	switch c {
	case '{', '}':
		s.rest = s.rest[1:]
		return ""
	case '#':
		s.line()
		return ""
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
		s.rest = s.rest[1:]
	case 'l', 'q', 'Q', 'L':
		s.rest = s.rest[1:]
		s.skip(" \t")
		s.skip("0123456789")
	case ':', 'b', 't', 'T':
		s.labels = true
		s.rest = s.rest[1:]
		s.skip(" \t")
		s.skip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
	case 'a', 'i', 'c':
		if s.labels {
			return "a text after a label ends where it is not known"
		}
		return s.text()
	case 'r', 'R':
		s.rest = s.rest[1:]
		name := strings.TrimLeft(s.line(), " \t")
		if name == "" {
			return "it reads a file without a name"
		}
		s.reads = append(s.reads, name)
		return ""
	case 's':
		return s.substitute()
	case 'y':
		s.rest = s.rest[1:]
		if s.rest == "" {
			return "its script is not understood"
		}
		if _, ok := s.delimited(s.rest[0], 2, false); !ok {
			return "its script is not understood"
		}
	case 'w', 'W':
		return "its script writes a file"
	case 'e':
		return "its script runs commands"
	default:
		return "its script has a command that is not known"
	}
	return s.end()
}

// line takes the rest of the line.
func (s *sedScript) line() string {
	line, rest, _ := strings.Cut(s.rest, "\n")
	s.rest = rest
	return line
}

// text takes the lines of a, i or c: they end with one that has no backslash.
func (s *sedScript) text() string {
	s.rest = s.rest[1:]
	s.skip(" \t")
	if s.rest == "" {
		return "a text is missing"
	}
	if s.rest[0] == '}' || s.rest[0] == '\n' {
		return "a text is missing"
	}
	for {
		line := s.line()
		trimmed := strings.TrimRight(line, `\`)
		if (len(line)-len(trimmed))%2 == 0 {
			return ""
		}
		if s.rest == "" {
			return "" // of the next -e, or nothing
		}
	}
}

func (s *sedScript) substitute() string {
	s.rest = s.rest[1:]
	if s.rest == "" {
		return "its script is not understood"
	}
	if _, ok := s.delimited(s.rest[0], 2, true); !ok {
		return "a regular expression of its script is not understood"
	}
	for s.rest != "" {
		switch c := s.rest[0]; {
		case c == 'g' || c == 'p' || c == 'i' || c == 'I' || c == 'm' || c == 'M' || c >= '0' && c <= '9':
			s.rest = s.rest[1:]
		case c == 'w':
			return "its script writes a file"
		case c == 'e':
			return "its script runs commands"
		default:
			return s.end()
		}
	}
	return ""
}

// end checks that a command ends.
func (s *sedScript) end() string {
	s.skip(" \t")
	if s.rest == "" || strings.IndexByte("\n;}#", s.rest[0]) >= 0 {
		return ""
	}
	return "its script is not understood"
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
