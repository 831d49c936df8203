package pipeline

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/bash"
	"github.com/sallyport/sallyport/permission/bash/bashtest"
	"github.com/sallyport/sallyport/sandbox"
)

// readers is a session in the mode plan, over a repository with files of all kinds.
func readers(t *testing.T) (*Pipeline, *Session, string) {
	work := workspace(t)
	for _, name := range []string{"a.go", "main.go", "f", "g", "src/a.go", "src/main.go", "src/b.go", "README.md", "go.mod", "docs/x.md", "Makefile", "list"} {
		name = filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("one\ntwo TODO\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=U", "-c", "user.email=u@example.com", "commit", "-qm", "base"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "f"), []byte("changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := openTools(t, work, permission.Plan)
	return p, p.place.(*Session), work
}

// content is a hash of all that a directory has.
func content(t *testing.T, dir string) string {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(h, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			h.Write(data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// judgedReadOnly runs what is judged to be read-only as an agent would, and reports
// what it tried to change. What is not judged so is not run.
func judgedReadOnly(p *Pipeline, s *Session, t interface {
	Helper()
	Errorf(string, ...any)
}, run func(string) *Outcome, command string) bool {
	t.Helper()
	script := bash.Parse(command, bash.Env{Dir: s.Workspace, Home: s.Home()})
	if only, _ := script.ReadOnly(); !only {
		return false
	}
	o := run(command)
	if o.Decision == nil || o.Envelope == nil || o.Envelope.Box != sandbox.Eye {
		t.Errorf("%q did not run in the eye: %v", command, o.Err)
	}
	if o.Decision != nil && slices.ContainsFunc(o.Decision.Chain, func(s permission.Step) bool { return s.Layer == "misjudged" }) {
		t.Errorf("%q was misjudged: %s", command, o.Decision.Reason)
	}
	return true
}

// What the table calls read-only changes nothing, and tries to change nothing, when
// it runs where both would be seen: the usual commands of people and agents.
func TestReadOnlyCommandsTryNothing(t *testing.T) {
	p, s, work := readers(t)
	before := content(t, work)
	ran := 0
	for _, command := range bashtest.Usual {
		if judgedReadOnly(p, s, t, func(text string) *Outcome {
			return run(t, p, "Bash", map[string]any{"command": text, "timeout": 5000})
		}, command) {
			ran++
		}
	}
	if ran < len(bashtest.Usual)*9/10 {
		t.Errorf("only %d of %d were judged to be read-only", ran, len(bashtest.Usual))
	}
	if content(t, work) != before {
		t.Error("the workspace was changed")
	}
	changes, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()
	if n := len(changes.Set.Changes); n > 0 {
		t.Errorf("the session has %d changes: %v", n, changes.Set.Changes[0].Path)
	}
}

// The same for commands that are drawn from the table at random, in each other.
func TestDrawnReadOnlyCommandsTryNothing(t *testing.T) {
	p, s, work := readers(t)
	before := content(t, work)
	ran := 0
	rapid.Check(t, func(r *rapid.T) {
		command := bashtest.Command(r)
		if judgedReadOnly(p, s, r, func(text string) *Outcome {
			return run(t, p, "Bash", map[string]any{"command": text, "timeout": 5000})
		}, command) {
			ran++
		}
	})
	if ran == 0 {
		t.Error("none was judged to be read-only")
	}
	if content(t, work) != before {
		t.Error("the workspace was changed")
	}
	for _, r := range records(t, filepath.Join(s.Dir(), sandbox.RecordFile)) {
		if r.Event == "misjudgement" {
			t.Errorf("a misjudgement is on record: %v", r.Detail)
		}
	}
}
