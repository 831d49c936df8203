package sandbox_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// Who changes something in the workspace while a result waits for an answer.
var meanwhile = []struct {
	who string
	// begin is called before the fork is made, and what it returns to do it.
	begin func(t *testing.T, s *sandbox.Session, work, script string) func()
}{
	{"a background process", func(t *testing.T, s *sandbox.Session, _, script string) func() {
		sh(t, s, "mkfifo ~/go ~/done; (read < ~/go; "+script+"; echo > ~/done; sleep 1000) > /dev/null 2>&1 &")
		return func() { sh(t, s, "echo > ~/go; read < ~/done") }
	}},
	{"a call", func(t *testing.T, s *sandbox.Session, _, script string) func() {
		return func() { sh(t, s, script) }
	}},
	{"the user", func(t *testing.T, _ *sandbox.Session, work, script string) func() {
		return func() {
			cmd := exec.Command("bash", "-c", "set -e; "+script)
			cmd.Dir = work
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}},
}

var overtaken = []struct {
	name string
	fork string // what was done
	then string // what changes
	path string // what the error names, or a directory that it is in
}{
	{"other content", `echo fork > a`, `echo user > a`, "a"},
	{"content of the same size", `echo FORK > a`, `echo USER > a`, "a"},
	{"the old time", `echo fork > a`, `touch -r a ref; echo USER > a; touch -r ref a; rm ref`, "a"},
	{"the same content in another file", `echo fork > a`, `cp -p a new; mv new a`, "a"},
	{"its mode", `echo fork > a`, `chmod 600 a`, "a"},
	{"only its time", `chmod 600 a`, `touch a`, "a"},
	{"gone", `echo fork > a`, `rm a`, "a"},
	{"gone already", `rm a`, `rm a`, "a"},
	{"there where nothing was", `echo fork > new`, `echo user > new`, "new"},
	{"a directory where nothing was", `echo fork > new`, `mkdir new`, "new"},
	{"a link where nothing was", `echo fork > new`, `ln -s a new`, "new"},
	{"a directory in its place", `echo fork > a`, `rm a; mkdir a`, "a"},
	{"a link in its place", `echo fork > a`, `mv a elsewhere; ln -s elsewhere a`, "a"},
	{"another target", `ln -sfT b link`, `ln -sfT nowhere link`, "link"},
	{"a file in a directory that is removed", `rm -r d`, `echo user > d/new`, "d"},
	{"a file changed in a directory that is removed", `rm -r d`, `echo user > d/x`, "d/x"},
	{"a file deep in a directory that is removed", `rm -r d`, `echo user > d/e/new`, "d/e"},
	{"a file in a directory that is replaced", `rm -r d; mkdir d`, `echo user > d/new`, "d"},
	{"a file in a directory that becomes a file", `rm -r d; echo > d`, `echo user > d/new`, "d"},
	{"a directory above is a link", `echo fork > d/e/new`, `mv d real; ln -s real d`, "d"},
	{"a directory above is gone", `echo fork > d/e/new`, `rm -r d`, "d"},
	{"the mode of a directory", `chmod 700 d`, `chmod 711 d`, "d"},
	{"the last of many", `for i in {1..300}; do echo $i > n$i; done; echo fork > z`, `echo user > z`, "z"},
}

func TestNothingIsAdoptedThatWasOvertaken(t *testing.T) {
	for _, w := range meanwhile {
		for _, test := range overtaken {
			if w.who == "the user" && test.path == "link" {
				continue // it is the session's: no user changes it
			}
			t.Run(w.who+" "+test.name, func(t *testing.T) {
				t.Parallel()
				work := tree(t, map[string]string{"a": "text\n", "b": "b\n", "d/x": "x", "d/e/y": "y", "z": "z"})
				sallytest.Settle(t)
				s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
				sh(t, s, `ln -s a link`)
				if w.who == "the user" {
					sh(t, s, `rm link`)
				}
				change := w.begin(t, s, work, test.then)
				e := inFork(t, s, test.fork)
				if err := e.Adoptable(); err != nil {
					t.Fatal(err)
				}
				change()
				before := snapshot(t, s, false)
				a, err := s.Adopt(t.Context(), e)
				top, _, _ := strings.Cut(test.path, "/")
				if !errors.Is(err, sandbox.ErrOvertaken) || !strings.Contains(err.Error(), work+"/"+test.path+": ") && !strings.Contains(err.Error(), work+"/"+top+": ") {
					t.Errorf("%v, %v", a, err)
				}
				if diff := cmp.Diff(before, snapshot(t, s, false)); diff != "" {
					t.Errorf("written\n%s", diff)
				}
			})
		}
	}
}

// What changed between the fork's beginning and the reading of its effects may have
// been seen by the fork, or not.
func TestNothingIsAdoptedThatMayHaveBeenSeenInAnotherVersion(t *testing.T) {
	for _, w := range meanwhile {
		for _, test := range []struct{ name, then, fork, path string }{
			{"changed before", `echo other > a`, `sed -i s/o/0/ a`, "a"},
			{"made before", `echo other > new`, `sed -i s/o/0/ new`, "new"},
			{"removed before", `rm d/x`, `echo fork > d/x`, "d/x"},
			{"a directory changed before", `echo other > d/new`, `rm -r d`, "d"},
		} {
			t.Run(w.who+" "+test.name, func(t *testing.T) {
				t.Parallel()
				work := tree(t, map[string]string{"a": "text\n", "d/x": "x"})
				sallytest.Settle(t)
				s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
				change := w.begin(t, s, work, test.then)
				f := fork(t, s)
				defer closeSession(t, f)
				change()
				sh(t, f, test.fork)
				e := effects(t, f)
				before := snapshot(t, s, false)
				if _, err := s.Adopt(t.Context(), e); !errors.Is(err, sandbox.ErrOvertaken) || !strings.Contains(err.Error(), work+"/"+test.path+": ") {
					t.Error(err)
				}
				if diff := cmp.Diff(before, snapshot(t, s, false)); diff != "" {
					t.Errorf("written\n%s", diff)
				}
			})
		}
	}
}

// What else changes is in nobody's way.
func TestChangesElsewhereAreKept(t *testing.T) {
	for _, w := range meanwhile {
		t.Run(w.who, func(t *testing.T) {
			t.Parallel()
			work := tree(t, map[string]string{"a": "text\n", "b": "b\n", "d/x": "x"})
			sallytest.Settle(t)
			s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
			change := w.begin(t, s, work, `echo more >> b; echo other > d/other; mkdir n; echo n > n/n`)
			e := inFork(t, s, `echo fork > a; echo fork > d/new; rm d/x; mkdir m`)
			change()
			adopt(t, s, e)
			if got := sh(t, s, `cat a b d/new d/other n/n; ls d`); got != "fork\nb\nmore\nfork\nother\nn\nnew\nother" {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestEffectsAreAdoptedOnce(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	e := inFork(t, s, `echo x >> a`)
	adopt(t, s, e)
	if _, err := s.Adopt(t.Context(), e); !errors.Is(err, sandbox.ErrOvertaken) {
		t.Error(err)
	}
}
