package sandbox_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

func TestWritableNarrowsTheHand(t *testing.T) {
	if sandbox.LandlockABI() < 2 {
		t.Skip("this kernel has no Landlock to narrow what is written")
	}
	work := tree(t, map[string]string{"a/f": "host", "b/f": "host", "one": "host", "two": "host", "a-evil/f": "host"})
	s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	sh(t, s, `ln -s a linked`)
	only := func(paths ...string) sandbox.Envelope {
		return sandbox.Envelope{Writable: append([]string{}, paths...)}
	}
	for _, test := range []struct {
		name    string
		e       sandbox.Envelope
		may     []string
		mayNot  []string
		reading string
	}{
		{"a directory", only(work + "/a"),
			[]string{`echo x > a/f`, `echo x > a/new`, `mkdir a/d`, `mv a/new a/d/`, `rm a/d/new`, `echo x > /dev/null`},
			[]string{
				`echo x > b/f`, `echo x >> one`, `touch new`, `rm two`, `mkdir d`, `mv a/f b/g`, `mv b/f a/g`, `ln b/f a/h`, `echo x > ~/h`, `echo x > /tmp/t`,
				`echo x > a-evil/f`, `ln -s ../b a/link && echo x > a/link/f`, `truncate -s 0 one`, `bash -c 'bash -c "echo x > one"'`, `mkfifo p`,
			}, ""},
		{"a file", only(work + "/one"), []string{`echo x > one`}, []string{`echo x > two`, `rm one`, `mv one three`, `echo x > a/f`}, ""},
		{"two", only(work+"/a", work+"/one"), []string{`echo x > a/f`, `echo x > one`}, []string{`echo x > b/f`}, ""},
		{"nothing", only(), []string{`echo x > /dev/null`}, []string{`echo x > a/f`, `echo x > /tmp/t`, `touch ~/x`}, ""},
		{"what does not exist", only(work + "/a/new/deep"), []string{`mkdir -p a/new/deep`, `echo x > a/new/deep/f`}, []string{`echo x > b/f`, `echo x > new`}, ""},
		{"what no call may write", only("/nowhere/f", "/usr/nowhere"), nil, []string{`echo x > a/f`, `echo x > ~/h`}, ""},
		{"a link", only(work + "/linked/f"), nil, []string{`echo x > linked/f`}, ""},
		{"everything", sandbox.Envelope{}, []string{`echo x > a/f`, `echo x > ~/h`, `echo x > /tmp/t`}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, script := range test.may {
				if out, status := try(t, s, test.e, script); status != 0 {
					t.Errorf("%s: %d %q", script, status, out)
				}
			}
			for _, script := range test.mayNot {
				out, status := try(t, s, test.e, script)
				if status == 0 || !strings.Contains(out, "ermission denied") && !strings.Contains(out, "cross-device") {
					t.Errorf("%s: %d %q", script, status, out)
				}
			}
			if out, status := try(t, s, test.e, `cat a/f b/f two > /dev/null`); status != 0 {
				t.Errorf("reading: %d %q", status, out)
			}
		})
	}
	// The eye cannot be widened.
	fails(t, s, sandbox.Envelope{Box: sandbox.Eye, Writable: []string{work}}, `echo x > a/f`, "Read-only file system")
}

func TestEnvelopesThatCannotBeHeld(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	for _, e := range []sandbox.Envelope{{Memory: 1 << 30}, {CPUs: 1}, {Pids: 100}} {
		_, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"touch", "ran"}, Envelope: e})
		if !errors.Is(err, sandbox.ErrNotHeld) || !strings.Contains(err.Error(), "fork the session") {
			t.Error(err)
		}
		if _, err := s.Call(t.Context(), "echo", nil, e, nil); !errors.Is(err, sandbox.ErrNotHeld) {
			t.Error(err)
		}
	}
	if got := sh(t, s, `ls`); got != "" {
		t.Errorf("it ran: %q", got)
	}
}

// limited starts a session with limits that must be held, or skips.
func limited(t *testing.T, settings sandbox.Settings, l sandbox.Limits) *sandbox.Session {
	t.Helper()
	s, err := stored(t, settings).Start(t.Context(), sandbox.StartOptions{Driver: sallytest.Driver(t), Limits: l, Env: os.Environ()})
	if err != nil {
		if os.Geteuid() != 0 && strings.Contains(err.Error(), "cgroup") {
			t.Skip("this user has no cgroups, without which the limit is refused by name: ", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestMemoryLimit(t *testing.T) {
	s := limited(t, sandbox.Settings{}, sandbox.Limits{Memory: 64 << 20})
	var out bytes.Buffer
	exit, err := s.Exec(t.Context(), sandbox.Command{
		Args: []string{"bash", "-c", "exec dd if=/dev/zero of=/dev/null bs=200M count=1"}, Stdout: &out, Stderr: &out,
	})
	if err != nil || exit.Signal != unix.SIGKILL || exit.OutOfMemory == 0 {
		t.Errorf("%+v, %v, %q", exit, err, &out)
	}
	// The session goes on, and the next failure has nothing to do with it.
	exit, err = s.Exec(t.Context(), sandbox.Command{Args: []string{"false"}})
	if err != nil || exit.Code != 1 || exit.OutOfMemory != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestProcessLimit(t *testing.T) {
	const bomb = `i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done`
	work := tree(t, nil)
	if os.Geteuid() == 0 { // whose own processes only a cgroup counts, with the guest's among them
		if err := os.Chown(work, 54321, 54321); err != nil {
			t.Fatal(err)
		}
	}
	s := limited(t, sandbox.Settings{Workspace: work}, sandbox.Limits{Pids: 40})
	var out bytes.Buffer
	exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"dash", "-c", bomb}, Stdout: &out, Stderr: &out})
	if errors.As(err, new(*sandbox.StartError)) {
		t.Skip("there is no dash, a shell that does not wait for processes to end: ", err)
	}
	if err != nil || exit.Status() == 0 || !strings.Contains(out.String(), "fork") {
		t.Errorf("%+v, %v, %q", exit, err, &out)
	}
	// The guest is not held up by it.
	got, err := s.Processes(t.Context())
	if err != nil || len(got) == 0 || len(got) > 40 {
		t.Errorf("%d processes, %v", len(got), err)
	}
}

// The watch ends a session that writes more than it may, wherever in its layers,
// and says so.
func TestDiskLimit(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"many files", `for i in $(seq 40); do head -c 1M /dev/zero > f$i; sync f$i; done; sleep 1000`, "more than the limit of 8 MiB; raise it with --disk"},
		{"home", `cd; for i in $(seq 40); do head -c 1M /dev/zero > f$i; sync f$i; done; sleep 1000`, "more than the limit of 8 MiB"},
		{"tmp", `cd /tmp; for i in $(seq 40); do head -c 1M /dev/zero > f$i; sync f$i; done; sleep 1000`, "more than the limit of 8 MiB"},
		{"files", `for i in $(seq 40); do mkdir d$i; touch d$i/{1..50}; done; sleep 1000`, "files, more than the limit of 500"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := limited(t, sandbox.Settings{}, sandbox.Limits{Disk: 8 << 20, Inodes: 500})
			// One file is bounded by the kernel.
			if out, status := try(t, s, sandbox.Envelope{}, `truncate -s 50M big`); status != 128+int(unix.SIGXFSZ) {
				t.Errorf("%d %q", status, out)
			}
			exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"bash", "-c", test.script}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v, %v", exit, err)
			}
			if _, again := s.Exec(t.Context(), sandbox.Command{Args: []string{"true"}}); again == nil || !strings.Contains(again.Error(), test.want) {
				t.Error("afterwards:", again)
			}
			closeSession(t, s)
		})
	}
}
