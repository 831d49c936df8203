package permission

import (
	"testing"

	"pgregory.net/rapid"
)

// The index leaves out no rule that matters: a decision is what it is when every
// rule is looked at.
func TestIndexMissesNoRule(t *testing.T) {
	words := rapid.SampledFrom([]string{"git", "push", "*", "rm", "a", "b*", "*b", "-f", "'a b'", "x:*", "sudo", "make"})
	command := rapid.SampledFrom([]string{"git", "push", "rm", "a", "bb", "-f", "'a b'", "\"a  b\"", "$x", "sudo", "timeout 5", "/bin/rm", "make", ";", "&&", "|", "$(", ")", "\t", "a\\ b", "git -C x"})
	rapid.Check(t, func(t *rapid.T) {
		p := &Policy{Mode: Default, Workspace: workspace, Home: "/home/agent", Sealed: true}
		for range rapid.IntRange(1, 6).Draw(t, "rules") {
			text := ""
			for range rapid.IntRange(1, 3).Draw(t, "words") {
				text += " " + words.Draw(t, "word")
			}
			r, err := ParseRule("Bash("+text[1:]+")", rapid.SampledFrom([]Behavior{Allow, Ask, Deny}).Draw(t, "behavior"), FromUser)
			if err == nil {
				p.Rules = append(p.Rules, r)
			}
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		text := ""
		for range rapid.IntRange(1, 6).Draw(t, "length") {
			text += " " + command.Draw(t, "part")
		}
		r := Request{Tool: "Bash", ReadOnly: true, HasCommand: true, Command: text, Dir: workspace, Links: links}
		got := p.Resolve(r)

		all := *p
		all.index = &index{rules: p.Rules}
		for i := range p.Rules {
			if p.Rules[i].Behavior == Allow {
				all.index.allow.rest = append(all.index.allow.rest, &p.Rules[i])
			} else {
				all.index.against.rest = append(all.index.against.rest, &p.Rules[i])
			}
		}
		if want := all.Resolve(r); got.Behavior != want.Behavior || got.Rule != want.Rule {
			t.Fatalf("%q: %s (%s), with all rules looked at %s (%s)", text, got.Behavior, got.Reason, want.Behavior, want.Reason)
		}
	})
}
