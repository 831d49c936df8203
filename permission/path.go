package permission

import (
	"errors"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A pathPattern is a pattern of paths, as gitignore has them: what it matches is
// the path and, if that is a directory, all below.
type pathPattern struct {
	root  root
	dir   string   // of ofWorkspace: another directory than the workspace; "" for none
	parts []string // its components; "**" stands for any number of them
	fold  bool     // case is ignored: in rules that deny or ask
	lower []string // parts in lower case
}

// A root is where a pattern begins.
type root int

const (
	anywhere    root = iota // a name without a slash: at any depth
	ofWorkspace             // /x and x/y
	ofHome                  // ~/x
	ofSystem                // //x
)

// parsePath reads the content of a rule about files.
func parsePath(content string, behavior Behavior) (*pathPattern, error) {
	p := &pathPattern{fold: behavior != Allow}
	text := content
	switch {
	case strings.HasPrefix(text, "!"):
		return nil, errors.New("a pattern cannot be negated; write a rule of the other kind")
	case strings.HasPrefix(text, "//"):
		p.root, text = ofSystem, text[2:]
	case text == "~" || strings.HasPrefix(text, "~/"):
		p.root, text = ofHome, strings.TrimPrefix(text[1:], "/")
	case strings.HasPrefix(text, "~"):
		return nil, errors.New("another user's home directory is not known; write //home/name")
	case strings.HasPrefix(text, "/"):
		p.root, text = ofWorkspace, text[1:]
	case strings.HasPrefix(text, "./"):
		p.root, text = ofWorkspace, text[2:]
	case strings.Contains(strings.TrimSuffix(text, "/"), "/"):
		p.root = ofWorkspace
	}
	for _, part := range strings.Split(text, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return nil, errors.New("a pattern cannot lead upwards; write it from the file system's root: //path")
		case strings.Contains(part, "**") && part != "**":
			return nil, errors.New("** stands for whole directories: a/**/b")
		case part != "**" && !doublestar.ValidatePattern(part):
			return nil, errors.New("the pattern has a bracket, brace or backslash that is not closed (a brace cannot hold a slash)")
		}
		p.parts, p.lower = append(p.parts, part), append(p.lower, strings.ToLower(part))
	}
	if n := len(p.parts); n > 1 && p.parts[n-1] == "**" && behavior == Allow {
		// What is below a directory is not the directory: it may be a file, or a link.
		p.parts, p.lower = append(p.parts, "*"), append(p.lower, "*")
	}
	if len(p.parts) == 0 && p.root == anywhere {
		return nil, errors.New("it names no path")
	}
	return p, nil
}

// mostParts is how many components of a path are compared; a longer one matches
// no rule that allows, and every rule that denies.
const mostParts = 2048

// A located is a path as patterns compare it. It is made once for a path, and
// compared with many patterns.
type located struct {
	names, lower         []string // its components from the root
	workspace, home      int      // how many of them are those of the directory; -1: it is not in it
	inWorkspace, anyCase int      // the same of the workspace where case is ignored, and of the home directory
}

// locate prepares a path, absolute and clean, or a pattern of the shell's.
func (p *Policy) locate(path string) *located {
	l := &located{names: components(strings.TrimPrefix(path, "/"))}
	l.lower = l.names
	if lower := strings.ToLower(path); lower != path {
		l.lower = components(strings.TrimPrefix(lower, "/"))
	}
	l.workspace, l.inWorkspace = l.below(p.Workspace)
	l.home, l.anyCase = l.below(p.Home)
	return l
}

// below returns how many components of the path are those of a directory that it
// is, or lies below: -1 where it does not; and the same where case is ignored.
func (l *located) below(dir string) (exact, fold int) {
	if dir == "" {
		return -1, -1
	}
	exact, fold = 0, 0
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if name == "" {
			continue
		}
		if exact >= 0 && (exact == len(l.names) || l.names[exact] != name) {
			exact = -1
		}
		if fold == len(l.lower) || l.lower[fold] != name && l.lower[fold] != strings.ToLower(name) {
			return -1, -1
		}
		if exact >= 0 {
			exact++
		}
		fold++
	}
	return exact, fold
}

// relative is the path relative to where a pattern begins.
func (l *located) relative(p *pathPattern) ([]string, bool) {
	names, n := l.names, -1
	if p.fold {
		names = l.lower
	}
	switch {
	case p.root == ofSystem, p.root == anywhere && p.fold: // what is denied by its name is denied everywhere
		n = 0
	case p.root == ofHome && p.fold:
		n = l.anyCase
	case p.root == ofHome:
		n = l.home
	case p.dir != "" && p.fold:
		_, n = l.below(p.dir)
	case p.dir != "":
		n, _ = l.below(p.dir)
	case p.fold:
		n = l.inWorkspace
	default:
		n = l.workspace
	}
	if n < 0 {
		return nil, false
	}
	return names[n:], true
}

// matches reports whether a path is one that the pattern names, or lies below
// such a one.
func (p *pathPattern) matches(l *located) bool { return p.compare(l, matchesName) }

func matchesName(pattern, name string) bool {
	// Most differ before the first wildcard.
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*' || c == '?' || c == '[' || c == '{' || c == '\\':
			ok, err := doublestar.Match(pattern, name)
			return ok && err == nil
		case i >= len(name) || name[i] != c:
			return false
		}
	}
	return len(pattern) == len(name)
}

// meets reports whether a pattern of the shell's could match a path that the
// pattern names.
func (p *pathPattern) meets(glob *located) bool {
	return p.compare(glob, func(pattern, name string) bool { return overlap(loosely(pattern), loosely(name)) })
}

func (p *pathPattern) compare(l *located, same func(pattern, name string) bool) bool {
	names, ok := l.relative(p)
	if !ok {
		return false
	}
	if len(names) > mostParts {
		return p.fold
	}
	parts := p.parts
	if p.fold {
		parts = p.lower
	}
	if p.root != anywhere {
		return prefixes(parts, names, same)
	}
	return slices.ContainsFunc(names, func(name string) bool { return parts[0] == "**" || same(parts[0], name) })
}

// base is the directory that the pattern begins at.
func (p *pathPattern) base(in *Policy) string {
	switch p.root {
	case ofSystem:
		return "/"
	case ofHome:
		return in.Home
	case ofWorkspace:
		if p.dir != "" {
			return p.dir
		}
	}
	return in.Workspace
}

// reaches reports whether the pattern could match something below a directory.
func (p *pathPattern) reaches(dir *located, in *Policy) bool {
	if p.root == anywhere {
		return true
	}
	names, below := dir.relative(p)
	if !below { // it may lie above where the pattern begins
		base, of := in.locate(p.base(in)), dir.names
		from := base.names
		if p.fold {
			from, of = base.lower, dir.lower
		}
		return p.base(in) != "" && len(of) <= len(from) && slices.Equal(from[:len(of)], of)
	}
	parts := p.parts
	if p.fold {
		parts = p.lower
	}
	for i, part := range parts {
		if i == len(names) || strings.ContainsAny(part, wildcards) {
			return true
		}
		if part != names[i] {
			return false
		}
	}
	return true
}

// wildcards are what makes a component of a pattern one that is not a name.
const wildcards = `*?[{\`

// prefixes reports whether the pattern matches the names or a beginning of them.
func prefixes(pattern, names []string, same func(pattern, name string) bool) bool {
	for len(pattern) > 0 && pattern[0] != "**" {
		if len(names) == 0 || !same(pattern[0], names[0]) {
			return false
		}
		pattern, names = pattern[1:], names[1:]
	}
	if len(pattern) == 0 || len(pattern) == 1 { // ** at the end is all below, and the directory
		return true
	}
	// reached[i] says that the first i parts of the pattern match the names so far.
	reached := make([]bool, len(pattern)+1)
	reached[0] = true
	skip := func() {
		for i, part := range pattern {
			if reached[i] && part == "**" {
				reached[i+1] = true
			}
		}
	}
	skip()
	for _, name := range names {
		if reached[len(pattern)] {
			return true
		}
		next := make([]bool, len(pattern)+1)
		for i, part := range pattern {
			if reached[i] {
				next[i] = next[i] || part == "**"
				next[i+1] = next[i+1] || part == "**" || same(part, name)
			}
		}
		reached = next
		skip()
	}
	return reached[len(pattern)]
}

// below returns a path relative to a directory that it is, or lies below.
func below(dir, path string) (string, bool) {
	if dir == "/" {
		return strings.TrimPrefix(path, "/"), strings.HasPrefix(path, "/")
	}
	rest, ok := strings.CutPrefix(path, dir)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

func components(rel string) []string {
	if rel == "" {
		return nil
	}
	return strings.Split(rel, "/")
}

// loosely is a pattern with all that it may leave open as [star]s.
func loosely(pattern string) string {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			if depth == 0 {
				b.WriteByte(pattern[i])
			}
		case c == '[' || c == '{':
			if depth++; depth == 1 {
				b.WriteByte(star)
			}
		case (c == ']' || c == '}') && depth > 0:
			depth--
		case depth > 0:
		case c == '*' || c == '?':
			b.WriteByte(star)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
