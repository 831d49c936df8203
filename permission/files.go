package permission

import (
	"slices"

	"github.com/sallyport/sallyport/permission/bash"
)

// hitPath says whether a rule of files is about a path that the call touches.
func (c *consideration) hitPath(r *Rule) (certainty, string) {
	if r.Content == "" && r.names(c.Tool) {
		return certainly, c.Tool
	}
	if r.path == nil { // of every call of a tool
		for _, path := range c.Paths {
			if r.binds(c.Tool, path.Write) {
				return certainly, c.Tool
			}
		}
		return not, ""
	}
	found, what := not, ""
	see := func(hit certainty, name string) {
		if hit > found {
			found, what = hit, name
		}
	}
	for i := range c.files {
		if f := &c.files[i]; r.binds(c.Tool, f.write) && (!f.inScript || r.Tool == "Read" || r.writes()) {
			see(c.hitOne(r, f), f.name)
		}
	}
	if c.script != nil {
		c.hitUnknown(r, see)
	}
	return found, what
}

// A file is one that a call touches, as rules are compared with it.
type file struct {
	name        string
	at, real    *located // real is nil where it leads to itself, or that is not known
	write, tree bool
	inScript    bool // a command's
}

// findFiles lists what the call touches, as far as that is known.
func (c *consideration) findFiles() {
	add := func(path Path, inScript bool) {
		f := file{name: path.Name, at: c.policy.locate(path.Name), write: path.Write, tree: path.Tree, inScript: inScript}
		if path.Real != "" && path.Real != path.Name {
			f.real = c.policy.locate(path.Real)
		}
		c.files = append(c.files, f)
	}
	for _, path := range c.touched {
		add(path, false)
	}
	if c.script == nil {
		return
	}
	for i := range c.script.Parts {
		for _, path := range c.script.Parts[i].Paths {
			add(Path{Name: path.Name, Real: c.leads[path.Name], Write: path.Write, Tree: path.Tree}, true)
		}
	}
	for _, redirect := range c.script.Redirects {
		for _, path := range redirect.Paths {
			add(Path{Name: path, Real: c.leads[path], Write: redirect.Write}, true)
		}
	}
}

func (c *consideration) hitOne(r *Rule, f *file) certainty {
	switch {
	case r.path.matches(f.at), f.real != nil && r.path.matches(f.real):
		return certainly
	case f.tree && !c.hidden(r) && (r.path.reaches(f.at, c.policy) || f.real != nil && r.path.reaches(f.real, c.policy)):
		return maybe
	}
	return not
}

// hidden reports whether what a rule is about is not there in the session, see
// [DeniedPaths]: then what might touch it need not be asked about.
func (c *consideration) hidden(r *Rule) bool {
	return r.Behavior == Deny && r.Tool == "Read" && c.policy.Sealed && r.path.root != ofSystem
}

// hitUnknown says whether a rule of files may be about what a command touches and
// does not name.
func (c *consideration) hitUnknown(r *Rule, see func(certainty, string)) {
	if r.Tool != "Read" && !r.writes() {
		return // of a tool that is not this one
	}
	for i := range c.script.Parts {
		part := &c.script.Parts[i]
		if r.writes() {
			if part.Open && !part.ReadOnly {
				see(maybe, part.Text)
			}
			continue
		}
		c.hitGlobs(r, part.Globs, see)
		reads := part.Kind == bash.Read || part.Kind == bash.Search || part.Kind == bash.List
		if part.Open && (reads || !c.hidden(r)) {
			see(maybe, part.Text)
		}
	}
	for _, redirect := range c.script.Redirects {
		if !r.binds(c.Tool, redirect.Write) {
			continue
		}
		c.hitGlobs(r, redirect.Globs, see)
		if len(redirect.Paths)+len(redirect.Globs) == 0 {
			see(maybe, redirect.Source)
		}
	}
	if c.script.Bad != "" && !c.hidden(r) {
		see(maybe, "it: "+c.script.Bad)
	}
}

func (c *consideration) hitGlobs(r *Rule, globs []string, see func(certainty, string)) {
	for _, glob := range globs {
		at := c.globs[glob]
		if at == nil {
			if c.globs == nil {
				c.globs = make(map[string]*located)
			}
			at = c.policy.locate(glob)
			c.globs[glob] = at
		}
		if r.path.meets(at) {
			see(maybe, glob)
		}
	}
}

// named are the paths that a command is known to write, and those that it reads
// if asked for.
func (c *consideration) named(reads bool) (names []string) {
	if c.script == nil {
		return nil
	}
	for i := range c.script.Parts {
		for _, path := range c.script.Parts[i].Paths {
			if path.Write || reads {
				names = append(names, path.Name)
			}
		}
	}
	for _, redirect := range c.script.Redirects {
		if redirect.Write || reads {
			names = append(names, redirect.Paths...)
		}
	}
	return names
}

// followLinks looks up where the paths of a command lead: rules and protection
// are about a file, by whatever link a command names it. Where it reads does not
// matter if what rules are about cannot be seen at all.
func (c *consideration) followLinks() {
	names := c.named(c.policy.Unheld || slices.ContainsFunc(c.policy.Rules, func(r Rule) bool {
		return r.Behavior != Allow && r.Tool == "Read" && r.path != nil && !c.hidden(&r)
	}))
	if len(names) == 0 || c.Links == nil {
		return
	}
	real, err := c.Links(names)
	if err != nil || len(real) != len(names) {
		c.say(Ask, "links", "", "", "it cannot be told where the paths in it lead")
		return
	}
	c.leads = make(map[string]string, len(names))
	for i, name := range names {
		c.leads[name] = real[i]
	}
}
