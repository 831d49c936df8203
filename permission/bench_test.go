package permission

import (
	"fmt"
	"testing"
)

// thousand is a policy of a thousand rules of all kinds.
func thousand(b *testing.B) *Policy {
	p := &Policy{Mode: Default, Workspace: workspace, Home: "/home/agent", Sealed: true}
	for i := range 200 {
		for _, r := range []struct {
			behavior Behavior
			text     string
		}{
			{Allow, "Bash(tool%d *)"}, {Deny, "Bash(* --flag%d *)"}, {Deny, "Read(secret%d.*)"}, {Ask, "Edit(/src/%d/**)"}, {Allow, "Edit(/out/%d/*.go)"},
		} {
			rule, err := ParseRule(fmt.Sprintf(r.text, i), r.behavior, FromUser)
			if err != nil {
				b.Fatal(err)
			}
			p.Rules = append(p.Rules, rule)
		}
	}
	if err := p.Check(); err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkThousandRules(b *testing.B) {
	p := thousand(b)
	for name, command := range map[string]string{
		"asked": "go vet ./... && git status", "reading": "cat src/a.go | grep -n x", "allowed": "tool7 run", "unknown": `make $x && rm "$(cat f)"`,
		"writing": "echo x > src/7/a; cat src/a.go > out/3/x.go",
	} {
		b.Run(name, func(b *testing.B) {
			r := Request{Tool: "Bash", ReadOnly: true, HasCommand: true, Command: command, Dir: workspace, Links: links}
			for b.Loop() {
				p.Resolve(r)
			}
		})
	}
	b.Run("edit", func(b *testing.B) {
		r := Request{Tool: "Edit", Paths: []Path{{Name: "/w/src/x/a.go", Real: "/w/src/x/a.go", Write: true}}, Dir: workspace}
		for b.Loop() {
			p.Resolve(r)
		}
	})
}
