package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/pipeline"
)

// newHost is hooks on the host, in a directory of their own.
func newHost(t *testing.T, list ...settings.Hook) (*Hooks, string) {
	t.Helper()
	dir := t.TempDir()
	for i := range list {
		list[i].Origin = fmt.Sprintf("test.json:%d", i+1)
		if list[i].Event == "" {
			list[i].Event = preToolUse
		}
	}
	h, err := New(list, &Host{Workspace: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h, dir
}

func call(tool, input string) *pipeline.HookCall {
	return &pipeline.HookCall{
		Session: "s", Mode: permission.Default, Dir: "/work/sub", Tool: tool, Aliases: []string{"Old" + tool},
		UseID: "use-1", Input: json.RawMessage(input),
	}
}

// print is a command that prints JSON.
func print(answer string) string { return "cat <<'END'\n" + answer + "\nEND\n" }

func TestAnswers(t *testing.T) {
	specific := func(rest string) string {
		return print(`{"hookSpecificOutput":{"hookEventName":"PreToolUse",` + rest + `}}`)
	}
	for _, test := range []struct {
		name, command string
		want          permission.Behavior
		reason        string // a part of it
		note          string // a part of the only one; "" for none
	}{
		{"silence", "true", "", "", ""},
		{"text that is no answer", "echo hello", "", "", ""},
		{"allow", specific(`"permissionDecision":"allow","permissionDecisionReason":"fine"`), permission.Allow, "fine", ""},
		{"deny", specific(`"permissionDecision":"deny","permissionDecisionReason":"not so"`), permission.Deny, "not so", ""},
		{"ask", specific(`"permissionDecision":"ask"`), permission.Ask, "", ""},
		{"an older block", print(`{"decision":"block","reason":"no"}`), permission.Deny, "no", ""},
		{"an older approve", print(`{"decision":"approve"}`), permission.Allow, "", ""},
		{"a block beats an allow beside it", print(`{"decision":"block","reason":"no","hookSpecificOutput":{"permissionDecision":"allow"}}`), permission.Deny, "no", ""},
		{"stop", print(`{"continue":false,"stopReason":"enough"}`), permission.Deny, "enough", ""},
		{"go on", print(`{"continue":true}`), "", "", ""},
		{"a message for the person", print(`{"systemMessage":"look","suppressOutput":true}`), "", "", "look"},
		{"exit 2", "echo 'the reason' >&2; echo '{'; exit 2", permission.Deny, "the reason", ""},
		{"exit 2 without a word", "exit 2", permission.Deny, "no reason", ""},
		{"exit 1", "echo broken >&2; exit 1", permission.Ask, "exited with 1: broken", "test.json:1"},
		{"exit 1 with an allow", specific(`"permissionDecision":"allow"`) + "exit 1", permission.Ask, "exited with 1", "exited with 1"},
		{"no such program", "/nowhere/hook", permission.Ask, "exited with 127", "127"},
		{"a crash", "kill -SEGV $$", permission.Ask, "signal (segmentation fault)", "segmentation"},
		{"garbage", "echo '{not json'", permission.Ask, "not the JSON", "not the JSON"},
		{"more than an answer", `echo '{} {}'`, permission.Ask, "after its end", "after its end"},
		{"a half answer", "printf '{\"continue\":'", permission.Ask, "not the JSON", "not the JSON"},
		{"a wrong type", print(`{"continue":"false"}`), permission.Ask, "not the JSON", "not the JSON"},
		{"a decision that there is not", specific(`"permissionDecision":"allowed"`), permission.Ask, `not "allowed"`, "allowed"},
		{"an older decision that there is not", print(`{"decision":"deny"}`), permission.Ask, `not "deny"`, "deny"},
		{"another event's answer", print(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","permissionDecision":"allow"}}`), permission.Ask, "PostToolUse", "PostToolUse"},
		{"100 MB", "head -c 104857600 /dev/zero", permission.Ask, "more than 1048576 bytes", "more than"},
		{"100 MB of errors and exit 2", "head -c 104857600 /dev/zero | tr '\\0' x >&2; exit 2", permission.Deny, "xxxx", ""},
		{"an answer and then 100 MB", specific(`"permissionDecision":"allow"`) + "head -c 104857600 /dev/zero", permission.Ask, "more than", "more than"},
		{"it does not read", "exec <&-; exit 0", "", "", ""},
		{"a child that holds its output", "sleep 1000 & echo '{\"decision\":\"block\",\"reason\":\"no\"}'", permission.Deny, "no", "left a process"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, _ := newHost(t, settings.Hook{Command: test.command})
			// A megabyte is more than a pipe holds.
			a, err := h.PreToolUse(t.Context(), call("Bash", `{"command":"`+strings.Repeat("x", 1<<20)+`"}`))
			if err != nil || a.Behavior != test.want || !strings.Contains(a.Reason, test.reason) {
				t.Fatalf("%+v, %v", a, err)
			}
			if test.note == "" && len(a.Notes) > 0 || test.note != "" && (len(a.Notes) != 1 || !strings.Contains(a.Notes[0], test.note)) {
				t.Errorf("notes: %q", a.Notes)
			}
			if len(a.Reason) > 2*mostText {
				t.Errorf("a reason of %d bytes", len(a.Reason))
			}
		})
	}
}

// gone waits until a process is not there any more: the kernel is told to end it,
// and takes its time.
func gone(t *testing.T, pidFile string) {
	t.Helper()
	data, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it is gone
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	if n != 1 {
		t.Errorf("process %d lives on: %v", pid, err)
	}
}

func TestHangingHookIsEndedWithItsChildren(t *testing.T) {
	h, dir := newHost(t, settings.Hook{Command: "sleep 1000 & echo $! > child; echo $$ > self; trap '' TERM INT; wait", Timeout: 200 * time.Millisecond})
	a, err := h.PreToolUse(t.Context(), call("Bash", `{}`))
	if err != nil || a.Behavior != permission.Ask || !strings.Contains(a.Reason, "longer than 200ms") || len(a.Notes) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	gone(t, filepath.Join(dir, "child"))
	gone(t, filepath.Join(dir, "self"))
}

func TestChildThatHoldsTheOutputIsEnded(t *testing.T) {
	h, dir := newHost(t, settings.Hook{Command: "sleep 1000 & echo $! > child"})
	if a, err := h.PreToolUse(t.Context(), call("Bash", `{}`)); err != nil || len(a.Notes) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	gone(t, filepath.Join(dir, "child"))
}

// A process that has left the group cannot be found: it loses its output, and
// nobody waits for it.
func TestChildInAnotherGroupIsNotWaitedFor(t *testing.T) {
	h, dir := newHost(t, settings.Hook{Command: "setsid sh -c 'echo $$ > child.new; mv child.new child; exec sleep 1000' & until test -e child; do :; done"})
	if a, err := h.PreToolUse(t.Context(), call("Bash", `{}`)); err != nil || len(a.Notes) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Error("it was ended after all:", err)
	}
}

func TestCancelledHookIsEnded(t *testing.T) {
	h, dir := newHost(t, settings.Hook{Command: "echo $$ > self; echo > started; exec sleep 1000"})
	started := filepath.Join(dir, "started")
	if err := unix.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_, _ = os.ReadFile(started)
	}()
	a, err := h.PreToolUse(ctx, call("Bash", `{}`))
	if err != nil || a.Behavior != permission.Ask || !strings.Contains(a.Reason, "canceled") {
		t.Errorf("%+v, %v", a, err)
	}
	gone(t, filepath.Join(dir, "self"))
}

func TestInput(t *testing.T) {
	const base = `"session_id":"s","transcript_path":"","cwd":"/work/sub","permission_mode":"default",`
	const tool = `"tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"use-1"`
	c := call("Bash", `{"command":"ls"}`)
	h, dir := newHost(t)
	for _, event := range settings.Events {
		h.list = append(h.list, &hook{Hook: settings.Hook{Event: event, Command: `cat > seen; env > environment; pwd > dir`}})
	}
	for _, test := range []struct {
		event, rest string
		call        func() (*pipeline.HookAnswer, error)
	}{
		{preToolUse, tool, func() (*pipeline.HookAnswer, error) { return h.PreToolUse(t.Context(), c) }},
		{permissionRequest, tool, func() (*pipeline.HookAnswer, error) { return h.PermissionRequest(t.Context(), c) }},
		{permissionDenied, tool + `,"reason":"why"`, func() (*pipeline.HookAnswer, error) {
			return h.PermissionDenied(t.Context(), c, &permission.Decision{Reason: "why"})
		}},
		{postToolUse, tool + `,"tool_response":{"out":1}`, func() (*pipeline.HookAnswer, error) {
			return h.PostToolUse(t.Context(), c, &pipeline.Outcome{Data: map[string]int{"out": 1}})
		}},
		{postToolUseFailure, tool + `,"error":"boom"`, func() (*pipeline.HookAnswer, error) {
			return h.PostToolUse(t.Context(), c, &pipeline.Outcome{Err: fmt.Errorf("boom")})
		}},
		{sessionStart, `"source":"resume"`, func() (*pipeline.HookAnswer, error) {
			return h.SessionStart(t.Context(), &pipeline.HookCall{Session: c.Session, Mode: c.Mode, Dir: c.Dir}, "resume")
		}},
		{sessionEnd, `"reason":"other"`, func() (*pipeline.HookAnswer, error) {
			return h.SessionEnd(t.Context(), &pipeline.HookCall{Session: c.Session, Mode: c.Mode, Dir: c.Dir}, "other")
		}},
	} {
		if a, err := test.call(); err != nil || len(a.Notes) > 0 {
			t.Errorf("%s: %+v, %v", test.event, a, err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "seen"))
		want := `{` + base + `"hook_event_name":"` + test.event + `",` + test.rest + "}\n"
		if err != nil || string(got) != want {
			t.Errorf("%s\n got %s\nwant %s", test.event, got, want)
		}
	}
	env, err := os.ReadFile(filepath.Join(dir, "environment"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(env), "\n")
	for _, want := range []string{"SALLYPORT_PROJECT_DIR=" + dir, "CLAUDE_PROJECT_DIR=" + dir, "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(lines, want) {
			t.Errorf("the environment has no %s", want)
		}
	}
	if pwd, err := os.ReadFile(filepath.Join(dir, "dir")); err != nil || strings.TrimSpace(string(pwd)) != dir {
		t.Errorf("it ran in %s, %v", pwd, err)
	}
}
