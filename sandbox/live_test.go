package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// try runs a script in a box and returns what it wrote, trimmed, and its status.
// Both its streams are one, so that their order is kept.
func try(t testing.TB, s *sandbox.Session, e sandbox.Envelope, script string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	exit, err := s.Exec(t.Context(), sandbox.Command{
		Args: []string{"bash", "-c", "exec 2>&1; umask 022\n" + script}, Stdout: &out, Stderr: &out, Envelope: e,
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, &out)
	}
	return strings.TrimSpace(out.String()), exit.Status()
}

// sh runs a script in the hand, which must succeed.
func sh(t testing.TB, s *sandbox.Session, script string) string {
	t.Helper()
	out, status := try(t, s, sandbox.Envelope{}, "set -e\n"+script)
	if status != 0 {
		t.Fatalf("%s: %d\n%s", script, status, out)
	}
	return out
}

// fails runs a script in a box, which must fail and say so.
func fails(t testing.TB, s *sandbox.Session, e sandbox.Envelope, script, want string) {
	t.Helper()
	out, status := try(t, s, e, script)
	if status == 0 || !strings.Contains(out, want) {
		t.Errorf("%s in the %v: status %d, %q, not %q", script, e.Box, status, out, want)
	}
}

var eye = sandbox.Envelope{Box: sandbox.Eye}

// tree makes files in a new directory: "path" is a directory if it ends in a
// slash, else a file with that content.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "work")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		write(t, filepath.Join(dir, name), content, strings.HasSuffix(name, "/"))
	}
	return dir
}

func write(t testing.TB, path, content string, isDir ...bool) {
	t.Helper()
	dir := filepath.Dir(path)
	if len(isDir) > 0 && isDir[0] {
		dir = path
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if dir == path {
		return
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// read returns a file's content, or what is wrong with it.
func read(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(data)
}

func expect(t testing.TB, path, want string) {
	t.Helper()
	if got := read(path); got != want {
		t.Errorf("%s is %q, not %q", path, got, want)
	}
}

func missing(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is there (%v)", path, err)
	}
}

func changes(t testing.TB, s *sandbox.Session) *sandbox.Changes {
	t.Helper()
	c, err := s.Changes(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// short is a change set in few words, a line a change.
func short(c *sandbox.Changes) string {
	var lines []string
	for _, c := range c.Changes {
		line := fmt.Sprintf("%s %s", c.Kind, c.Path)
		if c.Refused != "" {
			line += ": " + c.Refused
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// stored makes a session over a workspace that can be started again and again.
func stored(t testing.TB, settings sandbox.Settings) *sandbox.Stored {
	t.Helper()
	return sallytest.Create(t, sallytest.Store(t), settings)
}

// start makes a session live; whoever calls it closes it.
func start(t testing.TB, s *sandbox.Stored) *sandbox.Session {
	t.Helper()
	live, err := s.Start(t.Context(), sandbox.StartOptions{Driver: sallytest.Driver(t), Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

func closeSession(t testing.TB, s *sandbox.Session) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
