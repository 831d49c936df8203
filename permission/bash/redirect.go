package bash

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirect walks a redirection.
func (w *walker) redirect(r *syntax.Redirect, d dirs) {
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
		if name, ok := strings.CutPrefix(r.N.Value, "{"); !ok || !w.assign(strings.TrimSuffix(name, "}")) {
			w.evaluates("a redirection sets a variable", d)
		}
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		w.hereDoc(r, d)
		return
	case syntax.WordHdoc:
		w.word(r.Word, d)
		return
	}
	target := w.word(r.Word, d)
	source := w.text(r)
	write := false
	switch r.Op {
	case syntax.RdrIn:
		w.reopens.odd = w.reopens.odd || r.N != nil && r.N.Value != "0"
	case syntax.DplIn, syntax.DplOut:
		w.reopens.odd = w.reopens.odd || r.Op == syntax.DplIn || target.Value != "1" && target.Value != "2" && target.Value != "-"
		if target.Known && isDescriptor(target.Value) {
			return
		}
		if r.Op == syntax.DplIn || !target.Known {
			w.note("a redirection to what is not known: " + source)
			w.script.Redirects = append(w.script.Redirects, Redirect{Source: source, Write: true})
			return
		}
		write = true
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		write = true
	default:
		w.note("a redirection that is not known: " + source)
		write = true
	}
	out, certain := Redirect{Source: source, Write: write}, true
	switch {
	case target.Known && isNetwork(target.Value):
		w.note("it opens a network connection: " + source)
		out.Write = true
	case target.Known:
		if write && isSink(target.Value) {
			w.reopens.sink = w.reopens.sink || target.Value != "/dev/null"
			return
		}
		out.Paths, certain = d.resolve(target.Value)
	case target.glob != "" && !target.Splits:
		out.Globs, certain = d.resolve(target.glob)
		if strings.HasPrefix(target.Value, "/") && mayBeNetwork(target.prefix()) {
			w.note("a redirection to what is not known: " + source)
		}
	case target.begins.local:
	case mayBeNetwork(target.prefix()):
		if !strings.HasPrefix(target.Value, "/dev/fd/") {
			w.note("a redirection to what is not known: " + source)
		}
	}
	w.script.Redirects = append(w.script.Redirects, out)
	if !certain && len(out.Paths)+len(out.Globs) > 0 {
		w.script.Redirects = append(w.script.Redirects, Redirect{Source: source, Write: out.Write})
	}
}

// relinked leaves open what lies where a part of the script may put a symbolic
// link: where that leads cannot be looked up before it is there.
func (w *walker) relinked() {
	by := make(map[string]int) // the part that does; -1: several
	for i, p := range w.script.Parts {
		for _, name := range p.links {
			if before, ok := by[name]; ok && before != i {
				by[name] = -1
			} else {
				by[name] = i
			}
		}
	}
	if len(by) == 0 {
		return
	}
	moved := func(name string, part int) bool {
		for {
			if by, ok := by[name]; ok && by != part {
				return true
			}
			if name == "/" {
				return false
			}
			name = path.Dir(name)
		}
	}
	for i := range w.script.Parts {
		p := &w.script.Parts[i]
		if slices.ContainsFunc(p.Paths, func(path Path) bool { return moved(path.Name, i) }) ||
			slices.ContainsFunc(p.Globs, func(glob string) bool { return moved(glob, i) }) {
			p.Open, p.Edits = true, false
		}
	}
	for _, r := range w.script.Redirects {
		is := func(name string) bool { return moved(name, -2) }
		if slices.ContainsFunc(r.Paths, is) || slices.ContainsFunc(r.Globs, is) {
			w.script.Redirects = append(w.script.Redirects, Redirect{Source: r.Source, Write: r.Write})
		}
	}
}

// isDescriptor reports whether a word after >& or <& is no file.
func isDescriptor(s string) bool {
	return s == "-" || s != "" && strings.Trim(strings.TrimSuffix(s, "-"), "0123456789") == "" && s != "-"
}

// isSink reports whether what is written to a path changes nothing: it is
// nowhere, or where the command writes anyway.
func isSink(name string) bool {
	switch name {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2":
		return true
	}
	return false
}

// isNetwork reports whether bash makes a connection of a path.
func isNetwork(name string) bool {
	return strings.HasPrefix(name, "/dev/tcp/") || strings.HasPrefix(name, "/dev/udp/")
}

func mayBeNetwork(prefix string) bool {
	for _, n := range []string{"/dev/tcp/", "/dev/udp/"} {
		if strings.HasPrefix(n, prefix) || strings.HasPrefix(prefix, n) {
			return true
		}
	}
	return false
}

// hereDoc walks a here-document. Where bash and the parser could disagree on its
// end it is not provable.
func (w *walker) hereDoc(r *syntax.Redirect, d dirs) {
	delim := valuer{known: true}
	quoted := false
	for _, part := range r.Word.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			quoted = quoted || strings.Contains(p.Value, `\`)
			delim.literal(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			quoted = true
			delim.literal(p.Value)
			delim.known = delim.known && !p.Dollar
		case *syntax.DblQuoted:
			quoted = true
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok || strings.Contains(l.Value, `\`) {
					delim.known = false
					continue
				}
				delim.literal(l.Value)
			}
			delim.known = delim.known && !p.Dollar
		default:
			delim.known = false
		}
	}
	end := delim.value.String()
	if !delim.known || end == "" || strings.ContainsAny(end, "\n$`") {
		w.bad("the end of a here-document cannot be told")
		return
	}
	if r.Hdoc == nil {
		return
	}
	// The last line is the end itself.
	body := w.text(r.Hdoc)
	body = body[:strings.LastIndexByte(body, '\n')+1]
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(strings.TrimLeft(line, "\t"), end) {
			w.bad("the end of a here-document cannot be told")
			return
		}
	}
	if !quoted {
		if strings.Contains(body, "\\\n") {
			w.bad("the end of a here-document cannot be told")
			return
		}
		w.heredocWord(r.Hdoc, d)
	}
}

// heredocWord walks the body of a here-document: quoted, but for expansions.
func (w *walker) heredocWord(x *syntax.Word, d dirs) {
	w.quoted(x.Parts)
	for _, part := range x.Parts {
		if _, ok := part.(*syntax.Lit); !ok {
			w.expansion(part, d)
		}
	}
}
