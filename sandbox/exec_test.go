package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/wire"
	"github.com/sallyport/sallyport/test/sallytest"
)

func TestExecStreamsAndCodes(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"sub/f": "x"})}, sandbox.Limits{})
	for _, test := range []struct {
		name     string
		cmd      sandbox.Command
		out, err string
		code     int
		signal   unix.Signal
	}{
		{name: "both streams", cmd: sandbox.Command{Args: []string{"sh", "-c", "echo out; echo err >&2"}}, out: "out\n", err: "err\n"},
		{name: "code", cmd: sandbox.Command{Args: []string{"sh", "-c", "exit 42"}}, code: 42},
		{name: "highest code", cmd: sandbox.Command{Args: []string{"sh", "-c", "exit 255"}}, code: 255},
		{name: "signal", cmd: sandbox.Command{Args: []string{"sh", "-c", "kill -TERM $$"}}, signal: unix.SIGTERM},
		{name: "killed", cmd: sandbox.Command{Args: []string{"sh", "-c", "kill -KILL $$"}}, signal: unix.SIGKILL},
		{name: "no input", cmd: sandbox.Command{Args: []string{"cat"}}},
		{name: "input", cmd: sandbox.Command{Args: []string{"cat"}, Stdin: strings.NewReader("given")}, out: "given"},
		{name: "much input", cmd: sandbox.Command{Args: []string{"wc", "-c"}, Stdin: bytes.NewReader(make([]byte, 3<<20))}, out: "3145728\n"},
		{name: "input that is not read", cmd: sandbox.Command{Args: []string{"true"}, Stdin: bytes.NewReader(make([]byte, 3<<20))}},
		{name: "binary", cmd: sandbox.Command{Args: []string{"printf", `\000\377\n`}}, out: "\x00\xff\n"},
		{name: "words are words", cmd: sandbox.Command{Args: []string{"printf", "%s|", "a b", "", "$HOME", "*", "é\xff"}}, out: "a b||$HOME|*|é\xff|"},
		{name: "directory", cmd: sandbox.Command{Args: []string{"ls"}, Dir: "sub"}, out: "f\n"},
		{name: "absolute directory", cmd: sandbox.Command{Args: []string{"pwd"}, Dir: "/usr"}, out: "/usr\n"},
		{name: "environment", cmd: sandbox.Command{Args: []string{"sh", "-c", "echo $A $USER"}, Env: []string{"A=1", "USER=x"}}, out: "1 x\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			test.cmd.Stdout, test.cmd.Stderr = &out, &errs
			exit, err := s.Exec(t.Context(), test.cmd)
			if err != nil || exit.Code != test.code || exit.Signal != test.signal || out.String() != test.out || errs.String() != test.err {
				t.Errorf("%+v, %v, %q, %q", exit, err, &out, &errs)
			}
			if test.signal != 0 && exit.Status() != 128+int(test.signal) {
				t.Error(exit.Status())
			}
		})
	}
}

// What cannot be started is an error that says why, and no more than that call.
func TestExecOfWhatCannotBeStarted(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"text": "no program", "d/": ""})}, sandbox.Limits{})
	big := strings.Repeat("x", 100<<10)
	var many []string
	for range 30 {
		many = append(many, big)
	}
	for _, test := range []struct {
		name  string
		cmd   sandbox.Command
		errno unix.Errno
		want  string
	}{
		{"nothing", sandbox.Command{}, unix.EINVAL, "no program"},
		{"an empty name", sandbox.Command{Args: []string{""}}, unix.EINVAL, "no program"},
		{"no such program", sandbox.Command{Args: []string{"no-such-program"}}, unix.ENOENT, "no-such-program"},
		{"no such path", sandbox.Command{Args: []string{"/no/such"}}, unix.ENOENT, "/no/such"},
		{"not executable", sandbox.Command{Args: []string{"./text"}}, unix.EACCES, "./text"},
		{"a directory", sandbox.Command{Args: []string{"./d"}}, unix.EACCES, "./d"},
		{"no such directory", sandbox.Command{Args: []string{"true"}, Dir: "nowhere"}, unix.ENOENT, "nowhere"},
		{"a file as the directory", sandbox.Command{Args: []string{"true"}, Dir: "text"}, unix.ENOTDIR, "text"},
		{"a NUL", sandbox.Command{Args: []string{"true", "a\x00b"}}, unix.EINVAL, ""},
		{"a NUL in the environment", sandbox.Command{Args: []string{"true"}, Env: []string{"A=\x00"}}, unix.EINVAL, ""},
		{"one long word", sandbox.Command{Args: []string{"true", strings.Repeat("x", 200<<10)}}, unix.E2BIG, "too long"},
		{"many long words", sandbox.Command{Args: append([]string{"true"}, many...)}, unix.E2BIG, "too long"},
		{"a large environment", sandbox.Command{Args: []string{"true"}, Env: []string{"A=" + strings.Repeat("x", 200<<10)}}, unix.E2BIG, "too long"},
		{"more than a message", sandbox.Command{Args: append([]string{"true"}, strings.Repeat("x", 5<<20))}, unix.E2BIG, "too long"},
		{"an environment larger than a message", sandbox.Command{Args: []string{"true"}, Env: []string{"A=" + strings.Repeat("x", 5<<20)}}, unix.E2BIG, "too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := s.Exec(t.Context(), test.cmd)
			var start *sandbox.StartError
			if !errors.As(err, &start) || !errors.Is(err, test.errno) && test.errno != 0 || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%T %.200v", err, err)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if got := sh(t, s, `echo on`); got != "on" {
				t.Error("the session did not go on")
			}
		})
	}
}

// Output of any size passes through; no more of it is held than the window.
func TestExecWithMuchOutput(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	const size = 64 << 20
	total, largest := 0, 0
	_, err := s.Exec(t.Context(), sandbox.Command{
		Args: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"},
		Stdout: writer(func(p []byte) error {
			total, largest = total+len(p), max(largest, len(p))
			return nil
		}),
	})
	if err != nil || total != size || largest > wire.Chunk {
		t.Errorf("%d bytes, pieces of %d, %v", total, largest, err)
	}
	// A consumer that fails ends the program.
	broken := errors.New("broken")
	_, err = s.Exec(t.Context(), sandbox.Command{Args: []string{"yes"}, Stdout: writer(func([]byte) error { return broken })})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	// One that takes nothing holds up the program, and nobody else.
	var once sync.Once
	full, goOn := make(chan struct{}), make(chan struct{})
	ended := make(chan error)
	go func() {
		_, err := s.Exec(t.Context(), sandbox.Command{
			Args: []string{"head", "-c", "4M", "/dev/zero"},
			Stdout: writer(func([]byte) error {
				once.Do(func() { close(full) })
				<-goOn
				return nil
			}),
		})
		ended <- err
	}()
	<-full
	if got := sh(t, s, `echo others`); got != "others" {
		t.Errorf("%q", got)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func noProcesses(t *testing.T, s *sandbox.Session) {
	t.Helper()
	if got, err := s.Processes(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("left running: %v, %v", got, err)
	}
}

// Whatever a command has started, and however it has hidden it, ends with it
// when it is stopped.
const forest = `
	sleep 1000 &
	setsid sleep 1001 &
	(setsid bash -c 'sleep 1002 & exec sleep 1003' > /dev/null 2>&1 &)
	trap '' TERM INT HUP
	nohup sleep 1004 > /dev/null 2>&1 &
	echo started
	while :; do sleep 1005; done`

func TestStoppingACallStopsItsTree(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Exec(ctx, sandbox.Command{Args: []string{"bash", "-c", forest}, Stdout: writer(func([]byte) error { cancel(); return nil })})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	noProcesses(t, s)

	exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"bash", "-c", forest}, Envelope: sandbox.Envelope{Time: 500 * time.Millisecond}})
	if !errors.Is(err, sandbox.ErrTime) || exit == nil || exit.Signal != unix.SIGKILL {
		t.Errorf("%+v, %v", exit, err)
	}
	noProcesses(t, s)

	// One that is stopped before it begins does not run.
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := s.Exec(ctx, sandbox.Command{Args: []string{"sleep", "1000"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	noProcesses(t, s)
}

// A call that is stopped takes with it what others have left, or run, not at all.
func TestStoppingACallSparesTheOthers(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	sh(t, s, `sleep 2000 > /dev/null 2>&1 &`)
	ctx, cancel := context.WithCancel(t.Context())
	s.Exec(ctx, sandbox.Command{Args: []string{"bash", "-c", forest}, Stdout: writer(func([]byte) error { cancel(); return nil })})
	got, err := s.Processes(t.Context())
	if err != nil || len(got) != 1 || got[0].Command != "sleep 2000" {
		t.Errorf("%v, %v", got, err)
	}
}

// onHost reports whether a process with that command line runs on the machine.
func onHost(t *testing.T, command string) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if strings.ReplaceAll(strings.TrimRight(string(data), "\x00"), "\x00", " ") == command {
			return true
		}
	}
	return false
}

func TestBackgroundProcesses(t *testing.T) {
	stored := stored(t, sandbox.Settings{})
	s := start(t, stored)
	// Unique on the machine, as others may run this test too.
	sleep := fmt.Sprintf("sleep %d.%d", 3000+os.Getpid(), time.Now().UnixNano())
	exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"bash", "-c", sleep + ` > /dev/null 2>&1 & (while :; do echo x >> log; sleep 0.01; done) > /dev/null 2>&1 &`}})
	if err != nil || exit.Code != 0 || exit.Background != 2 && exit.Background != 3 {
		t.Errorf("%+v, %v", exit, err)
	}
	for !onHost(t, sleep) {
		// It has been forked, and becomes what it is called when it gets to run.
		if n, err := s.Processes(t.Context()); err != nil || len(n) == 0 {
			t.Fatalf("it does not run on: %v, %v", n, err)
		}
	}
	// It works on while other calls come and go.
	if got := sh(t, s, `n=$(wc -l < log); while [ $(wc -l < log) = $n ]; do sleep 0.01; done; echo works`); got != "works" {
		t.Errorf("%q", got)
	}
	if _, err := s.Apply(t.Context(), changes(t, s), sandbox.ApplyOptions{}); !errors.Is(err, sandbox.ErrBusy) || !strings.Contains(err.Error(), "wait for it, or close the session") {
		t.Error(err)
	}
	if err := s.Discard(t.Context(), nil); !errors.Is(err, sandbox.ErrBusy) {
		t.Error(err)
	}
	closeSession(t, s)
	if onHost(t, sleep) {
		t.Error("it has outlived the session")
	}
	s = start(t, stored)
	defer closeSession(t, s)
	noProcesses(t, s)
}

func TestTerminal(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	sizes := make(chan [2]uint16, 1)
	in, keys := io.Pipe()
	defer keys.Close()
	var out bytes.Buffer
	var mu sync.Mutex
	seen := func() string { mu.Lock(); defer mu.Unlock(); return out.String() }
	exit, err := s.Exec(t.Context(), sandbox.Command{
		Args: []string{"bash", "-c", `
			[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && tty
			stty size
			while [ "$(stty size)" = "24 80" ]; do sleep 0.01; done
			stty size
			read word; echo "got <$word>"; exit 7`},
		Stdin:    in,
		Terminal: &sandbox.Terminal{Rows: 24, Columns: 80, Resize: sizes},
		Stdout: writer(func(p []byte) error {
			mu.Lock()
			out.Write(p)
			mu.Unlock()
			switch text := seen(); {
			case strings.HasSuffix(text, "24 80\r\n"):
				sizes <- [2]uint16{50, 132}
			case strings.HasSuffix(text, "50 132\r\n"):
				go keys.Write([]byte("hello\r"))
			}
			return nil
		}),
	})
	if want := "/dev/pts/0\r\n24 80\r\n50 132\r\nhello\r\ngot <hello>\r\n"; err != nil || exit.Code != 7 || seen() != want {
		t.Errorf("%+v, %v, %q", exit, err, seen())
	}
	// The interrupt key reaches the program as from any terminal.
	in, keys = io.Pipe()
	exit, err = s.Exec(t.Context(), sandbox.Command{
		Args: []string{"bash", "-c", "echo ready; sleep 1000"}, Stdin: in, Terminal: &sandbox.Terminal{Rows: 24, Columns: 80},
		Stdout: writer(func(p []byte) error {
			if bytes.Contains(p, []byte("ready")) {
				go keys.Write([]byte{3})
			}
			return nil
		}),
	})
	if err != nil || exit.Status() != 130 {
		t.Errorf("%+v, %v", exit, err)
	}
	keys.Close()
}

func TestCallOfAFunction(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	for _, input := range [][]byte{[]byte("hello"), {}, []byte("\x00\xff"), bytes.Repeat([]byte("x"), 1<<20)} {
		for _, e := range []sandbox.Envelope{{}, eye} {
			got, err := s.Call(t.Context(), "echo", input, e, nil)
			if err != nil || !bytes.Equal(got.Data, input) {
				t.Errorf("%d bytes in the %v: %+v, %v", len(input), e.Box, got, err)
			}
		}
	}
	var failure *wire.CallFailure
	if _, err := s.Call(t.Context(), "no such", nil, sandbox.Envelope{}, nil); !errors.As(err, &failure) || !strings.Contains(err.Error(), `no function "no such"`) {
		t.Error(err)
	}
	if _, err := s.Call(t.Context(), "echo", make([]byte, wire.MaxFrame+1), sandbox.Envelope{}, nil); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%.200v", err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			want := []byte(fmt.Sprint(i))
			if got, err := s.Call(t.Context(), "echo", want, sandbox.Envelope{}, nil); err != nil || !bytes.Equal(got.Data, want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	closeSession(t, s)
	if _, err := s.Call(t.Context(), "echo", nil, sandbox.Envelope{}, nil); !errors.Is(err, sandbox.ErrClosed) {
		t.Error(err)
	}
}
