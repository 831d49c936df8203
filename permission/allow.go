package permission

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/permission/bash"
)

// allowed looks for rules that allow the call: all of it.
func (c *consideration) allowed() {
	var used []*Rule
	if c.HasCommand {
		var missing string
		if used, missing = c.allowedCommand(); missing != "" {
			c.why = missing
			return
		}
	} else if used = c.allowedTool(); used == nil {
		return
	}
	c.used = used
	for _, r := range used {
		c.say(Allow, "rule", string(r.Source), r.String(), fmt.Sprintf("the rule %s (%s) allows it", r, r.Source))
	}
}

// allows are the rules that allow and that have no word to find them by, with the
// one that is offered.
func (c *consideration) allows() []*Rule {
	rest := c.index.allow.rest
	if c.offered != nil {
		rest = append(slices.Clip(rest), c.offered)
	}
	return rest
}

// allowedTool returns the rules that allow a call that is no command.
func (c *consideration) allowedTool() []*Rule {
	var used []*Rule
	rest := c.allows()
	for _, r := range rest {
		switch {
		case r.path == nil && r.Content == "":
			if r.names(c.Tool) {
				return []*Rule{r}
			}
		case r.path != nil:
		case !r.names(c.Tool):
		case r.host != nil:
			if text, ok := c.Input["url"].(string); ok && r.host.allows(text) {
				return []*Rule{r}
			}
		case contents[r.Tool] == ofName && nameHit(r, c.Input) == certainly:
			return []*Rule{r}
		}
	}
	for _, path := range c.Paths {
		r := c.allowsPath(path)
		if r == nil {
			return nil
		}
		used = append(used, r)
	}
	return used
}

// allowsPath returns a rule that allows touching a path: by its name, and by
// where it leads.
func (c *consideration) allowsPath(path Path) *Rule {
	if path.Real == "" {
		return nil
	}
	at, real := c.policy.locate(path.Name), c.policy.locate(path.Real)
	for _, r := range c.allows() {
		if !r.binds(c.Tool, path.Write) {
			continue
		}
		if r.path == nil || r.path.matches(at) && r.path.matches(real) {
			return r
		}
	}
	return nil
}

// allowedCommand returns the rules that allow a command, or else what of it
// none allows: each of its parts must be allowed by one, or only read. unread is
// then why that is not known to be read-only.
func (c *consideration) allowedCommand() (used []*Rule, missing string) {
	rest := c.allows()
	for _, r := range rest {
		if r.Content == "" && r.names(c.Tool) {
			return []*Rule{r}, ""
		}
	}
	if c.script.Bad != "" {
		return nil, "no rule allows what cannot be read"
	}
	if len(c.script.Notes) > 0 {
		c.unread = c.script.Notes[0]
		return nil, "no rule allows all of it"
	}
	for i := range c.script.Parts {
		part := &c.script.Parts[i]
		if part.ReadOnly && len(c.Tried) == 0 || part.Through != "" {
			continue
		}
		if c.policy.Unheld && part.Kind == bash.Write && (part.Open || len(part.Globs) > 0) {
			c.unread = ""
			return nil, "it is not known what " + printable(part.Text) + " changes, and nothing protects it here"
		}
		r := c.allowsPart(part, rest)
		if r == nil {
			c.unread = part.Why
		}
		if r == nil && len(c.script.Parts) == 1 {
			return nil, "no rule allows it"
		}
		if r == nil {
			return nil, "no rule allows a part of it, " + printable(part.Text)
		}
		if !slices.Contains(used, r) {
			used = append(used, r)
		}
	}
	for _, redirect := range c.script.Redirects {
		if !redirect.Write {
			continue
		}
		if len(redirect.Paths) == 0 {
			c.unread = ""
			return nil, "no rule allows writing by " + printable(redirect.Source)
		}
		for _, path := range c.lead(redirect.Paths) {
			r := c.allowsPath(path)
			if r == nil {
				c.unread = "" // that says it already
				return nil, "no rule allows writing to " + printable(path.Name)
			}
			used = append(used, r)
		}
	}
	if len(used) == 0 {
		return nil, "no rule allows it"
	}
	return used, ""
}

// allowsPart returns a rule that allows all that a part of a script may do; of rest
// or of those with a word of it. Words with blanks are compared as they would be
// quoted: "a b" is not a and b.
func (c *consideration) allowsPart(part *bash.Part, rest []*Rule) (found *Rule) {
	if part.Assigns {
		return nil
	}
	texts := []spelling{{text: quoted(part.Words)}}
	if len(part.Command) < len(part.Words) {
		texts = append(texts, spelling{text: quoted(part.Command)})
	}
	written := spelling{text: part.Text}
	look := func(r *Rule) bool {
		if r.command != nil && r.names(c.Tool) &&
			(slices.ContainsFunc(texts, func(s spelling) bool { return r.command.covers(s.text) }) || r.command.exact && r.command.text == written.text) {
			found = r
		}
		return found == nil
	}
	c.index.allow.about(append(texts[:len(texts):len(texts)], written), look)
	for _, r := range rest {
		if found == nil {
			look(r)
		}
	}
	return found
}

// lead are paths that are to be written, with where they lead.
func (c *consideration) lead(names []string) []Path {
	paths := make([]Path, len(names))
	for i, name := range names {
		paths[i] = Path{Name: name, Real: c.leads[name], Write: true}
	}
	return paths
}

// edits reports whether a call does no more than change files in the workspace.
// Those that are protected were asked about before.
func (p *Policy) edits(r *Request, c *consideration) bool {
	paths := r.Paths
	if len(r.Tried) > 0 {
		return false
	}
	if c.script != nil {
		var names []string
		if c.script.Bad != "" || len(c.script.Notes) > 0 || !r.ReadOnly {
			return false
		}
		for i := range c.script.Parts {
			part := &c.script.Parts[i]
			switch {
			case part.ReadOnly || part.Through != "":
				continue
			case !part.Edits || part.Open || part.Assigns:
				return false
			}
			for _, path := range part.Paths {
				if path.Write {
					names = append(names, path.Name)
				}
			}
		}
		for _, redirect := range c.script.Redirects {
			if redirect.Write && len(redirect.Paths) == 0 {
				return false
			} else if redirect.Write {
				names = append(names, redirect.Paths...)
			}
		}
		paths = c.lead(names)
	}
	for _, path := range paths {
		if !path.Write || !p.within(path.Name) || !p.within(path.Real) || p.protects(path.Real) {
			return false
		}
		// What git keeps is not files that are worked on.
		if inGit(components(path.Name)) || inGit(components(path.Real)) {
			return false
		}
	}
	return len(paths) > 0
}

// within reports whether a path lies in the workspace, or in a directory that is
// exposed beside it.
func (p *Policy) within(path string) bool {
	in := func(dir string) bool {
		rel, ok := below(dir, path)
		return ok && rel != ""
	}
	return in(p.Workspace) || slices.ContainsFunc(p.Exposed, in)
}
