package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/test/sallytest"
)

// The ways in which an editor, or another program, saves a file.
var saves = []struct {
	name string
	save func(t *testing.T, path, content string)
}{
	{"in place", func(t *testing.T, path, content string) { write(t, path, content) }},
	{"with a backup", func(t *testing.T, path, content string) {
		rename(t, path, path+"~")
		write(t, path, content)
	}},
	{"beside, and renamed", func(t *testing.T, path, content string) {
		write(t, path+".tmp", content)
		rename(t, path+".tmp", path)
	}},
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// run runs a program of the host in a directory.
func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// What the user changes between two calls is seen by the second, however he does
// it, in the hand and in the eye, whether the session has read it before or not.
func TestCallsSeeTheWorkspaceAsItIs(t *testing.T) {
	for _, save := range saves {
		t.Run(save.name, func(t *testing.T) {
			work := tree(t, map[string]string{"a": "old", "d/b": "old", "gone": "old", "dir/x": "old"})
			s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
			sh(t, s, `cat a d/b gone dir/x; ls -R; ! ls new d/new 2>&1`)
			try(t, s, eye, `cat a d/b gone; ls -R`)
			save.save(t, work+"/a", "new a")
			save.save(t, work+"/d/b", "new b")
			write(t, work+"/new", "new")
			write(t, work+"/d/new", "new")
			if err := os.Remove(work + "/gone"); err != nil {
				t.Fatal(err)
			}
			rename(t, work+"/dir", work+"/moved")
			sallytest.Settle(t)
			for _, e := range []sandbox.Envelope{eye, {}} {
				out, _ := try(t, s, e, `cat a d/b new d/new moved/x; ls gone dir 2>&1`)
				if !strings.HasPrefix(out, "new anew bnewnewold") || strings.Count(out, "No such file") != 2 {
					t.Errorf("the %v sees %q", e.Box, out)
				}
			}
		})
	}
}

// verdicts applies all that a session did, and says what became of each path.
func verdicts(t *testing.T, s *sandbox.Session) map[string]string {
	t.Helper()
	report, err := s.Apply(t.Context(), changes(t, s), sandbox.ApplyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, p := range report.Applied {
		got[p] = "applied"
	}
	for what, list := range map[string][]changeset.Problem{"conflict": report.Conflicts, "refused": report.Refused, "failed": report.Failed} {
		for _, p := range list {
			got[p.Path] = what + ": " + p.Reason
		}
	}
	return got
}

func wantVerdict(t *testing.T, got map[string]string, path, want string) {
	t.Helper()
	if !strings.HasPrefix(got[path], want) {
		t.Errorf("%s: %q, not %s, of %q", path, got[path], want, got)
	}
}

func TestUserEditsBeforeTheAgent(t *testing.T) {
	for _, save := range saves {
		t.Run(save.name, func(t *testing.T) {
			work := tree(t, map[string]string{"a": "first", "b": "first"})
			sallytest.Settle(t)
			s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
			sh(t, s, `cat a b`)
			save.save(t, work+"/a", "the user's")
			sallytest.Settle(t)
			// The agent sees the edit, so it is the base of what it makes of it.
			if got := sh(t, s, `cat a; echo " and the agent's" >> a; echo agent > b`); got != "the user's" {
				t.Errorf("%q", got)
			}
			got := verdicts(t, s)
			wantVerdict(t, got, "a", "applied")
			wantVerdict(t, got, "b", "applied")
			expect(t, work+"/a", "the user's and the agent's\n")
		})
	}
}

func TestUserEditsAfterTheAgent(t *testing.T) {
	for _, save := range saves {
		t.Run(save.name, func(t *testing.T) {
			work := tree(t, map[string]string{"a": "first", "b": "first"})
			sallytest.Settle(t)
			s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
			sh(t, s, `echo agent > a; echo agent > b`)
			save.save(t, work+"/a", "the user's")
			got := verdicts(t, s)
			wantVerdict(t, got, "a", "conflict")
			wantVerdict(t, got, "b", "applied")
			expect(t, work+"/a", "the user's")
			expect(t, work+"/b", "agent\n")
			// Nor by a call later on, which sees its own.
			sallytest.Settle(t)
			if got := sh(t, s, `cat a; echo more >> a`); got != "agent" {
				t.Errorf("%q", got)
			}
			wantVerdict(t, verdicts(t, s), "a", "conflict")
			expect(t, work+"/a", "the user's")
		})
	}
}

// The edit comes while a call runs, which has read the file and writes it later,
// or has it open all the time.
func TestUserEditsDuringACall(t *testing.T) {
	for _, save := range saves {
		for name, script := range map[string]string{
			"read before":  `x=$(cat a); echo ready; read go; echo "$x agent" > a; echo agent > b`,
			"open before":  `exec 3< a; echo ready; read go; cat <&3 > c; mv c a; echo agent > b`,
			"wrote before": `echo agent > a; echo ready; read go; echo more >> a; echo agent > b`,
			"not yet read": `echo ready; read go; echo "$(cat a) agent" > a; echo agent > b`,
		} {
			t.Run(save.name+", "+name, func(t *testing.T) {
				work := tree(t, map[string]string{"a": "first", "b": "first"})
				sallytest.Settle(t)
				s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
				in, goOn, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				exit, err := s.Exec(t.Context(), sandbox.Command{
					Args: []string{"bash", "-c", script}, Stdin: in,
					Stdout: writer(func([]byte) error {
						save.save(t, work+"/a", "the user's")
						goOn.WriteString("go\n")
						return goOn.Close()
					}),
				})
				if err != nil || exit.Status() != 0 {
					t.Fatalf("%+v, %v", exit, err)
				}
				got := verdicts(t, s)
				wantVerdict(t, got, "a", "conflict")
				wantVerdict(t, got, "b", "applied")
				expect(t, work+"/a", "the user's")
			})
		}
	}
}

// One sided and two sided changes of every other kind, made by the user after
// those of the agent.
func TestUserChangesAfterTheAgent(t *testing.T) {
	for _, test := range []struct {
		name        string
		agent, user string
		want        map[string]string // verdicts
		still       map[string]string // what is there in the end
	}{
		{"he deletes what the agent changed", `echo agent > a`, `rm a`, map[string]string{"a": "conflict"}, map[string]string{"a": "error"}},
		{"he changes what the agent deleted", `rm a`, `echo user > a`, map[string]string{"a": "conflict"}, map[string]string{"a": "user\n"}},
		{"both delete", `rm a`, `rm a`, map[string]string{"a": ""}, map[string]string{"a": "error"}},
		{"both make the same name", `echo agent > n`, `echo user > n`, map[string]string{"n": "conflict"}, map[string]string{"n": "user\n"}},
		{"he makes a directory of it", `echo agent > n`, `mkdir n; echo user > n/x`, map[string]string{"n": "conflict"}, map[string]string{"n/x": "user\n"}},
		{"he puts a link in its place", `echo agent > d/f`, `mv d e; ln -s /tmp d`, map[string]string{"d/f": ""}, map[string]string{"e/f": "first"}},
		{"a link to the same directory", `echo agent > d/f`, `mv d e; ln -s e d`, map[string]string{"d/f": ""}, map[string]string{"e/f": "first"}},
		{"new in a directory that became a link", `echo agent > d/new`, `mv d e; ln -s e d`, map[string]string{"d/new": ""}, map[string]string{"e/new": "error"}},
		{"he moves the directory away", `echo agent > d/f`, `mv d e`, map[string]string{"d/f": "conflict"}, map[string]string{"e/f": "first"}},
		{"he changes a file of the directory that the agent removed", `rm -r d`, `echo user > d/f`, map[string]string{"d": "conflict"}, map[string]string{"d/f": "user\n", "d/g": "first"}},
		{"he adds one to it", `rm -r d`, `echo user > d/new`, map[string]string{"d": "conflict"}, map[string]string{"d/new": "user\n", "d/f": "first"}},
		{"only the mode", `chmod 755 a`, ``, map[string]string{"a": "applied"}, map[string]string{"a": "first"}},
		{"only the mode, on both sides", `chmod 755 a`, `chmod 700 a`, map[string]string{"a": "conflict"}, map[string]string{"a": "first"}},
		{"content and mode", `echo agent > a`, `chmod 700 a`, map[string]string{"a": "conflict"}, map[string]string{"a": "first"}},
		{"a rename of what he changed", `mv a z`, `echo user > a`, map[string]string{"a": "conflict", "z": "applied"}, map[string]string{"a": "user\n", "z": "first"}},
		{"the same time and size", `echo agent > a`, `touch -r a stamp; printf third > a; touch -r stamp a; rm stamp`, map[string]string{"a": "conflict"}, map[string]string{"a": "third"}},
		{"something else only", `echo agent > a`, `echo user > b; echo user > d/f; mkdir x`, map[string]string{"a": "applied"}, map[string]string{"a": "agent\n", "b": "user\n"}},
		{"beside what the agent made", `echo agent > d/f; echo agent > d/h`, `echo user > d/g; echo user > d/i`, map[string]string{"d/f": "applied", "d/h": "applied"}, map[string]string{"d/g": "user\n", "d/f": "agent\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			work := tree(t, map[string]string{"a": "first", "b": "first", "d/f": "first", "d/g": "first"})
			sallytest.Settle(t)
			s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
			sh(t, s, test.agent)
			run(t, work, "bash", "-c", test.user)
			got := verdicts(t, s)
			for path, want := range test.want {
				if want == "" { // anything but applied
					if got[path] == "applied" {
						t.Errorf("%s was applied", path)
					}
					continue
				}
				wantVerdict(t, got, path, want)
			}
			for path, want := range test.still {
				if is := read(filepath.Join(work, path)); !strings.HasPrefix(is, want) {
					t.Errorf("%s is %q, not %q", path, is, want)
				}
			}
		})
	}
}

func TestGitCheckoutOnTheHost(t *testing.T) {
	work := tree(t, map[string]string{"a": "one\n", "b": "same\n", "c": "one\n"})
	git := func(args ...string) {
		t.Helper()
		run(t, work, append([]string{"git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"}, args...)...)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "one")
	git("checkout", "-qb", "two")
	write(t, work+"/a", "two\n")
	write(t, work+"/c", "two\n")
	git("commit", "-qam", "two")
	git("checkout", "-q", "main")
	sallytest.Settle(t)

	s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	sh(t, s, `echo agent > a; echo agent > b`)
	git("checkout", "-q", "two")
	got := verdicts(t, s)
	wantVerdict(t, got, "a", "conflict")
	wantVerdict(t, got, "b", "applied") // the checkout left it alone
	expect(t, work+"/a", "two\n")

	// From here on the session sees the other branch, but for its own.
	sallytest.Settle(t)
	if got := sh(t, s, `cat a b c; git log -1 --format=%s; git status --short a c`); got != "agent\nagent\ntwo\ntwo\n M a" {
		t.Errorf("%q", got)
	}
	if err := s.Discard(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, s, `cat a; echo agent >> a`); got != "two" {
		t.Errorf("%q", got)
	}
	wantVerdict(t, verdicts(t, s), "a", "applied")
	expect(t, work+"/a", "two\nagent\n")
}

// A live session goes on after what it did was applied or thrown away, over the
// workspace as it is then.
func TestApplyAndDiscardOfALiveSession(t *testing.T) {
	work := tree(t, map[string]string{"a": "first", "b": "first", "c": "first"})
	sallytest.Settle(t)
	s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	sh(t, s, `echo 1 > a; echo 1 > b; echo 1 > n; rm c; echo h > ~/h; echo t > /tmp/t`)
	try(t, s, eye, `true`) // so that there is one to be made anew
	report, err := s.Apply(t.Context(), changes(t, s), sandbox.ApplyOptions{Paths: []string{"a", "n"}})
	if err != nil || strings.Join(report.Applied, " ") != "a n" {
		t.Fatalf("%+v, %v", report, err)
	}
	expect(t, work+"/a", "1\n")
	expect(t, work+"/n", "1\n")
	expect(t, work+"/b", "first")
	if got := short(changes(t, s)); got != "deleted c\nmodified b" {
		t.Errorf("what is left is\n%s", got)
	}
	missing(t, s.Dir()+"/layers/workspace/upper/a")

	if err := s.Discard(t.Context(), []string{"c"}); err != nil {
		t.Fatal(err)
	}
	for _, e := range []sandbox.Envelope{eye, {}} {
		if out, _ := try(t, s, e, `cat a b c n ~/h; [ $HOME = / ] || cat /tmp/t`); out != "1\n1\nfirst1\nh\nt" {
			t.Errorf("the %v sees %q", e.Box, out)
		}
	}
	// What was applied is the workspace's now: the next base.
	write(t, work+"/a", "the user's")
	sallytest.Settle(t)
	if got := sh(t, s, `cat a; echo 2 > a`); got != "the user's" {
		t.Errorf("%q", got)
	}
	sallytest.Settle(t)
	if got := verdicts(t, s); got["a"] != "applied" || got["b"] != "applied" {
		t.Errorf("%q", got)
	}
	if got := short(changes(t, s)); got != "" {
		t.Errorf("there is still\n%s", got)
	}
	sh(t, s, `echo 3 > a; echo 3 > z`)
	if err := s.Discard(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, s, `cat a ~/h; ls`); got != "2\nh\na\nb\nc\nn" {
		t.Errorf("%q", got)
	}
}
