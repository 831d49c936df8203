package guest

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// restricted runs f on a thread that may write what a ruleset allows, and that
// is thrown away.
func restricted(t *testing.T, abi int, writable []string, f func()) {
	t.Helper()
	var paths [][]byte
	for _, w := range writable {
		paths = append(paths, []byte(w))
	}
	ruleset, err := newRuleset(abi, paths, true)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ruleset)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = restrict(ruleset)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// What is beside the writable paths cannot be changed, and what is in them can.
// Each ABI brought more that is refused.
func TestLandlock(t *testing.T) {
	have := landlockABI()
	if have == 0 {
		t.Skip("skipped: this kernel has no Landlock that is used")
	}
	for abi := oldestLandlock; abi <= have; abi++ {
		dir := t.TempDir()
		in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
		for _, d := range []string{in, out, in + "/d", out + "/d"} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []string{in + "/f", out + "/f", in + "/move", dir + "/single"} {
			if err := os.WriteFile(f, []byte("content"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ops := []struct {
			what string
			do   func(at string) error
			want error // beside
		}{
			{"open for writing", func(at string) error {
				fd, err := unix.Open(at+"/f", unix.O_WRONLY, 0)
				unix.Close(fd)
				return err
			}, unix.EACCES},
			{"truncate", func(at string) error { return unix.Truncate(at+"/f", 1) }, map[bool]error{true: unix.EACCES}[abi >= 3]},
			{"create", func(at string) error { return os.WriteFile(at+"/new", nil, 0o644) }, unix.EACCES},
			{"make a directory", func(at string) error { return unix.Mkdir(at+"/e", 0o755) }, unix.EACCES},
			{"make a link", func(at string) error { return unix.Symlink("f", at+"/l") }, unix.EACCES},
			{"make a fifo", func(at string) error { return unix.Mkfifo(at+"/p", 0o644) }, unix.EACCES},
			{"make a socket", func(at string) error { return unix.Mknod(at+"/s", unix.S_IFSOCK|0o644, 0) }, unix.EACCES},
			{"rename within", func(at string) error { return unix.Rename(at+"/f", at+"/g") }, unix.EACCES},
			{"rename into a directory", func(at string) error { return unix.Rename(at+"/d", at+"/e2") }, unix.EACCES},
			{"read", func(at string) error { _, err := os.ReadDir(at); return err }, nil},
		}
		remove := func(at string) error { return unix.Unlink(at + "/g") }
		restricted(t, abi, []string{in, dir + "/single", dir + "/gone"}, func() {
			for _, op := range ops {
				if err := op.do(in); err != nil {
					t.Errorf("ABI %d, %s where it may write: %v", abi, op.what, err)
				}
				if err := op.do(out); !errors.Is(err, op.want) || op.want == nil && err != nil {
					t.Errorf("ABI %d, %s beside: %v, want %v", abi, op.what, err, op.want)
				}
			}
			if err := remove(in); err != nil {
				t.Errorf("ABI %d, removing: %v", abi, err)
			}
			if err := unix.Unlink(out + "/f"); !errors.Is(err, unix.EACCES) {
				t.Errorf("ABI %d, removing beside: %v", abi, err)
			}
			// Programs take EXDEV for a reason to copy.
			if err := unix.Rename(in+"/move", out+"/move"); !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EACCES) {
				t.Errorf("ABI %d, moving out: %v", abi, err)
			}
			if err := unix.Rename(in+"/move", in+"/e/move"); err != nil {
				t.Errorf("ABI %d, from one directory into another: %v", abi, err)
			}
			// A rule may be on a file.
			if err := os.WriteFile(dir+"/single", nil, 0o644); err != nil {
				t.Errorf("ABI %d, a file that may be written: %v", abi, err)
			}
			if err := unix.Unlink(dir + "/single"); !errors.Is(err, unix.EACCES) {
				t.Errorf("ABI %d, removing it: %v", abi, err)
			}
		})
	}
}

func TestNothingMayBeWritten(t *testing.T) {
	abi := landlockABI()
	if abi == 0 {
		t.Skip("skipped: this kernel has no Landlock that is used")
	}
	dir := t.TempDir()
	restricted(t, abi, nil, func() {
		if err := os.WriteFile(dir+"/f", nil, 0o644); !errors.Is(err, unix.EACCES) {
			t.Errorf("%v", err)
		}
	})
}

func TestWithoutLandlockNothingIsNarrowed(t *testing.T) {
	if _, err := newRuleset(0, nil, true); err != errNotHeld {
		t.Errorf("%v", err)
	}
}
