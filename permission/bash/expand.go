package bash

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// expansion walks what is run, or evaluated, by a part of a word.
func (w *walker) expansion(part syntax.WordPart, d dirs) {
	if w.depth++; w.depth > maxDepth {
		w.bad("it is nested too deep to be judged")
		return
	}
	defer func() { w.depth-- }()
	switch p := part.(type) {
	case *syntax.Lit, *syntax.SglQuoted:
	case *syntax.DblQuoted:
		w.quoted(p.Parts)
		for _, q := range p.Parts {
			w.expansion(q, d)
		}
	case *syntax.CmdSubst:
		if p.TempFile || p.ReplyVar {
			w.bad("it is no command of bash")
		}
		if p.Backquotes && strings.Contains(w.text(p), `\`) {
			w.note("backquotes with backslashes in them")
		}
		w.stmts(p.Stmts, d)
	case *syntax.ProcSubst:
		w.stmts(p.Stmts, d)
	case *syntax.ArithmExp:
		w.arith(p.X, d)
	case *syntax.ParamExp:
		w.paramExp(p, d)
	case *syntax.ExtGlob:
		w.note("an extended pattern depends on the shell's options")
	default:
		w.bad("it has an expansion that is not known")
	}
}

// paramExp walks a parameter expansion.
func (w *walker) paramExp(p *syntax.ParamExp, d dirs) {
	if plain(p) {
		return
	}
	if p.Excl && p.Names == 0 {
		w.note("${!...} evaluates what a variable holds")
	}
	if p.Flags != nil || p.Width || p.IsSet || p.NestedParam != nil || len(p.Modifiers) > 0 || p.Param == nil {
		w.bad("it is no command of bash")
		return
	}
	if p.Index != nil && !isAll(p.Index) {
		if word, ok := p.Index.(*syntax.Word); !ok || word.Lit() != "*" {
			w.arith(p.Index, d)
		}
	}
	if p.Slice != nil {
		w.arith(p.Slice.Offset, d)
		w.arith(p.Slice.Length, d)
	}
	if p.Repl != nil {
		w.pattern(p.Repl.Orig, d)
		w.pattern(p.Repl.With, d)
	}
	if p.Exp == nil {
		return
	}
	switch p.Exp.Op {
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if !w.assign(p.Param.Value) {
			w.note("an expansion sets " + p.Param.Value)
		}
	case syntax.OtherParamOps:
		if op := p.Exp.Word.Lit(); len(op) != 1 || !strings.Contains("QULu", op) {
			w.note("${...@" + op + "} may evaluate what a variable holds")
		}
		return
	}
	w.pattern(p.Exp.Word, d)
}

// quoted looks at parts in double quotes, or of a here-document, for expansions
// with a text in single quotes: bash takes those for letters, or not, by the
// expansion's kind, and the parser does not.
func (w *walker) quoted(parts []syntax.WordPart) {
	for _, part := range parts {
		if p, ok := part.(*syntax.ParamExp); !ok || plain(p) {
			continue
		}
		syntax.Walk(part, func(n syntax.Node) bool {
			switch n.(type) {
			case *syntax.SglQuoted:
				w.bad("a quotation mark in a quoted expansion is not always one")
			case *syntax.CmdSubst:
				return false
			}
			return true
		})
	}
}

// pattern walks a word that does not become arguments.
func (w *walker) pattern(x *syntax.Word, d dirs) {
	if x == nil {
		return
	}
	for _, part := range x.Parts {
		w.expansion(part, d)
	}
}

// arith walks an arithmetic expression. Bash evaluates what variables in it
// hold, subscripts with commands in them included, so only numbers are proved,
// and variables that hold nothing else.
func (w *walker) arith(x syntax.ArithmExpr, d dirs) {
	if w.depth++; w.depth > maxDepth {
		w.bad("it is nested too deep to be judged")
		return
	}
	defer func() { w.depth-- }()
	switch x := x.(type) {
	case nil:
	case *syntax.ParenArithm:
		w.arith(x.X, d)
	case *syntax.UnaryArithm:
		w.arith(x.X, d)
	case *syntax.BinaryArithm:
		w.arith(x.X, d)
		w.arith(x.Y, d)
	case *syntax.Word:
		if x == nil {
			return
		}
		for _, part := range x.Parts {
			if !w.number(part, d) {
				w.note("arithmetic evaluates what is not known to be a number")
			}
		}
	default:
		w.bad("it is no command of bash")
	}
}

// number reports whether a part of a word in arithmetic is one; it walks it.
func (w *walker) number(part syntax.WordPart, d dirs) bool {
	switch p := part.(type) {
	case *syntax.Lit:
		return isInteger(p.Value) || w.isNumber(p.Value)
	case *syntax.DblQuoted:
		w.quoted(p.Parts)
		for _, q := range p.Parts {
			if !w.number(q, d) {
				return false
			}
		}
		return !p.Dollar
	case *syntax.ArithmExp:
		w.arith(p.X, d)
		return true
	case *syntax.ParamExp:
		if p.Length && p.Index == nil && p.Param != nil {
			return true
		}
		if plain(p) {
			return w.isNumber(p.Param.Value) || len(p.Param.Value) == 1 && strings.Contains("#?$!", p.Param.Value)
		}
		w.expansion(part, d)
		return false
	}
	w.expansion(part, d)
	return false
}

func isInteger(s string) bool {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	return s != "" && len(s) < 19 && strings.Trim(s, "0123456789") == ""
}

// isNumber reports whether a variable is given numbers only, and at least one,
// before it could be anything else: everywhere in the text.
func (w *walker) isNumber(name string) bool {
	if w.numbers == nil {
		w.numbers = numbers(w.file)
	}
	return w.numbers[name] && isName(name) && freeName(name)
}

// numbers finds the variables that hold nothing but integers.
func numbers(f *syntax.File) map[string]bool {
	found := make(map[string]bool)
	set := func(name string, number bool) {
		before, seen := found[name]
		found[name] = number && (before || !seen)
	}
	if f == nil {
		return found
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil && !n.Naked {
				set(n.Name.Value, !n.Append && n.Index == nil && n.Array == nil && isNumberWord(n.Value))
			}
		case *syntax.ForClause:
			switch l := n.Loop.(type) {
			case *syntax.WordIter:
				ok := len(l.Items) > 0
				for _, item := range l.Items {
					ok = ok && (isNumberWord(item) || isSequence(item.Lit()))
				}
				set(l.Name.Value, ok)
			case *syntax.CStyleLoop:
				if b, ok := l.Init.(*syntax.BinaryArithm); ok && b.Op == syntax.Assgn {
					if word, ok := b.X.(*syntax.Word); ok {
						set(word.Lit(), true)
					}
				}
			}
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) && n.Param != nil {
				set(n.Param.Value, false)
			}
		case *syntax.CallExpr:
			// What a builtin may set it names.
			if len(n.Args) == 0 {
				break
			}
			switch n.Args[0].Lit() {
			case "", "read", "printf", "mapfile", "readarray", "getopts", "unset", "wait", "command", "builtin":
				for _, arg := range n.Args[1:] {
					syntax.Walk(arg, func(n syntax.Node) bool {
						if l, ok := n.(*syntax.Lit); ok {
							set(strings.TrimLeft(l.Value, "-"), false)
						}
						return true
					})
				}
			}
		case *syntax.Redirect:
			if n.N != nil {
				set(strings.Trim(n.N.Value, "{}"), false)
			}
		}
		return true
	})
	return found
}

func isNumberWord(x *syntax.Word) bool {
	if x == nil || len(x.Parts) != 1 {
		return false
	}
	switch p := x.Parts[0].(type) {
	case *syntax.Lit:
		return isInteger(p.Value)
	case *syntax.ArithmExp:
		return true // what is in it is judged where it stands
	}
	return false
}

func isSequence(s string) bool {
	s, ok := strings.CutPrefix(s, "{")
	if !ok || !strings.HasSuffix(s, "}") {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(s, "}"), "..") {
		if !isInteger(part) {
			return false
		}
	}
	return true
}

// testExpr walks an expression in [[ ]].
func (w *walker) testExpr(x syntax.TestExpr, d dirs) {
	if w.depth++; w.depth > maxDepth {
		w.bad("it is nested too deep to be judged")
		return
	}
	defer func() { w.depth-- }()
	switch x := x.(type) {
	case *syntax.ParenTest:
		w.testExpr(x.X, d)
	case *syntax.UnaryTest:
		switch x.Op {
		case syntax.TsVarSet, syntax.TsRefVar, syntax.TsOptSet:
			w.note("[[ evaluates the name of a variable")
		}
		w.testExpr(x.X, d)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				word, ok := side.(*syntax.Word)
				if !ok {
					w.bad("it has a test that is not known")
					return
				}
				w.arith(word, d)
			}
			return
		}
		w.testExpr(x.X, d)
		w.testExpr(x.Y, d)
	case *syntax.Word:
		w.pattern(x, d)
	default:
		w.bad("it has a test that is not known")
	}
}

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
	return false
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

// literal is the value of a word that has no expansions; no word is "".
func literal(x *syntax.Word) (string, bool) {
	v := valuer{known: true}
	if x == nil {
		return "", true
	}
	for _, part := range x.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			v.known = v.known && !strings.ContainsAny(p.Value, `\~`)
			v.literal(p.Value)
		case *syntax.SglQuoted:
			v.known = v.known && !p.Dollar
			v.literal(p.Value)
		case *syntax.DblQuoted:
			text, ok := literal(&syntax.Word{Parts: p.Parts})
			v.known = v.known && ok && !p.Dollar
			v.literal(text)
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
var ownNames = map[string]bool{
	"FILE": true, "FILES": true, "DIR": true, "DIRS": true, "NAME": true, "LINE": true, "COUNT": true, "TOTAL": true,
	"RESULT": true, "OUT": true, "OUTPUT": true, "PATTERN": true, "BRANCH": true, "COMMIT": true, "START": true, "END": true, "BASE": true,
}

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
	free := true
	words := []Word{lit(c.Variant.Value)}
	for _, a := range c.Args {
		switch {
		case a.Naked && a.Name == nil:
			word := w.word(a.Value, d)
			words = append(words, word)
			free = free && word.Known && (word.Value == "-r" || word.Value == "-a" || word.Value == "-A" || word.Value == "-p")
		case a.Naked:
			words = append(words, lit(a.Name.Value))
			free = free && w.assign(a.Name.Value) && a.Index == nil
		default:
			words = append(words, Word{Value: a.Name.Value + "=" + Any})
			free = w.assignment(a, d, c.Variant.Value == "export") && free
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
}
