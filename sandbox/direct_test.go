package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// protectedSession has a workspace with paths that a session must not change.
func protectedSession(t *testing.T, mode sandbox.WorkspaceMode) (*sandbox.Session, string) {
	t.Helper()
	work := tree(t, map[string]string{
		".git/config": "config", ".git/hooks/pre": "hook", ".git/index": "index", ".bashrc": "rc", "a/b/c/deep": "deep", "free": "free",
	})
	settings := sandbox.Settings{Workspace: work, Mode: mode}
	for _, rel := range []string{".git/config", ".git/hooks", ".bashrc", "a/b/c/deep", "missing", "missing/too"} {
		settings.ReadOnly = append(settings.ReadOnly, filepath.Join(work, rel))
	}
	sallytest.Settle(t)
	return sallytest.Session(t, settings, sandbox.Limits{}), work
}

func TestReadOnlyPaths(t *testing.T) {
	for _, mode := range []sandbox.WorkspaceMode{sandbox.Cow, sandbox.Direct} {
		t.Run(string(mode), func(t *testing.T) {
			s, work := protectedSession(t, mode)
			for _, script := range []string{
				`echo x >> .git/config`, `echo x > .git/hooks/pre`, `echo x > .git/hooks/new`, `rm .git/hooks/pre`, `chmod 777 .bashrc`,
				`ln -s x .git/hooks/link`, `touch .bashrc`, `truncate -s 0 a/b/c/deep`,
			} {
				fails(t, s, sandbox.Envelope{}, script, "Read-only file system")
			}
			for _, script := range []string{
				`rm .bashrc`, `mv .bashrc x`, `echo x > new; mv new .bashrc`, `mv .git/config x`, `rm a/b/c/deep`,
			} {
				fails(t, s, sandbox.Envelope{}, script, "busy")
			}
			// Nor by way of the directories above, which can be written themselves.
			for _, script := range []string{`mv .git other`, `mv a other`, `mv a/b other`, `mv a/b/c other`, `rm -rf .git a`} {
				out, status := try(t, s, sandbox.Envelope{}, script)
				if status == 0 {
					t.Errorf("%s: %q", script, out)
				}
			}
			// Where a move has copied them, they are still where they were.
			if got := sh(t, s, `cat .git/config .git/hooks/pre .bashrc a/b/c/deep`); got != "confighookrcdeep" {
				t.Errorf("%q", got)
			}
			fails(t, s, sandbox.Envelope{}, `echo x > a/b/c/deep`, "Read-only file system")
			sh(t, s, `echo x > free; echo x > a/b/new; mkdir .git/objects; ls; ! ls missing`)
			for rel, want := range map[string]string{
				".git/config": "config", ".git/hooks/pre": "hook", ".bashrc": "rc", "a/b/c/deep": "deep",
			} {
				expect(t, work+"/"+rel, want)
			}
			missing(t, work+"/missing")
		})
	}
}

func TestDirectWritesTheRealDirectory(t *testing.T) {
	work := tree(t, map[string]string{"a": "host", "d/b": "host"})
	s := sallytest.Session(t, sandbox.Settings{Workspace: work, Mode: sandbox.Direct}, sandbox.Limits{})
	sh(t, s, `echo session > a; mkdir n; echo new > n/x; rm -r d; echo h > ~/h`)
	expect(t, work+"/a", "session\n")
	expect(t, work+"/n/x", "new\n")
	missing(t, work+"/d")
	write(t, work+"/later", "by the host")
	if got := sh(t, s, `cat later ~/h`); got != "by the hosth" {
		t.Errorf("%q", got)
	}
	fails(t, s, eye, `echo x > a`, "Read-only file system")
	fails(t, s, eye, `echo x > n/y`, "Read-only file system")

	// What needs a layer above the workspace is refused by name.
	if _, err := s.Fork(t.Context(), sandbox.ForkOptions{}); err == nil || !strings.Contains(err.Error(), "cannot be forked") || !strings.Contains(err.Error(), work) {
		t.Error(err)
	}
	if _, err := s.Changes(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "what it changed is there already") {
		t.Error(err)
	}
	if err := s.Discard(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "what it changed is there already") {
		t.Error(err)
	}
	sh(t, s, `true`)
}

// absentSession is a direct one in whose workspace some names must not appear.
func absentSession(t *testing.T, work string) *sandbox.Stored {
	t.Helper()
	settings := sandbox.Settings{Workspace: work, Mode: sandbox.Direct}
	for _, rel := range []string{".bashrc", ".vscode", ".git/hooks"} {
		settings.Absent = append(settings.Absent, filepath.Join(work, rel))
	}
	return stored(t, settings)
}

func TestProtectedNamesThatAppear(t *testing.T) {
	work := tree(t, map[string]string{"free": "free"})
	s := sallytest.Start(t, absentSession(t, work), sandbox.Limits{})
	run := func(script string, e sandbox.Envelope) (*sandbox.Exit, error) {
		return s.Exec(t.Context(), sandbox.Command{Args: []string{"bash", "-c", script}, Envelope: e})
	}
	exit, err := run(`true`, sandbox.Envelope{})
	if err != nil || len(exit.Quarantined) != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	missing(t, work+"/.bashrc")

	exit, err = run(`echo evil > .bashrc; mkdir -p .git/hooks .vscode; echo evil > .git/hooks/pre-commit; exit 3`, sandbox.Envelope{})
	want := []string{work + "/.bashrc", work + "/.vscode", work + "/.git/hooks"}
	if err != nil || exit.Code != 3 || !slices.Equal(exit.Quarantined, want) {
		t.Errorf("%+v, %v", exit, err)
	}
	for _, path := range want {
		missing(t, path)
	}
	if _, err := os.Stat(work + "/.git"); err != nil {
		t.Error("gone with it is", err)
	}
	found, err := filepath.Glob(s.Dir() + "/quarantine/*/.bashrc")
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	expect(t, found[0], "evil\n")

	// Also by way of a link, or of a file that git reads as one.
	for _, script := range []string{`mkdir -p g/hooks; rm -rf .git; ln -s g .git`, `rm -rf .git; echo 'gitdir: g' > .git`} {
		exit, err = run(script, sandbox.Envelope{})
		if err != nil || !slices.Equal(exit.Quarantined, []string{work + "/.git"}) {
			t.Errorf("%s: %+v, %v", script, exit, err)
		}
		missing(t, work+"/.git")
	}

	// However the call ends.
	exit, err = run(`echo evil > .bashrc; kill -KILL $$`, sandbox.Envelope{})
	if err != nil || len(exit.Quarantined) != 1 {
		t.Errorf("%+v, %v", exit, err)
	}
	if _, err = run(`echo evil > .bashrc; sleep 1000`, sandbox.Envelope{Time: 300 * time.Millisecond}); !errors.Is(err, sandbox.ErrTime) {
		t.Error(err)
	}
	missing(t, work+"/.bashrc")
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.Exec(ctx, sandbox.Command{
		Args: []string{"bash", "-c", `echo evil > .bashrc; echo made; sleep 1000`}, Stdout: writer(func([]byte) error { cancel(); return nil }),
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	missing(t, work+"/.bashrc")
}

type writer func([]byte) error

func (w writer) Write(p []byte) (int, error) { return len(p), w(p) }

// What appears when no call runs any more is gone when the session is.
func TestProtectedNamesThatAppearInTheBackground(t *testing.T) {
	work := tree(t, map[string]string{"free": "free"})
	stored := absentSession(t, work)
	s := start(t, stored)
	// It waits for a name that the host makes after the call.
	sh(t, s, `(while [ ! -e go ]; do sleep 0.01; done; echo evil > .bashrc; touch done; sleep 1000) > /dev/null 2>&1 &`)
	write(t, work+"/go", "")
	for {
		if _, err := os.Stat(work + "/done"); err == nil {
			break
		}
		time.Sleep(time.Millisecond) // until it has been made, not for a time
	}
	closeSession(t, s)
	missing(t, work+"/.bashrc")
}

// A session that its process did not end leaves nothing for the next one to
// trust, and what the user has made between two is the user's.
func TestProtectedNamesOverARestart(t *testing.T) {
	work := tree(t, map[string]string{"free": "free"})
	stored := absentSession(t, work)
	s := start(t, stored)
	closeSession(t, s)

	write(t, work+"/.vscode/settings.json", "the user's")
	s = start(t, stored)
	sh(t, s, `true`)
	expect(t, work+"/.vscode/settings.json", "the user's")
	fails(t, s, sandbox.Envelope{}, `echo evil > .vscode/settings.json`, "Read-only file system")
	fails(t, s, sandbox.Envelope{}, `mv .vscode x`, "busy")
	exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"touch", ".bashrc"}})
	if err != nil || len(exit.Quarantined) != 1 {
		t.Errorf("%+v, %v", exit, err)
	}
	closeSession(t, s)
	expect(t, work+"/.vscode/settings.json", "the user's")
}

// The kernel lets go of a mask when what it lies on is replaced: a session that
// is not held any more must not go on.
func TestReadOnlyPathThatTheHostReplaces(t *testing.T) {
	work := tree(t, map[string]string{".git/config": "config"})
	s := stored(t, sandbox.Settings{Workspace: work, Mode: sandbox.Direct, ReadOnly: []string{work + "/.git/config"}})
	live := start(t, s)
	fails(t, live, sandbox.Envelope{}, `echo x >> .git/config`, "Read-only file system")
	// As git config does.
	write(t, work+"/.git/config.lock", "of the host")
	if err := os.Rename(work+"/.git/config.lock", work+"/.git/config"); err != nil {
		t.Fatal(err)
	}
	run := sandbox.Command{Args: []string{"true"}}
	if _, err := live.Exec(t.Context(), run); err == nil || !strings.Contains(err.Error(), ".git/config: it was replaced") {
		t.Errorf("the call after: %v", err)
	}
	if _, err := live.Exec(t.Context(), run); err == nil {
		t.Error("the session goes on")
	}
	closeSession(t, live)
	live = start(t, s)
	defer closeSession(t, live)
	fails(t, live, sandbox.Envelope{}, `echo x >> .git/config`, "Read-only file system")
	expect(t, work+"/.git/config", "of the host")
}
