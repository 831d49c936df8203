package grep_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/grep"
	"github.com/sallyport/sallyport/tools/internal/tree/treetest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

// search runs Grep on a path of the session that was judged.
func search(t testing.TB, s *sandbox.Session, e sandbox.Envelope, path, input string) (string, error) {
	t.Helper()
	parsed, _, err := grep.Tool.Parse(json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	called, err := grep.Tool.Call(t.Context(), &tools.Context{
		Options: tools.Options{Workspace: s.Workspace},
		Run:     tools.Run{Box: sallytest.Box{Session: s, Envelope: e}, Judged: []tools.Judged{{Path: path, Resolved: true}}},
	}, parsed, nil)
	if err != nil {
		return "", err
	}
	return called.Blocks[0].Text, nil
}

// hasRipgrep fails where there is none: what is tested is both ways to search.
func hasRipgrep(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("rg"); err != nil {
		t.Fatal("this needs ripgrep: install it (the program rg)")
	}
}

// withAndWithout gives a session that has ripgrep and one that has none which can
// run: what is first in its PATH by that name is no program.
func withAndWithout(t *testing.T, workspace string, f func(t *testing.T, s *sandbox.Session)) {
	hasRipgrep(t)
	t.Run("with ripgrep", func(t *testing.T) {
		f(t, sallytest.Session(t, sandbox.Settings{Workspace: workspace}, sandbox.Limits{}))
	})
	t.Run("without", func(t *testing.T) {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "rg"), []byte("no program"), 0o755); err != nil {
			t.Fatal(err)
		}
		s := sallytest.Session(t, sandbox.Settings{
			Workspace: workspace,
			Expose:    []sandbox.Exposed{{Dirs: []sandbox.Expose{{Path: bin}}, Path: []string{bin}}},
		}, sandbox.Limits{})
		if _, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"rg", "--version"}}); err == nil {
			t.Fatal("the session has ripgrep")
		}
		f(t, s)
	})
}

func TestGrepInASession(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	for name, content := range map[string]string{
		"a.go": "package a\n\nfunc A() {}\n", "b/b.go": "package b\n\nfunc B() {}\nfunc C() {}\n", "b/c.txt": "func\n",
		".git/HEAD": "func\n", ".gitignore": "*.log\n", "x.log": "func\n", ".hidden": "func\n", ".config/ripgrep": "--files\n",
	} {
		file := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing that the user has set up changes what is found.
	t.Setenv("RIPGREP_CONFIG_PATH", filepath.Join(work, ".config/ripgrep"))
	withAndWithout(t, work, func(t *testing.T, s *sandbox.Session) {
		for _, e := range []sandbox.Envelope{{}, {Box: sandbox.Eye}} {
			for input, want := range map[string]string{
				`{"pattern":"func"}`:                                                               ".hidden\na.go\nb/b.go\nb/c.txt\n(4 files in all)",
				`{"pattern":"func","glob":"*.go"}`:                                                 "a.go\nb/b.go\n(2 files in all)",
				`{"pattern":"func","type":"go","output_mode":"count"}`:                             "a.go:1\nb/b.go:2\n(3 lines in 2 files in all)",
				`{"pattern":"FUNC [A-B]","-i":true,"output_mode":"content"}`:                       "a.go:3:func A() {}\nb/b.go:3:func B() {}",
				`{"pattern":"func [BC]","output_mode":"content","-B":1,"head_limit":2,"offset":1}`: "b/b.go:3:func B() {}\nb/b.go:4:func C() {}",
				`{"pattern":"^func","output_mode":"content","head_limit":1}`:                       ".hidden:1:func\n(cut after 1 line; go on with offset 1, or search for less)",
				`{"pattern":"a\\n\\nfunc","multiline":true,"output_mode":"content"}`:               "a.go:1:package a\na.go:2:\na.go:3:func A() {}",
				`{"pattern":"nowhere"}`:                                                            "No files found",
				`{"pattern":"--files"}`:                                                            ".config/ripgrep\n(1 file in all)",
				`{"pattern":"func","glob":".git/**"}`:                                              "No files found",
				`{"pattern":"$(touch x)` + "`touch y`" + `;z"}`:                                    "No files found",
			} {
				got, err := search(t, s, e, work, input)
				if err != nil || got != want {
					t.Errorf("in the %v: %s: %v\n%s\nwant\n%s", e.Box, input, err, got, want)
				}
			}
			for input, want := range map[string]string{
				`{"pattern":"func("}`:               "",
				`{"pattern":"a\nb"}`:                "set multiline",
				`{"pattern":"a","type":"nonsense"}`: "nonsense",
				`{"pattern":"a","glob":"{a"}`:       "{",
			} {
				if got, err := search(t, s, e, work, input); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("in the %v: %s: %q, %v", e.Box, input, got, err)
				}
			}
			for path, want := range map[string]string{
				"/proc": "not searched", "/dev/zero": "a device", work + "/non": "does not exist", "/proc/1/environ": "permission denied", "/proc/1/mem": "permission denied",
			} {
				if got, err := search(t, s, e, path, `{"pattern":"a","path":"x"}`); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("in the %v: %s: %q, %v", e.Box, path, got, err)
				}
			}
		}
	})
}

func TestHostileTreeInASession(t *testing.T) {
	dir, _ := treetest.Hostile(t)
	withAndWithout(t, dir, func(t *testing.T, s *sandbox.Session) {
		for _, e := range []sandbox.Envelope{{}, {Box: sandbox.Eye}} {
			got, err := search(t, s, e, dir, `{"pattern":"needle"}`)
			if err != nil {
				t.Fatalf("in the %v: %v", e.Box, err)
			}
			for _, name := range []string{"plain", `"new\nline"`, `"\x1b[31mred"`, "long", "-dash"} {
				if !slices.Contains(strings.Split(got, "\n"), name) {
					t.Errorf("in the %v: %s was not found:\n%.1000s", e.Box, name, got)
				}
			}
			if strings.Contains(got, "secret") || strings.Contains(got, "link") {
				t.Errorf("in the %v: a link was followed:\n%.1000s", e.Box, got)
			}
		}
	})
}

// plantMany makes a tree of many files, as a large repository has.
func plantMany(t testing.TB, files int) string {
	work := filepath.Join(t.TempDir(), "work")
	text := strings.Repeat("a line of a file, as long as many: 64 bytes with its newline...\n", 30)
	for i := range files {
		dir := filepath.Join(work, fmt.Sprintf("d%d/e%d", i/1000, i/50%20))
		if i%50 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		content := text
		if i%100 == 0 {
			content += "the three needles\n"
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.go", i)), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return work
}

// Grep over many files, from the host's side to the files and back, beside
// ripgrep by itself on the host.
func BenchmarkGrepInASession(b *testing.B) {
	hasRipgrep(b)
	work := plantMany(b, 20_000)
	s := sallytest.Session(b, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	want := "(200 files in all)"
	b.Run("ripgrep on the host", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command("rg", "--no-config", "--files-with-matches", "-e", "thr[e]+ ", "--", ".")
			cmd.Dir = work
			if out, err := cmd.Output(); err != nil || strings.Count(string(out), "\n") != 200 {
				b.Fatal(err, len(out))
			}
		}
	})
	for _, e := range []sandbox.Envelope{{}, {Box: sandbox.Eye}} {
		b.Run(e.Box.String(), func(b *testing.B) {
			for b.Loop() {
				if got, err := search(b, s, e, work, `{"pattern":"thr[e]+ "}`); err != nil || !strings.HasSuffix(got, want) {
					b.Fatal(err, got)
				}
			}
		})
	}
}
