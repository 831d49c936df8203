package permission

import (
	"path/filepath"
	"slices"
	"strings"
)

// grant compiles what a call may use from what the decision was made by: no more
// than the judgement, the rules or the mode that let it through speak of.
func (c *consideration) grant(d *Decision) Grant {
	switch {
	case c.readOnly:
		return Grant{ReadOnly: true}
	case c.inspects:
		return Grant{Inspect: true, Writable: []string{}}
	case !c.HasCommand && len(c.Paths) > 0:
		return Grant{Writable: c.places()}
	case d.Behavior != Allow || !c.HasCommand:
		return Grant{}
	case c.allow != "" && len(c.used) > 0:
		return Grant{Writable: c.reach()}
	case c.allow == "" && c.policy.Mode == AcceptEdits:
		return Grant{Writable: append([]string{c.policy.Workspace}, c.policy.Exposed...)}
	}
	return Grant{}
}

// places are the directories of the files that a tool changes, which it replaces
// by others.
func (c *consideration) places() []string {
	places := []string{}
	for _, path := range c.Paths {
		name := path.Name
		if path.Real != "" {
			name = path.Real
		}
		if path.Write && !path.Tree {
			name = filepath.Dir(name)
		}
		if path.Write && !slices.Contains(places, name) {
			places = append(places, name)
		}
	}
	return places
}

// reach are the paths that the rules speak of by which a command was allowed; nil
// where one of them speaks of a command, not of what it may change.
func (c *consideration) reach() []string {
	var reach []string
	for _, r := range c.used {
		if r.path == nil {
			return nil
		}
		if name := r.path.literalPrefix(c.policy); !slices.Contains(reach, name) {
			reach = append(reach, name)
		}
	}
	return reach
}

// literalPrefix is the path that all that the pattern matches is, or lies below.
func (p *pathPattern) literalPrefix(in *Policy) string {
	name := p.base(in)
	if p.root == anywhere {
		return name
	}
	for _, part := range p.parts {
		if strings.ContainsAny(part, wildcards) {
			break
		}
		name = filepath.Join(name, part)
	}
	return name
}
