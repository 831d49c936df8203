package permission

import (
	"os"
	"path/filepath"
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
