package bash

import (
	"strings"
	"sync"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// A Kind is what a command does.
type Kind string

const (
	Search  Kind = "search"
	Read    Kind = "read"
	List    Kind = "list"
	Neutral Kind = "neutral" // it neither reads nor writes: echo, cd ...
	Write   Kind = "write"
	// Inspect is for commands whose purpose is to look at processes or sockets.
	Inspect Kind = "inspect"
	Network Kind = "network"
	// Executes is for commands that run others, or code that they are given.
	Executes Kind = "executes-other"
	Unknown  Kind = "unknown"
)

// Limits of what is read; what exceeds one is not provable.
const (
	MaxLength = 64 << 10 // bytes
	maxDepth  = 24       // constructs in each other
	maxParts  = 2000
	maxDirs   = 4 // working directories that a part may have
)

// An Env is what is known of where a command would run.
type Env struct {
	// Dir is the working directory, absolute, clean and without symbolic links in
	// it; "" when it is not known.
	Dir  string
	Home string // of ~ and $HOME; "" when it is not known
}

// A Script is a command taken apart.
type Script struct {
	Source string
	// Bad says why the whole could not be read; "" when it could be. Parts are
	// then what was understood, and more may be in it.
	Bad   string
	Parts []Part
	// Redirects are the files that are opened by redirections.
	Redirects []Redirect
	// Notes say what else makes it other than read-only: functions, assignments,
	// expansions that evaluate code.
	Notes []string
}

// A Part is a simple command of a script.
type Part struct {
	// Text is its source, without assignments and redirections.
	Text string
	// Words are the command and its arguments. Command is what is left of them
	// when transparent wrappers (timeout, nice ...) are taken off.
	Words, Command []Word
	Kind           Kind
	ReadOnly       bool
	Why            string // it is not read-only
	// Inspects says that it looks at processes or sockets and does no more, and that
	// its words are literal.
	Inspects bool
	// Paths are what it touches; Open says that there may be others, and that a path
	// which goes up (a/../b) may lead elsewhere: a may be a symbolic link.
	Paths []Path
	Open  bool
	// Follows says that it reads what links lead to that lie below its Paths.
	Follows bool
	// Globs are patterns of paths that it reads, absolute, where its words are such.
	Globs []string
	Hosts []string // network: as far as known
	// Edits says that it does nothing but change its Paths, as mkdir and cp do.
	Edits bool
	// Through is the command that this one was found in as an argument: sudo,
	// xargs, sh -c ... Such a part tells what may be run, and proves nothing.
	Through string
	// Assigns says that variables are set for it that may change its meaning.
	Assigns bool
	links   []string // as of verdict
}

// A Path is one that a part touches.
type Path struct {
	Name  string // absolute and clean
	Write bool
	Tree  bool // and all below
}

// A Redirect is a file that a redirection opens. One whose path goes up from what
// may be a symbolic link is given twice: as what its name says, and as a file that
// is not known.
type Redirect struct {
	Source string
	Write  bool
	// Paths are where it may lead: more than one when the working directory may
	// be one of several. None: it is not provable.
	Paths []string
	Globs []string
}

// ReadOnly reports whether the script is proved to change nothing, and otherwise
// why it is not.
func (s *Script) ReadOnly() (bool, string) {
	if s.Bad != "" {
		return false, s.Bad
	}
	for i := range s.Parts {
		if p := &s.Parts[i]; !p.ReadOnly && p.Through == "" {
			return false, p.Why
		}
	}
	return s.quiet()
}

// Inspect reports whether the script does no more than look at processes or sockets,
// beside what is read-only, and otherwise why it is not known to. Such a script has to
// run where those are, with nothing that it could write.
func (s *Script) Inspect() (bool, string) {
	inspects := false
	for i := range s.Parts {
		switch p := &s.Parts[i]; {
		case p.Inspects:
			inspects = true
		case p.ReadOnly:
		case p.Kind == Inspect:
			return false, "it looks at processes or sockets by words that are not literal, or by a flag that is not known"
		default:
			return false, p.Why
		}
	}
	ok, why := s.quiet()
	if ok && !inspects {
		return false, "it does not look at processes or sockets"
	}
	return ok, why
}

// quiet reports whether nothing beside the parts makes the script other than
// read-only, and otherwise what does.
func (s *Script) quiet() (bool, string) {
	if s.Bad != "" {
		return false, s.Bad
	}
	if len(s.Notes) > 0 {
		return false, s.Notes[0]
	}
	for _, r := range s.Redirects {
		if r.Write {
			return false, "it writes by " + r.Source
		}
	}
	return true, ""
}

// panicked is said of a command that made the parser, or what walks its tree,
// panic.
const panicked = "it cannot be read: reading it failed"

var parsers = sync.Pool{New: newParser}

func newParser() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }

// Parse takes a command apart. What is not a command of bash, or goes beyond the
// limits, makes a Script with Bad set; so does one that makes the parser panic.
func Parse(src string, env Env) (s *Script) {
	s = &Script{Source: src}
	defer func() {
		if recover() != nil {
			s.Bad = panicked
		}
	}()
	w := &walker{script: s, env: env}
	s.Parts = make([]Part, 0, commandsAbout(src))
	var d dirs
	if env.Dir != "" {
		d = dirs{w.dir(env.Dir)}
	}
	w.source(src, d)
	w.relinked()
	if w.reopens.sink && w.reopens.odd {
		w.note("/dev/stdout may be a file that was opened to be read")
	}
	return s
}

// commandsAbout is about how many commands a text has.
func commandsAbout(src string) int {
	n := 1
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '|', ';', '\n', '(':
			n++
		}
	}
	return min(n, 1+len(src)/10, maxParts)
}

// source reads one text of a script: the whole, or one that a part of it runs.
func (w *walker) source(src string, d dirs) dirs {
	if why := unreadable(src); why != "" {
		w.bad(why)
		return nil
	}
	p := parsers.Get().(*syntax.Parser)
	plain := plainComments(src)
	syntax.KeepComments(!plain)(p)
	file, err := p.Parse(strings.NewReader(src), "")
	parsers.Put(p) // not one that panicked
	outer := w.src
	w.src = src
	defer func() { w.src = outer }()
	if err != nil {
		// The parser's example of a function is no part of the text.
		w.bad("it is no command of bash: " + strings.Replace(err.Error(), "`foo(` must be followed", "`(` after a word must be followed", 1))
		return nil
	}
	outerFile := w.file
	w.file, w.facts = file, nil
	defer func() { w.file, w.facts = outerFile, nil }()
	if !plain {
		w.facts = factsOf(file, w.comment)
	}
	return w.stmts(file.Stmts, d)
}

// unreadable says why a text is not even looked at.
func unreadable(src string) string {
	if len(src) > MaxLength {
		return "it is too long to be judged"
	}
	if !utf8.ValidString(src) {
		return "it is not valid UTF-8"
	}
	nesting, deepest := 0, 0
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c > '`' && c < '{', c > ')' && c < '`', c == ' ': // most of a text
		case c == '(' || c == '{' || c == '`':
			nesting++
			deepest = max(deepest, nesting)
		case c == ')' || c == '}':
			nesting = max(0, nesting-1)
		case c < ' ' && c != '\n' && c != '\t' || c == 0x7f:
			return "it has a control character"
		}
	}
	if !continues(src) {
		return "a line is continued in the middle of a token"
	}
	if deepest > 200 {
		return "it is nested too deep to be judged"
	}
	return ""
}

// continues reports whether lines that end with a backslash are continued
// between words, or in a plain one: in other tokens ($\, &\ ...) the parser
// does not always join what bash does.
func continues(src string) bool {
	for rest := 0; ; {
		i := strings.Index(src[rest:], "\\\n")
		if i < 0 {
			return true
		}
		i += rest
		rest = i + 2
		if rest == len(src) || src[rest] == ' ' || src[rest] == '\t' {
			continue
		}
		token := src[:i]
		token = token[strings.LastIndexAny(token, " \t\n")+1:]
		if strings.ContainsAny(token, "$<>&|(){};`!*?[#") {
			return false
		}
	}
}

// plainComments reports whether every # of a text stands where bash, too, has a
// comment begin if anything, and no line with one is continued: then where comments
// begin and end is certain.
func plainComments(src string) bool {
	for rest := 0; ; {
		i := strings.IndexByte(src[rest:], '#')
		if i < 0 {
			return true
		}
		i += rest
		if i > 0 && strings.IndexByte(" \t\n;&|()", src[i-1]) < 0 || i > 1 && src[i-2:i] == "\\\n" || strings.IndexByte(src, '`') >= 0 {
			return false
		}
		end := strings.IndexByte(src[i:], '\n')
		if end < 0 {
			return src[len(src)-1] != '\\'
		}
		if src[i+end-1] == '\\' {
			return false
		}
		rest = i + end
	}
}

// comment looks for what the parser takes for a comment and bash does not, or only
// to the end of its line.
func (w *walker) comment(c *syntax.Comment) {
	before := w.src[:min(int(c.Hash.Offset()), len(w.src))]
	if strings.HasSuffix(c.Text, `\`) || strings.Contains(c.Text, "\n") || strings.HasSuffix(before, "\\\n") ||
		before != "" && strings.IndexByte(" \t\n;&|()`", before[len(before)-1]) < 0 {
		w.bad("where a comment begins or ends is not certain")
	}
}

// Pieces takes the text apart by its separators, roughly: for rules against it
// when it is Bad, and nothing else of it is known. Each piece is given with its
// words from each of the first of them on.
func (s *Script) Pieces(yield func(words []Word) bool) {
	for piece := range strings.FieldsFuncSeq(s.Source, func(r rune) bool { return strings.ContainsRune(";|&\n\r(){}`\"'", r) }) {
		var words []Word
		for field := range strings.FieldsSeq(piece) {
			words = append(words, lit(strings.Trim(field, `\$<>!`)))
		}
		for i := range min(len(words), 20) {
			if !yield(words[i:]) {
				return
			}
		}
	}
}

func (w *walker) bad(why string) {
	if w.script.Bad == "" {
		w.script.Bad = why
	}
}

func (w *walker) note(why string) {
	if len(w.script.Notes) < 20 {
		w.script.Notes = append(w.script.Notes, why)
	}
}

func (w *walker) add(p Part) {
	if len(w.script.Parts) >= maxParts {
		w.bad("it has too many parts to be judged")
		return
	}
	if w.through != "" && p.Through == "" {
		p.Through = w.through
	}
	w.script.Parts = append(w.script.Parts, p)
}
