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
			w.evaluates("backquotes with backslashes in them", d)
		}
		w.stmts(p.Stmts, d)
	case *syntax.ProcSubst:
		w.stmts(p.Stmts, d)
	case *syntax.ArithmExp:
		w.arith(p.X, d)
	case *syntax.ParamExp:
		w.paramExp(p, d)
	case *syntax.ExtGlob:
		w.extended(p, d)
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
		w.evaluates("${!...} evaluates what a variable holds", d)
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
			w.evaluates("an expansion sets "+p.Param.Value+", which may be evaluated", d)
		}
	case syntax.OtherParamOps:
		if op := p.Exp.Word.Lit(); len(op) != 1 || !strings.Contains("QULu", op) {
			w.evaluates("${...@"+op+"} may evaluate what a variable holds", d)
		}
		return
	}
	w.pattern(p.Exp.Word, d)
}

// evaluates notes that a text is evaluated that is not known: it may run
// anything.
func (w *walker) evaluates(why string, d dirs) {
	w.note(why)
	w.anything(why, d)
}

// extended walks an extended pattern, in which the parser sees no expansions.
func (w *walker) extended(p *syntax.ExtGlob, d dirs) {
	w.note("an extended pattern depends on the shell's options")
	if strings.ContainsAny(p.Pattern.Value, "$`<>") {
		w.anything("an extended pattern", d)
	}
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
				w.evaluates("arithmetic evaluates what is not known to be a number", d)
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
		return isInteger(p.Value) || w.known(p.Value).number
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
			return w.known(p.Param.Value).number || len(p.Param.Value) == 1 && strings.Contains("#?$!", p.Param.Value)
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
			if word, ok := x.X.(*syntax.Word); !ok || !isName(word.Lit()) {
				w.anything("[[", d)
			}
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
