package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// What a fork leaves may have any name and any form. It comes to be in the session
// as it is.
func TestAdoptedAsItIs(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "the host's")
	long := strings.Repeat("n", 255)
	unreadable := []string{"unreadable directories"}
	for _, test := range []struct{ name, script string }{
		{"names of odd bytes", `touch $'\xff\xfe' $'a\tb' ' ' '..a' '...' '-rf' '$(x)' '*' 'é' $'\x01' '\n' 'a -> b' '"' .sallyport-x`},
		{"long names", `mkdir ` + long + ` && cd ` + long + ` && echo x > ` + strings.ReplaceAll(long, "n", "m") + ` && ln -s ` + long + ` l`},
		{"a deep tree", `for i in {1..100}; do mkdir dirdirdirdirdirdir && cd dirdirdirdirdirdir && echo $i > f; done`},
		{"links that lead out", `ln -s / root; ln -s ../../../.. up; ln -s ` + secret + ` secret; ln -s /proc/1/root proc; ln -s /proc/self/fd/3 fd; ln -sfT / d; ln -sfT ` + secret + ` a`},
		{"a link in the place of a directory", `rm -r d; ln -s /tmp d; echo x > d/y`},
		{"a link to itself", `ln -s loop loop; ln -s b2 b1; ln -s b1 b2`},
		{"setuid, setgid and sticky", `cp /bin/true t; chmod 6755 t; mkdir s; chmod 3777 s; echo x > s/x; chmod 7600 a`},
		{"unreadable directories", `mkdir p; echo x > p/x; chmod 311 p; chmod 0555 d; mkdir q; echo y > q/y; chmod 500 q`},
		{"holes", `truncate -s 300M hole; echo end >> hole; printf 'begin' > part; truncate -s 5000000 part; truncate -s +1 part`},
		{"large content", `head -c 7654321 /dev/zero | tr '\0' x > large; yes text | head -c 3000001 > a`},
		{"a socket", `perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "sock", Listen => 1) or die'; test -S sock`},
		{"FIFOs", `mkfifo -m 620 p; rm a; mkfifo a; ln p p2`},
		{"many names of one file", `for i in {1..50}; do ln a a$i; done; echo x > h; mkdir n; for i in {1..50}; do ln h n/h$i; done; ln h d/h; ln -s l l; ln -P l l2`},
		{"times", `touch -d 1969-01-01 old; touch -d 2100-01-01T00:00:00.123456789 new; touch -d 1999-09-09 d a; touch -hd 2001-01-01 -r /bin/sh x; ln -s a l; touch -hd 2002-02-02 l`},
		{"attributes", `perl -e 'my $set = qx(uname -m) =~ /x86_64/ ? 188 : 5; for (["a","user.one","1"],["d","user.dir",""],["n","user.new","v" x 1000]) { my ($f,$n,$v)=@$_; open my $h, ">>", $f if ! -e $f; syscall($set, $f, $n, $v, length $v, 0) == 0 or die "$f $!" }' `},
		{"a directory removed that could not be read", `mkdir x; echo y > x/y; chmod 0 x; rmdir x; chmod 755 x; rm -r x; rm -r closed`},
		{"changed and changed back", `cp -a a t; echo x > a; mv t a; cp -a d e; rm -r d; mv e d`},
		{"everything removed", `rm -rf * .[a-z]* ~/.[a-z]* ~/* 2> /dev/null`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			work := func() string {
				return aged(t, tree(t, map[string]string{"a": "text\n", "d/x": "x", "d/e/y": "y"}))
			}
			adopts := sallytest.Session(t, sandbox.Settings{Workspace: work()}, sandbox.Limits{})
			runs := sallytest.Session(t, sandbox.Settings{Workspace: work()}, sandbox.Limits{})
			for _, s := range []*sandbox.Session{adopts, runs} {
				sh(t, s, `mkdir -p closed/in; echo x > closed/in/x; chmod 500 closed closed/in; echo h > ~/.h`)
			}
			f := fork(t, adopts)
			defer closeSession(t, f)
			said, _ := try(t, f, sandbox.Envelope{}, test.script)
			if os.Geteuid() != 0 && slices.Contains(unreadable, test.name) {
				// Nobody but root can read it from outside.
				if err := effects(t, f).Adoptable(); !errors.Is(err, sandbox.ErrInexact) || !strings.Contains(err.Error(), "cannot be read") {
					t.Error(err)
				}
				return
			}
			adopt(t, adopts, effects(t, f))
			if diff := cmp.Diff(snapshot(t, f, false), snapshot(t, adopts, false)); diff != "" {
				t.Errorf("(-fork +adopted)\n%s", diff)
			}
			if there, _ := try(t, runs, sandbox.Envelope{}, test.script); there != said {
				t.Errorf("%q, there %q", said, there)
			}
			if diff := cmp.Diff(snapshot(t, runs, true), snapshot(t, adopts, true)); diff != "" {
				t.Errorf("(-run +adopted)\n%s", diff)
			}
			attributes := `find . ~ /tmp -xdev -type f -o -xdev -type d | LC_ALL=C sort | perl -ne 'BEGIN { $list = qx(uname -m) =~ /x86_64/ ? 194 : 11 } chomp; my $b = "\0" x 9999; my $n = syscall($list, $_, $b, 9999); print "$_ ", substr($b, 0, $n) =~ s/\0/ /gr, "\n" if $n > 0'`
			want := sh(t, f, attributes)
			if strings.Contains(want, "user.one") != (test.name == "attributes") {
				t.Errorf("attributes\n%s", want)
			}
			if diff := cmp.Diff(want, sh(t, adopts, attributes)); diff != "" {
				t.Errorf("attributes (-fork +adopted)\n%s", diff)
			}
			if got := sh(t, adopts, `stat -c %b hole 2>/dev/null || echo 0`); len(got) > 3 {
				t.Errorf("a hole takes %s blocks", got)
			}
			expect(t, secret, "the host's")
		})
	}
}

// What cannot be made again exactly is refused by name, and nothing of it is made.
func TestInexactEffectsAreRefusedByName(t *testing.T) {
	long := strings.Repeat("n", 250)
	for _, test := range []struct{ name, before, script, path, why string }{
		{"a denied path", ``, `rm -f secret; echo x > secret; echo y > a`, "secret", "denied"},
		{"in a denied directory", ``, `mkdir -p hidden; echo x > hidden/x`, "hidden", "denied"},
		{"a denied path removed", ``, `rm -f secret`, "secret", "denied"},
		{"a directory that holds a denied path", ``, `rm -rf d`, "d", "denied"},
		{"one name of a file of several", `echo x > ~/h1; ln ~/h1 ~/h2`, `echo y > ~/h1`, "h1", "hard links"},
		{"the mode of one of them", `echo x > h1; ln h1 h2`, `chmod 700 h2`, "h2", "hard links"},
		{"one of them through a third name", `echo x > h1; ln h1 h2`, `ln h1 h3; echo y > h3`, "h1", "hard links"},
		{"two names moved", `echo x > h1; ln h1 h2`, `mv h1 m1; mv h2 m2`, "h1", "hard links"},
		{"a path that is too long", ``, `for i in {1..20}; do mkdir ` + long + ` && cd ` + long + ` || exit; done`, long, "too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			work := tree(t, map[string]string{"a": "a", "secret": "s", "hidden/y": "y", "d/in/secret": "s", "d/x": "x"})
			s := sallytest.Session(t, sandbox.Settings{Workspace: work, Denied: []string{work + "/secret", work + "/hidden", work + "/d/in/secret"}}, sandbox.Limits{})
			sh(t, s, test.before)
			e := inFork(t, s, test.script)
			before := snapshot(t, s, false)
			a, err := s.Adopt(t.Context(), e)
			if !errors.Is(err, sandbox.ErrInexact) || !strings.Contains(err.Error(), "/"+test.path) || !strings.Contains(err.Error(), test.why) {
				t.Errorf("%v, %v", a, err)
			}
			if e := e.Adoptable(); e == nil || err == nil || e.Error() != err.Error() {
				t.Errorf("%v, and before %v", err, e)
			}
			if diff := cmp.Diff(before, snapshot(t, s, false)); diff != "" {
				t.Errorf("written\n%s", diff)
			}
		})
	}
}

// A file of several names can be removed with all of them, where none was moved,
// and it can be given another.
func TestAllNamesOfAFile(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	sh(t, s, `mkdir d; echo x > d/1; ln d/1 d/2; ln d/1 3`)
	adopt(t, s, inFork(t, s, `ln 3 4`))
	if got := sh(t, s, `ls -i 3 4 d | grep -c "^ *$(stat -c %i 3) "; stat -c %h 3`); got != "4\n4" {
		t.Errorf("%q", got)
	}
	adopt(t, s, inFork(t, s, `rm -r d 3 4`))
	if got := sh(t, s, `ls -A`); got != "" {
		t.Errorf("%q", got)
	}
}

// A program of the session that swaps a directory for a link, again and again,
// never has anything written where the link leads.
func TestSwappedParentLeadsNowhere(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	sh(t, s, `mkdir -p ~/victim/e; cd ~/victim; echo x > x; echo y > e/y`)
	victim := func() string { return sh(t, s, `cd ~/victim; find . -printf '%p %m %s %T@\n'`) }
	before := victim()
	adopted, overtaken, half := 0, 0, 0
	for range 10 {
		sh(t, s, `rm -rf d real; mkdir -p d/e; echo x > d/x; echo y > d/e/y`)
		e := inFork(t, s, `echo fork > d/x; echo fork > d/new; rm d/e/y; mkdir d/e/m; chmod 700 d/e`)
		sh(t, s, `perl -e 'while (1) { rename "d", "real"; symlink "$ENV{HOME}/victim", "d"; unlink "d"; rename "real", "d" }' > /dev/null 2>&1 & echo $! > ~/pid`)
		for range 20 {
			a, err := s.Adopt(t.Context(), e)
			if errors.Is(err, sandbox.ErrOvertaken) {
				overtaken++
				continue
			}
			if adopted++; err != nil {
				half++
				if len(a.Left) == 0 {
					t.Errorf("%v, and nothing is left of %q", err, a.Paths)
				}
			}
			break
		}
		sh(t, s, `kill $(cat ~/pid); while kill -0 $(cat ~/pid) 2>/dev/null; do :; done`)
		if after := victim(); after != before {
			t.Fatalf("%s\nwas\n%s", after, before)
		}
	}
	t.Logf("%d were adopted, %d of them half, and %d overtaken", adopted, half, overtaken)
}

// An adoption that fails half way says what it did, and what not.
func TestHalfWay(t *testing.T) {
	work := tree(t, map[string]string{"a": "text\n", "d/x": "x", "z": "z"})
	s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	e := inFork(t, s, `echo fork > a; echo fork > d/new; mkdir e; echo fork > e/f; rm z`)
	sh(t, s, `chmod 555 d`)
	a, err := s.Adopt(t.Context(), e)
	if err == nil || errors.Is(err, sandbox.ErrOvertaken) || !strings.Contains(err.Error(), "half way: "+work+"/d/new: permission denied") {
		t.Error(err)
	}
	want := &sandbox.Adoption{Paths: []string{work + "/a"}, Left: []string{work + "/d/new", work + "/e", work + "/e/f", work + "/z"}, Bytes: 15}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Error(diff)
	}
	if got := sh(t, s, `cat a; ls -A . d; stat -c %a d`); got != "fork\n.:\na\nd\nz\n\nd:\nx\n555" {
		t.Errorf("%q", got)
	}
}

// An adoption that is given up leaves nothing, whenever that is.
func TestCancelledAdoptionWritesNothing(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"a": "text\n"})}, sandbox.Limits{})
	e := inFork(t, s, `head -c 9000000 /dev/zero | tr '\0' x > large; for i in {1..3000}; do echo > $i; done; rm a`)
	before := snapshot(t, s, false)
	for n := 0; ; n += 1 + n/3 {
		ctx := &givenUp{Context: t.Context(), after: n}
		_, err := s.Adopt(ctx, e)
		if err == nil {
			t.Logf("it goes on to the end when it is given up at %d", n)
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, snapshot(t, s, false)); diff != "" {
			t.Fatalf("given up at %d\n%s", n, diff)
		}
	}
	if got := sh(t, s, `ls -A | wc -l`); got != "3001" {
		t.Errorf("%q", got)
	}
}

// givenUp is a context that ends when its end was asked for so many times.
type givenUp struct {
	context.Context
	after int
}

func (g *givenUp) Err() error {
	if g.after--; g.after < 0 {
		return context.Canceled
	}
	return nil
}

// What was adopted leaves as what was done: the same bases are proved, and what the
// user changes afterwards is a conflict.
func TestAdoptedEffectsLeaveAsIfTheyHadRun(t *testing.T) {
	work := tree(t, map[string]string{"a": "text\n", "b": "text\n", "d/x": "x", "gone": "g"})
	sallytest.Settle(t)
	stored := stored(t, sandbox.Settings{Workspace: work})
	s := start(t, stored)
	adopt(t, s, inFork(t, s, `sed -i s/text/fork/ a b; rm -r d gone; echo n > new`))
	write(t, work+"/b", "user\n")
	c := changes(t, s)
	if got := withBases(c); got != "modified a proved  \nmodified b conflict changed since in the workspace \ndeleted d proved  \ndeleted gone proved  \nadded new absent  " {
		t.Errorf("%s", got)
	}
	if _, err := s.Apply(t.Context(), c, sandbox.ApplyOptions{}); err != nil {
		t.Error(err)
	}
	expect(t, work+"/a", "fork\n")
	expect(t, work+"/b", "user\n")
	expect(t, work+"/new", "n\n")
	missing(t, work+"/d")
	missing(t, work+"/gone")
	closeSession(t, s)
}

func TestAdoptedIntoAFork(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{Workspace: tree(t, map[string]string{"a": "0"})}, sandbox.Limits{})
	f := fork(t, s)
	defer closeSession(t, f)
	sh(t, f, `echo 1 > one; echo 1 > a`)
	e := inFork(t, f, `echo 2 > two; echo 2 > a; rm one; echo 2 > ~/h`)
	if _, err := s.Adopt(t.Context(), e); err == nil || !strings.Contains(err.Error(), "no fork of this session") {
		t.Error(err)
	}
	adopt(t, f, e)
	if got := sh(t, f, `cat a two ~/h; ls`); got != "2\n2\n2\na\ntwo" {
		t.Errorf("%q", got)
	}
	if got := sh(t, s, `cat a; ls`); got != "0a" {
		t.Errorf("%q", got)
	}
	adopt(t, s, effects(t, f))
	if got := sh(t, s, `cat a two ~/h; ls`); got != "2\n2\n2\na\ntwo" {
		t.Errorf("%q", got)
	}
}

func TestAdoptedIntoAnExposedDirectory(t *testing.T) {
	cache := tree(t, map[string]string{"c": "host"})
	s := sallytest.Session(t, sandbox.Settings{Expose: []sandbox.Exposed{{Dirs: []sandbox.Expose{{Path: cache, Cow: true}}}}}, sandbox.Limits{})
	e := inFork(t, s, `echo fork > `+cache+`/c; echo n > `+cache+`/new`)
	a := adopt(t, s, e)
	if !slices.Equal(a.Paths, []string{cache + "/c", cache + "/new"}) {
		t.Errorf("%q", a.Paths)
	}
	if got := sh(t, s, `cat `+cache+`/*`); got != "fork\nn" {
		t.Errorf("%q", got)
	}
	expect(t, cache+"/c", "host")
	if names, err := os.ReadDir(cache); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
}
