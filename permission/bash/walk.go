package bash

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A dir is a directory that a command may run in.
type dir struct {
	name string
	// real says that no component of the name is a symbolic link, so that the
	// directory above it is the one above its name.
	real bool
}

// dirs are the working directories that a command may run in; none: unknown.
type dirs []dir

func union(a, b dirs) dirs {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	if slices.Equal(a, b) {
		return a
	}
	out := slices.Clone(a)
	for _, d := range b {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	if len(out) > maxDirs {
		return nil
	}
	return out
}

// resolve returns where a path may lead, clean and absolute. Where it goes up
// from what may be a symbolic link, the system goes to what is above the link's
// end, and the names say only what was written: they are not certain.
func (d dirs) resolve(name string) (names []string, certain bool) {
	up, below := ups(name)
	if path.IsAbs(name) {
		return []string{path.Clean(name)}, !below
	}
	certain = len(d) > 0 && !below
	for _, dir := range d {
		names = append(names, path.Join(dir.name, name))
		certain = certain && (dir.real || !up)
	}
	return names, certain
}

// ups reports whether a path goes up at its beginning, and whether it does so
// below another component.
func ups(name string) (up, below bool) {
	inside := false
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			up = up || !inside
			below = below || inside
		default:
			inside = true
		}
	}
	return up, below
}

// chdir returns the directories after a change to a path. Where bash would go by
// the names, but by the links in them should that fail, it is not known.
func (w *walker) chdir(d dirs, to string) dirs {
	names, certain := d.resolve(to)
	if !certain {
		return nil
	}
	out := make(dirs, len(names))
	for i, name := range names {
		out[i] = w.dir(name)
	}
	return out
}

// dir is a directory by its name: real where it is the one that the script
// begins in, or above that.
func (w *walker) dir(name string) dir {
	above := len(name) < len(w.env.Dir) && w.env.Dir[len(name)] == '/' && w.env.Dir[:len(name)] == name
	return dir{name, name == w.env.Dir || name == "/" || above}
}

// A walker takes one script apart.
type walker struct {
	script  *Script
	env     Env
	src     string // of what is walked
	file    *syntax.File
	through string // what the text that is walked is an argument of
	depth   int
	free    []Word           // for the words of the commands to come
	args    args             // of the command that is looked up in the table
	facts   map[string]facts // of variables; nil until they are asked for
	assigns map[string]bool  // answers of sets, each of which reads all of the source
	// reopens is about what /dev/stdout and its like lead to: sink says that one
	// is written to, odd that a descriptor may be of a file that is only read.
	// Together they are a write to that file.
	reopens struct{ sink, odd bool }
}

func (w *walker) stmts(list []*syntax.Stmt, d dirs) dirs {
	for _, s := range list {
		d, _ = w.stmt(s, d)
	}
	return d
}

// stmt walks a statement. It returns the directories that may be the working
// directory after it, and those after its success.
func (w *walker) stmt(s *syntax.Stmt, d dirs) (after, success dirs) {
	if w.depth++; w.depth > maxDepth {
		w.bad("it is nested too deep to be judged")
		return nil, nil
	}
	defer func() { w.depth-- }()
	if s.Coprocess || s.Disown {
		w.bad("it is no command of bash")
	}
	for _, r := range s.Redirs {
		w.redirect(r, d)
	}
	if s.Cmd == nil {
		return d, d
	}
	after, success = w.cmd(s.Cmd, d)
	if s.Negated {
		success = after
	}
	if s.Background {
		return d, d
	}
	return after, success
}

func (w *walker) cmd(c syntax.Command, d dirs) (after, success dirs) {
	switch c := c.(type) {
	case *syntax.CallExpr:
		return w.call(c, d)
	case *syntax.Block:
		a := w.stmts(c.Stmts, d)
		return a, a
	case *syntax.Subshell:
		w.stmts(c.Stmts, d)
		return d, d
	case *syntax.BinaryCmd:
		// A long list is not deep, though its tree is.
		w.depth--
		defer func() { w.depth++ }()
		switch c.Op {
		case syntax.AndStmt:
			a1, s1 := w.stmt(c.X, d)
			a2, s2 := w.stmt(c.Y, s1)
			return union(a1, a2), s2
		case syntax.OrStmt:
			a1, s1 := w.stmt(c.X, d)
			a2, s2 := w.stmt(c.Y, a1)
			return union(s1, a2), union(s1, s2)
		}
		w.stmt(c.X, d)
		w.stmt(c.Y, d)
		return d, d
	case *syntax.IfClause:
		a := w.ifClause(c, d)
		return a, a
	case *syntax.WhileClause:
		d = w.loop(c, d)
		w.stmts(c.Do, w.stmts(c.Cond, d))
		return d, d
	case *syntax.ForClause:
		if c.Select {
			w.note("select asks")
		}
		d = w.loop(c, d)
		switch l := c.Loop.(type) {
		case *syntax.WordIter:
			if !w.assign(l.Name.Value) {
				w.evaluates("it sets "+l.Name.Value+", which may change what commands do", d)
			}
			for _, item := range l.Items {
				w.word(item, d)
			}
		case *syntax.CStyleLoop:
			for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
				w.arith(x, d)
			}
		}
		w.stmts(c.Do, d)
		return d, d
	case *syntax.CaseClause:
		w.word(c.Word, d)
		out := d
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				w.pattern(p, d)
			}
			// Through ;& and ;;& several may run.
			out = union(out, w.stmts(item.Stmts, out))
		}
		return out, out
	case *syntax.TimeClause:
		if c.Stmt == nil {
			return d, d
		}
		return w.stmt(c.Stmt, d)
	case *syntax.TestClause:
		w.testExpr(c.X, d)
		return d, d
	case *syntax.ArithmCmd:
		w.arith(c.X, d)
		return d, d
	case *syntax.DeclClause:
		w.decl(c, d)
		return d, d
	case *syntax.FuncDecl:
		w.note("it defines a function")
		w.stmt(c.Body, nil)
		return nil, nil // it may be called, and go anywhere
	case *syntax.CoprocClause:
		w.note("it starts a coprocess")
		w.stmt(c.Stmt, d)
		return d, d
	case *syntax.LetClause:
		w.note("let evaluates its arguments")
		for _, x := range c.Exprs {
			w.arith(x, d)
		}
		return d, d
	}
	w.bad("it has a construct that is not known")
	return nil, nil
}

func (w *walker) ifClause(c *syntax.IfClause, d dirs) dirs {
	after, success := d, d
	for i, s := range c.Cond {
		after, success = w.stmt(s, after)
		if i < len(c.Cond)-1 {
			success = after
		}
	}
	out := w.stmts(c.Then, success)
	switch {
	case c.Else == nil:
		return union(out, after)
	case len(c.Else.Cond) == 0: // else
		return union(out, w.stmts(c.Else.Then, after))
	}
	return union(out, w.ifClause(c.Else, after))
}

// loop returns the directories of a loop: where its body changes them, another
// round begins anywhere.
func (w *walker) loop(n syntax.Node, d dirs) dirs {
	moves := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			switch name := c.Args[0].Lit(); name {
			case "", "cd", "pushd", "popd", "eval", "source", ".", "command", "builtin":
				moves = true
			default:
				moves = moves || strings.Contains(name, `\`)
			}
		}
		return !moves
	})
	if moves {
		return nil
	}
	return d
}

// call walks a simple command.
func (w *walker) call(c *syntax.CallExpr, d dirs) (after, success dirs) {
	assigns := false
	for _, a := range c.Assigns {
		// What is set for read is not passed on.
		free := w.assignment(a, d, len(c.Args) > 0 && c.Args[0].Lit() != "read")
		assigns = assigns || !free
	}
	if len(c.Args) == 0 {
		return d, d
	}
	words := w.room(len(c.Args))
	for _, x := range c.Args {
		words = append(words, w.word(x, d))
	}
	text := w.src[c.Args[0].Pos().Offset():c.Args[len(c.Args)-1].End().Offset()]
	return w.command(words, text, assigns, d)
}

// room is a slice for so many words: those of a script lie beside each other.
func (w *walker) room(n int) []Word {
	if n > len(w.free) {
		w.free = make([]Word, max(n, min(len(w.src)/8, 256)))
	}
	words := w.free[:0:n]
	w.free = w.free[n:]
	return words
}

// command judges a simple command of which the words are known.
func (w *walker) command(words []Word, text string, assigns bool, d dirs) (after, success dirs) {
	if w.depth++; w.depth > maxDepth {
		w.bad("it is nested too deep to be judged")
		return nil, nil
	}
	defer func() { w.depth-- }()
	p := Part{Text: text, Words: words, Assigns: assigns}
	inner, why := unwrap(words)
	p.Command = inner
	if why != "" {
		p.Kind, p.Why = Executes, why
		w.add(p)
		w.suffixes(words[1:], words[0].Value, d)
		return nil, nil
	}
	v := w.classify(inner, d)
	p.Kind, p.Paths, p.Open, p.Follows, p.Globs, p.Hosts, p.Edits, p.links = v.kind, v.paths, v.open, v.follows, v.globs, v.hosts, v.edits, v.links
	p.ReadOnly = v.why == "" && !assigns
	p.Inspects = v.inspects && !assigns && !slices.ContainsFunc(words, func(word Word) bool { return !word.Known })
	p.Why = v.why
	if assigns && p.Why == "" {
		p.Why = "variables are set for it that may change what it does"
	}
	if p.ReadOnly && slices.ContainsFunc(words[:len(words)-len(inner)], func(word Word) bool { return word.Value == "nohup" }) {
		p.ReadOnly, p.Why = false, "nohup may write its output to a file"
	}
	p.Inspects = p.Inspects && (len(words) == len(inner) || words[0].Value != "nohup")
	w.add(p)
	w.runs(inner, v, d)
	return w.moves(inner, d)
}

// moves says where a command leaves the working directory.
func (w *walker) moves(words []Word, d dirs) (after, success dirs) {
	if !words[0].Known {
		return nil, nil
	}
	switch words[0].Value {
	case "cd":
		args := words[1:]
		if len(args) > 0 && args[0].Known && (args[0].Value == "-L" || args[0].Value == "--") {
			args = args[1:]
		}
		var to dirs
		switch {
		case w.assigned("CDPATH"):
		case len(args) == 0 && w.env.Home != "" && !w.assigned("HOME"):
			to = dirs{w.dir(w.env.Home)}
		case len(args) == 1 && args[0].Known && args[0].Value != "" && args[0].Value[0] != '-':
			to = w.chdir(d, args[0].Value)
		}
		return union(d, to), to
	case "pushd", "popd", "eval", "source", ".", "builtin", "shopt", "set", "enable", "alias", "trap":
		return nil, nil
	}
	return d, d
}

// text is the source of a node.
func (w *walker) text(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from < 0 || to > len(w.src) || from > to {
		return ""
	}
	return w.src[from:to]
}
