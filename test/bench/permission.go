package main

import (
	"fmt"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/bash"
	"github.com/sallyport/sallyport/permission/bash/bashtest"
	"github.com/sallyport/sallyport/sandbox"
)

// benchPermission measures what it takes to judge commands, to decide on a call,
// and to hold it to the decision.
func benchPermission(e *env) ([]Row, error) {
	var rows []Row
	for _, bench := range []func(*env) ([]Row, error){benchJudging, benchDeciding, benchEnvelope, benchDenied} {
		more, err := bench(e)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func benchJudging(*env) ([]Row, error) {
	env := bash.Env{Dir: "/workspace", Home: "/home/user"}
	scripts, size := bashtest.Scripts(4000), 0
	for _, src := range scripts {
		size += len(src)
	}
	judge := func(texts ...string) func() error {
		return func() error {
			for _, src := range texts {
				bash.Parse(src, env).ReadOnly()
			}
			return nil
		}
	}
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	parse := func() error {
		for _, src := range scripts {
			if _, err := parser.Parse(strings.NewReader(src), ""); err != nil {
				return err
			}
		}
		return nil
	}
	got, err := turns(500, judge(scripts...), parse, judge("cd src && git log --oneline -5 2>/dev/null | grep -n \"$pattern\" | head"))
	if err != nil {
		return nil, err
	}
	// Of a speed more is better: the reach is the least that it may be.
	const least = 8
	speed := func(q float64) float64 { return float64(size) / 1e6 / got[0].quantile(q).Seconds() }
	rate := Row{Name: "commands parsed and classified", Unit: "MB/s", P50: speed(0.5), P95: speed(0.95), Reach: least}
	rate.OK = rate.P50 >= least
	return []Row{
		rate,
		// A machine on which the parser alone does 26 MB/s, as the reach has it.
		row("the same, against the parser alone", "ms", got[0], got[1], 26.0/least),
		row("one command of four parts, parsed and classified", "µs", got[2], nil, 30),
	}, nil
}

// thousand is a policy of a thousand rules of all kinds.
func thousand() (*permission.Policy, error) {
	p := &permission.Policy{Mode: permission.Default, Workspace: "/workspace", Home: "/home/user", Sealed: true}
	for i := range 200 {
		for _, r := range []struct {
			behavior permission.Behavior
			text     string
		}{
			{permission.Allow, "Bash(tool%d *)"}, {permission.Deny, "Bash(* --flag%d *)"}, {permission.Deny, "Read(secret%d.*)"},
			{permission.Ask, "Edit(/src/%d/**)"}, {permission.Allow, "Edit(/out/%d/*.go)"},
		} {
			rule, err := permission.ParseRule(fmt.Sprintf(r.text, i), r.behavior, permission.FromUser)
			if err != nil {
				return nil, err
			}
			p.Rules = append(p.Rules, rule)
		}
	}
	return p, p.Check()
}

func benchDeciding(*env) ([]Row, error) {
	p, err := thousand()
	if err != nil {
		return nil, err
	}
	decide := func(command string) func() error {
		r := permission.Request{Tool: "Bash", ReadOnly: true, HasCommand: true, Command: command, Dir: "/workspace"}
		return func() error { p.Resolve(r); return nil }
	}
	got, err := turns(2000, decide("go vet ./... && git status"), decide("cat src/a.go | grep -n x"), decide("tool7 run"))
	if err != nil {
		return nil, err
	}
	return []Row{
		row("decision on a Bash call that is asked about, 1,000 rules", "µs", got[0], nil, 30),
		row("decision on one that only reads, 1,000 rules", "µs", got[1], nil, 30),
		row("decision on one that a rule allows, 1,000 rules", "µs", got[2], nil, 30),
	}, nil
}

// benchEnvelope measures what it adds to a call to be narrowed.
func benchEnvelope(e *env) ([]Row, error) {
	s, live, err := e.startOver(few)
	if err != nil {
		return nil, err
	}
	defer s.Remove()
	defer live.Close()
	bash := func(env sandbox.Envelope) func() error {
		return func() error {
			_, err := live.Exec(e.ctx, sandbox.Command{Args: []string{"bash", "-c", "true"}, Envelope: env})
			return err
		}
	}
	got, err := turns(400, bash(sandbox.Envelope{}), bash(sandbox.Envelope{Writable: []string{s.Workspace, "/tmp"}}), bash(sandbox.Envelope{Box: sandbox.Eye}))
	if err != nil {
		return nil, err
	}
	added := func(name string, with samples) Row {
		const most = 0.4
		by := func(q float64) float64 {
			return float64(with.quantile(q)-got[0].quantile(q)) / float64(time.Millisecond)
		}
		r := Row{Name: name, Unit: "ms", P50: by(0.5), P95: by(0.95), Reach: most}
		r.OK = r.P50 <= most
		return r
	}
	return []Row{added("a narrow envelope adds to a Bash call", got[1]), added("the eye adds to a Bash call", got[2])}, nil
}

// benchDenied measures the walk that a denial at any depth needs.
func benchDenied(e *env) ([]Row, error) {
	dir, err := e.workspace(many)
	if err != nil {
		return nil, err
	}
	look := func(text string) (func() error, error) {
		rule, err := permission.ParseRule(text, permission.Deny, permission.FromUser)
		return func() error {
			_, _, err := permission.DeniedPaths(e.ctx, dir, "/home/user", []permission.Rule{rule})
			return err
		}, err
	}
	anywhere, err := look("Read(*.pem)")
	if err != nil {
		return nil, err
	}
	here, err := look("Read(/secret/key.pem)")
	if err != nil {
		return nil, err
	}
	got, err := turns(20, anywhere, here)
	if err != nil {
		return nil, err
	}
	return []Row{
		row("looking for what a pattern denies among 100,000 files", "ms", got[0], nil, 80),
		row("the same without a pattern: no walk", "ms", got[1], nil, 0),
	}, nil
}
