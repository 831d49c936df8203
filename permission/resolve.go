package permission

import (
	"strings"
)

// Resolve decides on a call. The decision is Ask where a person is to be asked;
// in the mode dontAsk, nobody is.
//
// The answers are looked for in this order, and the first decides:
//
//  1. a denial, by a hook, a rule or the tool itself;
//  2. what the mode forbids;
//  3. a wish to be asked: of a hook, a rule, the tool itself, for a protected path,
//     or because a denial could be meant and it cannot be told;
//  4. a permission, by a hook, a rule or the tool itself;
//  5. the call is read-only;
//  6. what the mode says.
func (p *Policy) Resolve(r Request) *Decision {
	if look := r.Links; look != nil {
		// The rule that is offered is judged by what the call was.
		type answer struct {
			real []string
			err  error
		}
		known := make(map[string]answer)
		r.Links = func(paths []string) ([]string, error) {
			key := strings.Join(paths, "\x00")
			a, ok := known[key]
			if !ok {
				a.real, a.err = look(paths)
				known[key] = a
			}
			return a.real, a.err
		}
	}
	c := p.consider(&r)
	d := c.decide()
	if d.Behavior == Ask && c.ask == "" {
		d.Rule = c.minimal()
	}
	return d
}

func (c *consideration) decide() *Decision {
	p := c.policy
	d := &Decision{Chain: c.chain}
	switch {
	case c.deny != "":
		d.Behavior, d.Reason = Deny, c.deny
	case p.Mode == Plan && !c.readOnly && !c.inspects:
		d.decide("mode", "", string(Plan), Deny, "the mode is plan: nothing may be changed until it is left"+c.notRead())
		d.Unproven = c.ask == ""
	case c.ask != "":
		d.Behavior, d.Reason = Ask, c.ask
	case c.allow != "":
		d.Behavior, d.Reason = Allow, c.allow
	case c.readOnly:
		if out := c.looksOut(); p.Unheld && out != "" {
			d.decide("read-only", "", "", Ask, "it may read outside of the workspace, where nothing hides anything: "+printable(out))
			break
		}
		d.decide("read-only", "", "", Allow, "it only reads")
	case c.inspects:
		d.decide("read-only", "", "", Allow, "it only looks at processes and sockets")
	case p.Mode == Bypass:
		d.decide("mode", "", string(p.Mode), Allow, "the mode allows what no rule asks about")
	case p.Mode == AcceptEdits && p.edits(c.Request, c):
		d.decide("mode", "", string(p.Mode), Allow, "the mode allows changes of files in the workspace")
	default:
		d.decide("mode", "", string(p.Mode), Ask, c.why)
		d.Unproven = true
	}
	d.Unproven = d.Unproven && p.Sealed && !p.AskUnproven
	if d.Behavior == Ask && p.Mode == DontAsk {
		d.decide("mode", "", string(DontAsk), Deny, d.Reason+"; the mode is dontAsk, so it is denied")
	}
	if d.Behavior != Deny {
		d.Grant = c.grant(d)
	}
	if d.Behavior == Ask && c.safety != nil && d.Reason == c.safety.Reason {
		d.Safety = c.safety
	}
	d.Classifiable = d.Behavior == Ask && p.Mode == Auto && (c.ask == "" || d.Safety != nil && d.Safety.ClassifierApprovable)
	return d
}

// notRead says why a call is not read-only, for the end of a reason.
func (c *consideration) notRead() string {
	switch {
	case len(c.Tried) > 0:
		return "; " + c.why
	case c.unread != "":
		return "; it is not known to be read-only: " + c.unread
	}
	return ""
}

func (d *Decision) decide(layer, source, rule string, b Behavior, reason string) {
	d.Chain = append(d.Chain, Step{Layer: layer, Source: source, Rule: rule, Answer: string(b)})
	d.Behavior, d.Reason = b, reason
}

// minimal returns the rule that a person may be offered: one that allows just
// this call. There is none where that would still be asked about.
func (c *consideration) minimal() string {
	p, r := c.policy, c.Request
	text := r.Tool
	switch {
	case r.HasCommand:
		what := ""
		for i := range c.script.Parts {
			if part := &c.script.Parts[i]; !part.ReadOnly && part.Through == "" && c.allowsPart(part, c.allows()) == nil {
				if what != "" && what != quoted(part.Words) {
					return ""
				}
				what = quoted(part.Words)
			}
		}
		if what == "" {
			text = p.editRule(c.redirected())
			break
		}
		text += "(" + what + ")"
		// A rule is read as a command may be written: what the shell would expand
		// there is more than the word that is asked about.
		if strings.ContainsAny(what, "*?[{~\n\x00") {
			return ""
		}
	case len(r.Paths) == 1:
		text = p.editRule(r.Paths[0].Name)
	case contents[r.Tool] != 0:
		return ""
	}
	rule, err := ParseRule(text, Allow, FromSession)
	if err != nil || len(text) > 300 {
		return ""
	}
	with := *c
	with.allow, with.chain, with.offered = "", nil, &rule
	if with.allowed(); with.allow == "" {
		return ""
	}
	return text
}

// redirected is the one file that redirections of a command write and no rule allows
// to be written; "" where there is none, or more.
func (c *consideration) redirected() string {
	found := ""
	for _, redirect := range c.script.Redirects {
		switch {
		case !redirect.Write || len(redirect.Paths) == 1 && c.allowsPath(c.lead(redirect.Paths)[0]) != nil:
		case len(redirect.Paths) != 1 || found != "" && found != redirect.Paths[0]:
			return ""
		default:
			found = redirect.Paths[0]
		}
	}
	return found
}

// editRule is the text of a rule about one file; "" where none can name it.
func (p *Policy) editRule(name string) string {
	if name == "" || name == "/" || name == p.Workspace || strings.ContainsAny(name, `*?[]{}!\`+"\n\r\x00") {
		return "" // of a directory it would be all below
	}
	if rel, ok := below(p.Workspace, name); ok {
		name = rel
	}
	return "Edit(/" + name + ")"
}

// printable is a text from a model in which nothing controls a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '?'
		}
		return r
	}, cutTo(s, 300))
}
