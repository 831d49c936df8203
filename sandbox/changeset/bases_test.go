package changeset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the user does to the workspace before, during and after a session's calls
// decides which changes are conflicts.
func TestBases(t *testing.T) {
	type does struct{ who, script string }
	b := newBox(t)
	for _, test := range []struct {
		name  string
		steps []does
		want  string
		user  bool // only as an ordinary user
	}{
		{"nothing", []does{
			{"host", `echo a > a; echo b > b; mkdir d; echo f > d/f; ln -s a l`},
			{"call", `echo A > a; rm b; echo n > n; rm -r d; rm l`},
		}, `
			modified file "a"
			deleted file "b"
			deleted dir "d" below 1
			deleted symlink "l"
			added file "n"`, false},
		{"before the call", []does{
			{"host", `echo a > a; mkdir d`},
			{"call", `cat a`},
			{"host", `echo aa > a; echo f > d/f`},
			{"call", `echo A >> a; rm -r d`},
		}, `
			modified file "a"
			deleted dir "d" below 1`, false},
		{"during the call", []does{
			{"host", `echo a > a; echo b > b; mkdir d; echo c > c`},
			{"begin", ``},
			{"host", `echo bb > b; chmod 600 c; echo f > d/f`},
			{"session", `echo A > a; echo B > b; rm -r d; echo C > c`},
			{"scan", ``},
		}, `
			modified file "a"
			modified file "b" conflict: changed in the workspace while the session was at work on it
			modified file "c" conflict: changed in the workspace while the session was at work on it
			deleted dir "d" below 1 conflict: changed since in the workspace`, false},
		{"after the call", []does{
			{"host", `mkdir d e; for i in 1 2 3 4 5 6 7 d/1 d/2 e/1; do echo $i > $i; done`},
			{"call", `for i in 1 2 3 4 5; do echo x >> $i; done; rm 6 7 d/1; rm -r e; echo n > n; mv d/2 2d`},
			{"host", `echo y > 1; mv 2 2~; cp 2~ 2; rm 3; touch 4; echo y > 6; rm 7; echo x > d/1; echo x > e/2; echo n > n; echo x >> d/2`},
		}, `
			modified file "1" conflict: changed since in the workspace
			modified file "2" conflict: replaced since in the workspace
			added file "2d"
			added file "3" conflict: deleted since in the workspace
			modified file "4" conflict: changed since in the workspace
			modified file "5"
			deleted file "6" conflict: changed since in the workspace
			deleted file "d/1" conflict: changed since in the workspace
			deleted file "d/2" conflict: changed since in the workspace
			deleted dir "e" below 2 conflict: changed since in the workspace`, false},
		{"the same content as the session", []does{
			{"host", `echo a > a; echo b > b`},
			{"call", `echo A > a; rm b; echo n > n`},
			{"host", `echo A > a; rm b; echo n > n`},
		}, ``, false},
		{"made by both", []does{
			{"host", `:`},
			{"call", `echo n > n; mkdir d; echo x > d/x; echo y > d/y`},
			{"host", `echo m > n; mkdir d; echo z > d/x`},
			{"call", `echo more >> d/y`},
		}, `
			modified file "d/x" conflict: made since in the workspace
			added file "d/y"
			modified file "n" conflict: made since in the workspace`, false},
		{"a stale view", []does{
			{"host", `echo a > a; echo b > b; mkdir d; echo f > d/f`},
			{"call", `cat a b d/f`},
			{"host", `mv a a~; echo new > a; mv b b~; echo new > b`},
			{"stale call", `grep -q a a; echo x >> a; rm b; echo x >> d/f`},
		}, `
			modified file "a" conflict: changed in the workspace while the session was at work on it
			deleted file "b" conflict: changed in the workspace while the session was at work on it
			modified file "d/f"`, false},
		{"a view made fresh", []does{
			{"host", `echo a > a`},
			{"call", `cat a`},
			{"host", `mv a a~; echo new > a`},
			{"call", `grep -q new a; echo x >> a`},
		}, `
			modified file "a"`, false},
		{"a directory swapped for an old one in a stale view", []does{
			{"host", `mkdir -p d/e d2/e k/e; echo old > d/e/f; echo old2 > d2/e/f; echo k > k/e/k`},
			{"call", `cat d/e/f k/e/k; ls -R`},
			{"host", `mv d d.old; mv d2 d`},
			{"stale call", `grep -q 'old$' d/e/f; echo x >> d/e/f; echo x >> k/e/k`},
		}, `
			modified file "d/e/f" conflict: changed in the workspace while the session was at work on it
			modified file "k/e/k"`, false},
		{"neighbours of what the user saves", []does{
			{"host", `mkdir d; echo f > d/f; echo g > d/g`},
			{"begin", ``},
			{"host", `mv d/f d/f~; cp d/f~ d/f`},
			{"session", `echo x >> d/g`},
			{"scan", ``},
		}, `
			modified file "d/g"`, false},
		{"a directory removed and made again", []does{
			{"host", `mkdir -p d/e; echo f > d/f; echo g > d/g; echo h > d/e/h; echo i > d/i`},
			{"call", `rm -r d; mkdir d; echo F > d/f; echo n > d/n`},
			{"host", `echo x > d/new; echo gg > d/g`},
		}, `
			deleted dir "d/e" below 1
			modified file "d/f"
			deleted file "d/g" conflict: changed since in the workspace
			deleted file "d/i"
			added file "d/n"
			deleted file "d/new" conflict: changed since in the workspace`, false},
		{"a directory removed after a file in it was changed by both", []does{
			{"host", `mkdir -p d/e d2/e; echo f > d/e/f; echo f > d2/e/f`},
			{"call", `echo x >> d/e/f; echo x >> d2/e/f`},
			{"host", `echo y >> d/e/f`},
			{"call", `rm -r d d2`},
		}, `
			deleted dir "d" below 2 conflict: changed in the workspace while the session was at work on it
			deleted dir "d2" below 2`, false},
		{"a directory removed after the session saw what the user did in it", []does{
			{"host", `mkdir -p d/e; echo f > d/e/f; echo g > d/g`},
			{"call", `echo n > d/e/n; chmod 700 d/e`},
			{"host", `echo x > d/e/x; echo gg > d/g`},
			{"call", `rm -r d`},
		}, `
			deleted dir "d" below 4`, false},
		{"a directory removed with what the session did not see", []does{
			{"host", `mkdir -p d/e; echo f > d/e/f`},
			{"call", `echo n > d/e/n`},
			{"host", `echo user > d/e/n`},
			{"call", `rm -r d`},
		}, `
			deleted dir "d" below 3 conflict: changed in the workspace while the session was at work on it`, false},
		{"a file removed and made again", []does{
			{"host", `echo a > a`},
			{"call", `rm a`},
			{"host", `echo b > a`},
			{"call", `echo c > a`},
		}, `
			modified file "a" conflict: changed since in the workspace`, false},
		{"the mode of a directory", []does{
			{"host", `mkdir d e f`},
			{"call", `chmod 700 d e f`},
			{"host", `chmod 711 d; touch e/x; rmdir f; mkdir f`},
		}, `
			mode dir "d" 711>700 conflict: changed since in the workspace
			mode dir "e" 755>700
			mode dir "f" 755>700 conflict: replaced since in the workspace`, false},
		{"a process that died in a call", []does{
			{"host", `echo a > a; echo b > b`},
			{"begin", ``},
			{"session", `echo A > a; echo B > b`},
			{"die", ``},
			{"host", `echo x > b`},
			{"wait", ``},
			{"reopen", ``},
			{"call", `:`},
		}, `
			modified file "a"
			modified file "b" conflict: changed in the workspace while the session was at work on it`, false},
		{"another call beside the one that died", []does{
			{"host", `echo a > a; echo b > b`},
			{"begin", ``},
			{"session", `echo A > a`},
			{"host", `echo x > a`},
			{"begin", ``},
			{"session", `echo B > b`},
			{"scan", ``},
		}, `
			modified file "a" conflict: changed in the workspace while the session was at work on it
			modified file "b"`, false},
		{"a process of the session that goes on after the call", []does{
			{"host", `echo a > a; echo b > b; echo c > c`},
			{"call", `echo A > a`},
			{"host", `echo x > b`},
			{"session", `echo B > b; echo C > c`},
			{"scan", ``},
		}, `
			modified file "a"
			modified file "b" conflict: changed in the workspace while the session was at work on it
			modified file "c"`, false},
		{"work hidden from the scan", []does{
			{"host", `mkdir d e; echo f > d/f; echo g > e/g`},
			{"call", `echo x >> d/f; chmod 000 d`},
			{"host", `echo y >> d/f`},
			{"call", `chmod 755 d; echo x >> e/g`},
		}, `
			modified file "d/f" conflict: changed in the workspace while the session was at work on it
			modified file "e/g"`, true},
		{"records that are not needed any more", []does{
			{"host", `echo a > a`},
			{"call", `echo n > n; mkdir d; echo x > d/x`},
			{"call", `rm -r n d`},
			{"host", `echo n > n; mkdir d; echo x > d/x`},
			{"call", `echo m >> n; echo m >> d/x`},
		}, `
			modified file "d/x"
			modified file "n"`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.user && asRoot() {
				t.Skip("root reads everything")
			}
			l := newLab(t, b)
			bases := l.bases()
			var fresh Time
			for _, step := range test.steps {
				switch step.who {
				case "host":
					l.host(step.script)
				case "begin":
					l.begin(bases)
				case "session":
					l.session(step.script)
				case "scan":
					l.scan(bases)
				case "call":
					l.begin(bases)
					fresh = bases.times.Fresh
					l.session(step.script)
					l.scan(bases)
				case "stale call":
					if err := bases.Begin(Times{Call: l.settled(), Fresh: fresh}); err != nil {
						t.Fatal(err)
					}
					l.session(step.script)
					l.scan(bases)
				case "wait":
					l.settled()
				case "die":
					bases.Close()
				case "reopen":
					bases = l.bases()
				}
			}
			want := trim(test.want)
			if got := describe(l.read(Options{Bases: bases})); got != want {
				t.Error("(-want +got)\n", cmp.Diff(want, got))
			}
			// The next process knows the same.
			if got := describe(l.read(Options{Bases: l.bases()})); got != want {
				t.Error("after opening again (-want +got)\n", cmp.Diff(want, got))
			}
		})
	}
}

// Every beginning of the file is a state that proves nothing wrong.
func TestBasesFileCutOff(t *testing.T) {
	l := newLab(t, newBox(t))
	l.host(`for i in 1 2 3 4; do echo $i > $i; done; mkdir d; echo f > d/f`)
	bases := l.bases()
	l.begin(bases)
	l.session(`echo x >> 1; echo x >> 2; rm -r d; echo n > n`)
	l.scan(bases)
	l.host(`echo y >> 2; echo y >> 3`)
	l.begin(bases)
	l.session(`echo x >> 3; echo x >> 4`)
	l.scan(bases)
	l.host(`echo y >> 4`)

	file := filepath.Join(l.dir, "state", basesFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	proved := func() string {
		bases := l.bases()
		defer bases.Close()
		var names []string
		for _, c := range l.read(Options{Bases: bases}).Changes {
			if c.Base == BaseProved {
				names = append(names, c.Path)
			}
		}
		return strings.Join(names, " ")
	}
	if got, want := proved(), "1 3 d"; got != want {
		t.Fatalf("proved are %s, want %s", got, want)
	}
	for n := range len(whole) {
		if n%7 != 0 && whole[n] != '\n' && n > 0 && whole[n-1] != '\n' {
			continue
		}
		for _, tail := range []string{"", "\x00\x00\x00", "{}\n", "garbage\n" + string(whole[n:])} {
			if err := os.WriteFile(file, []byte(string(whole[:n])+tail), 0o600); err != nil {
				t.Fatal(err)
			}
			for name := range strings.FieldsSeq(proved()) {
				if !strings.Contains("1 3 d", name) {
					t.Fatalf("with %d bytes and %q, %s is proved", n, tail, name)
				}
			}
		}
	}
}

// The file does not grow without bound.
func TestBasesFileIsRewritten(t *testing.T) {
	l := newLab(t, newBox(t))
	l.host(`echo a > a`)
	bases := l.bases()
	l.begin(bases)
	l.session(`echo A > a`)
	l.scan(bases)
	for range 40_000 {
		if err := bases.Begin(Times{}); err != nil {
			t.Fatal(err)
		}
		bases.behind = false
		bases.times = Times{Call: Time{1, 1}, Fresh: Time{1, 1}}
	}
	fi, err := os.Stat(filepath.Join(l.dir, "state", basesFile))
	if err != nil {
		t.Fatal(err)
	}
	if fi.Size() > 2*rewriteAbove {
		t.Errorf("the file has %d bytes", fi.Size())
	}
	if got := describe(l.read(Options{Bases: l.bases()})); strings.Contains(got, "conflict") {
		t.Error(got)
	}
}
