package permission

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sallyport/sallyport/permission/bash/bashtest"
)

// drawnRule draws a rule about commands, files or hosts.
func drawnRule(t *rapid.T, behaviors ...Behavior) Rule {
	text := rapid.SampledFrom([]string{
		"Bash", "Bash(rm *)", "Bash(rm f)", "Bash(git *)", "Bash(git log:*)", "Bash(ls)", "Bash(ls *)", "Bash(* f)", "Bash(echo *)", "Bash(cat *)", "Bash(sudo *)", "Bash(sh *)",
		"Read(f)", "Read(//etc/**)", "Read(/src/**)", "Read(.env)", "Read(~/x)", "Edit(/src/**)", "Edit(f)", "Edit", "Read", "Write(*.go)",
	}).Draw(t, "rule")
	r, err := ParseRule(text, rapid.SampledFrom(behaviors).Draw(t, "behavior"), FromCLI)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func drawnRequest(t *rapid.T) Request {
	command := rapid.Custom(bashtest.Command).Draw(t, "command")
	return Request{Tool: "Bash", ReadOnly: true, Command: command, HasCommand: true, Dir: "/workspace", Links: func(paths []string) ([]string, error) { return paths, nil }}
}

func drawnPolicy(t *rapid.T) *Policy {
	p := &Policy{Mode: rapid.SampledFrom(Modes).Draw(t, "mode"), Workspace: "/workspace", Home: "/home/user", Sealed: true}
	for range rapid.IntRange(0, 3).Draw(t, "rules") {
		p.Rules = append(p.Rules, drawnRule(t, Allow, Ask, Deny))
	}
	return p
}

var strictness = map[Behavior]int{Allow: 0, Ask: 1, Deny: 2}

// One rule more that denies, or asks, makes no answer less strict.
func TestAStricterRuleNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, r := drawnPolicy(t), drawnRequest(t)
		before := p.Resolve(r).Behavior
		more := drawnRule(t, Deny, Ask)
		after := p.With(more).Resolve(r).Behavior
		if strictness[after] < strictness[before] {
			t.Fatalf("with %s %s, %q is %s, and was %s", more.Behavior, &more, r.Command, after, before)
		}
	})
}

// A command that is denied is denied, or asked about where it cannot be told, however
// it is wrapped: no wrapper has it allowed.
func TestWrappersKeepADenial(t *testing.T) {
	deny, err := ParseRule("Bash(rm *)", Deny, FromCLI)
	if err != nil {
		t.Fatal(err)
	}
	all, err := ParseRule("Bash", Allow, FromCLI)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		command := bashtest.Wrapped(t, rapid.SampledFrom([]string{"rm f", "rm -rf src", "/bin/rm f", "'rm' \"f\"", "r\\m f"}).Draw(t, "command"), 4)
		p := &Policy{Mode: rapid.SampledFrom([]Mode{Default, AcceptEdits, Plan, DontAsk, Bypass}).Draw(t, "mode"), Workspace: "/workspace", Home: "/home/user", Sealed: true, Rules: []Rule{all, deny}}
		d := p.Resolve(Request{Tool: "Bash", ReadOnly: true, Command: command, HasCommand: true, Dir: "/workspace"})
		if d.Behavior != Deny {
			t.Fatalf("%q: %s: %s", command, d.Behavior, d.Reason)
		}
	})
}

// FuzzPathPattern holds that what is denied is denied in any case of its letters.
func FuzzPathPattern(f *testing.F) {
	for _, c := range [][2]string{{".env", "/workspace/a/.env"}, {"/src/**", "/workspace/src/a"}, {"//etc/*", "/etc/passwd"}, {"~/x", "/home/user/x"}, {"*.{a,b}", "/workspace/x.A"}, {"[a-z]x", "/workspace/bx"}} {
		f.Add(c[0], c[1])
	}
	in := &Policy{Workspace: "/workspace", Home: "/home/user"}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		p, err := parsePath(pattern, Deny)
		if err != nil || !strings.HasPrefix(name, "/") || !isASCII(name) || !isASCII(pattern) {
			return
		}
		r := Rule{Behavior: Deny, Tool: "Edit", kind: ofPath, Content: pattern, path: p}
		policy := *in
		policy.Rules = []Rule{r}
		clean := cleanPath(name)
		denied := p.matches(in.locate(clean))
		for _, other := range []string{strings.ToUpper(clean), strings.ToLower(clean)} {
			if base := p.base(in); denied && !p.matches(in.locate(other)) {
				t.Errorf("%q denies %q and not %q (from %s)", pattern, clean, other, base)
			}
		}
		// The same file by other names, as a command may have them.
		if denied && clean != "/" && !strings.ContainsAny(clean, "'\n\x00") && printableASCII(clean) {
			for _, spelling := range []string{clean, "/." + clean, strings.ReplaceAll(clean, "/", "//"), clean + "/."} {
				d := policy.Resolve(Request{Tool: "Bash", Command: "touch '" + spelling + "'", HasCommand: true, Dir: "/workspace"})
				if d.Behavior != Deny {
					t.Errorf("%q denies %q and not %q: %s", pattern, clean, spelling, d.Reason)
				}
			}
		}
	})
}

func cleanPath(name string) string {
	parts := slices.DeleteFunc(strings.Split(name, "/"), func(part string) bool { return part == "" || part == "." || part == ".." })
	return "/" + strings.Join(parts, "/")
}

func printableASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// FuzzHost holds that a host that is allowed is the one that the URL's own parser has,
// and that how it is written makes no difference to a rule that denies.
func FuzzHost(f *testing.F) {
	for _, url := range []string{"https://example.com/x", "http://EXAMPLE.com.:80", "http://a@example.com", "http://127.1", "http://0x7f.1/", "http://[::ffff:1.2.3.4]/", "http://exämple.com/", "http://xn--exmple-cua.com", "http://example.com\\@b", "http://[::1%25a]/", "http://example。com"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		h, ok := hostOf(url)
		if !ok {
			return
		}
		p, err := parseHost("domain:" + h.name)
		if err != nil {
			t.Fatalf("the host %q of %q makes no rule: %v", h.name, url, err)
		}
		if p.hits(url) != certainly {
			t.Errorf("a rule for %q is not about %q", h.name, url)
		}
		other := "http://" + h.name + "/"
		if h.address && strings.Contains(h.name, ":") {
			other = "http://[" + h.name + "]/"
		}
		if !p.allows(other) {
			t.Errorf("a rule for %q does not allow %q", h.name, other)
		}
		if again, ok := hostOf(strings.ToUpper(other[:4]) + other[4:]); !ok || again.name != h.name {
			t.Errorf("%q has the host %q, and was %q", other, again.name, h.name)
		}
	})
}
