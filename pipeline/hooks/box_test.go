package hooks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/builtin"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

// session makes a session live, with hooks of a project unless they say what they
// are of.
func session(t *testing.T, mode permission.Mode, rules []permission.Rule, list ...settings.Hook) (*pipeline.Pipeline, *pipeline.Session) {
	t.Helper()
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work += "/work"
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := pipeline.Open(t.Context(), pipeline.Options{Store: sallytest.Store(t), Driver: sallytest.Driver(t), Workspace: work})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p, err := pipeline.New(s, tools.NewSet(builtin.All()...), &permission.Policy{Mode: mode, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i].Source == "" {
			list[i].Source = permission.FromProject
		}
		if list[i].Event == "" {
			list[i].Event = preToolUse
		}
		list[i].Origin = "test.json"
	}
	hooks, err := New(list, &Host{Workspace: work}, &Box{Session: s})
	if err != nil {
		t.Fatal(err)
	}
	p.Hooks = hooks
	return p, s
}

func run(t *testing.T, p *pipeline.Pipeline, tool string, input map[string]any) *pipeline.Outcome {
	t.Helper()
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return p.Run(t.Context(), pipeline.Use{ID: "use", Name: tool, Input: data})
}

func TestProjectsHookCannotTouchTheHost(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, s := session(t, permission.Default, nil, settings.Hook{
		Command: "echo hooked > in-workspace; echo hooked > " + outside + "; cat " + outside + " in-workspace >&2; env | grep DIR= >&2; cat >&2; exit 2",
	})
	o := run(t, p, "Bash", map[string]any{"command": "ls"})
	if o.Decision.Behavior != permission.Deny || strings.Contains(o.Decision.Reason, "secret") {
		t.Errorf("%+v", o.Decision)
	}
	for _, want := range []string{"hooked", "SALLYPORT_PROJECT_DIR=" + s.Workspace, `"hook_event_name":"PreToolUse"`, `"command":"ls"`} {
		if !strings.Contains(o.Decision.Reason, want) {
			t.Errorf("the hook did not see %s: %s", want, o.Decision.Reason)
		}
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "secret" {
		t.Errorf("the file outside is %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(s.Workspace, "in-workspace")); !os.IsNotExist(err) {
		t.Errorf("what a hook writes is in the real workspace: %v", err)
	}
	var hooks, results int
	if _, err := audit.ReadFile(filepath.Join(s.Dir(), sandbox.RecordFile), func(r *audit.Record) error {
		if r.Tool == "hook" && r.Kind == audit.KindDecision && strings.Contains(r.Decision.Reason, "PreToolUse") && r.Decision.Chain[0].Source == "project" && r.Decision.Chain[0].Rule == "test.json" {
			hooks++
		}
		if r.Tool == "hook" && r.Kind == audit.KindResult && *r.Result.Exit == 2 {
			results++
		}
		return nil
	}); err != nil || hooks != 1 || results != 1 {
		t.Errorf("on record: %d hooks, %d results, %v", hooks, results, err)
	}
}

// The agent could have changed what the hook runs.
func TestProjectsHookMayObjectAndMayNotAllow(t *testing.T) {
	says := func(answer string) settings.Hook {
		return settings.Hook{Command: print(`{"hookSpecificOutput":{"permissionDecision":"` + answer + `"}}`)}
	}
	touch := map[string]any{"command": "touch x"}
	p, _ := session(t, permission.Default, nil, says("allow"), settings.Hook{Event: permissionRequest, Command: print(`{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}`)})
	if o := run(t, p, "Bash", touch); o.Decision.Behavior != permission.Deny || len(o.Notes) != 2 || !strings.Contains(o.Notes[0], "what it allows does not count") {
		t.Errorf("%+v, notes %q", o.Decision, o.Notes)
	}
	p, _ = session(t, permission.Bypass, nil, says("deny"))
	if o := run(t, p, "Bash", touch); o.Decision.Behavior != permission.Deny {
		t.Errorf("%+v", o.Decision)
	}
	user := says("allow")
	user.Source = permission.FromUser
	p, _ = session(t, permission.Default, nil, user, says("allow"))
	if o := run(t, p, "Bash", touch); o.Decision.Behavior != permission.Allow || o.IsError {
		t.Errorf("%+v", o.Decision)
	}
}

func TestHostileHooksInTheBox(t *testing.T) {
	for _, test := range []struct {
		name, command string
		timeout       time.Duration
		want          permission.Behavior
		reason        string
	}{
		{"a crash", "kill -SEGV $$", 0, permission.Deny, "segmentation"},
		{"a hang", "trap '' TERM; sleep 1000", 300 * time.Millisecond, permission.Deny, "longer than 300ms"},
		{"a hang with children", "sleep 1000 & setsid sleep 1000 & wait", 300 * time.Millisecond, permission.Deny, "longer than 300ms"},
		{"garbage", "echo '{'", 0, permission.Deny, "not the JSON"},
		{"100 MB", "head -c 104857600 /dev/zero", 0, permission.Deny, "more than"},
		{"a child that holds its output", "sleep 1000 & echo no >&2; exit 2", 0, permission.Deny, "no"},
		{"silence", "exec <&-", 0, permission.Allow, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, _ := session(t, permission.Bypass, nil, settings.Hook{Command: test.command, Timeout: test.timeout})
			// It would be asked about, and nobody is there.
			o := run(t, p, "Bash", map[string]any{"command": "echo it ran"})
			if o.Decision.Behavior != test.want || !strings.Contains(o.Decision.Reason, test.reason) {
				t.Errorf("%+v, notes %q", o.Decision, o.Notes)
			}
			// The session goes on.
			p.Hooks = nil
			if o := run(t, p, "Bash", map[string]any{"command": "echo it ran"}); o.Text() != "it ran" {
				t.Errorf("%q, %v", o.Text(), o.Err)
			}
		})
	}
}

func TestHooksInPlanModeChangeNothing(t *testing.T) {
	p, _ := session(t, permission.Plan, nil, settings.Hook{Command: "echo x > made 2>/dev/null || echo 'it is read-only' >&2; exit 2"})
	if o := run(t, p, "Bash", map[string]any{"command": "ls"}); !strings.Contains(o.Decision.Reason, "it is read-only") {
		t.Errorf("%+v", o.Decision)
	}
}

// Hooks of the user, with real scripts and a real session.
func TestChangedInputs(t *testing.T) {
	rule := func(text string) permission.Rule {
		r, err := permission.ParseRule(text, permission.Deny, permission.FromUser)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	change := func(input string) settings.Hook {
		return settings.Hook{Source: permission.FromUser, Command: print(`{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":` + input + `}}`)}
	}
	for _, test := range []struct {
		name  string
		hooks []settings.Hook
		want  string // of the result
		fails bool
	}{
		{"another command", []settings.Hook{change(`{"command":"echo changed"}`)}, "changed", false},
		{"a denied command", []settings.Hook{change(`{"command":"echo x; sudo /bin/rm x"}`)}, "the rule Bash(rm *)", true},
		{"no input of the tool", []settings.Hook{change(`{"file_path":"x"}`)}, "a hook changed the input", true},
		{"no object", []settings.Hook{change(`"rm x"`)}, "a hook changed the input", true},
		{"two hooks", []settings.Hook{change(`{"command":"echo 1"}`), change(`{"command":"echo 2"}`)}, "2", false},
		{"only of git", []settings.Hook{{Source: permission.FromUser, If: "Bash(git *)", Command: "exit 2"}}, "hello", false},
		{"only of echo", []settings.Hook{{Source: permission.FromUser, If: "Bash(echo *)", Command: "exit 2"}}, "no reason", true},
		{"an alternative", []settings.Hook{{Source: permission.FromUser, Matcher: "Edit|Bash", Command: "exit 2"}}, "no reason", true},
		{"other tools", []settings.Hook{{Source: permission.FromUser, Matcher: "Edit|Write", Command: "exit 2"}}, "hello", false},
	} {
		p, _ := session(t, permission.Default, []permission.Rule{rule("Bash(rm *)")}, test.hooks...)
		o := run(t, p, "Bash", map[string]any{"command": "echo hello"})
		if o.IsError != test.fails || !strings.Contains(o.Text(), test.want) {
			t.Errorf("%s: %q, %v", test.name, o.Text(), o.Err)
		}
	}
}
