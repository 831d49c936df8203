package beneath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) (*Dir, string) {
	t.Helper()
	dir := t.TempDir()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, dir
}

func TestValid(t *testing.T) {
	for name, want := range map[string]bool{
		".": true, "a": true, "a/b": true, "..a": true, "a..": true, "a\nb": true, "\xff": true, "-rf": true,
		"": false, "/a": false, "a/": false, "a//b": false, "..": false, "a/../b": false, "./a": false, "a\x00": false,
		strings.Repeat("a/", 3000) + "a": false,
	} {
		if got := Valid(name); got != want {
			t.Errorf("Valid(%q) = %v, want %v", name, got, want)
		}
	}
}

// A link is never followed: not as the last component, not on the way, not
// when it stays inside.
func TestLinksAreNotFollowed(t *testing.T) {
	d, dir := open(t)
	outside := t.TempDir()
	os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600)
	os.Mkdir(filepath.Join(dir, "real"), 0o755)
	os.WriteFile(filepath.Join(dir, "real", "f"), nil, 0o644)
	os.Symlink(outside, filepath.Join(dir, "out"))
	os.Symlink("real", filepath.Join(dir, "in"))
	os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "file"))

	for _, name := range []string{"out/secret", "in/f", "file", "real/../file"} {
		if f, err := d.OpenFile(name, os.O_RDONLY, 0); err == nil {
			f.Close()
			t.Errorf("OpenFile(%q) followed a link", name)
		}
	}
	for _, name := range []string{"out/new", "in/new"} {
		if err := d.Mkdir(name, 0o755); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("Mkdir(%q): %v, want ELOOP or ENOTDIR", name, err)
		}
	}
	if err := d.Remove("out/secret"); err == nil {
		t.Error("Remove followed a link")
	}
	if err := d.RemoveAll("out"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "secret")); err != nil {
		t.Error("RemoveAll of a link removed what it points to")
	}
}

func TestRemoveAll(t *testing.T) {
	d, dir := open(t)
	for _, p := range []string{"t/a/b", "t/closed/x"} {
		if err := d.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(dir, "t/a/b/f"), nil, 0o400)
	os.Chmod(filepath.Join(dir, "t/closed"), 0)
	if err := d.RemoveAll("t"); err != nil {
		t.Fatal(err)
	}
	if err := d.RemoveAll("t"); err != nil {
		t.Fatal("removing what is not there:", err)
	}
	if _, err := d.Lstat("t"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// A tree deeper than the descriptor limit and than PATH_MAX can be removed.
func TestRemoveAllOfDeepTree(t *testing.T) {
	d, _ := open(t)
	if err := d.Mkdir("d", 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Openat(d.Fd(), "d", unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4000 {
		name := fmt.Sprint("sub", i%10)
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	if err := d.RemoveAll("d"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lstat("d"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}
