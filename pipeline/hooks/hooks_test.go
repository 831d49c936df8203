package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/pipeline"
)

func TestMatchers(t *testing.T) {
	for _, test := range []struct {
		matcher, tool string
		want          bool
	}{
		{"", "Bash", true},
		{"*", "Bash", true},
		{"Bash", "Bash", true},
		{"Bash", "BashOutput", false},
		{"Bash", "MyBash", false},
		{"Edit|Write", "Write", true},
		{"Edit|Write", "Edit", true},
		{"Edit|Write", "EditAll", false},
		{"Edit|Write", "OverWrite", false},
		{"mcp__db__.*", "mcp__db__query", true},
		{"mcp__db__.*", "mcp__dbx__query", false},
		{"bash", "Bash", false},
		{"OldRead", "Read", true}, // an alias
		{".*", "Anything", true},
	} {
		h, _ := newHost(t, settings.Hook{Matcher: test.matcher, Command: "exit 2"})
		a, err := h.PreToolUse(t.Context(), call(test.tool, `{}`))
		if err != nil || (a != nil) != test.want {
			t.Errorf("%q, %s: %+v, %v", test.matcher, test.tool, a, err)
		}
		if a, err := h.PermissionRequest(t.Context(), call(test.tool, `{}`)); a != nil || err != nil {
			t.Errorf("%q: it ran at another event: %+v, %v", test.matcher, a, err)
		}
	}
	h, _ := newHost(t, settings.Hook{Event: sessionStart, Matcher: "resume", Command: "echo again"})
	for source, want := range map[string]string{"resume": "again", "startup": ""} {
		a, err := h.SessionStart(t.Context(), &pipeline.HookCall{}, source)
		if err != nil || (a != nil) != (want != "") || a != nil && a.AdditionalContext != want {
			t.Errorf("%s: %+v, %v", source, a, err)
		}
	}
}

func TestWrongHooksAreRefused(t *testing.T) {
	for _, wrong := range []settings.Hook{{Matcher: "Bash("}, {Matcher: "Bash, Edit"}, {Matcher: "Bash|Edit "}, {Matcher: "Bash,Edit"}, {Matcher: `(?=x)`}, {If: "Bash(git *"}, {If: "Nothing(x)"}} {
		wrong.Event, wrong.Command, wrong.Origin = preToolUse, "true", "a.json:7"
		if _, err := New([]settings.Hook{wrong}, &Host{}, nil); err == nil || !strings.HasPrefix(err.Error(), "a.json:7: ") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestCondition(t *testing.T) {
	h, _ := newHost(t, settings.Hook{If: "Bash(git *)", Command: "exit 2"})
	c := call("Bash", `{}`)
	for _, want := range []bool{true, false} {
		c.Concerns = func(rule permission.Rule) bool { return rule.String() == "Bash(git *)" && want }
		if a, err := h.PreToolUse(t.Context(), c); (a != nil) != want || err != nil {
			t.Errorf("%v: %+v, %v", want, a, err)
		}
	}
}

func TestSeveralHooks(t *testing.T) {
	answer := func(decision, reason, rest string) settings.Hook {
		return settings.Hook{Command: print(`{"hookSpecificOutput":{"permissionDecision":"` + decision + `","permissionDecisionReason":"` + reason + `"` + rest + `}}`)}
	}
	allow, ask, deny := answer("allow", "A", ""), answer("ask", "Q", ""), answer("deny", "D", "")
	for _, test := range []struct {
		name   string
		hooks  []settings.Hook
		want   permission.Behavior
		reason string
		input  string
	}{
		{"deny beats allow", []settings.Hook{allow, deny, allow}, permission.Deny, "D", ""},
		{"deny beats ask", []settings.Hook{deny, ask}, permission.Deny, "D", ""},
		{"ask beats allow", []settings.Hook{allow, ask}, permission.Ask, "Q", ""},
		{"silence changes nothing", []settings.Hook{allow, {Command: "true"}}, permission.Allow, "A", ""},
		{"reasons are joined", []settings.Hook{deny, allow, answer("deny", "E", "")}, permission.Deny, "D; E", ""},
		{"a failure beside an allow", []settings.Hook{allow, {Command: "kill -SEGV $$"}}, permission.Ask, "the hook test.json:2 failed at PreToolUse: it was ended by a signal (segmentation fault)", ""},
		{"the last input counts", []settings.Hook{answer("allow", "", `,"updatedInput":{"n":1}`), answer("allow", "", `,"updatedInput":{"n":2}`), allow}, permission.Allow, "A", `{"n":2}`},
		{"no input", []settings.Hook{answer("allow", "", `,"updatedInput":null`)}, permission.Allow, "", ""},
	} {
		h, _ := newHost(t, test.hooks...)
		a, err := h.PreToolUse(t.Context(), call("Bash", `{}`))
		if err != nil || a.Behavior != test.want || a.Reason != test.reason || string(a.UpdatedInput) != test.input {
			t.Errorf("%s: %+v, %v", test.name, a, err)
		}
	}
}

// Each of two hooks waits for the other.
func TestHooksRunBesideEachOther(t *testing.T) {
	h, dir := newHost(t, settings.Hook{Command: "echo x > one; cat two; echo a >&2; exit 2"}, settings.Hook{Command: "cat one; echo x > two; echo b >&2; exit 2"})
	for _, name := range []string{"one", "two"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := h.PreToolUse(t.Context(), call("Bash", `{}`)); err != nil || a.Reason != "a; b" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAnswersOfOtherEvents(t *testing.T) {
	for _, test := range []struct {
		event, command string
		want           pipeline.HookAnswer
		notes          int
	}{
		{permissionRequest, print(`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow","updatedInput":{"n":1}}}}`), pipeline.HookAnswer{Behavior: permission.Allow, UpdatedInput: []byte(`{"n":1}`)}, 0},
		{permissionRequest, print(`{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"no","updatedInput":{"n":1}}}}`), pipeline.HookAnswer{Behavior: permission.Deny, Reason: "no"}, 0},
		{permissionRequest, print(`{"hookSpecificOutput":{"decision":{"behavior":"ask"}}}`), pipeline.HookAnswer{}, 1},
		{permissionRequest, print(`{"hookSpecificOutput":{"permissionDecision":"allow"}}`), pipeline.HookAnswer{}, 0},
		{permissionRequest, "echo no >&2; exit 2", pipeline.HookAnswer{Behavior: permission.Deny, Reason: "no"}, 0},
		{permissionRequest, "exit 1", pipeline.HookAnswer{}, 1}, // somebody is asked anyway
		{postToolUse, print(`{"decision":"block","reason":"bad"}`), pipeline.HookAnswer{Behavior: permission.Deny, Reason: "bad"}, 0},
		{postToolUse, print(`{"decision":"approve"}`), pipeline.HookAnswer{}, 0},
		{postToolUse, print(`{"hookSpecificOutput":{"additionalContext":"more","updatedMCPToolOutput":"other"}}`), pipeline.HookAnswer{AdditionalContext: "more", UpdatedOutput: []byte(`"other"`)}, 0},
		{postToolUse, print(`{"hookSpecificOutput":{"updatedInput":{"n":1},"permissionDecision":"allow"}}`), pipeline.HookAnswer{}, 0},
		{postToolUse, "kill -SEGV $$", pipeline.HookAnswer{}, 1},
		{sessionStart, "echo some context", pipeline.HookAnswer{AdditionalContext: "some context"}, 0},
		{sessionStart, print(`{"continue":false,"stopReason":"closed"}`), pipeline.HookAnswer{Behavior: permission.Deny, Reason: "closed"}, 0},
		{sessionStart, "echo unwell >&2; exit 2", pipeline.HookAnswer{}, 1}, // there is nothing to block
		{sessionStart, print(`{"decision":"block"}`), pipeline.HookAnswer{}, 0},
		{sessionEnd, "echo some text", pipeline.HookAnswer{}, 0},
	} {
		h, _ := newHost(t, settings.Hook{Event: test.event, Command: test.command})
		a, err := map[string]func() (*pipeline.HookAnswer, error){
			permissionRequest: func() (*pipeline.HookAnswer, error) { return h.PermissionRequest(t.Context(), call("Bash", `{}`)) },
			postToolUse: func() (*pipeline.HookAnswer, error) {
				return h.PostToolUse(t.Context(), call("Bash", `{}`), &pipeline.Outcome{})
			},
			sessionStart: func() (*pipeline.HookAnswer, error) {
				return h.SessionStart(t.Context(), &pipeline.HookCall{}, "startup")
			},
			sessionEnd: func() (*pipeline.HookAnswer, error) { return h.SessionEnd(t.Context(), &pipeline.HookCall{}, "other") },
		}[test.event]()
		if err != nil {
			t.Fatal(err)
		}
		if a.Behavior != test.want.Behavior || a.Reason != test.want.Reason || string(a.UpdatedInput) != string(test.want.UpdatedInput) ||
			string(a.UpdatedOutput) != string(test.want.UpdatedOutput) || a.AdditionalContext != test.want.AdditionalContext || len(a.Notes) != test.notes {
			t.Errorf("%s, %s: %+v", test.event, test.command, a)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	h, dir := newHost(t, settings.Hook{Command: "cat answer"})
	long := strings.Repeat("é", 3*mostText)
	if err := os.WriteFile(filepath.Join(dir, "answer"), []byte(`{"systemMessage":"`+long+`","hookSpecificOutput":{"additionalContext":"`+long+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := h.PreToolUse(t.Context(), call("Bash", `{}`))
	if err != nil || len(a.AdditionalContext) != 2*mostText+len(" ...") || len(a.Notes) != 1 || len(a.Notes[0]) > 2*mostText+100 {
		t.Errorf("%d bytes, %d notes, %v", len(a.AdditionalContext), len(a.Notes), err)
	}
}
