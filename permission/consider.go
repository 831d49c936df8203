package permission

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/permission/bash"
)

// A consideration is what all the layers say of a call.
type consideration struct {
	policy *Policy
	*Request
	index     *index
	script    *bash.Script // of a command
	spellings []spelling   // of all its parts
	touched   []Path       // Paths and Tried
	files     []file
	globs     map[string]*located
	offered   *Rule // counts as one more that allows; see minimal
	// leads are where paths of a command lead, links followed; one that is not in
	// it was not looked up.
	leads map[string]string

	readOnly bool
	inspects bool   // it looks at processes, and changes nothing
	why      string // it is not allowed by itself
	unread   string // why a command is not known to be read-only
	// The reason of the first of each; "" where there is none.
	deny, ask, allow string
	chain            []Step
	safety           *Safety // the first
	used             []*Rule // those that allow it
}

func (p *Policy) consider(r *Request) *consideration {
	c := &consideration{policy: p, index: p.indexed(), Request: r, readOnly: r.ReadOnly}
	c.touched = r.Paths
	if len(r.Tried) > 0 {
		c.touched = slices.Concat(r.Paths, r.Tried)
	}
	c.why = "no rule allows " + r.Tool
	if r.HasCommand {
		c.script = bash.Parse(r.Command, bash.Env{Dir: r.Dir, Home: p.Home})
		for i := range c.script.Parts {
			part := &c.script.Parts[i]
			c.spellings = toSpellings(c.spellings, part.Words)
			if len(part.Command) < len(part.Words) {
				c.spellings = toSpellings(c.spellings, part.Command)
			}
		}
		only, why := c.script.ReadOnly()
		if only && !r.ReadOnly {
			only, why = false, "it goes on in the background"
		}
		if name := runsConfigured(c.script); only && p.Unheld && name != "" {
			only, why = false, name+" runs programs that files of its directory name, and nothing holds them here"
		}
		c.readOnly = only
		if !only && r.ReadOnly {
			c.inspects, _ = c.script.Inspect()
		}
		c.why, c.unread = "no rule allows it", why
	} else if len(r.Paths) > 0 && !r.ReadOnly {
		c.why = "no rule allows changing " + r.Paths[0].Name
		if _, inside := below(p.Workspace, r.Paths[0].Name); !inside {
			c.why += ", which is outside of the workspace"
		}
	}
	if len(r.Tried) > 0 {
		c.readOnly, c.inspects, c.unread = false, false, ""
		c.chain = append(c.chain, Step{Layer: "misjudged", Rule: printable(r.Tried[0].Name), Answer: "not read-only"})
	}
	c.followLinks()
	if r.Hook.Answer != "" {
		c.say(r.Hook.Answer, "hook", "", "", reasonOr(r.Hook.Reason, "a hook's answer"))
	}
	c.findFiles()
	c.rulesAgainst()
	if r.Check.Answer != "" {
		c.say(r.Check.Answer, "tool", r.Tool, "", reasonOr(r.Check.Reason, r.Tool+" says so itself"))
	}
	c.checkSafety()
	c.allowed()
	if c.unread != "" {
		c.why += ", and it is not known to be read-only: " + c.unread
	}
	if len(r.Tried) > 0 {
		c.why = "it was judged to be read-only, but when it ran it tried to write " + printable(r.Tried[0].Name) + "; " + c.why
	}
	return c
}

// configured are programs that run others which the files of a directory name: of
// those that are read-only as long as something holds them.
var configured = []string{"git", "mvn", "gradle", "cargo", "rustc", "rustup", "npm", "npx", "pnpm", "pytest"}

// runsConfigured returns the first program of a command that is configured so, or
// "".
func runsConfigured(s *bash.Script) string {
	for _, p := range s.Parts {
		if len(p.Command) > 0 && slices.Contains(configured, path.Base(p.Command[0].Value)) {
			return path.Base(p.Command[0].Value)
		}
	}
	return ""
}

func reasonOr(reason, other string) string {
	if reason != "" {
		return reason
	}
	return other
}

// say notes an answer.
func (c *consideration) say(b Behavior, layer, source, rule, reason string) {
	into := &c.allow
	switch b {
	case Deny:
		into = &c.deny
	case Ask:
		into = &c.ask
	}
	if *into != "" {
		return // one of each is enough
	}
	*into = reason
	c.chain = append(c.chain, Step{Layer: layer, Source: source, Rule: rule, Answer: string(b)})
}

// rulesAgainst looks for rules that deny or ask about the call.
func (c *consideration) rulesAgainst() {
	look := func(r *Rule) bool {
		c.against(r)
		return c.deny == "" || c.ask == ""
	}
	rules := &c.index.against
	if c.script != nil && c.script.Bad == "" {
		rules.about(c.spellings, look)
	} else if c.HasCommand || contents[c.Tool] == ofCommand {
		for _, r := range rules.all {
			look(r)
		}
	}
	for _, r := range rules.rest {
		if !look(r) {
			return
		}
	}
}

// against looks whether a rule that denies or asks is about the call.
func (c *consideration) against(r *Rule) {
	if r.Behavior == Deny && c.deny != "" || r.Behavior == Ask && c.ask != "" {
		return // one is enough
	}
	hit, what := c.hit(r)
	switch {
	case hit == not:
	case hit == certainly && r.Behavior == Deny:
		c.say(Deny, "rule", string(r.Source), r.String(), fmt.Sprintf("the rule %s (%s) denies %s", r, r.Source, printable(what)))
	case c.ask != "":
	case hit == certainly:
		c.say(Ask, "rule", string(r.Source), r.String(), fmt.Sprintf("the rule %s (%s) asks about %s", r, r.Source, printable(what)))
	default:
		c.say(Ask, "rule", string(r.Source), r.String(), fmt.Sprintf("it cannot be told whether the rule %s (%s) is about %s", r, r.Source, printable(what)))
	}
}

// hit says whether a rule that denies or asks is about the call, and what of it.
func (c *consideration) hit(r *Rule) (certainty, string) {
	switch {
	case r.path != nil || r.kind == ofPath:
		return c.hitPath(r)
	case !r.names(c.Tool):
		return not, ""
	case r.Content == "":
		return certainly, c.Tool
	case r.command != nil:
		return c.hitCommand(r)
	case r.host != nil:
		text, _ := c.Input["url"].(string)
		return r.host.hits(text), printable(text)
	default:
		return nameHit(r, c.Input), c.Tool
	}
}

// nameFields are the fields of an input that rules of names are about.
var nameFields = map[string]string{"Agent": "subagent_type", "Skill": "skill", "SlashCommand": "command"}

// nameHit says whether a rule of names is about an input: that of the agent, or
// skill, that it starts.
func nameHit(r *Rule, input map[string]any) certainty {
	name, _ := input[nameFields[r.Tool]].(string)
	if r.Tool == "SlashCommand" {
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "/"), " ")
	}
	if name == strings.TrimPrefix(r.Content, "/") {
		return certainly
	}
	return not
}

func (c *consideration) hitCommand(r *Rule) (certainty, string) {
	if !c.HasCommand {
		return maybe, c.Tool
	}
	found, what := not, ""
	see := func(text string, hit certainty) bool {
		if hit > found {
			found, what = hit, printable(strings.ReplaceAll(text, bash.Any, "..."))
		}
		return found < certainly
	}
	for _, s := range c.spellings {
		if !see(s.text, r.command.hits(s)) {
			return found, what
		}
	}
	if c.script.Bad != "" {
		c.script.Pieces(func(words []bash.Word) bool {
			for _, s := range toSpellings(nil, words) {
				if !see(s.text, r.command.hits(s)) {
					return false
				}
			}
			return true
		})
		if found == not {
			found, what = maybe, "it: "+c.script.Bad
		}
	}
	return found, what
}

// checkSafety asks about what would change a protected path, or one whose name
// another system reads differently.
func (c *consideration) checkSafety() {
	for _, path := range c.touched {
		if path.Write {
			c.protect(path.Name)
			c.protect(path.Real)
		}
	}
	for _, name := range c.named(false) {
		c.protect(name)
		c.protect(c.leads[name])
	}
}

func (c *consideration) protect(path string) {
	if path == "" {
		return
	}
	if why := foreignName(path); why != "" {
		c.unsafe("path", path, printable(path)+" "+why, false)
	}
	if c.policy.protects(path) {
		c.unsafe("protected", path, printable(path)+" is a protected path: programs outside of the session act on it; if the workspace has it already, the session cannot change it in any case", true)
	}
}

func (c *consideration) unsafe(layer, path, reason string, approvable bool) {
	if c.safety == nil || c.safety.ClassifierApprovable && !approvable {
		c.safety = &Safety{Path: path, Reason: reason, ClassifierApprovable: approvable}
	}
	c.say(Ask, layer, "", printable(path), reason)
}
