package changeset

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// git runs git in a directory, with no configuration but its own.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{
		"-c", "core.autocrlf=false", "-c", "core.quotePath=true", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "safe.directory=*",
	}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// gitTree is what git makes of a directory's files: names, modes, contents.
func gitTree(t *testing.T, dir string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		git(t, dir, "init", "-q")
	}
	git(t, dir, "add", "-A", "-f")
	return git(t, dir, "ls-files", "-s")
}

var patchCases = []struct{ name, base, session string }{
	{"a line", `seq 20 > a`, `sed -i s/10/ten/ a`},
	{"far apart", `seq 100 > a`, `sed -i -e s/^10$/ten/ -e s/^90$/ninety/ a`},
	{"new", `echo x > a`, `echo y > b; mkdir d; echo z > d/c`},
	{"removed", `echo x > a; mkdir d; echo y > d/b; echo z > d/c`, `rm -r a d`},
	{"empty", `: > was; echo x > now`, `rm was; : > now; : > new`},
	{"filled", `: > a`, `echo x > a`},
	{"no newline", `printf 'a\nb' > both; printf 'a\nb\n' > lost; printf 'a\nb' > got`, `printf 'a\nc' > both; printf 'a\nb' > lost; printf 'a\nb\n' > got; printf x > new`},
	{"carriage returns", `printf 'a\r\nb\r\nc' > a`, `printf 'a\r\nx\r\nc\r' > a`},
	{"lines that look like a patch", `printf -- '--- a\n+++ b\n@@ -1 +1 @@\n' > a`, `printf -- '--- a\n+++ c\n@@ -1 +1 @@\n-- \ndiff --git a/x b/x\n' > a`},
	{"mode", `echo x > a; echo y > b; chmod 755 b`, `chmod 755 a; chmod 644 b`},
	{"mode and content", `echo x > a`, `chmod 755 a; echo z >> a`},
	{"rename", `seq 50 > a; mkdir d`, `mv a d/b`},
	{"rename and mode", `seq 50 > a`, `mv a b; chmod 755 b`},
	{"rename with edits", `seq 50 > a`, `mv a b; echo more >> b`},
	{"link", `ln -s a was; ln -s a other; echo x > a`, `rm was; ln -sfn b other; ln -s 'to a "quoted"' new; ln -s /etc/passwd out`},
	{"file to link and back", `echo x > a; ln -s x b`, `rm a b; ln -s y a; echo z > b`},
	{"directory to file and back", `mkdir d; echo x > d/f; echo y > e`, `rm -r d e; echo z > d; mkdir e; echo w > e/f`},
	{"binary", `printf 'a\0b' > a; printf 'x\0y' > gone; echo text > text`, `printf 'a\0c\0' > a; rm gone; printf '\0\1\2' > new; printf 'bin\0' > text`},
	{"binary, longer than a line", `head -c 5000 /dev/zero > a`, `{ seq 3000; printf '\0'; seq 2000; } > a; { printf '\0'; seq 1 7 90000; } > b`},
	{"binary, mode and rename", `{ printf '\0'; seq 100; } > a; { printf '\0'; seq 200; } > b`, `chmod 755 a; mv b c`},
	{"binary of mode and content", `printf 'a\0' > a`, `printf 'b\0' > a; chmod 755 a`},
	{"too large to compare", `seq 20 > a`, `seq 1 700000 > a`},
	{"names", `echo x > 'with space'; echo x > 'quote"d'; echo x > 'back\slash'; printf x > "$(printf 'tab\tx')"; printf x > "$(printf 'new\nline')"; printf x > "$(printf 'raw\377\200')"; echo x > é; echo x > ' lead'; echo x > -rf; echo x > 'trail '`,
		`for f in * ' lead'; do echo changed >> "./$f"; done; echo n > "$(printf '\001\033[31m')"; echo n > 'new space'; echo n > "it's"; mv ./-rf './--moved to'`},
	{"bytes that are no UTF-8", `printf 'a\377\n\200b\n' > a`, `printf 'a\376\n\200c\n' > a`},
	{"a directory of its own", `echo x > a`, `mkdir -p empty/deep; chmod 700 empty; echo y > a`},
	{"hard links", `echo x > a`, `ln a b; echo y > c; ln c d`},
}

// A patch does in a copy of the workspace what the session did in its own.
func TestGitAppliesPatches(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git to apply a patch with")
	}
	b := newBox(t)
	for _, test := range patchCases {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, b)
			l.host(test.base)
			copied, model := filepath.Join(l.dir, "copied"), filepath.Join(l.dir, "model")
			for _, dir := range []string{copied, model} {
				if err := copyTree(l.base, dir); err != nil {
					t.Fatal(err)
				}
			}
			l.mount()
			l.session(test.session)
			l.unmount()
			if err := shell(model, test.session); err != nil {
				t.Fatal(err)
			}
			var patch bytes.Buffer
			set := l.read(Options{})
			if err := set.WritePatch(t.Context(), &patch, DiffOptions{MaxFile: 1 << 20}); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(l.dir, "patch")
			if err := os.WriteFile(file, patch.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			before := gitTree(t, copied)
			git(t, copied, "apply", "--binary", "--check", file)
			git(t, copied, "apply", "--binary", file)
			if got, want := gitTree(t, copied), gitTree(t, model); got != want {
				t.Errorf("applied:\n%s\nthe session:\n%s\npatch:\n%.2000s", got, want, &patch)
			}
			// And back again.
			git(t, copied, "apply", "--binary", "-R", file)
			if got := gitTree(t, copied); got != before {
				t.Errorf("taken back:\n%s\nbefore:\n%s", got, before)
			}

			// What is shown on a terminal has nothing in it that acts on one.
			var shown, stat bytes.Buffer
			if err := set.WritePatch(t.Context(), &shown, DiffOptions{Terminal: true}); err != nil {
				t.Fatal(err)
			}
			if err := set.WriteStat(t.Context(), &stat, DiffOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, s := range []string{shown.String(), stat.String()} {
				for line := range strings.Lines(s) {
					if line = strings.TrimSuffix(line, "\n"); printableLine(line) != line {
						t.Errorf("%q", line)
					}
				}
			}
		})
	}
}

func only(s *Set, path string) []*Change {
	return slices.DeleteFunc(slices.Clone(s.Changes), func(c *Change) bool { return c.Path != path })
}

func TestPatchIsOfTheChosenChanges(t *testing.T) {
	l := newLab(t, newBox(t))
	l.host(`echo x > a; echo x > b`)
	l.mount()
	l.session(`echo y > a; echo y > b; mkfifo p`)
	set := l.read(Options{})
	var patch bytes.Buffer
	if err := set.WritePatch(t.Context(), &patch, DiffOptions{Changes: only(set, "b")}); err != nil {
		t.Fatal(err)
	}
	if want := "diff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n"; patch.String() != want {
		t.Errorf("%q", &patch)
	}
	patch.Reset()
	if err := set.WritePatch(t.Context(), &patch, DiffOptions{Changes: only(set, "p"), Terminal: true, Color: true}); err != nil {
		t.Fatal(err)
	}
	if want := "refused: p cannot leave the session: fifo\n"; patch.String() != want {
		t.Errorf("%q", &patch)
	}
}

// What is shown is bounded, also of a directory that was removed; a patch is not.
func TestWhatIsShownIsBounded(t *testing.T) {
	l := newLab(t, newBox(t))
	l.host(`mkdir d; for i in 1 2 3 4; do echo x > d/$i; done; seq 3 > b`)
	l.mount()
	l.session(`rm -r d; seq 100 > a; seq 4 > b; printf '%090d\n' 1 > c; seq 3 > e`)
	set := l.read(Options{})
	shown := func(o DiffOptions, write func(io.Writer, DiffOptions) error) string {
		var b bytes.Buffer
		if err := write(&b, o); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	patch := func(w io.Writer, o DiffOptions) error { return set.WritePatch(t.Context(), w, o) }
	stat := func(w io.Writer, o DiffOptions) error { return set.WriteStat(t.Context(), w, o) }
	for _, test := range []struct {
		name, want string
		o          DiffOptions
		write      func(io.Writer, DiffOptions) error
	}{
		{"in the middle of a file", "+6\n[not shown: 94 more lines of a, 4 more paths]\n", DiffOptions{Terminal: true, MaxLines: 11}, patch},
		{"in a directory", "-x\n[not shown: more of d, 1 more path]\n", DiffOptions{Terminal: true, MaxLines: 6, Changes: append(only(set, "d"), only(set, "e")...)}, patch},
		{"a long line", "+" + strings.Repeat("0", 49) + " [41 more bytes]\n", DiffOptions{Terminal: true, MaxLine: 50, Changes: only(set, "c")}, patch},
		{"in all", "Large files /dev/null and b/e differ (6 bytes, were 0)\n", DiffOptions{Terminal: true, MaxTotal: 95, Changes: append(only(set, "c"), only(set, "e")...)}, patch},
		{"paths", " 5 paths changed, 3 of them not shown; of the others, 101 insertions(+), 0 deletions(-)\n", DiffOptions{Terminal: true, MaxLines: 2}, stat},
		{"a patch", "+3\n", DiffOptions{MaxLines: 1, MaxLine: 1}, patch},
	} {
		if got := shown(test.o, test.write); !strings.HasSuffix(got, "\n"+test.want) {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

func TestStat(t *testing.T) {
	l := newLab(t, newBox(t))
	l.host(`seq 10 > a; seq 10 > gone; printf 'a\0' > bin; seq 50 > from; mkdir -p d/e; echo x > d/e/f; echo x > mode; echo x > empty; echo x > .envrc`)
	l.mount()
	l.session(`sed -i -e s/5/five/ -e 7d a; rm gone; printf 'abc\0' > bin; mv from to; rm -r d; chmod 755 mode; : > empty
		ln -s /etc/passwd out; mkdir new; mkfifo p; ln a a2; echo y > .envrc; echo z > "$(printf 'e\033[2Jvil')"`)
	set := l.read(Options{Protected: func(name string) bool { return name == ".envrc" }})
	var stat bytes.Buffer
	if err := set.WriteStat(t.Context(), &stat, DiffOptions{}); err != nil {
		t.Fatal(err)
	}
	want := `
 .envrc     |    2 +- protected: name it to apply it
 a          |    3 +--
 a2         | another name of a
 bin        | 4 bytes, were 2
 d/         | directory removed, with 2 entries
 e^[[2Jvil  |    1 + new
 empty      |    1 - now empty
 gone       |   10 ---------- removed
 mode       | mode 0755, was 0644
 new/       | new directory
 out        | link to /etc/passwd, which leads out of the workspace, or nowhere
 p          | refused: fifo
 from => to |    0
 13 paths changed, 3 insertions(+), 14 deletions(-)
`
	if diff := cmp.Diff(strings.Trim(want, "\n"), strings.Trim(stat.String(), "\n")); diff != "" {
		t.Error("(-want +got)\n", diff)
	}
}
