package bash

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// assignment walks an assignment. It reports whether it is free: it changes no
// command's meaning.
func (w *walker) assignment(a *syntax.Assign, d dirs, prefix bool) bool {
	if a.Value != nil {
		w.pattern(a.Value, d)
	}
	if a.Index != nil {
		w.arith(a.Index, d)
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				w.arith(e.Index, d)
			}
			w.pattern(e.Value, d)
		}
	}
	if a.Name == nil {
		w.note("it sets a variable whose name is not known")
		return false
	}
	name := a.Name.Value
	if harmlessVariables[name] || !prefix && w.assign(name) || harmlessValue(name, a.Value) {
		return true
	}
	// It is of the shell, and of how it splits words: no split word is known.
	if name == "IFS" && !prefix && a.Array == nil && a.Index == nil {
		return true
	}
	w.note("it sets " + name + ", which may change what commands do")
	texts := []*syntax.Word{a.Value}
	if a.Array != nil {
		texts = texts[:0]
		for _, e := range a.Array.Elems {
			texts = append(texts, e.Value)
		}
	}
	for _, x := range texts {
		text, ok := literal(x)
		w.held(name, Word{Value: text, Known: ok && !a.Append}, d)
	}
	return false
}

// held judges what a variable is given that programs, or the shell itself, may
// run: a pager, PS4 ...
func (w *walker) held(name string, value Word, d dirs) {
	runs := func(suffix string) bool { return strings.HasSuffix(strings.ToUpper(name), suffix) }
	switch {
	case !value.Known, name == "PATH", name == "ENV", name == "BASH_ENV", strings.HasPrefix(name, "LD_"):
		// It names other programs, or files that are evaluated.
		w.anything(name, d)
		return
	case !strings.ContainsAny(value.Value, " \t\n;&|<>(){}[]$`'\"\\") && !slices.ContainsFunc(runners, runs):
		return // one word
	}
	w.mayBeText(value, name, d)
}

// runners are what names of variables, and of git's settings, end with that hold
// a program.
var runners = []string{
	"PAGER", "EDITOR", "VISUAL", "BROWSER", "SHELL", "COMMAND", "DIFF", "SSH", "ASKPASS", "CMD", "EXTERNAL", "HELPER", "PROGRAM", "FSMONITOR", "TEXTCONV",
	"DRIVER", "PROCESS", "CLEAN", "SMUDGE", "PROXY", "UPLOADPACK", "RECEIVEPACK",
}

// harmlessVariables change how output looks, and nothing else.
var harmlessVariables = map[string]bool{
	"TZ": true, "NO_COLOR": true, "FORCE_COLOR": true, "CLICOLOR": true, "CLICOLOR_FORCE": true, "COLUMNS": true, "LINES": true,
}

// harmlessValue knows variables that change nothing with such a value: locales
// in which each byte of ASCII is itself, pagers that do not page.
func harmlessValue(name string, x *syntax.Word) bool {
	value, ok := literal(x)
	if !ok {
		return false
	}
	switch name {
	case "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME", "LANG", "LANGUAGE":
		value = strings.ToLower(value)
		return value == "" || value == "c" || value == "posix" || !strings.Contains(value, "/") && (strings.HasSuffix(value, ".utf-8") || strings.HasSuffix(value, ".utf8"))
	case "PAGER", "GIT_PAGER":
		return value == "cat"
	case "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT":
		return value == "0"
	case "TERM":
		return value == "dumb"
	}
	return false
}

// literal is the value of a word that has no expansions, as of an assignment:
// its letters of patterns are letters. No word is "".
func literal(x *syntax.Word) (string, bool) {
	v := valuer{known: true}
	if x == nil {
		return "", true
	}
	for _, part := range x.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			v.known = v.known && !strings.Contains(p.Value, "~")
			v.literal(unescape(p.Value))
		case *syntax.SglQuoted:
			text := p.Value
			if p.Dollar {
				var ok bool
				text, ok = ansiC(text)
				v.known = v.known && ok
			}
			v.literal(text)
		case *syntax.DblQuoted:
			v.known = v.known && !p.Dollar
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				v.literal(unescapeQuoted(l.Value))
			}
		default:
			return "", false
		}
	}
	return v.value.String(), v.known
}

// assign reports whether a variable may be given any value: it means nothing to
// the shell or to a program.
func (w *walker) assign(name string) bool {
	return isName(name) && (freeName(name) || harmlessVariables[name])
}

// freeName reports whether a name is of the shell's own variables by convention:
// none that a program looks at.
func freeName(name string) bool {
	switch name {
	case "_", "histchars", "auto_resume", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy":
		return false
	}
	return strings.ToLower(name) == name || len(name) == 1 || ownNames[name]
}

// ownNames are names in capitals that scripts give to what is their own.
var ownNames = func() map[string]bool {
	table := make(map[string]bool)
	for name := range strings.FieldsSeq("ARG ARGS BAR BASE BRANCH BRANCHES CHANGED CODE COMMIT COMMITS COUNT CURRENT DATE DEFAULT_BRANCH DIFF DIR DIRS END EXT FILE FILES FOO FOUND HASH ID IDS INPUT ITEM ITEMS KEY LAST LATEST LIMIT LINE LIST MAIN MATCHES MAX MERGE_BASE MESSAGE MIN MODULE MSG N NAME NEW NUM OLD OUT OUTPUT PATTERN PKG PREFIX PROJECT QUERY REF REPO REPO_ROOT RESULT ROOT SCRIPT_DIR SHA SINCE SIZE SRC START SUFFIX TAG TEXT TODAY TOTAL UNTIL VALUE VERSION WORD") {
		table[name] = true
	}
	return table
}()

func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && !(c|0x20 >= 'a' && c|0x20 <= 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// decl walks export, declare and their like.
func (w *walker) decl(c *syntax.DeclClause, d dirs) {
	free, evaluates := true, false
	words := []Word{lit(c.Variant.Value)}
	for _, a := range c.Args {
		switch {
		case a.Naked && a.Name == nil:
			word := w.word(a.Value, d)
			words = append(words, word)
			free = free && word.Known && (word.Value == "-r" || word.Value == "-a" || word.Value == "-A" || word.Value == "-p")
			// Integers and references are evaluated, and so are subscripts.
			evaluates = evaluates || !word.Known || strings.ContainsAny(word.Value, "[(=") ||
				strings.HasPrefix(word.Value, "-") && strings.ContainsAny(word.Value, "in")
		case a.Naked:
			if a.Index != nil {
				w.arith(a.Index, d)
			}
			words = append(words, lit(a.Name.Value))
			free = free && w.assign(a.Name.Value) && a.Index == nil
		default:
			words = append(words, Word{Value: a.Name.Value + "=" + Any})
			free = w.assignment(a, d, c.Variant.Value == "export") && free
			if mayBeArray(a) {
				free, evaluates = false, true
			}
		}
	}
	switch c.Variant.Value {
	case "export", "declare", "local", "readonly", "typeset":
	default:
		free = false
	}
	p := Part{Text: w.text(c), Words: words, Command: words, Kind: Neutral, ReadOnly: free, Assigns: !free}
	if !free {
		p.Kind, p.Why = Unknown, c.Variant.Value+" sets variables that may change what commands do"
	}
	w.add(p)
	if evaluates {
		w.anything(c.Variant.Value, d)
	}
}

// mayBeArray reports whether the value of a variable that is declared may be
// text in parentheses: of an array such a text is evaluated, though it is quoted.
func mayBeArray(a *syntax.Assign) bool {
	if a.Array != nil || a.Value == nil {
		return false
	}
	for i := range a.Value.Parts {
		if begins, ok := literal(&syntax.Word{Parts: a.Value.Parts[:i+1]}); ok && begins != "" {
			return begins[0] == '('
		}
	}
	text, ok := literal(a.Value)
	if ok {
		return false // it is empty
	}
	if q, is := a.Value.Parts[0].(*syntax.DblQuoted); is && len(q.Parts) > 0 && !q.Dollar {
		text, ok = literal(&syntax.Word{Parts: q.Parts[:1]})
	}
	return !ok || text == "" || text[0] == '('
}
