package permission

import (
	"errors"
	"testing"
)

func TestConcerns(t *testing.T) {
	links := func(paths []string) ([]string, error) {
		real := make([]string, len(paths))
		for i, path := range paths {
			real[i] = path
			if path == "/w/link" {
				real[i] = "/w/.env"
			}
		}
		return real, nil
	}
	broken := func([]string) ([]string, error) { return nil, errors.New("no guest") }
	bash := func(command string) Request {
		return Request{Tool: "Bash", ReadOnly: true, Command: command, HasCommand: true, Dir: "/w", Links: links}
	}
	file := func(tool, name string, write bool) Request {
		return Request{Tool: tool, ReadOnly: !write, Dir: "/w", Paths: []Path{{Name: name, Write: write}}, Links: links}
	}
	blind := file("Read", "/w/link", false)
	blind.Links = broken
	for _, test := range []struct {
		rule string
		r    Request
		want bool
	}{
		{"Bash(git *)", bash("git push"), true},
		{"Bash(git *)", bash("ls && sudo /usr/bin/git push"), true},
		{"Bash(git *)", bash("gitk"), false},
		{"Bash(git *)", bash("ls"), false},
		{"Bash(git *)", bash("$x push"), true},
		{"Bash(git *)", bash("ls 'unterminated"), true},
		{"Bash(git *)", file("Read", "/w/git", false), false},
		{"Bash", bash("ls"), true},
		{"Read(.env)", file("Read", "/w/a/.env", false), true},
		{"Read(.env)", file("Read", "/w/link", false), true},
		{"Read(.env)", file("Read", "/w/other", false), false},
		{"Read(.env)", blind, true},
		{"Read(.env)", bash("cat link"), true},
		{"Read(.env)", bash("cat other"), false},
		{"Edit(/src/**)", file("Write", "/w/src/x", true), true},
		{"Edit(/src/**)", file("Read", "/w/src/x", false), false},
		{"Edit(/src/**)", bash("echo x > src/a"), true},
		{"mcp__db", Request{Tool: "mcp__db__query"}, true},
		{"mcp__db", Request{Tool: "mcp__dbx__query"}, false},
	} {
		for _, b := range []Behavior{Allow, Deny} {
			rule, err := ParseRule(test.rule, b, FromUser)
			if err != nil {
				t.Fatal(err)
			}
			// What else the policy says makes no difference.
			p := &Policy{Mode: Default, Workspace: "/w", Home: "/home/u", Sealed: true}
			all, err := ParseRule("Bash", Ask, FromUser)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.With(all).Concerns(rule, test.r); got != test.want {
				t.Errorf("%s (%s), %s %s %v: %v", test.rule, b, test.r.Tool, test.r.Command, test.r.Paths, got)
			}
		}
	}
}
