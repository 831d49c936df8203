package bash

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// facts are what is known of all that a variable of the script's own is given.
type facts struct {
	number  bool // nothing but integers
	operand bool // a text that begins as no flag and no operator does
	local   bool // no text that begins with /dev or /inet, where the shell, or awk, may open a connection
}

// known returns what is known of a variable, wherever in the text it is used: of one
// that is not set, nothing is left. One that is given nothing may be of the
// environment.
func (w *walker) known(name string) facts {
	if !isName(name) || !freeName(name) {
		return facts{}
	}
	if w.facts == nil {
		if !gives(w.src, name) {
			return facts{}
		}
		w.facts = factsOf(w.file, w.comment)
	}
	return w.facts[name]
}

// gives reports whether a text may give a variable a value that is known: name=, or
// for name.
func gives(src, name string) bool {
	for from := 0; ; {
		i := strings.Index(src[from:], name)
		if i < 0 {
			return false
		}
		before, after := src[:from+i], src[from+i+len(name):]
		if after != "" && strings.IndexByte("= \\", after[0]) >= 0 && (after[0] != ' ' || strings.HasPrefix(after, " =")) ||
			strings.HasSuffix(before, "for ") || strings.HasSuffix(before, "for\t") {
			return true
		}
		from += i + len(name)
	}
}

// factsOf looks at all that gives variables values, and shows the comments that it
// comes by.
func factsOf(f *syntax.File, comment func(*syntax.Comment)) map[string]facts {
	found := make(map[string]facts)
	set := func(name string, now facts) {
		if before, seen := found[name]; seen {
			now = facts{now.number && before.number, now.operand && before.operand, now.local && before.local}
		}
		found[name] = now
	}
	if f == nil {
		return found
	}
	var computed []syntax.ArithmExpr
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Comment:
			comment(n)
		case *syntax.Assign:
			switch {
			case n.Name == nil || n.Naked:
			case n.Append || n.Index != nil || n.Array != nil:
				set(n.Name.Value, facts{})
			default:
				set(n.Name.Value, valueFacts(n.Value))
			}
		case *syntax.ForClause:
			switch l := n.Loop.(type) {
			case *syntax.WordIter:
				now := facts{true, true, true}
				for _, item := range l.Items {
					one := valueFacts(item)
					one.number = one.number || isSequence(item.Lit())
					if !beginsAlike(item) {
						one = facts{}
					}
					now = facts{now.number && one.number, now.operand && one.operand, now.local && one.local}
				}
				if len(l.Items) == 0 {
					now = facts{}
				}
				set(l.Name.Value, now)
			case *syntax.CStyleLoop:
				if b, ok := l.Init.(*syntax.BinaryArithm); ok && b.Op == syntax.Assgn {
					if word, ok := b.X.(*syntax.Word); ok {
						set(word.Lit(), facts{number: true})
					}
				}
			}
		case *syntax.BinaryArithm: // which may be an assignment, of a number
			computed = append(computed, n.X)
		case *syntax.UnaryArithm:
			computed = append(computed, n.X)
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) && n.Param != nil {
				set(n.Param.Value, facts{})
			}
		case *syntax.CallExpr:
			// What a builtin may set it names.
			if len(n.Args) == 0 {
				break
			}
			name, ok := literal(n.Args[0])
			if !ok {
				name = ""
			}
			switch name {
			case "", "read", "printf", "mapfile", "readarray", "getopts", "unset", "wait", "command", "builtin":
				for _, arg := range n.Args[1:] {
					// A word that is not known makes none of these read-only.
					text, _ := literal(arg)
					set(text, facts{})
					if !strings.HasPrefix(text, "-") {
						continue
					}
					for i := range text { // a name that is attached to its flag
						set(text[i:], facts{})
					}
				}
			}
		case *syntax.Redirect:
			if n.N != nil {
				set(strings.Trim(n.N.Value, "{}"), facts{})
			}
		}
		return true
	})
	for _, x := range computed {
		if word, ok := x.(*syntax.Word); ok {
			if now, seen := found[word.Lit()]; seen {
				now.operand = false // it may be negative
				found[word.Lit()] = now
			}
		}
	}
	return found
}

// valueFacts is what is known of a value: of what it begins with.
func valueFacts(x *syntax.Word) facts {
	now := facts{number: isNumberWord(x)}
	if x == nil || len(x.Parts) == 0 {
		return now
	}
	begins, pattern := "", false
	switch p := x.Parts[0].(type) {
	case *syntax.Lit:
		begins = p.Value
		pattern = begins != "" && strings.IndexByte("*?", begins[0]) >= 0
	case *syntax.SglQuoted:
		if !p.Dollar {
			begins = p.Value
		}
	case *syntax.DblQuoted:
		if len(p.Parts) > 0 && !p.Dollar {
			if l, ok := p.Parts[0].(*syntax.Lit); ok {
				begins = l.Value
			}
		}
	}
	if begins == "" {
		return now
	}
	c := begins[0]
	now.operand = isWordByte(c) || c == '.' || c == '/'
	// The name of a file that a pattern stands for is relative, as the pattern is.
	now.local = pattern || now.operand && (c != '/' || len(begins) > 2 && strings.IndexByte("di", begins[1]) < 0 && isWordByte(begins[1]))
	return now
}

// beginsAlike reports whether all that a word becomes begins as its literal does: an
// expansion that splits, or stands for several words, begins others in another way.
func beginsAlike(x *syntax.Word) bool {
	for _, part := range x.Parts {
		switch p := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.ProcSubst:
		case *syntax.DblQuoted:
			alike := true
			for _, q := range p.Parts {
				syntax.Walk(q, func(n syntax.Node) bool {
					switch n := n.(type) {
					case *syntax.CmdSubst:
						return false
					case *syntax.ParamExp: // "$@", "${a[@]}", "${!a@}", also in "${x-$@}"
						alike = alike && n.Names == 0 && (n.Param == nil || n.Param.Value != "@") && (n.Index == nil || !isAll(n.Index))
					}
					return alike
				})
			}
			if !alike {
				return false
			}
		default:
			return len(x.Parts) == 1 && isNumberWord(x)
		}
	}
	return true
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
