package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/bash"
	"github.com/sallyport/sallyport/tools/builtin"
)

// openTools makes a session live with every tool, in a mode.
func openTools(t testing.TB, work string, mode permission.Mode) *Pipeline {
	t.Helper()
	s := open(t, Options{Workspace: work})
	p, err := New(s, tools.NewSet(builtin.All()...), &permission.Policy{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs a tool whose input is given as JSON.
func run(t *testing.T, p *Pipeline, tool string, input map[string]any) *Outcome {
	t.Helper()
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return p.Run(t.Context(), Use{ID: "use", Name: tool, Input: data})
}

func command(command string) map[string]any { return map[string]any{"command": command} }

func TestBash(t *testing.T) {
	work := workspace(t, "a")
	p := openTools(t, work, permission.Bypass)
	for _, test := range []struct {
		name, command string
		want          string // of the result
		fails         bool
	}{
		{"output and errors", "echo out; echo errors >&2", "out\nerrors", false},
		{"none", "true", "(no output)", false},
		{"a code", "echo out; exit 3", "Exit code 3\nout", true},
		{"a signal", "kill -9 $$", "Exit code 137 (SIGKILL)", true},
		{"nothing on standard input", "cat; echo end", "end", false},
		{"no positional parameters", `echo "$# $0 [$*]"`, "0 bash []", false},
		{"its bytes are not changed", "printf '%s|' '$1' \"a\tb\" \\\\ '*' é; echo", "$1|a\tb|\\|*|é|", false},
		{"several lines", "cat <<'END'\n$x\nEND\necho 'a\nb'", "$x\na\nb", false},
		{"no rc file runs", `HOME=$PWD bash -c 'echo ok'; echo "[$BASH_ENV]"`, "ok\n[]", false},
		{"bash, not another shell", `x=(1 2); echo "${x[1]}"; [[ a == a ]] && echo yes`, "2\nyes", false},
		{"no network", "exec 3<>/dev/tcp/192.0.2.1/80 && echo connected", "unreachable", true},
	} {
		o := run(t, p, "Bash", command(test.command))
		if o.IsError != test.fails || !strings.Contains(o.Text(), test.want) || !test.fails && o.Text() != test.want {
			t.Errorf("%s: %q, failed: %v, %v", test.name, o.Text(), o.IsError, o.Err)
		}
	}
	if o := run(t, p, "Bash", command("echo b > a; cat a")); o.Text() != "b" {
		t.Errorf("%q", o.Text())
	}
	if data, err := os.ReadFile(filepath.Join(work, "a")); err != nil || string(data) != "host\n" {
		t.Errorf("the real file is %q, %v", data, err)
	}
}

// A long output is cut once, where it is read: what is said to be left out is
// what is.
func TestBashCutsALongOutput(t *testing.T) {
	p := openTools(t, workspace(t), permission.Bypass)
	const all = 1_288_895 // bytes of what seq prints
	text := run(t, p, "Bash", command("seq 200000 | head -c 1288895 >&1; exit 3")).Text()
	head, rest, _ := strings.Cut(text, "\n[")
	number, tail, _ := strings.Cut(rest, " bytes are left out here]\n")
	cut, err := strconv.Atoi(number)
	kept := len(strings.TrimPrefix(head, "Exit code 3\n")) + len(strings.TrimSuffix(tail, "\n"))
	if err != nil || cut < all-kept-2 || cut > all-kept+2 || strings.Count(text, "left out here") != 1 || len(text) > 100_000 {
		t.Errorf("%d are said to be left out, %d of %d are there: %v, %.200q", cut, kept, all, err, rest)
	}
}

func TestBashKeepsItsWorkingDirectory(t *testing.T) {
	work := workspace(t, "a")
	p := openTools(t, work, permission.Bypass)
	for _, test := range []struct{ command, after string }{
		{"mkdir -p sub/deep; cd sub", "/sub"},
		{"true", "/sub"},
		{"cd deep; false", "/sub/deep"},
		{"cd ..; exit 7", "/sub"},
		{"(cd deep)", "/sub"},
		{"cd deep & wait", "/sub"},
		{"cd ..; exec true", "/sub"}, // the shell is gone before its end
		{"trap 'echo mine' EXIT; cd deep", "/sub"},
		{"cd ..; echo /etc >&198", "/sub"},     // what makes no sense is no directory
		{"cd ..; exec 198>&-", "/sub"},         // and nor is nothing
		{"mkdir '\n'; cd '\n'", "/sub"},        // nor one that cannot be told
		{"cd deep; cd; cd " + work + "/", "/"}, // HOME, and back
		{"ln -s sub link; cd link", "/sub"},    // where it really is
		{"cd /usr/lib/..", "//usr"},
		{"cd " + work, "/"},
	} {
		run(t, p, "Bash", command(test.command))
		want := filepath.Join(work, test.after)
		if rest, outside := strings.CutPrefix(test.after, "//"); outside {
			want = "/" + rest
		}
		if got := p.Context.State.Dir(); got != want {
			t.Fatalf("after %q: %s, want %s", test.command, got, want)
		}
		if o := run(t, p, "Bash", command("pwd")); o.Text() != want {
			t.Fatalf("after %q it runs in %q", test.command, o.Text())
		}
	}
	run(t, p, "Bash", command("cd sub"))
	if o := run(t, p, "Bash", command("rm -r ../sub; echo done")); o.IsError {
		t.Error(o.Text())
	}
	// Where it was judged is gone: nothing runs elsewhere by that judgement.
	if o := run(t, p, "Bash", command("touch elsewhere")); !o.IsError || !strings.Contains(o.Text(), "is gone, so this did not run") {
		t.Errorf("%q", o.Text())
	}
	p.Context.State.SetDir(filepath.Join(work, "sub"))
	background := map[string]any{"command": "touch elsewhere", "run_in_background": true}
	if o := run(t, p, "Bash", background); !o.IsError || !strings.Contains(o.Text(), "is gone, so this did not run") {
		t.Errorf("%q", o.Text())
	}
	if o := run(t, p, "Bash", command("pwd; ls")); strings.Contains(o.Text(), "elsewhere") || !strings.HasPrefix(o.Text(), work+"\n") {
		t.Errorf("%q", o.Text())
	}
}

func TestBashTimeoutAndInterruption(t *testing.T) {
	p := openTools(t, workspace(t), permission.Bypass)
	o := run(t, p, "Bash", map[string]any{"command": "echo before; sleep 100 & sleep 100", "timeout": 200})
	if !o.IsError || !strings.HasPrefix(o.Text(), "before\n") || !strings.Contains(o.Text(), "killed, with all it had started, after 200ms") {
		t.Errorf("%q", o.Text())
	}
	if data := o.Data.(bash.Output); !data.TimedOut || data.Interrupted {
		t.Errorf("%+v", data)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		for list, err := []sandbox.Process(nil), error(nil); err == nil && len(list) < 2; {
			list, err = p.place.(*Session).Processes(t.Context())
		}
	}()
	o = p.Run(ctx, Use{Name: "Bash", Input: json.RawMessage(`{"command":"echo before; touch x; sleep 100; echo after"}`)})
	if !o.IsError || !strings.Contains(o.Text(), "interrupted by the user") || !strings.HasPrefix(o.Text(), "before\n") {
		t.Errorf("%q", o.Text())
	}
	if data, ok := o.Data.(bash.Output); !ok || !data.Interrupted || data.TimedOut {
		t.Errorf("%+v", o.Data)
	}
	if list, err := p.place.(*Session).Processes(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	if o := run(t, p, "Bash", command("echo alive")); o.Text() != "alive" {
		t.Errorf("%q", o.Text())
	}
}

func TestBashInBackground(t *testing.T) {
	p := openTools(t, workspace(t), permission.Bypass)
	o := run(t, p, "Bash", map[string]any{"command": "echo begun; mkfifo /tmp/go; read x < /tmp/go; echo ended", "run_in_background": true})
	data, ok := o.Data.(bash.Output)
	if !ok || o.IsError || !strings.Contains(o.Text(), data.OutputFile) {
		t.Fatalf("%+v", o)
	}
	wait := "until grep -q %s " + data.OutputFile + "; do :; done; echo x > /tmp/go 2>/dev/null & :"
	if o := run(t, p, "Bash", command(fmt.Sprintf(wait, "begun"))); o.IsError {
		t.Fatal(o.Text())
	}
	if o := run(t, p, "Bash", command(fmt.Sprintf(wait, "ended"))); o.IsError {
		t.Fatal(o.Text())
	}
	if o := run(t, p, "Read", map[string]any{"file_path": data.OutputFile}); !strings.Contains(o.Text(), "begun") || !strings.Contains(o.Text(), "ended") {
		t.Errorf("%q", o.Text())
	}
}

// An output of any size is bounded, and does not stop the command.
func TestBashOutputIsBounded(t *testing.T) {
	p := openTools(t, workspace(t), permission.Bypass)
	o := run(t, p, "Bash", command("echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"))
	data := o.Data.(bash.Output)
	if len(data.Stdout) > 300<<10 || data.StdoutCut < 29_000_000 || !strings.HasPrefix(data.Stdout, "first\n") || !strings.HasSuffix(data.Stdout, "\nlast\n") {
		t.Errorf("%d bytes, %d cut", len(data.Stdout), data.StdoutCut)
	}
	if n := len(o.Text()); n > tools.DefaultMaxResult+200 || !strings.HasSuffix(o.Text(), "last") {
		t.Errorf("the model gets %d bytes: ...%q", n, o.Text()[n-20:])
	}
}

func TestBashBadInput(t *testing.T) {
	p := openTools(t, workspace(t), permission.Bypass)
	for _, test := range []struct {
		input map[string]any
		want  string
	}{
		{command(""), "the command is empty"},
		{command(" \n"), "the command is empty"},
		{command("echo \x00"), "NUL byte"},
		{command("echo " + strings.Repeat("x", 128<<10)), "put what is long into a file with Write"},
		{map[string]any{"command": "true", "timeout": 600001}, "timeout"},
		{map[string]any{"command": "true", "timeout": -1}, "timeout"},
		{map[string]any{"command": []string{"ls"}}, `the field "command" must be of type string`},
		{map[string]any{"cmd": "ls"}, `the field "command" is missing`},
	} {
		o := run(t, p, "Bash", test.input)
		if !o.IsError || !strings.Contains(o.Text(), test.want) {
			t.Errorf("%.60v: %.200q", test.input, o.Text())
		}
	}
	if o := run(t, p, "Bash", command("if")); !o.IsError || !strings.Contains(o.Text(), "syntax error") {
		t.Errorf("%q", o.Text())
	}
	long := "true " + strings.Repeat("x", 128<<10-6)
	if o := run(t, p, "Bash", command(long)); o.IsError {
		t.Errorf("the longest command: %q", o.Text())
	}
}

// The state of one agent's calls is there for the next agent's in the session.
func TestStateIsKept(t *testing.T) {
	work := workspace(t, "a")
	p := openTools(t, work, permission.Bypass)
	run(t, p, "Bash", command("mkdir sub; cd sub"))
	run(t, p, "Read", map[string]any{"file_path": "a"})
	s := p.place.(*Session)
	if err := s.SaveState(p.Context.State); err != nil {
		t.Fatal(err)
	}
	again, err := New(s, p.Tools, &permission.Policy{Mode: permission.Bypass})
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Context.State.Dir(); got != work+"/sub" {
		t.Errorf("%s", got)
	}
	edit := map[string]any{"file_path": "a", "old_string": "host", "new_string": "box"}
	if o := run(t, again, "Edit", edit); o.IsError {
		t.Errorf("%s", o.Text())
	}
	// One that is broken is none.
	file := filepath.Join(s.Dir(), stateFile)
	for _, broken := range []string{"", "{", `{"dir":"relative"}`, `{"reads":7}`} {
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		state, err := s.loadState()
		if err != nil || state.Dir() != work {
			t.Errorf("%q: %s, %v", broken, state.Dir(), err)
		}
	}
}

// Read, edit, run, be stopped: all of it on record.
func TestACallIsRecordedWhole(t *testing.T) {
	work := workspace(t, "a")
	p := openTools(t, work, permission.Bypass)
	run(t, p, "Read", map[string]any{"file_path": "a"})
	run(t, p, "Edit", map[string]any{"file_path": "a", "old_string": "host", "new_string": "box"})
	run(t, p, "Edit", map[string]any{"file_path": ".git/hooks/pre-commit", "old_string": "", "new_string": "rm"})
	run(t, p, "Nothing", nil)
	s := p.place.(*Session)
	list := records(t, filepath.Join(s.Dir(), sandbox.RecordFile))
	if got := kinds(list); got != "open decision result decision result decision decision" {
		t.Fatal(got)
	}
	read, edit, editResult, hook, nothing := list[1], list[3], list[4], list[5], list[6]
	if read.Envelope.Box != "eye" || read.Tool != "Read" || read.Use != "use" {
		t.Errorf("%+v", read)
	}
	if edit.Envelope.Box != "hand" || !slices.Equal(editResult.Result.Paths, []string{"a"}) || editResult.Result.ChangeSet == "" {
		t.Errorf("%+v, %+v", edit, editResult.Result)
	}
	if hook.Decision.Behavior != "deny" || hook.Envelope != nil || nothing.Decision.Behavior != "deny" {
		t.Errorf("%+v, %+v", hook.Decision, nothing.Decision)
	}
}

// What the whole way of a small Read costs, with its record.
func BenchmarkRead(b *testing.B) {
	work := workspace(b)
	if err := os.WriteFile(filepath.Join(work, "4k"), bytes.Repeat([]byte("64 bytes, with the newline at the end of them, are this line...\n"), 64), 0o644); err != nil {
		b.Fatal(err)
	}
	p := openTools(b, work, permission.Default)
	for b.Loop() {
		if o := p.Run(b.Context(), Use{ID: "use", Name: "Read", Input: json.RawMessage(`{"file_path":"4k"}`)}); o.IsError {
			b.Fatal(o.Text())
		}
	}
}

// The record of a call that was interrupted says what was changed by then.
func TestInterruptedCallRecordsChanges(t *testing.T) {
	p := openTools(t, workspace(t), permission.Bypass)
	if o := run(t, p, "Bash", command("head -c 3000000 /dev/zero > changed")); o.IsError {
		t.Fatal(o.Text())
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var r audit.Result
	p.place.addChanges(ctx, &r)
	if r.ChangeSet == "" || !slices.Contains(r.Paths, "changed") {
		t.Errorf("%+v", r)
	}
}
