package permission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A call is granted what the rules or the mode speak of that let it through, and
// no more.
func TestGrants(t *testing.T) {
	all := []string(nil)
	for _, test := range []struct {
		line string
		want Grant
	}{
		{"Bash cat a.go", Grant{ReadOnly: true}},
		{"Read a.go", Grant{ReadOnly: true}},
		{"allow Bash(cat *) :: Bash cat a.go", Grant{ReadOnly: true}},
		{"plan :: Bash git log", Grant{ReadOnly: true}},
		{"Bash ps aux", Grant{Inspect: true, Writable: []string{}}},
		{"plan :: Bash ps aux | grep x", Grant{Inspect: true, Writable: []string{}}},
		{"acceptEdits :: Write src/a.go", Grant{Writable: []string{"/w/src"}}},
		{"acceptEdits :: Edit a.go", Grant{Writable: []string{"/w"}}},
		{"allow Edit(/src/**) :: Edit src/a.go", Grant{Writable: []string{"/w/src"}}},
		{"bypassPermissions :: Edit src/a.go", Grant{Writable: []string{"/w/src"}}},
		{"Edit src/a.go", Grant{Writable: []string{"/w/src"}}}, // asked
		{"acceptEdits :: Bash mkdir -p new/deep", Grant{Writable: []string{"/w"}}},
		{"allow Edit(/src/**) :: Bash cat a.go > src/b.go", Grant{Writable: []string{"/w/src"}}},
		{"allow Edit(/src/*.go) :: allow Edit(//tmp/out) :: Bash cat a.go > src/b.go; ls > /tmp/out", Grant{Writable: []string{"/w/src", "/tmp/out"}}},
		{"allow Edit(*.go) :: Bash cat a.go > src/b.go", Grant{Writable: []string{"/w"}}},
		{"allow Bash(make *) :: Bash make x", Grant{Writable: all}},
		{"allow Bash(make *) :: allow Edit(/src/**) :: Bash make x > src/log", Grant{Writable: all}},
		{"bypassPermissions :: Bash make x", Grant{Writable: all}},
		{"Bash make x", Grant{Writable: all}}, // asked
	} {
		c := of(t, test.line)
		d := c.policy(t).Resolve(c.request())
		if d.Behavior == Deny {
			t.Errorf("%s: %s", test.line, d.Reason)
		}
		if diff := cmp.Diff(test.want, d.Grant); diff != "" {
			t.Errorf("%s:\n%s", test.line, diff)
		}
	}
}

// What a run tried to write that had been judged to be read-only makes it another
// call: one that writes there.
func TestMisjudged(t *testing.T) {
	for _, test := range []struct {
		line string
		want Behavior
		why  string
	}{
		{"Bash cat a.go", Ask, "tried to write /w/src/a.go"},
		{"acceptEdits :: Bash cat a.go", Ask, "tried to write /w/src/a.go"},
		{"dontAsk :: Bash cat a.go", Deny, "tried to write /w/src/a.go"},
		{"plan :: Bash cat a.go", Deny, "the mode is plan"},
		{"deny Edit(/src/**) :: bypassPermissions :: Bash cat a.go", Deny, "Edit(/src/**)"},
		{"ask Edit(/src/**) :: bypassPermissions :: Bash cat a.go", Ask, "Edit(/src/**)"},
		{"deny Edit(/lib/**) :: bypassPermissions :: Bash cat a.go", Allow, ""},
		{"bypassPermissions :: Bash cat a.go", Allow, ""},
		{"allow Bash(cat *) :: Bash cat a.go", Allow, ""},
		{"allow Bash(cat *) :: Bash cat a.go; ls", Ask, "a part of it, ls"},
	} {
		c := of(t, test.line)
		r := c.request()
		r.Tried = []Path{{Name: "/w/src/a.go", Real: "/w/src/a.go", Write: true}}
		d := c.policy(t).Resolve(r)
		if d.Behavior != test.want || !strings.Contains(d.Reason, test.why) {
			t.Errorf("%s: %s: %s", test.line, d.Behavior, d.Reason)
		}
		if d.Grant.ReadOnly || d.Grant.Inspect {
			t.Errorf("%s: it would run where it cannot write again", test.line)
		}
	}
}

// In the mode auto, a classifier may answer what nobody wants to be asked about.
func TestClassifiable(t *testing.T) {
	for _, test := range []struct {
		line string
		want bool
	}{
		{"auto :: Bash make x", true},
		{"auto :: Write .vscode/tasks.json", true},
		{"auto :: Write a.go::$DATA", false},
		{"auto :: Write .git/hooks/pre~1", false},
		{"auto :: ask Bash(make *) :: Bash make x", false},
		{"auto :: ask Edit(/src/**) :: Write src/a.go", false},
		{"auto :: Bash ls", false}, // it is allowed
		{"auto :: deny Bash(make *) :: Bash make x", false},
		{"Bash make x", false},
		{"bubble :: Bash make x", false},
	} {
		c := of(t, test.line)
		if d := c.policy(t).Resolve(c.request()); d.Classifiable != test.want {
			t.Errorf("%s: %v: %s %s", test.line, d.Classifiable, d.Behavior, d.Reason)
		}
	}
}

// A run that changes nothing answers what is asked about, or denied by the mode, only
// because nothing is known of it.
func TestUnproven(t *testing.T) {
	for _, test := range []struct {
		line string
		want bool
	}{
		{"Bash make x", true},
		{"acceptEdits :: Bash make x", true},
		{"dontAsk :: Bash make x", true},
		{"auto :: Bash python3 -c 1", true},
		{"plan :: Bash make x", true},
		{"bubble :: Bash make x", true},
		{"Write a.go", true},
		{"Bash ls", false}, // it is allowed
		{"bypassPermissions :: Bash make x", false},
		{"allow Bash(make *) :: Bash make x", false},
		{"ask Bash(make *) :: Bash make x", false},
		{"ask Bash(make *) :: plan :: Bash make x", false},
		{"deny Bash(make *) :: Bash make x", false},
		{"deny Bash(make *) :: Bash $X x", false}, // it could be meant
		{"Write .vscode/tasks.json", false},
		{"dontAsk :: Write .vscode/tasks.json", false},
	} {
		c := of(t, test.line)
		p := c.policy(t)
		if d := p.Resolve(c.request()); d.Unproven != test.want {
			t.Errorf("%s: %v: %s %s", test.line, d.Unproven, d.Behavior, d.Reason)
		}
		p.AskUnproven = true
		if d := p.Resolve(c.request()); d.Unproven {
			t.Errorf("%s: a run counts although it is to be asked about", test.line)
		}
		p.AskUnproven, p.Sealed = false, false
		if p.Mode == Bypass {
			continue
		}
		if d := p.Resolve(c.request()); d.Unproven {
			t.Errorf("%s: a run counts although what it changes leaves", test.line)
		}
	}
}

// A directory that the session shows beside the workspace is changed like it, where
// it can be; what lies beside is not.
func TestExposedCountsAsTheWorkspace(t *testing.T) {
	for path, want := range map[string]Behavior{"/tools/x": Allow, "/tools": Ask, "/tools-evil/x": Ask, "/other/x": Ask} {
		c := of(t, "acceptEdits :: Write "+path)
		p := c.policy(t)
		p.Exposed = []string{"/tools"}
		if d := p.Resolve(c.request()); d.Behavior != want {
			t.Errorf("%s: %s: %s", path, d.Behavior, d.Reason)
		}
	}
	c := of(t, "acceptEdits :: Bash touch /tools/x a")
	p := c.policy(t)
	p.Exposed = []string{"/tools"}
	if d := p.Resolve(c.request()); d.Behavior != Allow || !cmp.Equal(d.Grant.Writable, []string{"/w", "/tools"}) {
		t.Errorf("%s: %s: %v", d.Behavior, d.Reason, d.Grant)
	}
}

// What a rule, or the mode, does not speak of.
func TestWhatIsNotMeant(t *testing.T) {
	for line, want := range map[string]Behavior{
		"deny Read :: Bash cat a.go": Deny, "deny Read(**) :: Bash cat a.go": Deny, "ask Read :: Bash cat a.go": Ask, "deny Read :: Grep src": Deny, "deny Read :: Bash echo hi": Allow, "deny Read :: Bash ls": Deny,
		"deny Read :: bypassPermissions :: Bash make": Ask,
		"allow Edit(/src/**) :: Write src":            Ask, "allow Edit(/src/**) :: Write src/new/x": Allow, "deny Edit(/src/**) :: bypassPermissions :: Write src": Deny,
		"acceptEdits :: Bash rm -rf .git/objects": Ask, "acceptEdits :: Bash mv .git/objects o": Ask, "acceptEdits :: Write sub/.GIT/HEAD": Ask, "acceptEdits :: Write .gitignore": Allow,
		"ask Read(.env) :: Bash grep -r SECRET": Ask, "ask Read(.env) :: Bash grep -d recurse SECRET": Ask, "ask Read(.env) :: Bash grep --directories=recurse x": Ask, "ask Read(.env) :: Bash grep -re S": Ask, "ask Read(.env) :: Bash egrep -R S": Ask,
		"ask Read(.env) :: Bash ls | grep S": Allow, "ask Read(.env) :: Bash git grep -e S": Ask, "ask Read(.env) :: Bash git diff": Ask, "ask Read(.env) :: Bash git diff --cached": Allow,
		"ask Read(.env) :: Bash jq -n --rawfile a .env $a": Ask, "deny Read(.env) :: Bash jq -n --slurpfile a .env .": Deny, "ask Read(.env) :: Bash jq --arg a .env . x": Allow,
		"allow Skill(pdf) :: Skill pdf": Allow, "allow Skill(pdf) :: Skill pdfx": Ask, "deny SlashCommand(/deploy) :: SlashCommand /deploy now": Deny,
	} {
		c := of(t, line)
		switch c.Tool {
		case "Skill":
			c.Input = map[string]any{"skill": c.Input["file_path"]}
		case "SlashCommand":
			c.Input = map[string]any{"command": c.Input["file_path"]}
		}
		if d := c.policy(t).Resolve(c.request()); d.Behavior != want {
			t.Errorf("%s: %s: %s", line, d.Behavior, d.Reason)
		}
	}
}
