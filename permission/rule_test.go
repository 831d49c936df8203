package permission

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseRule(t *testing.T) {
	for text, want := range map[string]string{
		"Bash": "Bash", "Bash()": "Bash", "Bash(*)": "Bash", "Read(**)": "Read", " Read(a) ": "Read(a)",
		"Fetch(domain:x.org)": "WebFetch(domain:x.org)", "Task(a)": "Agent(a)", "mcp__a__*": "mcp__a__*",
		"Bash(a (b) c)": "Bash(a (b) c)",
	} {
		r, err := ParseRule(text, Deny, "")
		if err != nil || r.String() != want {
			t.Errorf("%q: %q, %v", text, r.String(), err)
		}
	}
	for text, want := range map[string]string{
		"":                              "names no tool",
		"(x)":                           "names no tool",
		"Ba sh":                         "names no tool",
		"Bash(x":                        "does not end",
		"Bash(x) y":                     "does not end",
		"Bash(x\ny)":                    "control character",
		"Ba*":                           "only at the end of the name of an MCP",
		"mcp__*__x":                     "only at the end",
		"bash":                          "no tool is called bash; did you mean Bash?",
		"webfetch(domain:x.org)":        "did you mean WebFetch?",
		"TodoWrite(x)":                  "take no content",
		"mcp__x__y(z)":                  "take no content",
		"Read(!x)":                      "negated",
		"Read(../x)":                    "upwards",
		"Read(a/../x)":                  "upwards",
		"Read(~bob/x)":                  "another user",
		"Read(a**b)":                    "whole directories",
		"Read([a)":                      "not closed",
		"Read({a/b,c})":                 "brace",
		"WebFetch(example.com)":         "domain:",
		"WebFetch(domain:)":             "letters, digits",
		"WebFetch(domain:http://x)":     "letters, digits",
		"WebFetch(domain:*.*.x)":        "letters, digits",
		"Bash( *)":                      "names no command",
		"Bash(:*)":                      "names no command",
		strings.Repeat("x", mostRule+1): "longer",
	} {
		if _, err := ParseRule(text, Deny, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestPolicyCheck(t *testing.T) {
	rule := func(text string) []Rule {
		r, err := ParseRule(text, Deny, "")
		if err != nil {
			t.Fatal(err)
		}
		return []Rule{r}
	}
	for want, p := range map[string]*Policy{
		"no mode":              {Mode: "yolo", Workspace: "/w", Sealed: true},
		"needs a workspace":    {Mode: Default},
		"only for sealed":      {Mode: Bypass, Workspace: "/w"},
		"cannot be held where": {Mode: Default, Workspace: "/w", Rules: rule("Read(x)")},
		"/h/x is exposed":      {Mode: Default, Workspace: "/w", Home: "/h", Sealed: true, Exposed: []string{"/h/x"}, Rules: rule("Read(~/x/y)")},
		"/etc/x/y is exposed":  {Mode: Default, Workspace: "/w", Home: "/h", Sealed: true, Exposed: []string{"/etc/x/y"}, Rules: rule("Read(//etc/x)")},
	} {
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
	for _, p := range []*Policy{
		{Mode: Default, Workspace: "/w"},
		{Mode: Bypass, Workspace: "/w", Sealed: true, Rules: rule("Read(x)")},
		{Mode: Default, Workspace: "/w", Home: "/h", Sealed: true, Exposed: []string{"/h/x"}, Rules: rule("Read(~/y)")},
	} {
		if err := p.Check(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestDeniedPaths(t *testing.T) {
	work := t.TempDir()
	for _, name := range []string{".env", "a/.env", "a/b/key.pem", "a/b/secret/x", "a/b/secret/.env", "lock/a.lock", "Big/x", "other"} {
		if err := os.MkdirAll(filepath.Join(work, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"Read(.env)":          ".env a/.env a/b/secret/.env",
		"Read(nothing)":       "nothing",
		"Read(/nothing/x)":    "nothing/x",
		"Read(/a/**)":         "a",
		"Read(a/b/secret)":    "a/b/secret",
		"Read(*.pem)":         "a/b/key.pem",
		"Read(secret)":        "a/b/secret secret",
		"Read(/Big)":          "Big",
		"Read(/big/X)":        "Big/x big/X",
		"Read(A/B/Secret/**)": "A/B/Secret a/b/secret",
		"Read(/LINK/.env)":    "LINK/.env",
		"Edit(/OTHER)":        "- OTHER other",
		"Read(/a/*/secret/*)": "a/b/secret/.env a/b/secret/x",
		"Read(/**/x)":         "Big/x a/b/secret/x",
		"Edit(*.lock)":        "- lock/a.lock",
		"Write(/other)":       "- other",
		"Read(~/x)":           "",
		"Read(//etc)":         "",
		"Read(/link/.env)":    "link/.env",
		"Read":                "",
		"Edit":                "",
		"Bash(x)":             "",
		"Read(/{a,Big}/*)":    "Big/x a/.env a/b",
	} {
		r, err := ParseRule(text, Deny, "")
		if err != nil {
			t.Fatal(err)
		}
		allow, _ := ParseRule("Read(other)", Allow, "")
		read, write, err := DeniedPaths(context.Background(), work, "/h", []Rule{r, allow})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		var got []string
		for _, path := range read {
			got = append(got, strings.TrimPrefix(path, work+"/"))
		}
		if write != nil {
			got = append(got, "-")
		}
		for _, path := range write {
			got = append(got, strings.TrimPrefix(path, work+"/"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"Read(/)", "Read(/**)", "Read(/./)"} {
		r, err := ParseRule(text, Deny, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := DeniedPaths(context.Background(), work, "/h", []Rule{r}); err == nil {
			t.Errorf("%s denies the whole workspace, and is none", text)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, _ := ParseRule("Read(*.x)", Deny, "")
	if _, _, err := DeniedPaths(ctx, work, "/h", []Rule{r}); err == nil {
		t.Error("an interrupted walk was taken for a whole one")
	}
}

// Two patterns overlap exactly when some text matches both.
func TestOverlap(t *testing.T) {
	texts := []string{""}
	for n := 0; n < 6; n++ {
		for _, text := range texts {
			if len(text) == n {
				texts = append(texts, text+"a", text+"b")
			}
		}
	}
	pattern := rapid.StringMatching("[ab*]{0,4}")
	rapid.Check(t, func(t *rapid.T) {
		a := strings.ReplaceAll(pattern.Draw(t, "a"), "*", string(star))
		b := strings.ReplaceAll(pattern.Draw(t, "b"), "*", string(star))
		both := slices.ContainsFunc(texts, func(text string) bool { return wildcard(a, text) && wildcard(b, text) })
		// A text of eight letters is enough for patterns of four; one of six is
		// for those that have two stars.
		if got := overlap(a, b); got != both && (both || strings.Count(a+b, string(star)) <= 2) {
			t.Errorf("%q and %q: %v, want %v", a, b, got, both)
		}
		if wildcard(a, b) && !overlap(a, b) {
			t.Errorf("%q covers %q and does not overlap it", a, b)
		}
	})
}

// A rule that is read is written as one that reads the same, and deciding by it
// never fails.
func FuzzParseRule(f *testing.F) {
	for _, text := range []string{"Bash(git *)", "Read(//etc/**)", "Edit(/src/[a-z]*/{a,b})", "WebFetch(domain:*.x.org)", "mcp__a__*", "Read(~/x\\*)"} {
		f.Add(text, "src/a", "git push")
	}
	f.Fuzz(func(t *testing.T, text, path, command string) {
		for _, b := range []Behavior{Allow, Deny} {
			r, err := ParseRule(text, b, "x")
			if err != nil {
				continue
			}
			again, err := ParseRule(r.String(), b, "x")
			if err != nil || again.String() != r.String() {
				t.Errorf("%q is written %q, which reads %q: %v", text, r.String(), again.String(), err)
			}
			p := &Policy{Mode: Default, Workspace: "/w", Home: "/h", Sealed: true, Rules: []Rule{r}}
			path := filepath.Join("/w", path)
			one := p.Resolve(Request{Tool: "Write", Paths: []Path{{Name: path, Real: path, Write: true}}})
			if b == Deny && one.Behavior == Allow || b == Allow && one.Behavior == Deny {
				t.Errorf("%s %s: Write is %s", b, text, one.Behavior)
			}
			p.Resolve(Request{Tool: "Bash", HasCommand: true, Command: command, ReadOnly: true, Dir: "/w"})
		}
	})
}
