package permission

import (
	"path/filepath"
	"slices"
	"strings"
)

// looksOut returns what a call reads outside of the workspace and of what every
// program is made of, or may read there; "" if nothing, and where a session hides
// what is not to be seen.
func (c *consideration) looksOut() string {
	if !c.policy.Unheld {
		return ""
	}
	for i := range c.files {
		if f := &c.files[i]; !f.write && (!c.policy.shows(f.at) || f.real != nil && !c.policy.shows(f.real)) {
			return f.name
		}
	}
	if c.script == nil {
		return ""
	}
	for i := range c.script.Parts {
		part := &c.script.Parts[i]
		if part.Open || part.Follows || slices.ContainsFunc(part.Globs, c.matchesOut) {
			return part.Text
		}
	}
	for i := range c.script.Redirects {
		if redirect := &c.script.Redirects[i]; slices.ContainsFunc(redirect.Globs, c.matchesOut) {
			return redirect.Source
		}
	}
	return ""
}

// shows reports whether a path is one that need not be hidden where nothing hides
// it.
func (p *Policy) shows(l *located) bool {
	if l.workspace >= 0 || p.ofImage(l) {
		return true
	}
	path := "/" + strings.Join(l.names, "/")
	return path == "/dev/null" || slices.ContainsFunc(p.Exposed, func(dir string) bool { _, ok := below(dir, path); return ok })
}

// ofImage reports whether a path is one of what every program is made of.
func (p *Policy) ofImage(l *located) bool {
	return l.workspace < 0 && len(l.names) > 0 && slices.Contains([]string{"usr", "bin", "lib", "lib64", "sbin", "opt"}, l.names[0])
}

// meta are the bytes that make a word of the shell's a pattern, or of several.
const meta = `*?[]{}()!@+\\`

// matchesOut reports whether a pattern of the shell's may match what need not be
// shown. It may not where only its last component is a pattern and each link in the
// directory leads to something that is shown.
func (c *consideration) matchesOut(glob string) bool {
	dir, name := filepath.Dir(glob), filepath.Base(glob)
	up := strings.HasPrefix(name, ".") && strings.ContainsAny(name[1:min(2, len(name))], meta+".") // it may match ..
	if strings.ContainsAny(dir, meta) || strings.ContainsAny(name, "{(") || up || c.Links == nil {
		return true
	}
	real, err := c.Links([]string{dir})
	if err != nil || len(real) != 1 {
		return true
	}
	at := c.policy.locate(real[0])
	switch {
	case !c.policy.shows(at):
		return true
	case c.policy.ofImage(at):
		return false
	case c.Traps == nil:
		return true
	}
	traps, err := c.Traps(real[0])
	if err != nil || slices.ContainsFunc(traps, func(name string) bool { return strings.HasPrefix(name, "-") }) {
		return true
	}
	if len(traps) == 0 {
		return false
	}
	for i, name := range traps {
		traps[i] = real[0] + "/" + name
	}
	leads, err := c.Links(traps)
	return err != nil || len(leads) != len(traps) || slices.ContainsFunc(leads, func(path string) bool { return !c.policy.shows(c.policy.locate(path)) })
}
