package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What is not a regular file is not opened: a FIFO without a writer would wait.
func TestOpenRegular(t *testing.T) {
	d, dir := open(t)
	os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644)
	os.Symlink("file", filepath.Join(dir, "link"))
	os.Mkdir(filepath.Join(dir, "dir"), 0o755)
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := d.OpenRegular("file")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, name := range []string{"link", "dir", "fifo"} {
		if f, err := d.OpenRegular(name); !errors.Is(err, ErrNotRegular) {
			f.Close()
			t.Errorf("%s: %v, want %v", name, err, ErrNotRegular)
		}
	}
	if _, err := d.OpenRegular("none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A node stays what it was when its name is given to something else.
func TestNodeIsHeld(t *testing.T) {
	d, dir := open(t)
	outside := filepath.Join(t.TempDir(), "outside")
	os.WriteFile(outside, nil, 0o600)
	os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
	n, err := d.Hold("file")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := d.Rename("file", d, "old", 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Symlink(outside, "file"); err != nil {
		t.Fatal(err)
	}
	if err := n.Chmod(0o640); err != nil {
		t.Fatal(err)
	}
	if err := n.SetXattr("user.a", []byte("b")); err != nil {
		t.Fatal(err)
	}
	if v, err := n.Xattr("user.a"); err != nil || string(v) != "b" {
		t.Errorf("Xattr: %q, %v", v, err)
	}
	if names, err := n.Xattrs(); err != nil || !slices.Contains(names, "user.a") {
		t.Errorf("Xattrs: %q, %v", names, err)
	}
	if err := n.RemoveXattr("user.a"); err != nil {
		t.Error(err)
	}
	if _, err := n.Xattr("user.a"); !errors.Is(err, unix.ENODATA) {
		t.Errorf("Xattr of what was removed: %v", err)
	}
	if err := n.Chown(os.Getuid(), os.Getgid()); err != nil {
		t.Error(err)
	}
	if st, err := d.Lstat("old"); err != nil || st.Mode&0o777 != 0o640 {
		t.Errorf("the held file has mode %o, %v", st.Mode, err)
	}
	if fi, err := os.Stat(outside); err != nil || fi.Mode() != 0o600 {
		t.Error("the link was followed")
	}
}

func TestRenameAndLink(t *testing.T) {
	d, dir := open(t)
	if err := d.MkdirAll("a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	sub, err := d.OpenDir("a/b")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	os.WriteFile(filepath.Join(dir, "f"), []byte("f"), 0o644)
	os.WriteFile(filepath.Join(dir, "a/g"), []byte("g"), 0o644)
	if err := d.Link("f", sub, "f2"); err != nil {
		t.Fatal(err)
	}
	if err := d.Rename("f", d, "a/g", unix.RENAME_NOREPLACE); !errors.Is(err, os.ErrExist) {
		t.Errorf("renaming over a file: %v, want EEXIST", err)
	}
	if err := d.Rename("f", d, "a/g", unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"f": "g", "a/g": "f", "a/b/f2": "f"} {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	os.Symlink("b", filepath.Join(dir, "a/link"))
	if err := d.Rename("f", d, "a/link/x", 0); err == nil {
		t.Error("Rename followed a link")
	}
	if err := d.Whiteout("w"); err != nil {
		t.Fatal(err)
	}
	if st, err := d.Lstat("w"); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		t.Errorf("no whiteout: %v, %v", st, err)
	}
}

func TestEntries(t *testing.T) {
	d, dir := open(t)
	want := []string{"\xff", "a", "b\n"}
	for _, name := range want {
		os.WriteFile(filepath.Join(dir, name), nil, 0o644)
	}
	for range 2 {
		var got []string
		for name, err := range d.Entries() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("Entries: %q, want %q", got, want)
		}
	}
}

// Another mount below the directory is not entered. /proc is one below /, which
// /usr may be too, as in a session; a directory of /usr is none below /usr.
func TestSameMount(t *testing.T) {
	root, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	usr, err := Open("/usr")
	if err != nil {
		t.Fatal(err)
	}
	defer usr.Close()
	same, err := root.SameMount()
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	if _, err := root.Lstat("proc/version"); err != nil {
		t.Fatal(err)
	}
	if _, err := same.Lstat("proc/version"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("entering /proc: %v, want EXDEV", err)
	}
	sameUsr, err := usr.SameMount()
	if err != nil {
		t.Fatal(err)
	}
	defer sameUsr.Close()
	bin, err := sameUsr.OpenDir("bin")
	if err != nil {
		t.Fatal(err)
	}
	bin.Close()
	if _, err := same.OpenDir("proc"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("opening /proc: %v, want EXDEV", err)
	}
}
