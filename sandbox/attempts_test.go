package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// inEye runs a script in the eye.
func inEye(t *testing.T, s *sandbox.Session, script string) *sandbox.Exit {
	t.Helper()
	var out bytes.Buffer
	exit, err := s.Exec(t.Context(), sandbox.Command{
		Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out, Envelope: sandbox.Envelope{Box: sandbox.Eye},
	})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	if testing.Verbose() {
		t.Logf("%s: %d %q %+v", script, exit.Status(), &out, exit.Attempts)
	}
	return exit
}

// tried are attempts in one line each, the workspace left out.
func tried(s *sandbox.Session, list []sandbox.Attempt) (lines []string) {
	for _, a := range list {
		line := a.Op + " " + strings.TrimPrefix(a.Path, s.Workspace+"/")
		if a.Opportunistic {
			line += " (opportunistic)"
		}
		lines = append(lines, line)
	}
	return lines
}

// needs skips a case for want of a program.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("skipped: ", err)
	}
}

// What a program in the eye tries to change is reported, with its path.
func TestAttempts(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"f": "x", "d/g": "y", "e/f": ""})}, sandbox.Limits{})
	for _, test := range []struct {
		script string
		want   []string
	}{
		{`echo x > f`, []string{"write f"}},
		{`echo x >> ./d/../f`, []string{"write f"}},
		{`echo x > new`, []string{"create new"}},
		{`cd d && echo x > h`, []string{"create d/h"}},
		{`touch f`, []string{"write f", "utime f"}},
		{`touch new`, []string{"create new"}},
		{`rm f`, []string{"remove f"}},
		{`rm -r d`, []string{"remove d/g"}},
		{`mv f g`, []string{"rename f"}},
		{`chmod 600 f`, []string{"chmod f"}},
		{`mkdir new`, []string{"mkdir new"}},
		{`mkdir -p d/new/deep`, []string{"mkdir d/new"}},
		{`ln -s f new`, []string{"symlink new"}},
		{`ln f new`, []string{"link new"}},
		{`mkfifo new`, []string{"mknod new"}},
		{`truncate -s 0 f`, []string{"write f"}},
		{`echo x > /dev/shm/t; mv /dev/shm/t new`, []string{"rename new"}},
		{`touch ~/x`, []string{"create " + s.Home() + "/x"}},
		{`echo x > f; echo x > f; rm f`, []string{"write f", "remove f"}},
		{`(exec 3<>/dev/tcp/192.0.2.1/80)`, []string{"connect 192.0.2.1:80"}},
		{`(exec 3<>/dev/udp/127.0.0.1/53)`, []string{"connect 127.0.0.1:53"}},
		{`touch ~/.cache ~/.bash_history`, []string{"create " + s.Home() + "/.cache (opportunistic)", "create " + s.Home() + "/.bash_history (opportunistic)"}},
	} {
		t.Run(test.script, func(t *testing.T) {
			exit := inEye(t, s, test.script)
			if got := tried(s, exit.Attempts); !slices.Equal(got, test.want) || exit.AttemptsDropped != 0 {
				t.Errorf("%q, %d dropped, want %q", got, exit.AttemptsDropped, test.want)
			}
		})
	}
	t.Run("sed -i", func(t *testing.T) {
		// Its temporary file has a name of its own making.
		got := tried(s, inEye(t, s, `sed -i s/x/y/ d/g`).Attempts)
		if len(got) == 0 || !strings.HasPrefix(got[0], "create d/sed") {
			t.Errorf("%q", got)
		}
	})
	t.Run("the program", func(t *testing.T) {
		a := inEye(t, s, `rm f`).Attempts
		if len(a) != 1 || !strings.HasSuffix(a[0].Program, "/rm") {
			t.Errorf("%+v", a)
		}
	})
	if got := sh(t, s, `cat f d/g; ls`); got != "xyd\ne\nf" {
		t.Errorf("something was changed: %q", got)
	}
	if got := s.Mechanisms()[sandbox.AttemptsMechanism]; got != sandbox.AttemptsSeen {
		t.Errorf("the mechanism is %q", got)
	}
}

// Who only reads has tried nothing, nor who writes what is its own, or changes
// nothing anyway.
func TestNoAttempts(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"f": "x\n", "d/g": "y\n"})}, sandbox.Limits{})
	for _, test := range []struct{ program, script string }{
		{"cat", `cat f d/g`},
		{"grep", `grep -r x .`},
		{"ls", `ls -lR`},
		{"find", `find . -name g`},
		{"sort", `sort f d/g | uniq -c`},
		{"python3", `python3 -c 'import json, subprocess; print(open("f").read())'`},
		{"bash", `cat <<< text; cat <(echo x); x=$(cat f); echo x >&2; echo x > /dev/null; echo x > /dev/stderr`},
		{"bash", `t=$(mktemp) && echo x > $t && mv $t $t.new && rm $t.new`},
		{"bash", `echo 1 > /proc/self/oom_score_adj`},
		{"rm", `rm -f nothing`},
		{"mkdir", `mkdir -p d`},
		{"dd", `dd if=f of=nothing/deep`},
		{"dd", `dd if=f of=nothing conv=nocreat`},
		{"chmod", `chmod 600 nothing`},
	} {
		t.Run(test.script, func(t *testing.T) {
			needs(t, test.program)
			if exit := inEye(t, s, test.script); len(exit.Attempts) > 0 || exit.AttemptsDropped > 0 {
				t.Errorf("%q, %d dropped", tried(s, exit.Attempts), exit.AttemptsDropped)
			}
		})
	}
	t.Run("in the hand", func(t *testing.T) {
		exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"bash", "-c", "touch f new; rm new"}})
		if err != nil || exit.Status() != 0 || exit.Attempts != nil {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}

// git looks at a repository without trying more than its index, whatever the
// environment says.
func TestGitStatusIsOpportunistic(t *testing.T) {
	needs(t, "git")
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"f": "x"})}, sandbox.Limits{})
	sh(t, s, `git init -q . && git add f && git -c user.name=a -c user.email=a@b commit -qm one && touch -d yesterday f`)
	for _, test := range []struct{ script, want string }{
		{`git status`, "[]"},
		{`GIT_OPTIONAL_LOCKS=1 git status`, "[create .git/index.lock (opportunistic)]"},
		{`git log -p; git show`, "[]"},
		{`git diff`, "[create .git/index.lock (opportunistic)]"}, // however it is told not to
		{`git add f`, "[create .git/index.lock (opportunistic)]"},
		{`git tag new`, "[create .git/refs/tags/new.lock]"},
	} {
		t.Run(test.script, func(t *testing.T) {
			if got := fmt.Sprint(tried(s, inEye(t, s, test.script).Attempts)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Processes that outlive the call go on, and nobody waits for them; what they try
// after its end is not reported.
func TestAttemptsOfBackgroundProcesses(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"f": "x"})}, sandbox.Limits{})
	exit := inEye(t, s, `mkfifo /dev/shm/go; (read line < /dev/shm/go; for i in {1..100}; do echo x > f; done; echo done > /dev/shm/done) >/dev/null 2>&1 & echo x > new`)
	if got := fmt.Sprint(tried(s, exit.Attempts)); got != "[create new]" || exit.Background == 0 {
		t.Errorf("%s, %d in the background", got, exit.Background)
	}
	exit = inEye(t, s, `echo go > /dev/shm/go; until [ -s /dev/shm/done ]; do sleep 0.01; done`)
	if exit.Status() != 0 || exit.Attempts != nil {
		t.Errorf("%+v", exit)
	}
}

// However much a program tries, what is reported is bounded.
func TestAttemptsWithoutEnd(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	exit := inEye(t, s, `for i in {1..10000}; do : > f$i; done 2>/dev/null`)
	if len(exit.Attempts) != 64 || exit.AttemptsDropped != 10_000-64 || exit.Attempts[63].Path != s.Workspace+"/f64" {
		t.Errorf("%d attempts, %d dropped", len(exit.Attempts), exit.AttemptsDropped)
	}
	// Caches leave room for what is none.
	exit = inEye(t, s, `for i in {1..100}; do : > f$i.pyc; done 2>/dev/null; : > f`)
	if n := len(exit.Attempts); n != 17 || exit.AttemptsDropped != 84 || exit.Attempts[16].Opportunistic {
		t.Errorf("%d attempts, %d dropped", n, exit.AttemptsDropped)
	}
	exit = inEye(t, s, `d=$(printf '%0200d' 1); cd /dev/shm; for i in {1..25}; do mkdir $d; cd $d; done; : > $(printf '/%04096d' 1)`)
	for _, a := range exit.Attempts { // of which there is no path that short
		if a.Path != "" {
			t.Errorf("%+v", a)
		}
	}
}

// A call that is killed while it tries ends, and says what it had tried.
func TestAttemptsOfKilledCall(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	exit, err := s.Exec(ctx, sandbox.Command{
		Args:   []string{"bash", "-c", `for j in 1 2 3 4; do while :; do : > f$j; done & done 2>/dev/null; : > f; echo; wait`},
		Stdout: writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }), Envelope: sandbox.Envelope{Box: sandbox.Eye},
	})
	if !errors.Is(err, context.Canceled) || exit == nil || exit.Signal != unix.SIGKILL || len(exit.Attempts) == 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	if exit := inEye(t, s, `: > f`); len(exit.Attempts) != 1 {
		t.Errorf("afterwards: %+v", exit)
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// A program whose memory may not be read is seen all the same.
func TestAttemptsOfUndumpableProgram(t *testing.T) {
	needs(t, "python3")
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"f": "x"})}, sandbox.Limits{})
	exit := inEye(t, s, `python3 -c 'import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); open("f", "w")'`)
	if len(exit.Attempts) != 1 || exit.Attempts[0] != (sandbox.Attempt{Op: "write"}) {
		t.Errorf("%+v", exit.Attempts)
	}
}

// TestAttemptsOfFunctions: what a tool's program tries is reported with the call.
func TestAttemptsOfFunctions(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	input := fmt.Appendf(nil, `{"command":"echo x > new","dir":%q,"workspace":%q,"timeout_ms":60000}`, s.Workspace, s.Workspace)
	for _, progress := range []func([]byte){nil, func([]byte) {}} {
		got, err := s.Call(t.Context(), "Bash", input, sandbox.Envelope{Box: sandbox.Eye}, progress)
		if err != nil {
			t.Fatal(err)
		}
		if a := tried(s, got.Attempts); fmt.Sprint(a) != "[create new]" {
			t.Errorf("%q: %s", a, got.Data)
		}
	}
	if _, err := os.Stat(s.Workspace + "/new"); err == nil {
		t.Error("it was made")
	}
}
