// Package escape tries to get out of sessions, and to do harm from inside.
//
//	func TestEscape(t *testing.T) { escape.Run(t, escape.Driver{...}) }
//
// Run takes any driver: each must hold the same. What is tried inside is a
// small static program (test/escape/attempt), whose every outcome is compared
// with a table (table.go); then the host is looked at, which must be unharmed.
//
// It is run as every kind of user that there is here: root in a workspace of
// root's own, root in somebody else's workspace, whose numbers the agent then
// has, and an ordinary user; and in both boxes, the hand and the eye.
package escape

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// Run runs the suite against a driver.
func Run(t *testing.T, d sandbox.Driver) {
	tool := attemptTool(t)
	// The session's home is where the user's is; below /tmp, the eye could not
	// have a /tmp of its own to write.
	if home := os.Getenv("HOME"); strings.HasPrefix(home, "/tmp/") {
		t.Setenv("HOME", varTemp(t))
	}
	stalled := startStalled(t, &suite{driver: d, kind: kinds()[0], tool: tool}) // takes its time meanwhile
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			s := &suite{driver: d, kind: k, tool: tool}
			for _, part := range []struct {
				name string
				run  func(*testing.T, *suite)
			}{
				{"attempts", testAttempts},
				{"first process", testFirstProcess},
				{"writer", testWriter},
				{"leaving", testLeaving},
				{"overlay attributes", testOverlayAttributes},
				{"cancelled", testCancelled},
				{"crowds", testCrowds},
				{"forged", testForged},
			} {
				t.Run(part.name, func(t *testing.T) { part.run(t, s) })
			}
		})
	}
	t.Run("stalled", stalled)
}

// A kind is whom a session is run by and for.
type kind struct {
	name  string
	owner int // of the workspace; the agent's uid and gid
}

// stranger is a uid that no account has, as that of test/asuser.
const stranger = 60778

func kinds() []kind {
	if os.Geteuid() != 0 {
		return []kind{{"user", os.Geteuid()}}
	}
	return []kind{{"root", 0}, {"owner", stranger}}
}

// A suite is run by one kind of user.
type suite struct {
	driver sandbox.Driver
	kind   kind
	tool   string // the directory of the program attempt
}

// attemptTool returns a directory, which everybody may read, with the program
// attempt, and as root also a copy that is setuid root.
func attemptTool(t *testing.T) string {
	dir := varTemp(t)
	path := filepath.Join(dir, "attempt")
	if built := os.Getenv(sallytest.BinEnv); built != "" {
		data, err := os.ReadFile(filepath.Join(built, "attempt"))
		if err == nil {
			err = os.WriteFile(path, data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	} else {
		build := exec.Command("go", "build", "-trimpath", "-o", path, "github.com/sallyport/sallyport/test/escape/attempt")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building the attempts: %v\n%s", err, out)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	setuid := filepath.Join(dir, "setuid")
	if err := os.WriteFile(setuid, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(setuid, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// varTemp makes a directory, which everybody may read, that does not lie below
// /tmp: what does is mounted inside something that the session may write.
func varTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sallyport-escape-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// workspace makes a directory that is the kind's, with a file, a directory and
// a link in it.
func (s *suite) workspace(t *testing.T) string {
	t.Helper()
	return s.workspaceIn(t, t.TempDir())
}

func (s *suite) workspaceIn(t *testing.T, parent string) string {
	t.Helper()
	dir := filepath.Join(parent, "work")
	for _, d := range []string{dir, filepath.Join(dir, "dir")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.put(t, filepath.Join(dir, "file"), "a file of the user's\n")
	s.give(t, dir, filepath.Join(dir, "dir"))
	return dir
}

// put writes a file that is the kind's.
func (s *suite) put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	s.give(t, path)
}

func (s *suite) give(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Lchown(path, s.kind.owner, s.kind.owner); err != nil {
			t.Fatal(err)
		}
	}
}

// session returns a live session, in a workspace of its own unless one is
// given.
func (s *suite) session(t *testing.T, workspace string, limits sandbox.Limits) *sandbox.Session {
	t.Helper()
	live, err := s.start(t, workspace, limits)
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// start is session for one that may not start.
func (s *suite) start(t *testing.T, workspace string, limits sandbox.Limits) (*sandbox.Session, error) {
	t.Helper()
	if workspace == "" {
		workspace = s.workspace(t)
	}
	return s.startIn(t, sallytest.Store(t), workspace, limits)
}

func (s *suite) startIn(t *testing.T, st *sandbox.Store, workspace string, limits sandbox.Limits) (*sandbox.Session, error) {
	t.Helper()
	stored, err := st.Create(sandbox.Settings{
		Name: "escape", Workspace: workspace, Mode: sandbox.Cow, Image: "host", Driver: s.driver.Name(),
		Expose: []sandbox.Exposed{{Dirs: []sandbox.Expose{{Path: s.tool}}, Path: []string{s.tool}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stored.Remove(); err != nil {
			t.Errorf("removing the session: %v", err)
		}
	})
	live, err := stored.Start(t.Context(), sandbox.StartOptions{Driver: s.driver, Limits: limits, Env: os.Environ()})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := live.Close(); err != nil {
			t.Errorf("closing the session: %v", err)
		}
	})
	return live, nil
}

// try runs a command, and returns what it printed, or how else it ended.
func try(ctx context.Context, live *sandbox.Session, b sandbox.Box, args ...string) string {
	return tryOn(ctx, live, sandbox.Command{Args: args, Envelope: sandbox.Envelope{Box: b}})
}

func tryOn(ctx context.Context, live *sandbox.Session, cmd sandbox.Command) string {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	exit, err := live.Exec(ctx, cmd)
	switch {
	case err != nil:
		var start *sandbox.StartError
		if errors.As(err, &start) {
			return "not started: " + start.Message
		}
		return "error: " + err.Error()
	case exit.Signal != 0:
		return out.String() + "killed: " + exit.Signal.String()
	case exit.Code != 0:
		return out.String() + said.String() + "exit: " + exitText(exit.Code)
	}
	return string(bytes.TrimSpace(out.Bytes()))
}

// answers checks that a session still runs calls.
func answers(t *testing.T, live *sandbox.Session, after string) {
	t.Helper()
	for _, b := range []sandbox.Box{sandbox.Hand, sandbox.Eye} {
		if got := try(t.Context(), live, b, "echo", "here"); got != "here" {
			t.Errorf("after %s, the %s answers %q", after, b, got)
		}
	}
}
