package permission

import (
	"errors"
	"path/filepath"
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
	if len(p.parts) == 0 && p.root == anywhere {
		return nil, errors.New("it names no path")
	}
	return p, nil
}

// mostParts is how many components of a path are compared; a longer one matches
// no rule that allows, and every rule that denies.
const mostParts = 2048

// matches reports whether a path, absolute and clean, is one that the pattern
// names, or lies below such a one.
func (p *pathPattern) matches(path string, in *Policy) bool {
	return p.compare(path, in, func(pattern, name string) bool {
		ok, err := doublestar.Match(pattern, name)
		return ok && err == nil
	})
}

// meets reports whether a pattern of the shell's could match a path that the
// pattern names.
func (p *pathPattern) meets(glob string, in *Policy) bool {
	return p.compare(glob, in, func(pattern, name string) bool { return overlap(loosely(pattern), loosely(name)) })
}

func (p *pathPattern) compare(path string, in *Policy, same func(pattern, name string) bool) bool {
	base, parts := p.base(in), p.parts
	if base == "" {
		return false
	}
	if p.fold {
		path, base, parts = strings.ToLower(path), strings.ToLower(base), p.lower
	}
	if p.root == anywhere && p.fold {
		base = "/" // what is denied by its name is denied everywhere
	}
	rel, ok := below(base, path)
	if !ok {
		return false
	}
	names := components(rel)
	if len(names) > mostParts {
		return p.fold
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
func (p *pathPattern) reaches(dir string, in *Policy) bool {
	if p.root == anywhere || p.matches(dir, in) {
		return true
	}
	base := p.base(in)
	if base == "" {
		return false
	}
	literal := base
	for _, part := range p.parts {
		if strings.ContainsAny(part, `*?[{\`) {
			break
		}
		literal = filepath.Join(literal, part)
	}
	if p.fold {
		literal, dir = strings.ToLower(literal), strings.ToLower(dir)
	}
	_, under := below(dir, literal)
	_, over := below(literal, dir)
	return under || over
}

// prefixes reports whether the pattern matches the names or a beginning of them.
func prefixes(pattern, names []string, same func(pattern, name string) bool) bool {
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
