package files

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
)

func workspace(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replace writes a file whose content is known.
func replace(t *testing.T, path, was, now string) (*Target, error) {
	t.Helper()
	target, err := Find(path, true)
	if err != nil {
		return nil, err
	}
	t.Cleanup(target.Close)
	expected := ""
	if target.Old != nil {
		expected = Hash([]byte(was))
	}
	hash, err := target.Write(t.Context(), expected, int64(len(now)), func(w io.Writer) error {
		_, err := io.WriteString(w, now)
		return err
	})
	if err == nil && hash != Hash([]byte(now)) {
		t.Errorf("%s: the hash is wrong", path)
	}
	return target, err
}

// holds fails unless a directory has just these files with these contents.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != len(want) {
		t.Errorf("%d entries, want %d: %v", len(entries), len(want), entries)
	}
	for name, content := range want {
		if got, err := os.ReadFile(dir + "/" + name); err != nil || string(got) != content {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, content)
		}
	}
}

func TestReplaceKeepsWhatAFileHas(t *testing.T) {
	dir := workspace(t)
	path := dir + "/file"
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	must(t, unix.Chmod(path, 0o4751))
	must(t, unix.Setxattr(path, "user.a", []byte("b"), 0))
	if os.Getuid() == 0 {
		must(t, os.Chown(path, 12345, 23456))
		must(t, unix.Chmod(path, 0o4751))
	}
	var before, after unix.Stat_t
	must(t, unix.Stat(path, &before))
	_, err := replace(t, path, "old", "new")
	must(t, err)
	must(t, unix.Stat(path, &after))
	if after.Mode&0o7777 != 0o751 || after.Uid != before.Uid || after.Gid != before.Gid {
		t.Errorf("mode %o, owner %d, group %d", after.Mode, after.Uid, after.Gid)
	}
	if after.Ino == before.Ino {
		t.Error("it was written in place")
	}
	buf := make([]byte, 10)
	if n, err := unix.Getxattr(path, "user.a", buf); err != nil || string(buf[:n]) != "b" {
		t.Errorf("the attribute is %q, %v", buf[:max(n, 0)], err)
	}
	holds(t, dir, map[string]string{"file": "new"})
}

// Other names of a file were not judged: what they name stays as it was.
func TestReplaceLeavesOtherNames(t *testing.T) {
	dir, outside := workspace(t), workspace(t)
	must(t, os.WriteFile(outside+"/store", []byte("old"), 0o644))
	must(t, os.Link(outside+"/store", dir+"/file"))
	target, err := replace(t, dir+"/file", "old", "new")
	must(t, err)
	if target.Links() != 1 {
		t.Errorf("%d other names", target.Links())
	}
	holds(t, dir, map[string]string{"file": "new"})
	holds(t, outside, map[string]string{"store": "old"})
}

func TestNewFiles(t *testing.T) {
	dir := workspace(t)
	_, err := replace(t, dir+"/a/b/c/file", "", "new")
	must(t, err)
	holds(t, dir+"/a/b/c", map[string]string{"file": "new"})
	info, err := os.Stat(dir + "/a/b/c/file")
	must(t, err)
	if info.Mode().Perm()&^0o644 != 0 || info.Mode().Perm()&0o600 != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// In a directory that takes no new file, one that may be written is.
func TestReplaceInPlace(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("skipped: root may write every directory; it runs as a user as well")
	}
	dir := workspace(t)
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	must(t, os.WriteFile(dir+"/file", []byte("old and long"), 0o644))
	must(t, os.WriteFile(dir+"/linked", []byte("old"), 0o644))
	must(t, os.Link(dir+"/linked", workspace(t)+"/other"))
	must(t, os.Chmod(dir, 0o555))
	_, err := replace(t, dir+"/file", "old and long", "new")
	must(t, err)
	for name, now := range map[string]string{"none": "", "linked": "new"} {
		if _, err := replace(t, dir+"/"+name, "old", now); !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.Chmod(dir, 0o755))
	must(t, os.WriteFile(dir+"/closed", []byte("old"), 0o444))
	if _, err := replace(t, dir+"/closed", "old", "new"); err == nil || !strings.Contains(err.Error(), "not writable (its mode is 0444)") {
		t.Error(err)
	}
	holds(t, dir, map[string]string{"file": "new", "linked": "old", "closed": "old"})
}

func TestReplaceRefuses(t *testing.T) {
	dir := workspace(t)
	must(t, os.WriteFile(dir+"/file", []byte("old"), 0o644))
	must(t, os.WriteFile(dir+"/other", []byte("other"), 0o644))
	must(t, os.Mkdir(dir+"/dir", 0o755))
	must(t, os.Symlink("file", dir+"/link"))
	must(t, os.Symlink("dir", dir+"/dirlink"))
	must(t, unix.Mkfifo(dir+"/fifo", 0o666))
	for path, want := range map[string]string{
		dir + "/dir":                         "is a directory",
		dir + "/fifo":                        "is a FIFO",
		"/dev/null":                          "is a device",
		"/":                                  "is a directory",
		dir + "/link":                        inside.ErrChanged.Error(),
		dir + "/dirlink/new":                 inside.ErrChanged.Error(),
		dir + "/dirlink/a/new":               inside.ErrChanged.Error(),
		dir + "/file/new":                    "is a regular file, not a directory",
		dir + "/file/a/new":                  "not a directory",
		"/proc/self/x":                       inside.ErrChanged.Error(),
		"/proc/1/comm":                       "the kernel's",
		"/proc/sys/none/x":                   "the kernel's",
		dir + "/" + strings.Repeat("n", 256): "too long",
		dir + "/other":                       ErrOutdated.Error(),
	} {
		if _, err := replace(t, path, "old", "new"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", path, err, want)
		}
	}
	holds(t, dir+"/dir", nil)
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 6 {
		t.Errorf("%v", entries)
	}
}

// A failure leaves the file as it was, and nothing beside it.
func TestFailureLeavesTheOld(t *testing.T) {
	dir := workspace(t)
	path := dir + "/file"
	must(t, os.WriteFile(path, []byte("old"), 0o644))
	for name, emit := range map[string]func(io.Writer) error{
		"an error": func(w io.Writer) error {
			io.WriteString(w, "half")
			return unix.ENOSPC
		},
		"replaced meanwhile": func(w io.Writer) error {
			must(t, os.WriteFile(path+"2", []byte("old"), 0o644))
			return os.Rename(path+"2", path)
		},
		"a link meanwhile": func(w io.Writer) error {
			must(t, os.Rename(path, dir+"/moved"))
			return os.Symlink("moved", path)
		},
	} {
		target, err := Find(path, true)
		must(t, err)
		_, err = target.Write(t.Context(), Hash([]byte("old")), 0, emit)
		target.Close()
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if name == "a link meanwhile" {
			must(t, os.Rename(dir+"/moved", path))
		}
		holds(t, dir, map[string]string{"file": "old"})
	}
	target, err := Find(path, true)
	must(t, err)
	defer target.Close()
	ctx, cancel := context.WithCancel(t.Context())
	_, err = target.Write(ctx, Hash([]byte("old")), 3, func(w io.Writer) error {
		cancel()
		_, err := io.WriteString(w, "new")
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	holds(t, dir, map[string]string{"file": "old"})
}

// What was written into the file at the last moment is not lost.
func TestReplaceOfAFileThatChanges(t *testing.T) {
	dir := workspace(t)
	must(t, os.WriteFile(dir+"/file", []byte("old"), 0o644))
	target, err := Find(dir+"/file", true)
	must(t, err)
	defer target.Close()
	_, err = target.Write(t.Context(), Hash([]byte("old")), 3, func(w io.Writer) error {
		return os.WriteFile(dir+"/file", []byte("OLD"), 0o644)
	})
	if !errors.Is(err, ErrOutdated) {
		t.Error(err)
	}
	holds(t, dir, map[string]string{"file": "OLD"})
}

// A file that appears while a new one is made is not replaced.
func TestNewFileReplacesNothing(t *testing.T) {
	dir := workspace(t)
	target, err := Find(dir+"/file", true)
	must(t, err)
	defer target.Close()
	_, err = target.Write(t.Context(), "", 3, func(w io.Writer) error {
		return os.WriteFile(dir+"/file", []byte("other"), 0o644)
	})
	if !errors.Is(err, ErrUnread) {
		t.Error(err)
	}
	holds(t, dir, map[string]string{"file": "other"})
}

// Nothing is ever written where a link leads that was put in the way.
func TestReplaceWhileLinksAreSwapped(t *testing.T) {
	dir, outside := workspace(t), workspace(t)
	must(t, os.Mkdir(dir+"/d", 0o755))
	must(t, os.WriteFile(dir+"/d/file", []byte("old"), 0o644))
	must(t, os.WriteFile(outside+"/file", []byte("old"), 0o644))
	must(t, os.Symlink(outside, dir+"/swap"))
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/swap", unix.RENAME_EXCHANGE)
			}
		}
	}()
	written, refused := 0, 0
	for written < 100 || refused < 100 {
		_, err := replace(t, dir+"/d/file", "old", "old")
		switch {
		case errors.Is(err, inside.ErrChanged):
			refused++
		case err != nil:
			t.Fatal(err)
		default:
			written++
		}
		_, err = replace(t, dir+"/d/new/er", "", "new")
		if err != nil && !errors.Is(err, inside.ErrChanged) && !errors.Is(err, ErrOutdated) && !errors.Is(err, unix.EEXIST) {
			t.Fatal(err)
		}
		if _, err := os.Lstat(outside + "/new"); err == nil {
			t.Fatal("a directory was made where the link leads")
		}
		os.RemoveAll(dir + "/swap/new")
		os.RemoveAll(dir + "/d/new")
	}
	close(stop)
	<-stopped
	holds(t, outside, map[string]string{"file": "old"})
}

func TestContentIsBounded(t *testing.T) {
	dir := workspace(t)
	must(t, os.WriteFile(dir+"/file", nil, 0o644))
	must(t, os.Truncate(dir+"/file", MostHashed+1))
	target, err := Find(dir+"/file", true)
	must(t, err)
	defer target.Close()
	if _, err := target.Content(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Error(err)
	}
	// One that grows while it is read is no larger.
	must(t, os.Truncate(dir+"/file", 10))
	grown, err := Find(dir+"/file", true)
	must(t, err)
	defer grown.Close()
	must(t, os.Truncate(dir+"/file", 1<<40))
	if _, err := grown.Content(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Error(err)
	}
}
