package tree

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A walk that descends as List says sees whole paths in the order of their bytes.
func TestListIsInTheOrderOfPaths(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"a/b", "a.b", "a-b/c", "a0", "aa/x", "b", "ab/", "a!/z", "\x01/q", "\xff/r", "é/s"} {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "/") {
			continue
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var r Reader
	var got []string
	var walk func(fd int, path string)
	walk = func(fd int, path string) {
		entries, err := r.List(fd)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Type != Dir {
				got = append(got, path+e.Name)
				continue
			}
			sub, err := OpenDir(fd, e.Name)
			if err != nil {
				t.Fatal(err)
			}
			walk(sub, path+e.Name+"/")
			unix.Close(sub)
		}
	}
	f, isDir, err := Open(dir, false, dir)
	if err != nil || !isDir {
		t.Fatal(isDir, err)
	}
	defer f.Close()
	walk(f.Fd, "")
	if len(got) != 10 || !slices.IsSorted(got) {
		t.Errorf("%q", got)
	}
}

func TestNothingIsFollowedOrWaitedFor(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644), os.Symlink("file", filepath.Join(dir, "link")), os.Symlink(".", filepath.Join(dir, "linkdir")),
		os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o644), os.Symlink("/proc", filepath.Join(dir, "proc")),
	); err != nil {
		t.Fatal(err)
	}
	f, _, err := Open(dir, false, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]error{"fifo": unix.EINVAL, "link": unix.ELOOP, "none": unix.ENOENT} {
		if _, _, err := OpenFile(f.Fd, name); err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	for name, want := range map[string]error{"linkdir": unix.ENOTDIR, "file": unix.ENOTDIR, "../../../../../../../../../../proc": errProc} {
		if _, err := OpenDir(f.Fd, name); err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err := ReadSmall(f.Fd, "file", 4); err == nil {
		t.Error("a file larger than was wanted was read")
	}
	if data, err := ReadSmall(f.Fd, "file", 5); err != nil || string(data) != "12345" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestNames(t *testing.T) {
	for path, want := range map[string]string{"a b/ü": "a b/ü", "a\nb": `"a\nb"`, "": `""`, `"a"`: `"\"a\""`, `a"b`: `a"b`, "\u202e": `"\u202e"`} {
		if got := Name(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
	if got := Notes([]string{"a\nb", strings.Repeat("x", 1000)}); got[0] != `a\nb` || len(got[1]) > 310 {
		t.Errorf("%q", got)
	}
}
