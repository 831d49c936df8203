package bash

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A verdict is what is known of a simple command. It is read-only when why is
// "".
type verdict struct {
	kind    Kind
	why     string
	paths   []Path
	open    bool // there may be paths beside those
	globs   []string
	hosts   []string
	edits   bool
	follows bool // as of Part
	// inspects says that it looks at processes or sockets, and does no more.
	inspects bool
	code     bool     // its own text may run anything
	links    []string // where it may put a symbolic link
}

// A command is one that the table knows.
type command struct {
	kind  Kind
	flags *flags
	// free says that no flag of the command does harm, so that a word may become
	// one.
	free bool
	// from is the first operand that is a path; -1: none is.
	from int
	// pattern says that it is so only where no flag gives the pattern.
	pattern bool
	// most is how many operands it may have to be what it is; 0: any number.
	most int
	// tree lists the flags with which it reads all below its operands; "*":
	// always. here says that without operands that is the working directory.
	tree string
	here bool
	// follow lists the flags with which it then goes through links; "*": always.
	follow string
	// whole are flags with which all operands are paths; other are those with which
	// it reads files that others name.
	whole, other []string
	// loads are words by which its first operand, a program, may name files; nil: it is
	// none.
	loads []string
	// check says why it is not read-only after all; nil: it is.
	check func(a *args) string
}

// A subject is a command that needs more than a line of the table.
type subject func(w *walker, words []Word, d dirs) verdict

// classify says what a command does.
func (w *walker) classify(words []Word, d dirs) verdict {
	name := words[0]
	if !name.Known {
		return verdict{kind: Unknown, why: "the name of a command is not known until it is run", open: true}
	}
	base := path.Base(name.Value)
	v := w.tabled(base, words, d)
	if v.kind == Inspect && v.why == "" {
		v.why, v.inspects = whyNot(Inspect, base), true
	}
	if base != name.Value && (v.why == "" || v.inspects) {
		v.inspects = false
		v.kind, v.why = Executes, fmt.Sprintf("%s is a path: another program may be there", printable(name.Value))
	}
	return v
}

func (w *walker) tabled(name string, words []Word, d dirs) verdict {
	if s := subjects()[name]; s != nil {
		return s(w, words, d)
	}
	c := commands()[name]
	if c == nil {
		form := name
		if len(words) > 1 {
			form += " " + words[1].Value
		}
		if len(words) <= 2 && words[len(words)-1].Known && forms()[form] {
			return verdict{kind: Neutral}
		}
		if kind, ok := others()[name]; ok {
			v := verdict{kind: kind, open: true, why: whyNot(kind, name)}
			if kind == Network {
				v.hosts = hosts(words[1:])
			}
			return v
		}
		if _, ok := wraps(name); ok {
			return verdict{kind: Executes, open: true, why: whyNot(Executes, name)}
		}
		return verdict{kind: Unknown, open: true, why: fmt.Sprintf("what %s does is not known", printable(name))}
	}
	a := &w.args
	if err := c.flags.readInto(a, words[1:], false); err != nil {
		v := verdict{kind: c.kind, open: true, why: name + ": " + err.Error()}
		v.rough(words[1:], d)
		return v
	}
	v := verdict{kind: c.kind}
	if a.unsure && !c.free {
		v.why = name + ": a word may become a flag when it is expanded"
	}
	if !c.free && v.why == "" {
		if name := a.dash(); name != "" {
			v.why = fmt.Sprintf("%s: the value of %s may be a flag", words[0].Value, name)
		}
	}
	if c.most > 0 && len(a.operands) > c.most || c.most < 0 && len(a.operands) > 0 || c.most > 0 && !counted(a.operands) {
		v.why = name + ": with more operands it is not read-only"
	}
	if c.check != nil && v.why == "" {
		if why := c.check(a); why != "" {
			v.why = name + ": " + why
		}
	}
	for _, f := range a.files {
		v.read(f, d, false)
	}
	v.open = v.open || a.has(c.other...)
	if len(c.loads) > 0 && len(a.operands) > 0 && !a.has(c.whole...) {
		program := a.operands[0]
		v.open = v.open || !program.Known || slices.ContainsFunc(a.operands[:min(2, len(a.operands))], func(op Word) bool {
			return slices.ContainsFunc(c.loads, func(word string) bool { return strings.Contains(op.Value, word) })
		})
	}
	if c.from < 0 {
		return v
	}
	tree := a.told(c.tree)
	for _, value := range a.all("d", "directories") { // of grep
		tree = tree || c.pattern && (!value.Known || strings.HasPrefix(value.Value, "rec"))
	}
	v.follows = tree && a.told(c.follow)
	from := c.from
	if c.pattern && a.has("e", "regexp", "f", "file", "files", "type-list") {
		from = 0
	}
	if a.has(c.whole...) {
		from = 0
	}
	for i, op := range a.operands {
		if i >= from || !counted(a.operands[:i+1]) {
			v.read(op, d, tree)
		}
	}
	if (c.here || tree) && len(a.operands) <= from {
		v.read(lit("."), d, tree)
	}
	return v
}

// counted reports whether each of the words is one when it is expanded.
func counted(words []Word) bool {
	for _, word := range words {
		if word.Splits || word.Many {
			return false
		}
	}
	return true
}

// read notes a path that is read.
func (v *verdict) read(word Word, d dirs, tree bool) { v.path(word, d, tree, false) }

func (v *verdict) path(word Word, d dirs, tree, write bool) {
	switch {
	case word.Known && word.Value == "-" && !write:
		return
	case word.Known && word.Value != "":
		names, certain := d.resolve(word.Value)
		for _, n := range names {
			v.paths = append(v.paths, Path{Name: n, Tree: tree, Write: write})
		}
		v.open = v.open || !certain
	case strings.HasPrefix(word.Value, "/dev/fd/"+Any): // of a process substitution
	case word.glob != "" && !word.Splits && !write:
		globs, certain := d.resolve(word.glob)
		v.globs = append(v.globs, globs...)
		v.open = v.open || !certain
	default:
		v.open = true
	}
}

// rough notes every word that could be a path, of a command whose flags are not
// known.
func (v *verdict) rough(words []Word, d dirs) {
	for _, word := range words {
		if _, value, ok := strings.Cut(word.Value, "="); ok && word.Known && strings.HasPrefix(word.Value, "-") {
			v.read(lit(value), d, false)
		} else if word.operand() {
			v.read(word, d, false)
		}
	}
}

func whyNot(kind Kind, name string) string {
	switch kind {
	case Network:
		return name + " uses the network"
	case Inspect:
		return name + " looks at processes or sockets"
	case Executes:
		return name + " runs other programs"
	case Write:
		return name + " changes files"
	}
	return "what " + name + " does is not known"
}

// hosts are the words that could name one.
func hosts(words []Word) []string {
	var found []string
	for _, word := range words {
		if !word.Known || strings.HasPrefix(word.Value, "-") {
			continue
		}
		host := word.Value
		if _, rest, ok := strings.Cut(host, "://"); ok {
			host, _, _ = strings.Cut(rest, "/")
			host = host[strings.LastIndexByte(host, '@')+1:]
		}
		host, _, _ = strings.Cut(host, ":")
		host = host[strings.LastIndexByte(host, '@')+1:]
		if strings.Contains(host, ".") && !strings.Contains(host, "/") {
			found = append(found, strings.ToLower(host))
		}
	}
	return found
}
