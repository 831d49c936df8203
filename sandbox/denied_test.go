package sandbox_test

import (
	"os"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

const secret = "s3cret-value"

// deniedSession has a workspace with things that the session must not see.
func deniedSession(t *testing.T) (*sandbox.Session, string) {
	t.Helper()
	work := tree(t, map[string]string{
		".env": secret, "keys/id": secret, "keys/sub/id": secret, "a/b/key": secret, "a/b/other": "other", "a/plain": "plain", "empty/": "",
	})
	denied := []string{".env", "keys", "keys/id", "a/b/key", "missing", "a/missing", "none/missing", "empty"}
	for i := range denied {
		denied[i] = work + "/" + denied[i]
	}
	sallytest.Settle(t)
	return sallytest.Session(t, sandbox.Settings{Workspace: work, Denied: denied}, sandbox.Limits{}), work
}

func TestDeniedFilesAreNotInTheView(t *testing.T) {
	s, _ := deniedSession(t)
	fork, err := s.Fork(t.Context(), sandbox.ForkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeSession(t, fork)
	for _, test := range []struct {
		name string
		s    *sandbox.Session
		e    sandbox.Envelope
	}{{"hand", s, sandbox.Envelope{}}, {"eye", s, eye}, {"fork", fork, sandbox.Envelope{}}} {
		t.Run(test.name, func(t *testing.T) {
			fails(t, test.s, test.e, `cat .env`, "Permission denied")
			fails(t, test.s, test.e, `cat a/b/key`, "Permission denied")
			fails(t, test.s, test.e, `bash -c 'bash -c "dd if=.env"'`, "Permission denied")
			fails(t, test.s, test.e, `cp .env /tmp/copy`, "Permission denied")
			fails(t, test.s, test.e, `cat keys/id`, "No such file")
			fails(t, test.s, test.e, `ls keys`, "No such file")
			fails(t, test.s, test.e, `ls empty`, "No such file")
			fails(t, test.s, test.e, `ls missing a/missing none/missing`, "No such file")
			out, _ := try(t, test.s, test.e, `cat a/b/other a/plain; grep -rs s3cret . ; ls -A . a a/b`)
			if out != "otherplain.:\n.env\na\n\na:\nb\nplain\n\na/b:\nkey\nother" {
				t.Errorf("%q", out)
			}
		})
	}
}

// Whoever owns an unreadable file can make it readable: there is nothing in it.
func TestDeniedFilesAreEmpty(t *testing.T) {
	s, work := deniedSession(t)
	got := sh(t, s, `
		ln .env link; ln -s .env soft; cp -r a copy || :
		chmod 600 .env; cat .env link soft; wc -c < link
		mv a/b/key moved; chmod 600 moved; cat moved
		chmod 600 copy/b/key 2>/dev/null && cat copy/b/key
		rm -rf a; mkdir -p a/b; ls -A a/b; ! cat a/b/key
		grep -rs s3cret . /tmp ~ && echo found || :`)
	if strings.Contains(got, secret) || strings.Contains(got, "found") || !strings.Contains(got, "a/b/key: No such file") {
		t.Errorf("%q", got)
	}
	expect(t, work+"/.env", secret)
	expect(t, work+"/a/b/key", secret)
}

// What is made inside under a denied name is the agent's own, and stays there,
// whatever is asked for.
func TestWhatIsMadeUnderADeniedNameNeverLeaves(t *testing.T) {
	for _, o := range []sandbox.ApplyOptions{
		{}, {Force: true}, {Atomic: false, Force: true, Paths: []string{"."}},
		{Force: true, Paths: []string{".env", "keys", "keys/id", "a/b/key", "missing", "a/missing", "none", "none/missing", "empty", "empty/x"}},
	} {
		s, work := deniedSession(t)
		if got := sh(t, s, `
			rm -f .env; echo evil > .env
			mkdir -p keys none empty; echo evil > keys/id; echo evil > keys/new; echo evil > none/missing; echo evil > empty/x
			rm -f a/b/key; echo evil > a/b/key
			echo evil > missing; ln -s /etc/passwd a/missing
			echo good > a/plain; cat .env keys/id missing`); got != "evil\nevil\nevil" {
			t.Fatalf("%q", got)
		}
		c := changes(t, s)
		for _, change := range c.Changes {
			if p := change.Path; change.Refused == "" && p != "a/plain" && p != "none" {
				t.Errorf("may leave: %s %s", change.Kind, p)
			}
		}
		report, err := s.Apply(t.Context(), c, o)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, work+"/.env", secret)
		expect(t, work+"/keys/id", secret)
		expect(t, work+"/keys/sub/id", secret)
		expect(t, work+"/a/b/key", secret)
		for _, name := range []string{"keys/new", "missing", "a/missing", "none/missing", "empty/x"} {
			if _, err := os.Lstat(work + "/" + name); !os.IsNotExist(err) {
				t.Errorf("%+v: %s has left (%v); applied %q", o, name, err, report.Applied)
			}
		}
		if o.Paths == nil {
			if read(work+"/a/plain") != "good\n" {
				t.Errorf("what may leave did not: %+v", report)
			}
		}
	}
}

// Removing a directory, or putting something in its place, does not remove what
// is denied in it.
func TestRemovingAroundDeniedFiles(t *testing.T) {
	for _, script := range []string{
		`rm -rf a .env keys`, `rm -rf a; echo x > a`, `rm -rf a; ln -s /tmp a`, `rm -rf a; mkdir a; echo x > a/b`, `rm -rf a/b; mkdir a/b; echo x > a/b/n`,
	} {
		s, work := deniedSession(t)
		sh(t, s, script)
		if _, err := s.Apply(t.Context(), changes(t, s), sandbox.ApplyOptions{Force: true, Paths: []string{"a", "a/b", ".env", "keys"}}); err != nil {
			t.Error(err)
		}
		for _, name := range []string{".env", "keys/id", "a/b/key"} {
			if got := read(work + "/" + name); got != secret {
				t.Errorf("%s: %s is %q", script, name, got)
			}
		}
	}
}

func TestDenialsThatCannotBeHeld(t *testing.T) {
	work := tree(t, map[string]string{"one": secret, "real/key": secret})
	if err := os.Link(work+"/one", work+"/two"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", work+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ denied, want string }{
		{work + "/one", "other names (hard links), which the session would still see"},
		{work + "/link/key", "a symbolic link leads there; deny what it points to"},
		{work + "-evil/x", "is not in the workspace"},
		{work, "is not in the workspace"},
		{work + "/../x", "is not in the workspace"},
	} {
		s := stored(t, sandbox.Settings{Workspace: work, Denied: []string{test.denied}})
		live, err := s.Start(t.Context(), sandbox.StartOptions{Driver: sallytest.Driver(t), Env: os.Environ()})
		if err == nil {
			closeSession(t, live)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.denied) {
			t.Errorf("%s: %v", test.denied, err)
		}
	}
	// A link itself can be denied.
	s := sallytest.Session(t, sandbox.Settings{Name: "links", Workspace: work, Denied: []string{work + "/link"}}, sandbox.Limits{})
	fails(t, s, sandbox.Envelope{}, `ls link/`, "No such file")
}

// A denied path may get its directory later; then it is hidden as the others are
// from the next call on.
func TestDeniedFileOfADirectoryThatAppears(t *testing.T) {
	s, work := deniedSession(t)
	sh(t, s, `! ls none`)
	write(t, work+"/none/missing", secret)
	write(t, work+"/none/other", "other")
	sallytest.Settle(t)
	for _, e := range []sandbox.Envelope{{}, eye} {
		fails(t, s, e, `cat none/other; cat none/missing`, "other")
		fails(t, s, e, `cat none/missing`, "Permission denied")
	}
	sh(t, s, `rm -f none/missing; echo evil > none/missing`)
	if _, err := s.Apply(t.Context(), changes(t, s), sandbox.ApplyOptions{Force: true, Paths: []string{"none/missing"}}); err != nil {
		t.Fatal(err)
	}
	expect(t, work+"/none/missing", secret)
}
