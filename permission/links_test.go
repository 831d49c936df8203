package permission

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Links are followed in the directory, and nothing is looked at outside of it.
func TestLinksBeneath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	for _, d := range []string{"src", "a/b"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"etc": "/etc", "up": "a/..", "abs": dir + "/src", "rel": "src", "a/b/top": "../../src", "out": "../../x", "loop": "loop", "chain": "rel/../abs",
		"escape": outside + "/hop", "dangling": "nowhere/f",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(outside, "hop")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	look := LinksBeneath(root, dir)
	for path, want := range map[string]string{
		dir + "/src/f": dir + "/src/f", dir + "/etc/passwd": "/etc/passwd", dir + "/rel/f": dir + "/src/f", dir + "/abs/f": dir + "/src/f",
		dir + "/up/f": dir + "/f", dir + "/a/b/top/new/f": dir + "/src/new/f", dir + "/chain/f": dir + "/src/f",
		dir + "/out": filepath.Join(dir, "../../x"), dir: dir, "/etc/passwd": "/etc/passwd", "/": "/",
		dir + "/escape": outside + "/hop", dir + "/dangling": dir + "/nowhere/f", dir + "/new/x": dir + "/new/x",
		dir + "-evil/rel": dir + "-evil/rel",
	} {
		if got, err := look([]string{path}); err != nil || got[0] != want {
			t.Errorf("%s: %v, %v; want %s", path, got, err, want)
		}
	}
	if _, err := look([]string{dir + "/src", dir + "/loop/x"}); err == nil || !strings.Contains(err.Error(), "too many links") {
		t.Error(err)
	}
}

// Links and what a command would take for a flag are named; nothing is looked at
// outside of the directory, nor through a link out of it.
func TestTrapsBeneath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"src", "many"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"src/link": "/etc", "src/dangling": "nowhere", "out": "/etc"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"src/-R", "src/a.go", "src/a-b"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range mostEntries + 1 {
		if err := os.Link(filepath.Join(dir, "src/a.go"), filepath.Join(dir, "many", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	look := TrapsBeneath(root, dir)
	for path, want := range map[string][]string{dir + "/src": {"-R", "dangling", "link"}, dir: {"out"}, dir + "/new": nil} {
		got, err := look(path)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{dir + "/out", dir + "/many", "/etc", dir + "-evil"} {
		if got, err := look(path); err == nil {
			t.Errorf("%s: %q", path, got)
		}
	}
}
