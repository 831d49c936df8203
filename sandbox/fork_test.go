package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

func fork(t testing.TB, s *sandbox.Session) *sandbox.Session {
	t.Helper()
	f, err := s.Fork(t.Context(), sandbox.ForkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestForkBeginsWithTheSessionAndEndsWithoutATrace(t *testing.T) {
	work := tree(t, map[string]string{"a": "host", "d/b": "host", "gone": "host"})
	stored := stored(t, sandbox.Settings{Workspace: work})
	s := start(t, stored)
	sh(t, s, `echo session > a; rm gone; echo new > new; echo h > ~/h; echo t > /tmp/t`)
	before := short(changes(t, s))

	f := fork(t, s)
	if got := sh(t, f, `cat a d/b new ~/h /tmp/t; ! ls gone`); !strings.HasPrefix(got, "session\nhostnew\nh\nt\nls: cannot access 'gone'") {
		t.Errorf("the fork sees %q", got)
	}
	sh(t, f, `echo fork > a; echo fork > d/b; rm new; echo fork > gone; mkdir n; echo x > n/y; echo fork > ~/h; echo fork > /tmp/t; echo x > /tmp/only`)
	if got := sh(t, f, `cat a d/b ~/h /tmp/t; ! ls new 2>/dev/null`); got != "fork\nfork\nfork\nfork" {
		t.Errorf("the fork sees of its own %q", got)
	}
	// What it did beyond the session, and nothing of what the session did.
	if got := short(changes(t, f)); got != "added gone\nadded n\nadded n/y\ndeleted new\nmodified a\nmodified d/b" {
		t.Errorf("its changes are\n%s", got)
	}
	for _, c := range changes(t, f).Changes {
		if c.Path == "a" {
			var old bytes.Buffer
			r, err := c.OpenOld()
			if err != nil {
				t.Fatal(err)
			}
			old.ReadFrom(r)
			r.Close()
			if old.String() != "session\n" {
				t.Errorf("it changed %q", &old)
			}
		}
	}
	// The session goes on as if nothing had been.
	if got := sh(t, s, `cat a d/b new ~/h /tmp/t; ! ls gone /tmp/only 2>/dev/null`); got != "session\nhostnew\nh\nt" {
		t.Errorf("the session sees %q", got)
	}
	if _, err := f.Apply(t.Context(), changes(t, f), sandbox.ApplyOptions{}); err == nil || !strings.Contains(err.Error(), "a fork's changes leave through the session") {
		t.Error(err)
	}
	closeSession(t, f)
	if _, err := f.Exec(t.Context(), sandbox.Command{Args: []string{"true"}}); err == nil {
		t.Error("a closed fork runs calls")
	}
	closeSession(t, f) // again: nothing
	if after := short(changes(t, s)); after != before {
		t.Errorf("the session's changes were\n%s\nand are\n%s", before, after)
	}
	closeSession(t, s)
	missing(t, stored.Dir()+"/forks")
	expect(t, work+"/a", "host")
	expect(t, work+"/d/b", "host")
	expect(t, work+"/gone", "host")
	missing(t, work+"/n")
}

func TestForkOfAFork(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"a": "host"})}, sandbox.Limits{})
	sh(t, s, `echo 0 > zero; echo 0 > all`)
	forks := []*sandbox.Session{s}
	const deep = 5
	for i := 1; i <= deep; i++ {
		f := fork(t, forks[i-1])
		sh(t, f, fmt.Sprintf(`cat zero a; ls; echo %d > level%d; echo %d > all; echo %d > ~/home; echo %d > /tmp/t`, i, i, i, i, i))
		forks = append(forks, f)
	}
	last := forks[deep]
	if got := sh(t, last, `cat a zero all level1 level4 ~/home /tmp/t`); got != "host0\n5\n1\n4\n5\n5" {
		t.Errorf("%q", got)
	}
	if got := short(changes(t, last)); got != "added level5\nmodified all" {
		t.Errorf("%s", got)
	}
	if got := sh(t, forks[2], `cat all; ls`); got != "2\na\nall\nlevel1\nlevel2\nzero" {
		t.Errorf("%q", got)
	}
	for i := deep; i > 0; i-- {
		closeSession(t, forks[i])
	}
	if got := sh(t, s, `cat all; ls`); got != "0\na\nall\nzero" {
		t.Errorf("%q", got)
	}
}

func TestTwentyForksAtOnce(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"a": "host"})}, sandbox.Limits{})
	sh(t, s, `echo session > a`)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			f, err := s.Fork(t.Context(), sandbox.ForkOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer closeSession(t, f)
			var out bytes.Buffer
			script := fmt.Sprintf(`cat a; echo %d > a; echo %d > /tmp/x; cat a /tmp/x`, i, i)
			exit, err := f.Exec(t.Context(), sandbox.Command{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
			if want := fmt.Sprintf("session\n%d\n%d\n", i, i); err != nil || exit.Status() != 0 || out.String() != want {
				t.Errorf("%d: %q, %v", i, &out, err)
			}
		})
	}
	wg.Wait()
	if got := sh(t, s, `cat a; ls /tmp/x 2>&1 || :`); !strings.HasPrefix(got, "session\nls: cannot access") {
		t.Errorf("%q", got)
	}
}

// A fork is no snapshot: what the session writes where the fork has not shows
// through in it.
func TestSessionShowsThroughItsForks(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"a": "host", "b": "host"})}, sandbox.Limits{})
	sh(t, s, `echo 1 > a; echo 1 > b`)
	f := fork(t, s)
	defer closeSession(t, f)
	sh(t, f, `echo fork > b`)
	sh(t, s, `echo 2 > a; echo 2 > b; echo 2 > later`)
	if got := sh(t, f, `cat a b later`); got != "2\nfork\n2" {
		t.Errorf("%q", got)
	}
}

// A fork has no eye, and no processes but its own; those of the session are not
// in it, nor the other way round.
func TestForkIsABoxOfItsOwn(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	sh(t, s, `sleep 1000 > /dev/null 2>&1 &`)
	f := fork(t, s)
	if _, err := f.Exec(t.Context(), sandbox.Command{Args: []string{"true"}, Envelope: eye}); err == nil || !strings.Contains(err.Error(), "a fork has no eye") {
		t.Error(err)
	}
	if got, err := f.Processes(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if got := sh(t, f, `cat /proc/[0-9]*/comm | grep -c sleep || :`); got != "0" {
		t.Errorf("it sees %q", got)
	}
	sh(t, f, `sleep 2000 > /dev/null 2>&1 &`)
	closeSession(t, f)
	got, err := s.Processes(t.Context())
	if err != nil || len(got) != 1 || got[0].Command != "sleep 1000" {
		t.Errorf("%v, %v", got, err)
	}
}

// When the session ends its forks do too.
func TestForksEndWithTheSession(t *testing.T) {
	stored := stored(t, sandbox.Settings{})
	s := start(t, stored)
	f := fork(t, s)
	sh(t, f, `echo x > x`)
	closeSession(t, s)
	if _, err := f.Exec(t.Context(), sandbox.Command{Args: []string{"true"}}); err == nil {
		t.Error("the fork lives on")
	}
	if left, err := os.ReadDir(stored.Dir() + "/forks"); err == nil {
		t.Errorf("of the fork, which nobody closed, there is left %v", left)
	}
	f.Close()
	s = start(t, stored)
	defer closeSession(t, s)
	if left, err := os.ReadDir(stored.Dir() + "/forks"); err == nil && len(left) != 0 {
		t.Errorf("%v", left)
	}
}
