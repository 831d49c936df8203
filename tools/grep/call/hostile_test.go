package call

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/internal/tree/treetest"
)

// both runs a test with ripgrep and without.
func both(t *testing.T, f func(t *testing.T, c *inside.Call)) {
	t.Run("with ripgrep", func(t *testing.T) { f(t, with(t)) })
	t.Run("without", func(t *testing.T) { f(t, without()) })
}

func (r *Result) paths() (paths []string) {
	for _, b := range r.Blocks {
		paths = append(paths, b.Path)
	}
	return paths
}

func TestHostileTree(t *testing.T) {
	dir, _ := treetest.Hostile(t)
	want := []string{"\x1b[31mred", "\"quoted\"", "-dash", "long", "new\nline", strings.Repeat("n", 255), "plain", "plain: needle", "\uFFFD"}
	if os.Getuid() == 0 {
		want = append(want, "unreadable")
	}
	both(t, func(t *testing.T, c *inside.Call) {
		for _, mode := range []Mode{Files, Content, Count} {
			res, err := Run(t.Context(), c, Request{Pattern: "needle", Path: []byte(dir), Resolved: true, Mode: mode})
			if err != nil {
				t.Fatalf("%s: %v", mode, err)
			}
			got := slices.DeleteFunc(res.paths(), func(p string) bool { return strings.HasSuffix(p, "/deepest") })
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: found in\n%q, want\n%q", mode, got, want)
			}
			notes := strings.Join(res.Notes, "\n")
			if !strings.Contains(notes, "ddd") {
				t.Errorf("%s: no note on directories that are too deep: %q", mode, notes)
			}
			if os.Getuid() != 0 && (!strings.Contains(notes, "unreadable") || !strings.Contains(notes, "closed")) {
				t.Errorf("%s: no note on what cannot be read: %q", mode, notes)
			}
		}
	})
}

func TestWhatIsNotSearched(t *testing.T) {
	dir, _ := treetest.Hostile(t)
	for path, want := range map[string]string{
		dir + "/fifo":             "a FIFO",
		dir + "/socket":           "a socket",
		"/dev/zero":               "a device",
		dir + "/link-loop":        "too many links",
		dir + "/nowhere":          "does not exist",
		dir + "/plai":             "did you mean",
		dir + "/plain/x":          "not a directory",
		"/proc":                   "not searched",
		"/proc/self/task":         "permission denied",
		"/proc/self/fd":           "permission denied",
		"/proc/self/environ":      "permission denied",
		dir + "/link-proc/" + dir: "too many links",
	} {
		both(t, func(t *testing.T, c *inside.Call) {
			res, err := Run(t.Context(), c, Request{Pattern: "needle", Path: []byte(path), Mode: Content})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %+v, %v; want %q", path, res, err, want)
			}
		})
	}
	// A link in a path that was judged as one without.
	both(t, func(t *testing.T, c *inside.Call) {
		for _, path := range []string{dir + "/link-dir", dir + "/link-file", dir + "/link-dir/secret"} {
			_, err := Run(t.Context(), c, Request{Pattern: "needle", Path: []byte(path), Resolved: true, Mode: Content})
			if !errors.Is(err, inside.ErrChanged) {
				t.Errorf("%s: %v", path, err)
			}
		}
		res, err := Run(t.Context(), c, Request{Pattern: "needle", Path: []byte(dir + "/link-dir"), Mode: Content})
		if err != nil || !slices.Equal(res.paths(), []string{"secret"}) {
			t.Errorf("a link that was named: %v, %v", res, err)
		}
	})
}

// A bad pattern is an error, never "nothing was found", and is told apart from
// what could not be searched.
func TestBadPatternsAreErrors(t *testing.T) {
	dir := plant(t, map[string]string{"a": "foo\n"})
	for pattern, want := range map[string]string{
		"foo(": "", "*": "", "[a": "", "(?P<n": "", "a{2,1}": "", `\`: "", "foo\nbar": "set multiline", `(a)\1`: "", "(?=a)": "", "(?z)": "",
		`a{1000}{1000}{1000}`: "",
	} {
		both(t, func(t *testing.T, c *inside.Call) {
			res, err := Run(t.Context(), c, Request{Pattern: pattern, Path: []byte(dir), Mode: Files})
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "--") {
				t.Errorf("%q: %+v, %v", pattern, res, err)
			}
		})
	}
}

// The search of this package follows no link, whatever takes a directory's place
// while it runs. (Ripgrep opens by name, and can be made to; what it then reads
// is still only what the call may.)
func TestSwappedDirectoriesAreNotFollowed(t *testing.T) {
	dir, outside := plant(t, map[string]string{"plain": "needle\n"}), plant(t, map[string]string{"secret": treetest.Secret})
	target := filepath.Join(dir, "a-swapped")
	stop := treetest.Swap(t, target, outside)
	defer stop()
	seen := false
	for range 1000 {
		res, err := Run(t.Context(), without(), Request{Pattern: "needle", Path: []byte(dir), Mode: Content, Globs: []string{"a-swapped/**"}, Resolved: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range res.Blocks {
			if strings.Contains(b.Lines[0].Text, "outside") {
				t.Fatalf("%s was followed: %+v", b.Path, b.Lines)
			}
			seen = true
		}
		// The root itself, which was judged to be no link.
		res, err = Run(t.Context(), without(), Request{Pattern: "needle", Path: []byte(target), Mode: Content, Resolved: true})
		if err == nil && slices.Contains(res.paths(), "secret") {
			t.Fatal("a link in the judged path's place was followed")
		}
		res, err = Run(t.Context(), without(), Request{Pattern: "needle", Path: []byte(target + "/secret"), Mode: Content, Resolved: true})
		if err == nil {
			t.Fatalf("a link in the judged path was followed: %+v", res)
		}
	}
	if !seen {
		t.Error("the directory was never found as one")
	}
}

// With ripgrep too, it is the directory that was opened which is searched.
func TestRipgrepSearchesWhatWasOpened(t *testing.T) {
	dir, outside := plant(t, map[string]string{"plain": "needle\n"}), plant(t, map[string]string{"secret": treetest.Secret})
	target := filepath.Join(dir, "a-swapped")
	stop := treetest.Swap(t, target, outside)
	defer stop()
	for searched := 0; searched < 30; {
		res, err := Run(t.Context(), with(t), Request{Pattern: "needle", Path: []byte(target), Mode: Files, Resolved: true})
		switch {
		case errors.Is(err, inside.ErrChanged):
		case err != nil:
			t.Fatal(err)
		case !slices.Equal(res.paths(), []string{"inner"}):
			t.Fatalf("found %q", res.paths())
		default:
			searched++
		}
	}
}

// A call that is stopped ends where a file does not.
func TestStoppedInAHugeFile(t *testing.T) {
	dir, _ := treetest.Hostile(t)
	both(t, func(t *testing.T, c *inside.Call) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := Run(ctx, c, Request{Pattern: "needle|hay", Path: []byte(dir + "/sparse"), Mode: Count})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// A name with a line of its own cannot pass for a complaint about a pattern.
func TestComplaints(t *testing.T) {
	for stderr, want := range map[string][]string{
		"./a: Permission denied (os error 13)\n":                              {"a: Permission denied (os error 13)"},
		"rg: ./a: Permission denied\nrg: ./b: No such file\n":                 {"a: Permission denied", "b: No such file"},
		"./new\nregex parse error: x: Permission denied\n./b: No such file\n": {"new regex parse error: x: Permission denied", "b: No such file"},
		"regex parse error:\n    foo(\n":                                      nil,
		"":                                                                    nil,
	} {
		notes, fatal := complaints(stderr, dirRoot)
		if !slices.Equal(notes, want) || fatal != (want == nil) {
			t.Errorf("%q: %q, %v", stderr, notes, fatal)
		}
	}
}

func TestProgress(t *testing.T) {
	dir := plant(t, map[string]string{"a": "foo\nfoo\n", "b": "foo\n"})
	both(t, func(t *testing.T, c *inside.Call) {
		var got []string
		c.Progress = func(data []byte) { got = append(got, string(data)) }
		if _, err := Run(t.Context(), c, Request{Pattern: "foo", Path: []byte(dir), Mode: Count}); err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 || !strings.HasSuffix(got[0], `"files":1}`) || strings.HasPrefix(got[0], `{"matches":0`) {
			t.Errorf("progress %q", got)
		}
	})
}

// An image may have anything by the name rg.
func TestProgramsThatAreNoRipgrep(t *testing.T) {
	dir := plant(t, map[string]string{"a": "foo\n"})
	for script, want := range map[string]string{
		"echo hello":                       errNotRipgrep.Error(),
		"exec head -c 100000000 /dev/zero": errNotRipgrep.Error(),
		"exit 3":                           "exit code 3",
		"kill -9 $$":                       "signal 9",
		"echo error: unrecognized flag >&2; exit 2": "",
	} {
		bin := plant(t, map[string]string{"rg": "#!/bin/sh\n" + script + "\n"})
		if err := os.Chmod(filepath.Join(bin, "rg"), 0o755); err != nil {
			t.Fatal(err)
		}
		c := &inside.Call{Programs: &programs{}, Env: []string{"PATH=" + bin + ":/usr/bin:/bin"}}
		res, err := Run(t.Context(), c, Request{Pattern: "foo", Path: []byte(dir), Mode: Content})
		if want == "" {
			if err != nil || len(res.Blocks) != 1 {
				t.Errorf("%s: %+v, %v", script, res, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", script, res, err, want)
		}
	}
}
