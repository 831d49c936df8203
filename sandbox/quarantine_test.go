package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// quarantined lists what lies in a session's quarantine: name and content.
func quarantined(t *testing.T, s *Session) map[string]string {
	t.Helper()
	found := make(map[string]string)
	root := s.path("quarantine")
	batches, _ := os.ReadDir(root)
	for _, b := range batches {
		dir := filepath.Join(root, b.Name())
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			rel, err := filepath.Rel(dir, path)
			found[rel] = e.Type().String()
			if e.Type().IsRegular() {
				var data []byte
				data, err = os.ReadFile(path)
				found[rel] = fmt.Sprintf("%d bytes %.8q", len(data), data)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	return found
}

func direct(workspace, state string, absent ...string) *Session {
	s := &Session{Stored: &Stored{dir: state, Settings: Settings{Workspace: workspace, Mode: Direct}}}
	for _, rel := range absent {
		s.Absent = append(s.Absent, workspace+"/"+rel)
	}
	return s
}

func TestQuarantine(t *testing.T) {
	dir := mkdirs(t, t.TempDir(), "work/.git", "state", "elsewhere")
	work := dir + "/work"
	s := direct(work, dir+"/state", ".bashrc", ".vscode", ".git/hooks", ".envrc", ".idea/x", ".missing")

	if moved, err := s.quarantine(); err != nil || len(moved) != 0 {
		t.Errorf("where nothing appeared: %q, %v", moved, err)
	}
	if _, err := os.Stat(dir + "/state/quarantine"); err == nil {
		t.Error("a quarantine without need")
	}
	writeFile(t, work+"/.bashrc", 3)
	writeFile(t, work+"/.vscode/tasks.json", 4)
	writeFile(t, work+"/.git/hooks/pre-commit", 5)
	writeFile(t, work+"/.git/config", 6)
	symlink(t, "/etc/passwd", work+"/.envrc") // itself, not what it leads to
	writeFile(t, dir+"/elsewhere/x", 7)
	symlink(t, dir+"/elsewhere", work+"/.idea") // on the way: nothing of it is touched
	moved, err := s.quarantine()
	want := []string{work + "/.bashrc", work + "/.vscode", work + "/.git/hooks", work + "/.envrc"}
	if err != nil || !slices.Equal(moved, want) {
		t.Errorf("%q, %v", moved, err)
	}
	for rel, want := range map[string]string{
		".bashrc": `3 bytes "\x00\x00\x00"`, ".vscode/tasks.json": `4 bytes "\x00\x00\x00\x00"`,
		".git%hooks/pre-commit": `5 bytes "\x00\x00\x00\x00\x00"`, ".envrc": "L---------",
	} {
		if got := quarantined(t, s)[rel]; got != want {
			t.Errorf("%s: %q", rel, got)
		}
	}
	for _, path := range []string{work + "/.git/config", dir + "/elsewhere/x"} {
		if _, err := os.Lstat(path); err != nil {
			t.Error("gone is", path)
		}
	}
	if again, err := s.quarantine(); err != nil || len(again) != 0 {
		t.Errorf("again: %q, %v", again, err)
	}
	s.Mode = Cow
	writeFile(t, work+"/.bashrc", 3)
	if moved, err := s.quarantine(); err != nil || len(moved) != 0 {
		t.Errorf("of a session that is not direct: %q, %v", moved, err)
	}
}

// From one file system to another it is copied, up to a size, and what is
// neither file nor directory has nothing to be copied.
func TestQuarantineOnAnotherFileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting another file system takes root")
	}
	dir := mkdirs(t, t.TempDir(), "work", "state")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		work := dir + "/work"
		for _, err := range []error{
			unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", work, "tmpfs", 0, "size=64m"),
			os.MkdirAll(work+"/.vscode/sub", 0o755),
			os.WriteFile(work+"/.vscode/a", []byte("content"), 0o644),
			os.WriteFile(work+"/.vscode/sub/huge", make([]byte, mostQuarantined+1000), 0o644),
			unix.Mkfifo(work+"/.vscode/fifo", 0o644),
			os.Symlink("/etc/passwd", work+"/.vscode/link"),
		} {
			if err != nil {
				t.Error(err)
				return
			}
		}
		s := direct(work, dir+"/state", ".vscode")
		moved, err := s.quarantine()
		if err != nil || len(moved) != 1 {
			t.Errorf("%q, %v", moved, err)
		}
		if _, err := os.Lstat(work + "/.vscode"); !os.IsNotExist(err) {
			t.Error("it is still there:", err)
		}
		got := quarantined(t, s)
		if got[".vscode/a"] != `7 bytes "content"` {
			t.Errorf("%q", got)
		}
		var kept int
		fmt.Sscan(got[".vscode/sub/huge"], &kept)
		if kept == 0 || kept > mostQuarantined || got[".vscode/fifo"] != "" || got[".vscode/link"] != "" {
			t.Errorf("%q", got)
		}
	}()
	<-done
}
