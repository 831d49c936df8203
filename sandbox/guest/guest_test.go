package guest

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/wire"
)

func TestHello(t *testing.T) {
	c := connect(t)
	if _, err := c.Exec(t.Context(), command(1, "true"), nil); err == nil || !strings.Contains(err.Error(), "hello was not said") {
		t.Errorf("before it: %v", err)
	}
	if _, err := c.Hello(t.Context(), &wire.HelloRequest{Version: "other"}); err == nil || !strings.Contains(err.Error(), "the guest is version test, the host other") {
		t.Errorf("another version: %v", err)
	}
	for _, want := range []string{"", "hello was said before"} {
		_, err := c.Hello(t.Context(), &wire.HelloRequest{Version: "test"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, number := range []uint64{0, math.MaxUint64} {
		exit, err := c.Exec(t.Context(), command(number, "true"), nil)
		if err == nil && exit.StartErrno == 0 {
			t.Errorf("call %d was run", number)
		}
	}
}

func TestExit(t *testing.T) {
	c := start(t, t.TempDir())
	for i, test := range []struct {
		script       string
		code, signal int32
		out, err     string
	}{
		{"echo out; echo err >&2; exit 3", 3, 0, "out\n", "err\n"},
		{"kill -TERM $$", 0, int32(unix.SIGTERM), "", ""},
		{"cat", 0, 0, "", ""}, // standard input is empty
		{"echo $$ >/dev/null; tty", 1, 0, "not a tty\n", ""},
	} {
		exit, out, errs := run(t, c, command(uint64(i+1), "sh", "-c", test.script))
		if exit.Code != test.code || exit.Signal != test.signal || out != test.out || errs != test.err {
			t.Errorf("%s: %v, %q, %q", test.script, exit, out, errs)
		}
	}
}

func TestProgramsThatCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := start(t, dir)
	for i, test := range []struct {
		args []string
		dir  string
		want unix.Errno
		say  string
	}{
		{[]string{"no-such-program"}, "/", unix.ENOENT, "no-such-program"},
		{[]string{filepath.Join(dir, "gone")}, "/", unix.ENOENT, "gone"},
		{[]string{"./plain"}, dir, unix.EACCES, "plain"},
		{[]string{"true"}, "/nowhere", unix.ENOENT, "working directory /nowhere"},
		{nil, "/", unix.EINVAL, ""},
	} {
		req := command(uint64(i+1), test.args...)
		req.Dir = []byte(test.dir)
		exit, _, _ := run(t, c, req)
		if unix.Errno(exit.StartErrno) != test.want || !strings.Contains(exit.StartError, test.say) {
			t.Errorf("%v: %v", test.args, exit)
		}
	}
}

// All that a program has written is there when it has ended, although what it
// left in the background holds the pipe.
func TestOutputIsComplete(t *testing.T) {
	c := start(t, t.TempDir())
	for i, script := range []string{
		"head -c 3000000 /dev/zero", "sleep 1000 & head -c 3000000 /dev/zero", "head -c 60000 /dev/zero; sleep 1000 &",
	} {
		exit, out, _ := run(t, c, command(uint64(i+1), "sh", "-c", script))
		want := 3000000
		if i == 2 {
			want = 60000
		}
		if len(out) != want || exit.Background != uint32(min(i, 1)) {
			t.Errorf("%s: %d bytes, %v", script, len(out), exit)
		}
		if err := c.Kill(t.Context(), uint64(i+1), unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}

func TestStandardInput(t *testing.T) {
	c := start(t, t.TempDir())
	req := command(1, "sh", "-c", "echo ready; cat")
	req.Stdin = true
	var out strings.Builder
	exit, err := c.Exec(t.Context(), req, func(o *wire.ExecOutput) error {
		if out.Len() == 0 {
			go func() {
				c.Input(context.Background(), &wire.InputRequest{Call: 1, Stdin: []byte("hello")})
				c.Input(context.Background(), &wire.InputRequest{Call: 1, CloseStdin: true})
			}()
		}
		out.Write(o.GetStdout())
		return nil
	})
	if err != nil || exit.Code != 0 || out.String() != "ready\nhello" {
		t.Errorf("%v, %v, %q", exit, err, out.String())
	}
	// For a call that has ended it does nothing.
	if resp, err := c.Input(t.Context(), &wire.InputRequest{Call: 1, Stdin: []byte("x")}); err != nil || !resp.Closed {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestTerminal(t *testing.T) {
	c := start(t, t.TempDir())
	req := command(1, "sh", "-c", "tty >/dev/null && stty -echo size; read x; stty size")
	req.Terminal, req.Size = true, &wire.WindowSize{Rows: 24, Columns: 80}
	var out strings.Builder
	exit, err := c.Exec(t.Context(), req, func(o *wire.ExecOutput) error {
		if out.Len() == 0 {
			go c.Input(context.Background(), &wire.InputRequest{Call: 1, Stdin: []byte("\n"), Size: &wire.WindowSize{Rows: 50, Columns: 132}})
		}
		out.Write(o.GetStdout())
		return nil
	})
	if err != nil || exit.Code != 0 || !strings.HasPrefix(out.String(), "24 80\r\n") || !strings.HasSuffix(out.String(), "50 132\r\n") {
		t.Errorf("%v, %v, %q", exit, err, out.String())
	}
}

// A call's processes are known however they were detached; killing it leaves
// none of them, and all of another's.
func TestMarks(t *testing.T) {
	c := start(t, t.TempDir())
	const detach = `
		(setsid sh -c 'sleep 1001 & exec sleep 1002' >/dev/null 2>&1 &)
		(sleep 1003 >/dev/null 2>&1 & exec sleep 1004 >/dev/null 2>&1 &)
		setsid -f sleep 1005 >/dev/null 2>&1`
	// Still making processes when it is killed.
	const busy = `(i=0; while [ $i -lt 1000 ]; do setsid -f sleep 1006; i=$((i+1)); done) >/dev/null 2>&1 &`
	run(t, c, command(1, "sh", "-c", "sleep 1000 >/dev/null 2>&1 &"))
	for call, script := range map[uint64]string{2: detach, 3: busy} {
		if exit, _, _ := run(t, c, command(call, "sh", "-c", script)); exit.Background == 0 {
			t.Errorf("call %d left nothing", call)
		}
	}
	for _, call := range []uint64{2, 3} {
		if err := c.Kill(t.Context(), call, unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	list, err := c.Processes(t.Context())
	if err != nil || len(list) != 1 || list[0].Call != 1 || string(list[0].Command) != "sleep\x001000\x00" {
		t.Errorf("%v, %v", list, err)
	}
	if err := c.Kill(t.Context(), 1, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if list, err := c.Processes(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestCancelKillsAll(t *testing.T) {
	c := start(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Exec(ctx, command(1, "sh", "-c", "setsid -f sleep 1001; echo ready; sleep 1002"), func(*wire.ExecOutput) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if list, err := c.Processes(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// What the guest starts can do nothing to it by signals.
func TestSignalsDoNothingToTheGuest(t *testing.T) {
	c := start(t, t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	req := command(1, self)
	req.Env = append(req.Env, []byte(envRole+"=signal"))
	if exit, out, errs := run(t, c, req); out != "sent\n" {
		t.Fatalf("%v, %q, %q", exit, out, errs)
	}
	if got, err := c.Call(t.Context(), &wire.CallRequest{Call: 2, Name: "echo", Input: []byte("alive")}, nil); err != nil || string(got.Data) != "alive" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestGuestIsNotDumpable(t *testing.T) {
	c := start(t, t.TempDir())
	if got, err := c.Call(t.Context(), &wire.CallRequest{Call: 1, Name: "dumpable"}, nil); err != nil || string(got.Data) != "0" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFunctions(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := start(t, filepath.Join(dir, "in"))
	n := uint64(0)
	call := func(name, input string, env *wire.Envelope) (string, error) {
		n++
		got, err := c.Call(t.Context(), &wire.CallRequest{Call: n, Name: name, Input: []byte(input), Envelope: env}, nil)
		if got == nil {
			return "", err
		}
		return string(got.Data), err
	}
	if got, err := call("echo", "x", nil); err != nil || got != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := call("nothing", "", nil); err == nil || !strings.Contains(err.Error(), `no function "nothing"`) {
		t.Errorf("%v", err)
	}
	if _, err := call("large", "", nil); err == nil || !strings.Contains(err.Error(), "larger than a message") {
		t.Errorf("%v", err)
	}
	if got, err := call("largest", "", nil); err != nil || len(got) != wire.MaxFrame-1024 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := call("fail", "", nil); !errors.Is(err, unix.ENOTEMPTY) || err.Error() != "doing it: directory not empty" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n++
	if _, err := c.Call(ctx, &wire.CallRequest{Call: n, Name: "wait"}, func([]byte) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	// One that is not pure is held to the envelope.
	if landlockABI() == 0 {
		t.Skip("skipped the rest: this kernel has no Landlock")
	}
	if err := os.MkdirAll(dir+"/in/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	narrow := &wire.Envelope{Narrow: true, Writable: [][]byte{[]byte(dir + "/in/sub")}}
	if _, err := call("write", dir+"/in/f", nil); err != nil {
		t.Error(err)
	}
	if _, err := call("write", dir+"/f", nil); !errors.Is(err, unix.EACCES) {
		t.Errorf("beside what may be written: %v", err)
	}
	if _, err := call("write", dir+"/in/g", narrow); !errors.Is(err, unix.EACCES) {
		t.Errorf("beside what the envelope lets it write: %v", err)
	}
	if _, err := call("write", dir+"/in/h", nil); err != nil {
		t.Errorf("the call after a narrow one: %v", err)
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/prog": 0o755, "b/prog": 0o755, "a/plain": 0o644, "b/late": 0o755, "a/late": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "a/dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + dir + "/a:" + dir + "/b"
	for _, test := range []struct {
		name string
		env  []string
		want string
		err  error
	}{
		{"prog", []string{path}, "/a/prog", nil},
		{"late", []string{path}, "/b/late", nil}, // not executable in the first
		{"plain", []string{path}, "", unix.EACCES},
		{"dir", []string{path}, "", unix.EACCES},
		{"none", []string{path}, "", unix.ENOENT},
		{"prog", nil, "", unix.ENOENT},
		{"prog", []string{"PATH=/nowhere", path}, "/a/prog", nil}, // the last one counts
		{"prog", []string{"PATH=b"}, "/b/prog", nil},              // relative to the working directory
		{"./x", []string{path}, "/x", nil},                        // not looked for
		{"/abs/x", []string{path}, "", nil},
	} {
		got, err := lookPath(test.name, test.env, dir)
		want := dir + test.want
		if test.name == "/abs/x" {
			want = test.name
		}
		if !errors.Is(err, test.err) || err == nil && got != want {
			t.Errorf("%s by %v: %q, %v; want %q, %v", test.name, test.env, got, err, want, test.err)
		}
	}
}

// The limits that mark a call are the guest's own again when it has forked.
func TestMarksAreTakenBack(t *testing.T) {
	m := &marks{hard: 1000}
	for _, call := range []uint64{0, 1000, 1 << 40} {
		if err := m.during(call, func() error { t.Error("forked"); return nil }); err == nil {
			t.Errorf("call %d", call)
		}
	}
	if slices.Contains([]bool{zombie("self")}, true) {
		t.Error("this process is taken for a zombie")
	}
	if !zombie("999999999") {
		t.Error("a process that is not there lives")
	}
}

// A function's programs are the call's: they take its envelope, are counted as
// left behind, and are killed with it.
func TestProgramsOfAFunction(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir)
	n := uint64(0)
	call := func(ctx context.Context, name, input string, env *wire.Envelope) (*wire.Returned, error) {
		n++
		return c.Call(ctx, &wire.CallRequest{Call: n, Name: name, Input: []byte(input), Envelope: env}, nil)
	}
	got, err := call(t.Context(), "run", "sh\n-c\necho out; echo errors >&2; pwd; exit 3", nil)
	if err != nil || string(got.Data) != "out\n/\n|errors\n|3 0 <nil>" || got.Background != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := call(t.Context(), "run", "no-such-program", nil); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	got, err = call(t.Context(), "run", "sh\n-c\nsleep 100 & echo started", nil)
	if err != nil || string(got.Data) != "started\n||0 0 <nil>" || got.Background != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = call(t.Context(), "start", "sleep\n100", nil); err != nil || got.Background != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, call := range []uint64{n - 1, n} {
		if err := c.Kill(t.Context(), call, unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if list, err := c.Processes(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	got, err = call(ctx, "run", "sh\n-c\necho before; sleep 100", nil)
	if !errors.Is(err, context.Canceled) || got == nil || string(got.Data) != "before\n||0 9 context canceled" {
		t.Errorf("%+v, %v", got, err)
	}
	if landlockABI() == 0 {
		t.Skip("skipped the rest: this kernel has no Landlock")
	}
	narrow := &wire.Envelope{Narrow: true, Writable: [][]byte{[]byte("/dev")}}
	got, err = call(t.Context(), "run", "sh\n-c\necho > "+dir+"/f || echo refused", narrow)
	if err != nil || !strings.HasPrefix(string(got.Data), "refused\n|") {
		t.Errorf("%+v, %v", got, err)
	}
}
