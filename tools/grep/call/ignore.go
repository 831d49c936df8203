package call

import (
	"bytes"
	"strings"

	"github.com/sallyport/sallyport/tools/internal/glob"
)

// A verdict is what rules say about a path.
type verdict int8

const (
	silent  verdict = iota
	ignored         // not searched
	wanted          // searched, whatever weaker rules say
)

// A rule is a line of an ignore file.
type rule struct {
	pattern *glob.Pattern
	negated bool
	dirOnly bool
	name    bool // matches names, at any depth; otherwise the path below the file's directory
}

// rules are those of an ignore file; of those that match, the last decides.
type rules []rule

// Limits of ignore files.
const (
	mostIgnoreFile = 1 << 20
	mostRules      = 20_000
)

// parseRules reads an ignore file. A line that is no pattern is left out, as git
// and ripgrep do.
func parseRules(data []byte) rules {
	var rs rules
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for line := range bytes.Lines(data) {
		if len(rs) == mostRules {
			break
		}
		if r, err := parseRule(strings.TrimSuffix(string(line), "\n")); err == nil && r.pattern != nil {
			rs = append(rs, r)
		}
	}
	return rs
}

// parseRule reads a line; its pattern is nil when the line holds none.
func parseRule(line string) (r rule, err error) {
	if strings.HasPrefix(line, "#") {
		return r, nil
	}
	if !strings.HasSuffix(line, `\ `) {
		line = strings.TrimRight(line, " \t\r\n\v\f")
	}
	if line == "" {
		return r, nil
	}
	absolute := false
	if strings.HasPrefix(line, `\!`) || strings.HasPrefix(line, `\#`) {
		line = line[1:]
	} else {
		line, r.negated = strings.CutPrefix(line, "!")
		line, absolute = strings.CutPrefix(line, "/")
	}
	if strings.HasSuffix(line, "/") {
		r.dirOnly = true
		line = strings.TrimSuffix(strings.TrimSuffix(line, "/"), `\`)
	}
	if line == "" {
		return rule{}, nil
	}
	r.name = !absolute && !strings.Contains(line, "/")
	if r.name && line == "**" || strings.HasSuffix(line, "/**") {
		line += "/*" // what is in the directory, and not itself
		r.name = false
	}
	r.pattern, err = glob.Compile(line)
	return r, err
}

// match says what the rules mean for a path relative to their directory.
func (rs rules) match(path, name string, dir bool) verdict {
	for i := len(rs) - 1; i >= 0; i-- {
		r := &rs[i]
		if r.dirOnly && !dir {
			continue
		}
		subject := path
		if r.name {
			subject = name
		}
		if r.pattern.Match(subject) {
			if r.negated {
				return wanted
			}
			return ignored
		}
	}
	return silent
}

// overrides are the globs of a request. They are written as in .gitignore, with
// the opposite meaning: those without ! say what is searched.
type overrides struct {
	rules rules
	only  bool // what no glob names is not searched
}

// What version control keeps is never searched.
var vcsGlobs = []string{"!.git", "!.svn", "!.hg", "!.bzr", "!.jj", "!.sl"}

func newOverrides(globs []string) (*overrides, error) {
	o := &overrides{}
	for _, list := range [][]string{globs, vcsGlobs} {
		for _, g := range list {
			r, err := parseRule(g)
			if err != nil {
				return nil, err
			}
			if r.pattern != nil {
				o.only = o.only || !r.negated
				o.rules = append(o.rules, r)
			}
		}
	}
	return o, nil
}

func (o *overrides) match(path, name string, dir bool) verdict {
	switch o.rules.match(path, name, dir) {
	case ignored:
		return wanted
	case wanted:
		return ignored
	}
	if o.only && !dir {
		return ignored
	}
	return silent
}
