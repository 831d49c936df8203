package bash

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A Word is what is known of a word of a command.
type Word struct {
	// Value is the word as the command gets it, with [Any] for what is not known.
	Value string
	// Known says that Value is all of it.
	Known bool
	// Splits says that it may be none, or several, when it is expanded.
	Splits bool
	// Many says that it is a pattern or has braces: it may be several, each of
	// which begins as Value does before the first Any.
	Many bool
	// glob is the pattern of paths that it is; "" when it is none.
	glob string
	// number says that it is a variable that holds nothing but a number, if
	// anything.
	number bool
	// begins is what is known of how it begins, where that is a variable's value.
	begins facts
}

// Any stands in a Value for any text that is not known. No readable command has
// it.
const Any = "\x00"

// prefix is what the word begins with for certain.
func (w Word) prefix() string {
	before, _, _ := strings.Cut(w.Value, Any)
	return before
}

// operand reports whether the word is no flag, whatever it becomes.
func (w Word) operand() bool {
	if w.Splits {
		return false
	}
	if w.begins.operand {
		return true
	}
	p := w.prefix()
	return p != "" && p[0] != '-' || w.Known && (w.Value == "" || w.Value == "-")
}

func lit(s string) Word { return Word{Value: s, Known: true} }

// valuer collects a word's value.
type valuer struct {
	value  strings.Builder
	glob   strings.Builder
	known  bool
	isGlob bool
	pure   bool // nothing but literals and patterns
	splits bool
	many   bool
	braces bool // they may be expanded: what follows is not told apart
	begins facts
}

func (v *valuer) literal(s string) {
	if !v.braces {
		v.value.WriteString(s)
	}
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(`*?[]{}\`, s[i]) >= 0 {
			v.glob.WriteByte('\\')
		}
		v.glob.WriteByte(s[i])
	}
}

func (v *valuer) any() {
	v.known, v.pure = false, false
	v.value.WriteString(Any)
}

// asItStands returns the text of a word that has nothing to expand or to take off but
// quotation marks around it all. Most words are such.
func asItStands(x *syntax.Word) (string, bool) {
	if len(x.Parts) != 1 {
		return "", false
	}
	switch p := x.Parts[0].(type) {
	case *syntax.Lit:
		for i := 0; i < len(p.Value); i++ {
			switch p.Value[i] {
			case '\\', '*', '?', '[', '{', '~':
				return p.Value, p.Value == "["
			}
		}
		return p.Value, true
	case *syntax.SglQuoted:
		return p.Value, !p.Dollar
	case *syntax.DblQuoted:
		if len(p.Parts) == 1 && !p.Dollar {
			if l, ok := p.Parts[0].(*syntax.Lit); ok && strings.IndexByte(l.Value, '\\') < 0 {
				return l.Value, true
			}
		}
	}
	return "", false
}

// word evaluates a word, and walks what is run to expand it.
func (w *walker) word(x *syntax.Word, d dirs) Word {
	if x == nil {
		return lit("")
	}
	if text, ok := asItStands(x); ok {
		return lit(text)
	}
	v := valuer{known: true, pure: true}
	braces := hasBraces(x)
	for i, part := range x.Parts {
		w.part(&v, part, d, i == 0, len(x.Parts) == 1, braces)
	}
	out := Word{Value: v.value.String(), Known: v.known && !v.splits && !v.many, Splits: v.splits, Many: v.many, begins: v.begins}
	if p, ok := x.Parts[0].(*syntax.ParamExp); ok && out.Splits && len(x.Parts) == 1 && plain(p) && !w.assigned("IFS") {
		out.number = w.known(p.Param.Value).number
	}
	if v.many && v.pure && v.isGlob {
		out.glob = v.glob.String()
	}
	return out
}

func (w *walker) part(v *valuer, part syntax.WordPart, d dirs, first, alone, braces bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		w.lit(v, p.Value, first, alone, braces)
	case *syntax.SglQuoted:
		if !p.Dollar {
			v.literal(p.Value)
		} else if s, ok := ansiC(p.Value); ok {
			v.literal(s)
		} else {
			v.any()
		}
	case *syntax.DblQuoted:
		w.quoted(p.Parts)
		if p.Dollar {
			w.evaluates(`$"..." is translated when it is expanded`, d)
		}
		for _, q := range p.Parts {
			switch q := q.(type) {
			case *syntax.Lit:
				v.literal(unescapeQuoted(q.Value))
			case *syntax.ParamExp:
				w.param(v, q, d, true)
			default:
				w.expansion(q, d)
				v.any()
			}
		}
	case *syntax.ParamExp:
		w.param(v, p, d, false)
	case *syntax.ExtGlob:
		w.extended(p, d)
		v.any()
		v.splits = true
	case *syntax.ProcSubst:
		w.expansion(p, d)
		v.literal("/dev/fd/") // a name that the shell makes up
		v.any()
	default:
		w.expansion(p, d)
		v.any()
		v.splits = true
	}
}

// lit adds an unquoted literal: the first part of its word, all of it, or one
// that may have braces to expand.
func (w *walker) lit(v *valuer, s string, first, alone, braces bool) {
	if first && strings.HasPrefix(s, "~") {
		user, _, slash := strings.Cut(s, "/")
		if user == "~" && (slash || alone) && w.env.Home != "" && !w.assigned("HOME") {
			v.literal(w.env.Home)
		} else {
			v.literal("/") // a directory, or a name that begins with ~
			v.any()
		}
		s = s[len(user):]
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				v.literal(s[i : i+1])
			}
		case c == '*' || c == '?' || c == '[':
			v.many, v.isGlob = true, true
			v.known = false
			v.value.WriteString(Any)
			v.glob.WriteByte(c)
			if c == '[' {
				// The rest of a class is left to the matcher.
				if end := strings.IndexByte(s[i:], ']'); end > 0 {
					v.glob.WriteString(s[i+1 : i+end+1])
					i += end
				} else {
					v.pure = false
				}
			}
		case c == '{' && braces:
			v.many, v.braces = true, true
			v.splits = v.splits || v.value.Len() == 0 // of {a,} nothing may be left
			v.any()
		case c == '~' && i > 0 && (s[i-1] == '=' || s[i-1] == ':'):
			v.any()
		default:
			v.literal(s[i : i+1])
		}
	}
}

// hasBraces reports whether a word may be subject to brace expansion.
func hasBraces(x *syntax.Word) bool {
	open, sep, end := false, false, false
	for _, part := range x.Parts {
		l, ok := part.(*syntax.Lit)
		if !ok {
			continue
		}
		open = open || strings.Contains(l.Value, "{")
		sep = sep || strings.Contains(l.Value, ",") || strings.Contains(l.Value, "..")
		end = end || strings.Contains(l.Value, "}")
	}
	return open && sep && end
}

// param evaluates a parameter expansion.
func (w *walker) param(v *valuer, p *syntax.ParamExp, d dirs, quoted bool) {
	if plain(p) {
		value, ok := "", false
		switch p.Param.Value {
		case "HOME":
			value, ok = w.env.Home, w.env.Home != "" && !w.assigned("HOME")
		case "PWD":
			if len(d) == 1 && !w.assigned("PWD") {
				value, ok = d[0].name, true
			}
		}
		if ok && (quoted || !strings.ContainsAny(value, " \t\n*?[\\")) && !w.assigned("IFS") {
			v.literal(value)
			return
		}
	} else {
		w.expansion(p, d)
	}
	if v.value.Len() == 0 && quoted && plain(p) {
		v.begins = w.known(p.Param.Value)
	}
	v.any()
	if plain(p) && len(p.Param.Value) == 1 && strings.Contains("#?$", p.Param.Value) && !w.assigned("IFS") {
		return
	}
	// "$@" is several words, also when it is quoted, and also in "${x-$@}".
	if !quoted || strings.Contains(w.text(p), "@") {
		v.splits = true
	}
}

// isAll reports whether an index is that of all elements.
func isAll(x syntax.ArithmExpr) bool {
	word, ok := x.(*syntax.Word)
	return ok && word.Lit() == "@"
}

func plain(p *syntax.ParamExp) bool {
	return p.Param != nil && p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet &&
		p.NestedParam == nil && p.Index == nil && len(p.Modifiers) == 0 && p.Slice == nil &&
		p.Repl == nil && p.Names == 0 && p.Exp == nil
}

// assigned reports whether a variable is given a value anywhere in the script.
// It may say so falsely.
func (w *walker) assigned(name string) bool {
	sets, ok := w.assigns[name]
	if !ok {
		if w.assigns == nil {
			w.assigns = make(map[string]bool)
		}
		sets = w.sets(name)
		w.assigns[name] = sets
	}
	return sets
}

// sets looks for a name that is assigned to, by the text: an answer of no is
// certain but for names that are computed, which nothing provable has.
func (w *walker) sets(name string) bool {
	for rest := w.script.Source; ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		before := byte(' ')
		if i > 0 {
			before = rest[i-1]
		}
		rest = rest[i+len(name):]
		if before == '$' || before == '{' && !strings.HasPrefix(rest, ":") {
			continue
		}
		return true
	}
}

// unescape takes off the backslashes of what is not quoted.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unescapeQuoted takes off the backslashes that mean something in double quotes.
func unescapeQuoted(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ansiC reads what is between $' and '. It knows the common escapes.
func ansiC(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", false
		}
		if at := strings.IndexByte(`abeEfnrtv\'"?`, s[i]); at >= 0 {
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[at])
			continue
		}
		digits, base, longest := i, 8, 3
		switch s[i] {
		case 'x':
			digits, base, longest = i+1, 16, 2
		case 'u':
			digits, base, longest = i+1, 16, 4
		case 'U':
			digits, base, longest = i+1, 16, 8
		}
		end := digits
		for end < len(s) && end-digits < longest && isDigit(s[end], base) {
			end++
		}
		n, err := strconv.ParseUint(s[digits:end], base, 32)
		if err != nil || n == 0 {
			return "", false
		}
		if s[i] == 'u' || s[i] == 'U' {
			b.WriteRune(rune(n))
		} else {
			b.WriteByte(byte(n))
		}
		i = end - 1
	}
	return b.String(), true
}

func isDigit(c byte, base int) bool {
	switch {
	case c >= '0' && c <= '7':
		return true
	case c == '8' || c == '9':
		return base == 16
	}
	return base == 16 && (c|0x20 >= 'a' && c|0x20 <= 'f')
}
