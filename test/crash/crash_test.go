package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/sallytest"
)

// A lab is a user's machine: a workspace, a state directory, a directory for
// temporary files.
type lab struct {
	bin, workspace, state, tmp string
}

func newLab(t *testing.T) *lab {
	dir := t.TempDir()
	l := &lab{
		bin: sallytest.Bin(t), workspace: filepath.Join(dir, "work"),
		state: filepath.Join(dir, "state"), tmp: filepath.Join(dir, "tmp"),
	}
	for _, d := range []string{l.workspace, l.state, l.tmp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		l.run(t, "sessions", "rm", "--force", "crash")
	})
	return l
}

func (l *lab) env() []string {
	return append(os.Environ(), "XDG_STATE_HOME="+l.state, "TMPDIR="+l.tmp)
}

// run runs sallyport to its end.
func (l *lab) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(l.bin+"/sallyport", args...)
	cmd.Env, cmd.Dir = l.env(), l.workspace
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("sallyport %s: %v\n%s", strings.Join(args, " "), err, said.Bytes())
	}
	return string(out)
}

// exec runs a shell in the session.
func (l *lab) exec(t *testing.T, script string) string {
	t.Helper()
	return l.run(t, "exec", "--session", "crash", "--", "sh", "-c", script)
}

// nothingLeft checks what must hold at once after a kill.
func (l *lab) nothingLeft(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), l.state) || strings.Contains(string(mounts), l.workspace) {
		t.Errorf("a mount is left:\n%s", mounts)
	}
	entries, err := os.ReadDir(l.tmp)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		t.Errorf("%s is left in TMPDIR", entries[0].Name())
	}
}

// id is that of the session, "" when there is none yet.
func (l *lab) id(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(l.state, "sallyport/sessions/crash/session.json"))
	if err != nil {
		return ""
	}
	var s struct{ ID string }
	if err := json.Unmarshal(data, &s); err != nil {
		t.Errorf("session.json: %v", err)
	}
	return s.ID
}

// cgroups lists the cgroups of a session.
func cgroups(t *testing.T, id string) (found []string) {
	t.Helper()
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && id != "" && strings.Contains(d.Name(), id) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// moments are points of time for a kill: from none to what the whole takes, and
// the time that it takes.
func moments(t *testing.T, n int, whole func()) []string {
	t.Helper()
	start := time.Now()
	whole()
	took := time.Since(start)
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(int((took * time.Duration(i) / time.Duration(n)).Microseconds()))
	}
	return list
}

func TestKilledWhileStarting(t *testing.T) {
	l := newLab(t)
	other := newLab(t)
	for _, after := range moments(t, 12, func() { l.exec(t, "true") }) {
		l.run(t, "sessions", "rm", "--force", "crash")
		l.kill(t, after, "exec", "--session", "crash", "--", "true")
		l.nothingLeft(t)
		id := l.id(t)
		// Another session's start removes what is not its own, too.
		other.exec(t, "true")
		if left := cgroups(t, id); len(left) > 0 {
			t.Errorf("killed after %s µs, the cgroups %q are left after the next start", after, left)
		}
		if got := l.exec(t, "echo here"); got != "here\n" {
			t.Errorf("killed after %s µs, the session answers %q", after, got)
		}
	}
}

// What Create had not finished is removed by a later start, when it is certain
// that nobody is at it any more.
func TestHalfMadeSessionIsSwept(t *testing.T) {
	l := newLab(t)
	l.exec(t, "true")
	half := filepath.Join(l.state, "sallyport/sessions/.new-half")
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(half, old, old); err != nil {
		t.Fatal(err)
	}
	l.exec(t, "true")
	if _, err := os.Stat(half); err == nil {
		t.Errorf("%s is left after the next start", half)
	}
}

func TestKilledInACall(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"waiting", "echo kept >file; echo ready; sleep 100000"},
		{"background", "echo kept >file; setsid sleep 100000 & setsid sh -c 'trap \"\" TERM; sleep 100000 & sleep 100000' & echo ready; wait"},
		{"writing", "echo kept >file; echo ready; while :; do echo x >>other; done"},
		{"forking", "echo kept >file; echo ready; while :; do /bin/true; done"},
	} {
		for _, box := range []string{"hand", "eye"} {
			if box == "eye" && tt.name == "writing" {
				continue
			}
			t.Run(tt.name+"/"+box, func(t *testing.T) {
				l := newLab(t)
				l.exec(t, "echo earlier >earlier")
				id := l.id(t)
				args := []string{"exec", "--session", "crash"}
				want := "earlier\nkept\n"
				if box == "eye" {
					args, want = append(args, "--read-only"), "earlier\n"
				}
				if l.kill(t, "output", append(args, "--", "sh", "-c", tt.script)...) {
					t.Fatal("the call ended before it was killed")
				}
				l.nothingLeft(t)
				if got := l.exec(t, "cat earlier file 2>/dev/null; true"); got != want {
					t.Errorf("afterwards there is %q, want %q", got, want)
				}
				if left := cgroups(t, id); len(left) > 0 {
					t.Errorf("the cgroups %q are left after the next end", left)
				}
			})
		}
	}
}

// TestKilledWhileApplying kills an apply at many moments. Once it was run again,
// the workspace is what it would be without.
func TestKilledWhileApplying(t *testing.T) {
	const change = `for i in $(seq 30); do mkdir -p d$i; echo $i >d$i/new; echo more >>old/$i; done
		rm -r gone; mv old/1 old/renamed; ln -s old/2 link; head -c 1000000 /dev/zero >large; chmod 700 mode`
	prepare := func(t *testing.T) *lab {
		l := newLab(t)
		for _, dir := range []string{"old", "gone"} {
			if err := os.Mkdir(filepath.Join(l.workspace, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range 31 {
				l.write(t, fmt.Sprintf("%s/%d", dir, i), "old\n")
			}
		}
		l.write(t, "mode", "old\n")
		sallytest.Settle(t)
		l.exec(t, change)
		return l
	}
	var want string
	whole := prepare(t)
	points := moments(t, 10, func() { whole.run(t, "apply", "--session", "crash") })
	want = whole.describe(t)
	for _, after := range points {
		t.Run(after+" µs", func(t *testing.T) {
			l := prepare(t)
			ended := l.kill(t, after, "apply", "--session", "crash")
			l.nothingLeft(t)
			l.run(t, "apply", "--session", "crash")
			if got := l.describe(t); got != want {
				t.Errorf("ended %v; got\n%s\nwant\n%s", ended, got, want)
			}
			if got := l.exec(t, "cat d7/new old/7 && ls"); !strings.HasPrefix(got, "7\nold\nmore\n") {
				t.Errorf("the session has %q", got)
			}
			if got := l.run(t, "diff", "--session", "crash", "--stat"); strings.TrimSpace(got) != "" {
				t.Errorf("there are changes left: %s", got)
			}
		})
	}
}

func (l *lab) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.workspace, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// describe lists all that is in the workspace.
func (l *lab) describe(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(l.workspace, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(l.workspace, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %.20q", len(data), data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " -> %s", target)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
