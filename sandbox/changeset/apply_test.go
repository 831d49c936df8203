package changeset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// session makes a base, and changes it in one call.
func (l *lab) sessionOn(base, script string) *Bases {
	l.t.Helper()
	l.host(base)
	bases := l.bases()
	l.begin(bases)
	l.session(script)
	l.scan(bases)
	l.unmount()
	return bases
}

func (l *lab) apply(s *Set, o ApplyOptions) (*Report, error) {
	l.t.Helper()
	o.Journal = l.state
	report, err := Apply(l.t.Context(), s, openDir(l.t, l.base), o)
	if report == nil {
		l.t.Fatal("no report, ", err)
	}
	return report, err
}

// describeReport is a report in short: one line a path.
func describeReport(r *Report) string {
	var b strings.Builder
	for _, name := range r.Applied {
		fmt.Fprintf(&b, "applied %s\n", name)
	}
	for _, list := range []struct {
		what     string
		problems []Problem
	}{{"refused", r.Refused}, {"conflict", r.Conflicts}, {"failed", r.Failed}} {
		for _, p := range list.problems {
			fmt.Fprintf(&b, "%s %s: %s\n", list.what, p.Path, p.Reason)
		}
	}
	for _, name := range r.Left {
		fmt.Fprintf(&b, "left %s\n", name)
	}
	return b.String()
}

func checkTree(t testing.TB, dir, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimSpace(trim(want)), mustTree(t, dir)); diff != "" {
		t.Error("(-want +got)\n", diff)
	}
}

// Many changes are carried out together, and one among them that cannot be is
// found out all the same.
func TestApplyMany(t *testing.T) {
	l := newLab(t, newBox(t))
	bases := l.sessionOn(`for i in $(seq 1 400); do echo old > f$i; done`, `for i in $(seq 1 400); do echo new > f$i; done; for i in $(seq 1 200); do mkdir -p d$i/e; echo x > d$i/e/x; done`)
	set := l.read(Options{Bases: bases})
	l.host(`echo mine > f77; mkdir d5; echo mine > d5/mine`)
	report, err := l.apply(set, ApplyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var conflicts []string
	for _, p := range report.Conflicts {
		conflicts = append(conflicts, p.Path)
	}
	if !slices.Equal(conflicts, []string{"f77"}) || len(report.Failed) > 0 || len(report.Applied) != 400+600-1 {
		t.Errorf("conflicts %v, failed %v, %d applied", conflicts, report.Failed, len(report.Applied))
	}
	for _, name := range []string{"d5/mine", "d5/e/x", "d200/e/x"} {
		if _, err := os.Lstat(filepath.Join(l.base, name)); err != nil {
			t.Error(err)
		}
	}
	for i := range 400 {
		name, want := fmt.Sprintf("f%d", i+1), "new\n"
		if i+1 == 77 {
			want = "mine\n"
		}
		if got, err := os.ReadFile(filepath.Join(l.base, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestApplyPaths(t *testing.T) {
	b := newBox(t)
	const base = `echo a > a; mkdir d .git; echo x > d/x; echo c > .git/config; echo p > old`
	const session = `echo A > a; echo X > d/x; mkdir -p n/m/k; echo 1 > n/1; echo 2 > n/m/2; mkfifo n/m/p
		echo C > .git/config; mkdir -p .git/hooks; echo h > .git/hooks/h; mv old new; mkdir r; chmod 4755 d/x; touch n/m/.sallyport-x`
	protected := func(name string) bool { return within(name, ".git") }
	for _, test := range []struct {
		name, want, tree string
		options          ApplyOptions
	}{
		{"all", `
			applied a
			applied n
			applied n/1
			applied n/m
			applied n/m/2
			applied n/m/k
			applied new
			applied r
			refused .git/config: protected: it leaves only if it is named
			refused .git/hooks: protected: it leaves only if it is named
			refused .git/hooks/h: protected: it leaves only if it is named
			refused d/x: setuid, setgid or sticky file
			refused n/m/.sallyport-x: the name is reserved
			refused n/m/p: fifo`, `
			.git drwxr-xr-x
			.git/config -rw-r--r-- "c\n"
			a -rw-r--r-- "A\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"
			n drwxr-xr-x
			n/1 -rw-r--r-- "1\n"
			n/m drwxr-xr-x
			n/m/2 -rw-r--r-- "2\n"
			n/m/k drwxr-xr-x
			new -rw-r--r-- "p\n"
			r drwxr-xr-x`, ApplyOptions{}},
		{"a file in new directories, which are made", `
			applied n/m/2`, `
			.git drwxr-xr-x
			.git/config -rw-r--r-- "c\n"
			a -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"
			n drwxr-xr-x
			n/m drwxr-xr-x
			n/m/2 -rw-r--r-- "2\n"
			old -rw-r--r-- "p\n"`, ApplyOptions{Paths: []string{"n/m/2"}}},
		{"the old name of what was renamed", `
			applied new`, `
			.git drwxr-xr-x
			.git/config -rw-r--r-- "c\n"
			a -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"
			new -rw-r--r-- "p\n"`, ApplyOptions{Paths: []string{"old"}}},
		{"named and protected", `
			applied .git/hooks
			applied .git/hooks/h`, `
			.git drwxr-xr-x
			.git/config -rw-r--r-- "c\n"
			.git/hooks drwxr-xr-x
			.git/hooks/h -rw-r--r-- "h\n"
			a -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"
			old -rw-r--r-- "p\n"`, ApplyOptions{Paths: []string{".git/hooks"}}},
		{"exactly: not what is below, nor what is protected", `
			applied a
			refused .git/hooks: protected: it leaves only if it is named`, `
			.git drwxr-xr-x
			.git/config -rw-r--r-- "c\n"
			a -rw-r--r-- "A\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"
			old -rw-r--r-- "p\n"`, ApplyOptions{Paths: []string{".git/hooks", "a", "d"}, Exact: true}},
		{"named only by the root", `
			refused .git/config: protected: it leaves only if it is named
			refused .git/hooks: protected: it leaves only if it is named
			refused .git/hooks/h: protected: it leaves only if it is named`, ``,
			ApplyOptions{Paths: []string{"."}}},
		{"refused and in a refused directory", `
			refused n/m/p: fifo`, `
			.git drwxr-xr-x
			.git/config -rw-r--r-- "c\n"
			a -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"
			old -rw-r--r-- "p\n"`, ApplyOptions{Paths: []string{"n/m/p"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, b)
			bases := l.sessionOn(base, session)
			report, err := l.apply(l.read(Options{Bases: bases, Protected: protected}), test.options)
			if err != nil {
				t.Fatal(err)
			}
			got := describeReport(report)
			if test.tree == "" {
				if !strings.Contains(got, trim(test.want)) {
					t.Error(got)
				}
				return
			}
			if diff := cmp.Diff(trim(test.want), got); diff != "" {
				t.Error("(-want +got)\n", diff)
			}
			checkTree(t, l.base, test.tree)
		})
	}
}

// What the user does while changes are applied is never lost, and never mixed
// with what the session did.
func TestApplyWhileTheUserEdits(t *testing.T) {
	b := newBox(t)
	const save = `cp a a.new; echo user > a.new; mv a a~; mv a.new a`
	for _, test := range []struct {
		name, session string
		at            string // the step before which
		host          string // is done by the user
		want, tree    string
	}{
		{"saves a file just before it is replaced", `echo A > a`, "exchange", save,
			`conflict a: changed at this moment in the workspace`, `
			a -rw-r--r-- "user\n"
			a~ -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"`},
		{"writes into a file just before it is replaced", `echo A > a`, "exchange", `echo user >> a`,
			`conflict a: changed at this moment in the workspace`, `
			a -rw-r--r-- "a\nuser\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"`},
		{"saves while the new file is made", `echo A > a`, "copy", save,
			`conflict a: changed since in the workspace`, `
			a -rw-r--r-- "user\n"
			a~ -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"`},
		{"saves after it was replaced", `echo A > a`, "journal that all is done", save,
			`applied a`, `
			a -rw-r--r-- "user\n"
			a~ -rw-r--r-- "A\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"`},
		{"removes a file just before it is replaced", `echo A > a`, "exchange", `rm a`,
			`conflict a: deleted since in the workspace`, `
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"`},
		{"makes a file where one is put", `echo n > n`, "put into place", `echo user > n`,
			`conflict n: made since in the workspace`, `
			a -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"
			n -rw-r--r-- "user\n"`},
		{"makes a directory where one is put", `mkdir n; echo n > n/n`, "put into place", `mkdir n; echo user > n/u`,
			`conflict n: made since in the workspace
			conflict n/n: made since in the workspace`, `
			a -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"
			n drwxr-xr-x
			n/u -rw-r--r-- "user\n"`},
		{"writes to a file just before it is removed", `rm a`, "move away", `echo user >> a`,
			`conflict a: changed at this moment in the workspace`, `
			a -rw-r--r-- "a\nuser\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"`},
		{"writes into a directory just before it is removed", `rm -r d`, "move away", `echo user >> d/x`,
			`conflict d: changed at this moment in the workspace`, `
			a -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\nuser\n"`},
		{"makes a file in a directory just before it is replaced", `rm -r d; echo D > d`, "exchange", `echo user > d/u`,
			`conflict d: changed at this moment in the workspace`, `
			a -rw-r--r-- "a\n"
			d drwxr-xr-x
			d/u -rw-r--r-- "user\n"
			d/x -rw-r--r-- "x\n"`},
		{"changes permissions just before", `chmod 755 a`, "journal a step", `chmod 600 a`,
			`conflict a: changed since in the workspace`, `
			a -rw------- "a\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"`},
		{"moves the directory while something is put into it", `echo n > d/n`, "put into place", `mv d e`,
			`applied d/n`, `
			a -rw-r--r-- "a\n"
			e drwxr-xr-x
			e/n -rw-r--r-- "n\n"
			e/x -rw-r--r-- "x\n"`},
		{"moves the directory before something is put into it", `echo n > d/n`, "copy", `mv d e; mkdir d`,
			`conflict d/n: its directory was moved in the workspace`, `
			a -rw-r--r-- "a\n"
			d drwxr-xr-x
			e drwxr-xr-x
			e/x -rw-r--r-- "x\n"`},
		{"swaps the directory for a link", `echo X > d/x`, "copy", `mv d e; mkdir ../away; echo away > ../away/x; ln -s ../away d`,
			`conflict d/x: its directory was moved in the workspace`, `
			a -rw-r--r-- "a\n"
			d Lrwxrwxrwx -> ../away
			e drwxr-xr-x
			e/x -rw-r--r-- "x\n"`},
		{"removes the old place of what was renamed", `mv a b`, "move away", `echo user > a`,
			`conflict b: changed at this moment in the workspace`, `
			a -rw-r--r-- "user\n"
			d drwxr-xr-x
			d/x -rw-r--r-- "x\n"`},
	} {
		for _, noExchange := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", test.name, noExchange), func(t *testing.T) {
				l := newLab(t, b)
				bases := l.sessionOn(`echo a > a; mkdir d; echo x > d/x`, test.session)
				done := false
				report, err := l.apply(l.read(Options{Bases: bases}), ApplyOptions{seam: seam{
					noExchange: noExchange,
					step: func(what string) {
						if what == test.at && !done {
							done = true
							l.host(test.host)
						}
					},
				}})
				if err != nil {
					t.Fatal(err)
				}
				if !done {
					t.Fatal("there was no such step")
				}
				if diff := cmp.Diff(trim(test.want), describeReport(report)); diff != "" {
					t.Error("(-want +got)\n", diff)
				}
				checkTree(t, l.base, test.tree)
				if _, err := os.Stat(filepath.Join(l.dir, "state", journalFile)); !errors.Is(err, os.ErrNotExist) {
					t.Error("the journal was left")
				}
			})
		}
	}
}

// A conflict anywhere leaves everything as it was.
func TestApplyAtomic(t *testing.T) {
	b := newBox(t)
	const base = `for i in a b c z; do echo $i > $i; done; mkdir d e; echo x > d/x; echo y > e/y`
	const session = `echo A > a; rm b; mv c c2; rm -r d; chmod 700 e; mkdir n; echo n > n/n; ln a l; echo Z > z`
	for _, test := range []struct{ at, host string }{
		{"", `echo user > z`},
		{"copy", `echo user > z`},
		{"exchange", `echo user > z`},
		{"move away", `echo user > d/user`},
		{"move away", `echo user > b`},
		{"move away", `chmod 711 e`},
	} {
		l := newLab(t, b)
		bases := l.sessionOn(base, session)
		before := ""
		host := func() {
			l.host(test.host)
			before = "changed"
		}
		if test.at == "" {
			host()
		}
		report, err := l.apply(l.read(Options{Bases: bases}), ApplyOptions{Atomic: true, seam: seam{step: func(what string) {
			if what == test.at && before == "" {
				host()
			}
		}}})
		if !errors.Is(err, ErrNotApplied) || len(report.Conflicts) == 0 || len(report.Applied) > 0 {
			t.Errorf("%v: %v\n%s", test, err, describeReport(report))
		}
		want := mustTree(t, l.base)
		l2 := newLab(t, b)
		l2.host(base + "\n" + test.host)
		if diff := cmp.Diff(mustTree(t, l2.base), want); diff != "" {
			t.Errorf("%v: (-want +got)\n%s", test, diff)
		}
	}
}

func TestApplyForce(t *testing.T) {
	l := newLab(t, newBox(t))
	bases := l.sessionOn(
		`for i in a b c; do echo $i > $i; done; mkdir d k; echo x > d/x; echo k > k/k; echo r > r`,
		`echo A > a; rm b; echo C > c; rm -r d; echo n > n; mkdir m; echo 1 > m/1; echo K > k/k; chmod 700 k; mv r s`)
	l.host(`echo user > a; echo user > b; rm c; mkdir c; echo user > c/user; echo user > d/user; echo user > n; mkdir -m 711 m; echo user > m/user; rm -r k; rm r`)
	set := l.read(Options{Bases: bases})
	report, err := l.apply(set, ApplyOptions{})
	if err != nil || !slices.Equal(report.Applied, []string{"m/1", "s"}) {
		t.Errorf("without force: %v\n%s", err, describeReport(report))
	}
	report, err = l.apply(l.read(Options{Bases: bases}), ApplyOptions{Force: true})
	if err != nil || len(report.Conflicts)+len(report.Failed) > 0 {
		t.Errorf("%v\n%s", err, describeReport(report))
	}
	checkTree(t, l.base, `
		a -rw-r--r-- "A\n"
		c -rw-r--r-- "C\n"
		k drwx------
		k/k -rw-r--r-- "K\n"
		m drwxr-xr-x
		m/1 -rw-r--r-- "1\n"
		m/user -rw-r--r-- "user\n"
		n -rw-r--r-- "n\n"
		s -rw-r--r-- "r\n"`)
}

// The upper is written to while its changes are applied.
func TestApplyWhileTheSessionGoesOn(t *testing.T) {
	b := newBox(t)
	for name, script := range map[string]string{
		"other content":      `echo evil > a`,
		"same size and time": `touch -r a ../t; printf E > a; touch -r ../t a; rm ../t`,
		"a link":             `rm a; ln -s /etc/passwd a`,
		"a FIFO":             `rm a; mkfifo a`,
		"a directory":        `rm a; mkdir a`,
		"nothing":            `rm a`,
		"other permissions":  `chmod 4755 a`,
	} {
		for _, at := range []string{"journal a step", "make file", "copy"} {
			t.Run(name+" at "+at, func(t *testing.T) {
				l := newLab(t, b)
				bases := l.sessionOn(`printf a > a`, `printf A > a`)
				set := l.read(Options{Bases: bases})
				done := false
				report, err := l.apply(set, ApplyOptions{seam: seam{step: func(what string) {
					if what == at && !done {
						done = true
						if err := shell(l.upper, script); err != nil {
							t.Fatal(err)
						}
					}
				}}})
				if err != nil {
					t.Fatal(err)
				}
				if len(report.Failed) != 1 {
					// A file that was unlinked while it was open stays what it was.
					if at != "copy" || len(report.Applied) != 1 || !strings.HasPrefix(script, "rm") {
						t.Error(describeReport(report))
					}
					return
				}
				checkTree(t, l.base, `a -rw-r--r-- "a"`)
			})
		}
	}
}

func TestApplyKeeps(t *testing.T) {
	l := newLab(t, newBox(t))
	bases := l.sessionOn(`echo a > a; echo b > b`, `
		echo A > a
		truncate -s 4G sparse
		printf x | dd of=sparse bs=1 seek=3000000000 conv=notrunc 2>/dev/null
		echo b > x`)
	// On the files of the upper: an overlay passes them through.
	for _, name := range []string{"x", "a"} {
		if err := unix.Setxattr(filepath.Join(l.upper, name), "user.mine", []byte("yes"), 0); err != nil {
			t.Fatal(err)
		}
	}
	setACL := exists("/usr/bin/setfacl")
	if setACL {
		// After the session, with the records made anew.
		l.host(`setfacl -m u:1:r a`)
	}
	report, err := l.apply(l.read(Options{Bases: bases}), ApplyOptions{Force: true})
	if err != nil || len(report.Applied) != 3 {
		t.Fatalf("%v\n%s", err, describeReport(report))
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(l.base, "sparse"), &st); err != nil || st.Size != 4<<30 || st.Blocks > 1000 {
		t.Errorf("size %d, %d blocks, %v", st.Size, st.Blocks, err)
	}
	for _, name := range []string{"x", "a"} {
		buf := make([]byte, 10)
		n, err := unix.Getxattr(filepath.Join(l.base, name), "user.mine", buf)
		if err != nil || string(buf[:n]) != "yes" {
			t.Errorf("%s: user.mine is %q, %v", name, buf[:max(n, 0)], err)
		}
		list := make([]byte, 1000)
		if n, _ := unix.Listxattr(filepath.Join(l.base, name), list); strings.Contains(string(list[:n]), "overlay") {
			t.Errorf("%s has %q", name, list[:n])
		}
	}
	if setACL {
		if _, err := unix.Getxattr(filepath.Join(l.base, "a"), posixACL, make([]byte, 100)); err != nil {
			t.Error("the access control list is gone:", err)
		}
	}
}

func exists(name string) bool { _, err := os.Stat(name); return err == nil }

// As root, files get the upper's owner, but nothing in a user's tree becomes
// root's.
func TestApplyOwner(t *testing.T) {
	if !asRoot() {
		t.Skip("needs root")
	}
	b := newBox(t)
	for _, test := range []struct {
		name  string
		owner *Owner
		want  string
	}{
		{"as in the upper", nil, `a 1:1 b 5:6 d 1:1 d/e 1:1 d/e/f 1:1 d/g 7:8 l 1:1 m 5:6 n 1:1 r 0:0`},
		{"given", &Owner{3, 4}, `a 3:4 b 3:4 d 3:4 d/e 3:4 d/e/f 3:4 d/g 3:4 l 3:4 m 3:4 n 3:4 r 3:4`},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, b)
			bases := l.sessionOn(`echo a > a; echo b > b; echo m > m; chown -R 1:1 .; echo r > r`, `
				echo A > a; chown 5:6 b m; echo B > b; mkdir -p d/e; echo f > d/e/f; echo g > d/g; chown 7:8 d/g
				ln -s a l; echo n > n; echo R > r`)
			report, err := l.apply(l.read(Options{Bases: bases}), ApplyOptions{Owner: test.owner})
			if err != nil || len(report.Applied) != 10 {
				t.Fatalf("%v\n%s", err, describeReport(report))
			}
			var got []string
			for name := range strings.FieldsSeq("a b d d/e d/e/f d/g l m n r") {
				var st syscall.Stat_t
				if err := syscall.Lstat(filepath.Join(l.base, name), &st); err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s %d:%d", name, st.Uid, st.Gid))
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
