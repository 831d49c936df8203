// Package sallytest gives tests what they share: the built binaries, and live
// sessions in directories of their own. Only tests import it.
//
// A package that uses it begins its tests with
//
//	func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }
package sallytest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native"
)

// BinEnv names a directory that has the binaries already, for those who cannot
// build any.
const BinEnv = "SALLYPORT_TEST_BIN"

var made string // the directory of this process, which Run removes

// Run runs the tests of a package and removes what they share.
func Run(m *testing.M) int {
	code := m.Run()
	if made != "" {
		if err := os.RemoveAll(made); err != nil {
			fmt.Fprintln(os.Stderr, "sallytest:", err)
			return max(code, 1)
		}
	}
	return code
}

var binaries = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(BinEnv); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "sallyport-bin-")
	if err != nil {
		return "", err
	}
	made = dir
	// Also readable for the users that tests become.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "github.com/sallyport/sallyport/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return dir, nil
})

// Bin returns a directory with the binaries sallyport and sallyport-guest.
func Bin(t testing.TB) string {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatalf("building the binaries: %v", err)
	}
	return dir
}

// Driver returns the native driver with the guest of this source.
func Driver(t testing.TB) native.Driver {
	t.Helper()
	return native.Driver{Guest: filepath.Join(Bin(t), native.GuestName)}
}

// Store returns an empty store.
func Store(t testing.TB) *sandbox.Store {
	t.Helper()
	st, err := sandbox.OpenStore(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Create makes a session in a store. By default it has a new, empty
// workspace, copy-on-write. The session is removed at the test's end.
func Create(t testing.TB, st *sandbox.Store, settings sandbox.Settings) *sandbox.Stored {
	t.Helper()
	if settings.Workspace == "" {
		settings.Workspace = filepath.Join(t.TempDir(), "work")
		if err := os.Mkdir(settings.Workspace, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if settings.Name == "" {
		settings.Name = "test"
	}
	if settings.Mode == "" {
		settings.Mode = sandbox.Cow
	}
	settings.Image, settings.Driver = "host", "native"
	s, err := st.Create(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Errorf("removing the session: %v", err)
		}
	})
	return s
}

// Session returns a live session, which is closed and removed at the test's
// end.
func Session(t testing.TB, settings sandbox.Settings, limits sandbox.Limits) *sandbox.Session {
	t.Helper()
	return Start(t, Create(t, Store(t), settings), limits)
}

// Start makes a session live until the test's end.
func Start(t testing.TB, s *sandbox.Stored, limits sandbox.Limits) *sandbox.Session {
	t.Helper()
	live, err := s.Start(t.Context(), sandbox.StartOptions{Driver: Driver(t), Limits: limits, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := live.Close(); err != nil {
			t.Errorf("closing the session: %v", err)
		}
	})
	return live
}

// Settle waits until the clock of the file system has gone on so far that what
// was done to a workspace before is seen by the next call, and known to be older
// than it.
func Settle(t testing.TB) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clock")
	now := func() time.Time {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	for first := now(); now().Sub(first) < 70*time.Millisecond; {
		time.Sleep(time.Millisecond) // until the clock has moved on, not for a time
	}
}
