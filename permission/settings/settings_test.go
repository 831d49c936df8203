package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/permission"
)

// places is a workspace, a home and a state directory, with files in them.
func places(t *testing.T, files map[string]string) *Places {
	t.Helper()
	dir := t.TempDir()
	p := &Places{
		Policy: filepath.Join(dir, "etc/policy.json"), PolicyOwner: uint32(os.Geteuid()), Home: filepath.Join(dir, "home"),
		User: filepath.Join(dir, "home/.config/sallyport/settings.json"), Workspace: filepath.Join(dir, "work"), State: filepath.Join(dir, "state"),
	}
	for _, d := range []string{p.Workspace, p.Home, p.State} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return p
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, p *Places) *Settings {
	t.Helper()
	s, err := p.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shown are rules in short.
func shown(rules []permission.Rule) string {
	var list []string
	for _, r := range rules {
		list = append(list, fmt.Sprintf("%s %s %s", string(r.Source), r.Behavior, r.String()))
	}
	return strings.Join(list, "; ")
}

func allows(rule string) string {
	denied := strings.TrimSuffix(rule, ")")
	if denied != rule {
		denied += " x)"
	}
	return `{"permissions": {"allow": ["` + rule + `"], "deny": ["` + denied + `"]}}`
}

func TestWhatIsWrongNamesItsLine(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"no JSON", "{\n  \"permissions\": {,}\n}", ":2: it is not JSON"},
		{"nothing", "", ":1: it is not JSON"},
		{"more after it", "{}\n{}", ":2: it is not JSON"},
		{"no text", "{\n\"x\": \"\xff\"}", ":2: it is not text in UTF-8"},
		{"no object", "[]", ":1: the file must be an object"},
		{"a key twice", "{\n\"permissions\": {},\n\"permissions\": {}}", `:3: the key "permissions" stands twice`},
		{"a key twice, deep in what nobody reads", "{\"x\": [{\"a\": 1,\n\"a\": 2}]}", `:2: the key "a" stands twice`},
		{"a key twice, spelled otherwise", "{\"hooks\": {},\n\"hook\\u0073\": {}}", `:2: the key "hooks" stands twice`},
		{"a key in another case", "{\n\"Permissions\": {}}", `:2: there is no key "Permissions"; did you mean "permissions"?`},
		{"a key of permissions that is misspelt", "{\"permissions\": {\n\"denny\": []}}", `:2: permissions has no key "denny"`},
		{"permissions of another type", "{\"permissions\": []}", ":1: permissions must be an object"},
		{"rules of another type", "{\"permissions\": {\"deny\":\n\"Bash\"}}", ":2: deny must be a list of strings"},
		{"a rule of another type", "{\"permissions\": {\"ask\": [\n1]}}", ":2: ask must be a list of strings"},
		{"no list at all", "{\"permissions\": {\"allow\": null}}", ":1: allow must be a list"},
		{"a rule that does not parse", "{\"permissions\": {\"deny\": [\n\"Bash\",\n\"Bash(x\"]}}", `:3: the rule "Bash(x": it does not end with )`},
		{"a mode", "{\"permissions\": {\n\"defaultMode\": \"yolo\"}}", `:2: no mode "yolo"`},
		{"a mode of another type", "{\"permissions\": {\n\"defaultMode\": 1}}", ":2: a mode is one of"},
		{"no way to disable", "{\"permissions\": {\n\"disableBypassPermissionsMode\": true}}", `:2: disableBypassPermissionsMode must be "disable"`},
		{"a directory", "{\"permissions\": {\"additionalDirectories\": [\n\"\"]}}", ":2: the directory \"\": it is no path"},
		{"what the policy says", "{\"permissions\": {\n\"forbidModes\": []}}", `:2: "forbidModes" is for the system's policy file alone`},
		{"what the policy says at the top", "{\n\"allowManagedHooksOnly\": true}", `:2: "allowManagedHooksOnly" is for the system's policy file alone`},
		{"hooks of another type", "{\"hooks\": []}", ":1: hooks must be an object"},
		{"an event", "{\"hooks\": {\n\"Stop\": []}}", `:2: there is no hook event "Stop"`},
		{"an event of another type", "{\"hooks\": {\"PreToolUse\":\n{}}}", ":2: PreToolUse must be a list"},
		{"a matcher", "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [],\n\"matcher\": 1}]}}", ":2: matcher must be a string"},
		{"a hook outside of its list", "{\"hooks\": {\"PreToolUse\": [\n{\"type\": \"command\"}]}}", ":2: a hook needs a list of hooks"},
		{"a hook of another type", "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [\n{\"type\": \"prompt\"}]}]}}", `:2: a hook of type "prompt"`},
		{"a hook without a command", "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [\n{\"type\": \"command\"}]}]}}", ":2: a hook needs a command"},
		{"a timeout", "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"x\",\n\"timeout\": 0}]}]}}", ":2: timeout is a number of seconds"},
		{"too deep", strings.Repeat("[", 70) + strings.Repeat("]", 70), ":1: it is nested more than 64 deep"},
		{"too large", "{" + strings.Repeat(" ", mostBytes) + "}", ":1: it has 1048577 bytes"},
	} {
		p := places(t, map[string]string{"work/" + ProjectFile: test.text})
		_, err := p.Load()
		if err == nil || !strings.HasPrefix(err.Error(), ProjectFile+":") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func TestWhatOtherAgentsHaveIsLeftAlone(t *testing.T) {
	text := `{"model": "x", "env": {"A": "b"}, "permissions": {"deny": ["Bash(rm *)"], "somethingNew": 1},
		"hooks": {"Stop": [{"hooks": [{"type": "prompt"}]}], "PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}}`
	p := places(t, map[string]string{"work/.claude/settings.json": text, "work/.claude/settings.local.json": allows("Bash(a)"), "home/.claude/settings.json": allows("Bash(b)")})
	if s := load(t, p); len(s.Files) != 0 {
		t.Errorf("without being asked, it reads %v", s.Files)
	}
	p.Import = true
	s := load(t, p)
	if got, want := shown(s.Rules), "local deny Bash(a x); project deny Bash(rm *); user deny Bash(b x); user allow Bash(b)"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if len(s.Hooks) != 0 || len(s.Untrusted()) != 2 {
		t.Errorf("%+v, %d untrusted", s.Hooks, len(s.Untrusted()))
	}
}

// Only regular files are read, and no link is followed.
func TestWhatIsNoRegularFileIsRefused(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a FIFO":                func(path string) error { return unix.Mkfifo(path, 0o644) },
		"a directory":           func(path string) error { return os.Mkdir(path, 0o755) },
		"a link":                func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a link to what is not": func(path string) error { return os.Symlink("nothing", path) },
		"a directory that is a link": func(path string) error {
			dir := filepath.Dir(path)
			if err := os.Rename(dir, dir+"2"); err != nil {
				return err
			}
			return os.Symlink(dir+"2", dir)
		},
	} {
		p := places(t, map[string]string{"work/.sallyport/x": ""})
		if err := make(filepath.Join(p.Workspace, ProjectFile)); err != nil {
			t.Fatal(err)
		}
		if name == "a directory that is a link" {
			write(t, filepath.Join(p.Workspace, ProjectFile), "{}")
		}
		if _, err := p.Load(); err == nil || !strings.Contains(err.Error(), "the settings .sallyport/settings.") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := p.AddRule(permission.FromLocal, rule(t, "Bash")); name == "a directory that is a link" && err == nil {
			t.Errorf("%s: a rule was saved through it", name)
		}
	}
}

func TestThePolicyIsRootsAlone(t *testing.T) {
	p := places(t, map[string]string{"etc/policy.json": allows("Bash(a)")})
	if s := load(t, p); len(s.Files) != 1 {
		t.Fatal(s.Files)
	}
	for name, change := range map[string]func() error{
		"others can write it":            func() error { return os.Chmod(p.Policy, 0o666) },
		"others can write its directory": func() error { return os.Chmod(filepath.Dir(p.Policy), 0o777) },
		"it belongs to somebody else":    func() error { p.PolicyOwner++; return nil },
	} {
		owner := p.PolicyOwner
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Load(); err == nil || !strings.Contains(err.Error(), p.Policy) || !strings.Contains(err.Error(), "must belong to root") {
			t.Errorf("%s: %v", name, err)
		}
		p.PolicyOwner = owner
		os.Chmod(p.Policy, 0o644)
		os.Chmod(filepath.Dir(p.Policy), 0o755)
	}
}

func TestSourcesAreMergedInTheirOrder(t *testing.T) {
	p := places(t, map[string]string{
		"etc/policy.json": allows("Bash(p)"), "more.json": allows("Bash(m)"),
		"work/" + LocalFile: allows("Bash(l)"), "work/" + ProjectFile: allows("Bash(j)"),
		"home/.config/sallyport/settings.json": allows("Bash(u)"),
	})
	p.Files = []string{filepath.Join(filepath.Dir(p.Workspace), "more.json")}
	p.Rules = []permission.Rule{rule(t, "Bash(c)")}
	deny := "policy deny Bash(p x); policy allow Bash(p); cliArg allow Bash(c); cliArg deny Bash(m x); cliArg allow Bash(m); "
	if got, want := shown(load(t, p).Rules), deny+"local deny Bash(l x); project deny Bash(j x); user deny Bash(u x); user allow Bash(u)"; got != want {
		t.Errorf("untrusted:\n%s\nwant\n%s", got, want)
	}
	for _, f := range load(t, p).Untrusted() {
		if err := p.Trust(f); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := shown(load(t, p).Rules), deny+"local deny Bash(l x); local allow Bash(l); project deny Bash(j x); project allow Bash(j); user deny Bash(u x); user allow Bash(u)"; got != want {
		t.Errorf("trusted:\n%s\nwant\n%s", got, want)
	}
	if got := load(t, p).Rules[0].Origin; got != p.Policy+":1" {
		t.Errorf("the origin is %s", got)
	}
	p.PolicyOnly = true
	if got, want := shown(load(t, p).Rules), strings.TrimSuffix(deny, "; "); got != want {
		t.Errorf("without settings:\n%s\nwant\n%s", got, want)
	}
	// A policy that locks the lists leaves what denies and asks.
	write(t, p.Policy, `{"permissions": {"allow": ["Bash(p)"], "allowManagedRulesOnly": true}}`)
	p.PolicyOnly = false
	s := load(t, p)
	if got, want := shown(s.Rules), "policy allow Bash(p); cliArg deny Bash(m x); local deny Bash(l x); project deny Bash(j x); user deny Bash(u x)"; got != want {
		t.Errorf("locked:\n%s\nwant\n%s", got, want)
	}
	if s.RulesLocked != p.Policy+":1" || len(s.Dropped) != 5 {
		t.Errorf("locked by %q, %s dropped", s.RulesLocked, shown(s.Dropped))
	}
}

func TestDefaultMode(t *testing.T) {
	mode := func(m string) string { return `{"permissions": {"defaultMode": "` + m + `"}}` }
	for _, test := range []struct {
		name                         string
		policy, local, project, user string
		trust                        bool
		want                         permission.Mode
	}{
		{"none", "", "", "", "", false, ""},
		{"the user's", "", "", "", "acceptEdits", false, permission.AcceptEdits},
		{"the policy's before all", "dontAsk", "acceptEdits", "plan", "acceptEdits", true, permission.DontAsk},
		{"local before project, trusted", "", "acceptEdits", "plan", "default", true, permission.AcceptEdits},
		{"untrusted that loosens", "", "bypassPermissions", "acceptEdits", "default", false, permission.Default},
		{"untrusted that tightens", "", "", "plan", "acceptEdits", false, permission.Plan},
		{"untrusted that denies what is asked", "", "", "dontAsk", "acceptEdits", false, permission.DontAsk},
		{"untrusted that would loosen plan", "", "dontAsk", "", "plan", false, permission.Plan},
		{"untrusted default over plan", "", "", "default", "plan", false, permission.Plan},
		{"trusted that loosens", "", "bypassPermissions", "", "plan", true, permission.Bypass},
	} {
		files := map[string]string{}
		for name, m := range map[string]string{"etc/policy.json": test.policy, "work/" + LocalFile: test.local, "work/" + ProjectFile: test.project, "home/.config/sallyport/settings.json": test.user} {
			if m != "" {
				files[name] = mode(m)
			}
		}
		p := places(t, files)
		if test.trust {
			for _, f := range load(t, p).Untrusted() {
				if err := p.Trust(f); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range load(t, p).Files {
				if err := p.Trust(f); err != nil {
					t.Fatal(err)
				}
			}
		}
		if s := load(t, p); s.Mode != test.want {
			t.Errorf("%s: %q of %s", test.name, s.Mode, s.ModeOrigin)
		}
	}
}

func TestForbiddenModesNameTheirFile(t *testing.T) {
	p := places(t, map[string]string{
		"etc/policy.json":     "{\"permissions\": {\"forbidModes\": [\n\"acceptEdits\"]}}",
		"work/" + ProjectFile: "{\"permissions\": {\n\n\"disableBypassPermissionsMode\": \"disable\"}}",
	})
	s := load(t, p)
	for m, want := range map[permission.Mode]string{permission.AcceptEdits: p.Policy + ":2", permission.Bypass: ProjectFile + ":3", permission.Plan: ""} {
		err := s.CheckMode(m)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", m, err)
		}
	}
}

func TestHooksAndDirectoriesCountWhenTrusted(t *testing.T) {
	text := `{"permissions": {"additionalDirectories": ["../docs", "~/x", "/y"]},
"hooks": {"PreToolUse": [{"matcher": "Bash|Edit", "hooks": [
{"type": "command", "command": "./check", "timeout": 1.5, "if": "Bash(git *)", "statusMessage": "x"}]}], "SessionEnd": [{"hooks": [{"type": "command", "command": "bye"}]}]}}`
	p := places(t, map[string]string{"work/" + ProjectFile: text, "home/.config/sallyport/settings.json": `{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "mine"}]}]}}`})
	s := load(t, p)
	if len(s.Hooks) != 1 || s.Hooks[0].Command != "mine" || len(s.Directories) != 0 || len(s.Untrusted()) != 1 {
		t.Errorf("untrusted: %+v, %v", s.Hooks, s.Directories)
	}
	if err := p.Trust(s.Untrusted()[0]); err != nil {
		t.Fatal(err)
	}
	s = load(t, p)
	want := Hook{"PreToolUse", "Bash|Edit", "Bash(git *)", "./check", 1500 * time.Millisecond, permission.FromProject, ProjectFile + ":3"}
	if len(s.Hooks) != 3 || s.Hooks[0] != want {
		t.Errorf("%+v", s.Hooks)
	}
	var dirs []string
	for _, d := range s.Directories {
		dirs = append(dirs, d.Path)
	}
	if !slices.Equal(dirs, []string{filepath.Join(filepath.Dir(p.Workspace), "docs"), filepath.Join(p.Home, "x"), "/y"}) {
		t.Errorf("%v", dirs)
	}
	// The policy's lock leaves its own.
	write(t, p.Policy, `{"allowManagedHooksOnly": true, "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "policy"}]}]}}`)
	if s := load(t, p); len(s.Hooks) != 1 || s.Hooks[0].Command != "policy" {
		t.Errorf("locked: %+v", s.Hooks)
	}
}

// Trust is of the very bytes, in the very place.
func TestTrust(t *testing.T) {
	p := places(t, map[string]string{"work/" + ProjectFile: allows("Bash")})
	f := load(t, p).Untrusted()[0]
	if err := p.Trust(f); err != nil {
		t.Fatal(err)
	}
	if s := load(t, p); len(s.Untrusted()) != 0 {
		t.Error("it is not trusted")
	}
	all, err := p.AllTrusted()
	if err != nil || len(all) != 1 || all[0].Workspace != p.Workspace || all[0].File != ProjectFile {
		t.Fatalf("%+v, %v", all, err)
	}
	record := filepath.Join(p.State, trustDir, all[0].hash)
	if info, err := os.Stat(record); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	write(t, filepath.Join(p.Workspace, ProjectFile), allows("Bash")+" ")
	if s := load(t, p); len(s.Untrusted()) != 1 {
		t.Error("a changed file is trusted")
	}
	write(t, filepath.Join(p.Workspace, LocalFile), allows("Bash"))
	if s := load(t, p); len(s.Untrusted()) != 2 {
		t.Error("another file of the same bytes is trusted")
	}
	other := *p
	other.Workspace = filepath.Join(filepath.Dir(p.Workspace), "other")
	write(t, filepath.Join(other.Workspace, ProjectFile), allows("Bash"))
	if s := load(t, &other); len(s.Untrusted()) != 1 {
		t.Error("the same file in another workspace is trusted")
	}
	if gone, err := other.Revoke(); err != nil || len(gone) != 0 {
		t.Errorf("another workspace's trust was revoked: %v, %v", gone, err)
	}
	if gone, err := p.Revoke(); err != nil || len(gone) != 1 {
		t.Errorf("%v, %v", gone, err)
	}
	write(t, filepath.Join(p.Workspace, ProjectFile), allows("Bash"))
	if s := load(t, p); len(s.Untrusted()) != 2 {
		t.Error("it is trusted after it was revoked")
	}
}
