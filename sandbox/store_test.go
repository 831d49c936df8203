package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A store's test can be two processes: this one, run as the other, holds a
// session until its standard input ends.
const envHold = "SANDBOX_TEST_HOLD"

func TestHoldForAnother(t *testing.T) {
	dir := os.Getenv(envHold)
	if dir == "" {
		t.Skip("the other process of TestTwoOwners; there is nothing to test in it alone")
	}
	st, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := st.Open("shared")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	os.Stdout.WriteString("held\n")
	os.Stdin.Read(make([]byte, 1))
}

func newStore(t *testing.T) *Store {
	t.Helper()
	st, err := OpenStore(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func settings(t *testing.T, name string) Settings {
	t.Helper()
	return Settings{Name: name, Workspace: mkdirs(t, t.TempDir()), Mode: Cow, Image: "host", Driver: "native"}
}

func create(t *testing.T, st *Store, name string) *Stored {
	t.Helper()
	s, err := st.Create(settings(t, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "A-b_c.9", "0", "a..b", strings.Repeat("x", 64), "_x"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{
		"", ".", "..", ".new-x", "-rf", "a/b", "/", "../x", "a\x00", "a b", "a\n", "é", strings.Repeat("x", 65), "a\\b", "a:b",
	} {
		if err := CheckName(name); err == nil || !strings.Contains(err.Error(), "is no name for a session") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestStoreMustBeTheOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := OpenStore(dir); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o750, 0o701, 0o777} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenStore(dir); err == nil || !strings.Contains(err.Error(), "must be yours alone: chown it to you and chmod 700 it") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenStore(dir); err == nil || !strings.Contains(err.Error(), "must be yours alone") {
			t.Error("another's directory:", err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(file + "/state"); err == nil || !strings.Contains(err.Error(), "set XDG_STATE_HOME") {
		t.Error(err)
	}
}

func TestStoreIsBelowXDGStateHome(t *testing.T) {
	dir := mkdirs(t, t.TempDir())
	t.Setenv("HOME", dir+"/home")
	for _, test := range []struct{ xdg, want string }{
		{dir + "/xdg", dir + "/xdg/sallyport"},
		{"", dir + "/home/.local/state/sallyport"},
		{"relative", dir + "/home/.local/state/sallyport"}, // not valid, so not used
	} {
		t.Setenv("XDG_STATE_HOME", test.xdg)
		st, err := OpenStore("")
		if err != nil {
			t.Fatal(err)
		}
		if st.Dir() != test.want {
			t.Errorf("%q: %s", test.xdg, st.Dir())
		}
	}
}

func TestCreateOpenLookListRemove(t *testing.T) {
	st := newStore(t)
	want := settings(t, "one")
	want.ID, want.Created = "mine", time.Unix(0, 0) // not the caller's to give
	want.Denied = []string{want.Workspace + "/.env"}
	s, err := st.Create(want)
	if err != nil {
		t.Fatal(err)
	}
	if s.ID == "mine" || len(s.ID) < 16 || time.Since(s.Created) > time.Hour {
		t.Errorf("%+v", s.Settings)
	}
	if info, err := os.Stat(s.Dir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := st.Create(want); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "one") {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	looked, err := st.Look("one")
	if err != nil || looked.ID != s.ID || len(looked.Denied) != 1 {
		t.Errorf("%+v, %v", looked, err)
	}
	if err := looked.Remove(); err == nil {
		t.Error("a session that is only looked at was removed")
	}
	if _, err := looked.Start(t.Context(), StartOptions{}); err == nil || !strings.Contains(err.Error(), "not held") {
		t.Error(err)
	}
	if _, err := looked.Apply(t.Context(), nil, ApplyOptions{}); err == nil || !strings.Contains(err.Error(), "not held") {
		t.Error(err)
	}
	if err := looked.Discard(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "not held") {
		t.Error(err)
	}
	if _, ok := looked.Owner(); ok {
		t.Error("nobody holds it, and it has an owner")
	}

	opened, err := st.Open("one")
	if err != nil || opened.ID != s.ID {
		t.Fatalf("%+v, %v", opened, err)
	}
	if owner, ok := looked.Owner(); !ok || owner.PID != os.Getpid() {
		t.Errorf("%+v, %v", owner, ok)
	}
	two := create(t, st, "two")
	list, err := st.List()
	if err != nil || len(list) != 2 || list[0].Created.Before(list[1].Created) {
		t.Errorf("%v, %v", list, err)
	}
	two.Close()

	record := filepath.Join(opened.Dir(), RecordFile)
	if err := os.WriteFile(record, []byte("record\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := opened.Remove(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(st.RecordDir(), "one-"+s.ID+".jsonl"))
	if err != nil || string(kept) != "record\n" {
		t.Errorf("the record was not kept: %q, %v", kept, err)
	}
	for _, err := range []error{
		func() error { _, err := st.Open("one"); return err }(),
		func() error { _, err := st.Look("one"); return err }(),
	} {
		if !errors.Is(err, ErrNoSession) {
			t.Error(err)
		}
	}
	if names := sessionDirs(t, st); len(names) != 1 || names[0] != "two" {
		t.Errorf("%q are left", names)
	}
}

func sessionDirs(t *testing.T, st *Store) []string {
	t.Helper()
	entries, err := os.ReadDir(st.sessions())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestNamesAreCheckedEverywhere(t *testing.T) {
	st := newStore(t)
	const bad = "../x"
	for what, f := range map[string]func() error{
		"Create": func() error { _, err := st.Create(settings(t, bad)); return err },
		"Open":   func() error { _, err := st.Open(bad); return err },
		"Look":   func() error { _, err := st.Look(bad); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "is no name") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWorkspaceAndStateLieApart(t *testing.T) {
	st := newStore(t)
	for _, workspace := range []string{st.Dir(), filepath.Dir(st.Dir()), st.sessions(), st.Dir() + "/x"} {
		s := settings(t, "x")
		s.Workspace = workspace
		if _, err := st.Create(s); err == nil || !strings.Contains(err.Error(), "set XDG_STATE_HOME elsewhere") {
			t.Errorf("%s: %v", workspace, err)
		}
	}
}

func TestTwoOwners(t *testing.T) {
	st := newStore(t)
	create(t, st, "shared").Close()
	other := exec.Command("/proc/self/exe", "-test.run=^TestHoldForAnother$")
	other.Env = append(os.Environ(), envHold+"="+st.Dir())
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}

	_, err = st.Open("shared")
	var busy *BusyError
	if !errors.As(err, &busy) {
		t.Fatal(err)
	}
	if busy.Owner.PID != other.Process.Pid || !strings.Contains(busy.Owner.Command, "-test.run=^TestHoldForAnother$") {
		t.Errorf("%+v", busy.Owner)
	}
	for _, part := range []string{"shared", "TestHoldForAnother", "wait for it, or take another with --session NAME"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	looked, err := st.Look("shared")
	if err != nil {
		t.Fatal(err)
	}
	if owner, ok := looked.Owner(); !ok || owner.PID != other.Process.Pid {
		t.Errorf("%+v, %v", owner, ok)
	}

	// However it ends, the lock is free.
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	other.Wait()
	s, err := st.Open("shared")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// Of two holders in one process, too, there is one.
func TestTwoOwnersInOneProcess(t *testing.T) {
	st := newStore(t)
	s := create(t, st, "x")
	var busy *BusyError
	if _, err := st.Open("x"); !errors.As(err, &busy) || busy.Owner.PID != os.Getpid() {
		t.Errorf("%v", err)
	}
	s.Close()
	again, err := st.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestOneOfManyCreates(t *testing.T) {
	st := newStore(t)
	s := settings(t, "x")
	var wg sync.WaitGroup
	results := make([]error, 16)
	for i := range results {
		wg.Go(func() {
			stored, err := st.Create(s)
			if err == nil {
				defer stored.Close()
			}
			results[i] = err
		})
	}
	wg.Wait()
	made := 0
	for _, err := range results {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, ErrExists):
			t.Error(err)
		}
	}
	if names := sessionDirs(t, st); made != 1 || len(names) != 1 {
		t.Errorf("%d were made, there are %q", made, names)
	}
}

// Opening one that is removed at the same time gives it or none, never a part.
func TestOpenWhileOthersRemoveAndCreate(t *testing.T) {
	st := newStore(t)
	s := settings(t, "x")
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(quit)
		for range 100 {
			stored, err := st.Create(s)
			if errors.Is(err, ErrExists) {
				stored, err = st.Open("x")
			}
			if errors.As(err, new(*BusyError)) {
				continue
			}
			if err == nil {
				err = stored.Remove()
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for running := true; running; {
		select {
		case <-quit:
			running = false
		default:
		}
		stored, err := st.Open("x")
		switch {
		case err == nil:
			if stored.Workspace != s.Workspace || stored.ID == "" {
				t.Errorf("half of one: %+v", stored.Settings)
			}
			stored.Close()
		case !errors.Is(err, ErrNoSession) && !errors.As(err, new(*BusyError)):
			t.Error(err)
			running = false
		}
	}
	wg.Wait()
}

func TestHalfWrittenSessions(t *testing.T) {
	st := newStore(t)
	whole := create(t, st, "whole")
	for _, name := range []string{".new-abc", ".gone-abc"} {
		mkdirs(t, st.sessions(), name+"/layers/workspace/upper")
	}
	busy := filepath.Join(st.sessions(), ".new-busy")
	mkdirs(t, st.sessions(), ".new-busy")
	held, err := hold(busy, "busy")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if list, err := st.List(); err != nil || len(list) != 1 || list[0].Name != "whole" {
		t.Errorf("%v, %v", list, err)
	}

	// One that is new may be in the making.
	if err := st.Sweep(); err != nil {
		t.Fatal(err)
	}
	if names := sessionDirs(t, st); len(names) != 4 {
		t.Errorf("%q", names)
	}
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{".new-abc", ".gone-abc", ".new-busy", "whole"} {
		if err := os.Chtimes(filepath.Join(st.sessions(), name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Sweep(); err != nil {
		t.Fatal(err)
	}
	if names := sessionDirs(t, st); strings.Join(names, " ") != ".new-busy whole" {
		t.Errorf("%q", names)
	}
	held.Close()
	if err := os.Chtimes(busy, long, long); err != nil {
		t.Fatal(err)
	}
	whole.Close()
	if err := st.Sweep(); err != nil {
		t.Fatal(err)
	}
	if names := sessionDirs(t, st); strings.Join(names, " ") != "whole" {
		t.Errorf("%q", names)
	}
}

func TestSessionFilesThatAreNone(t *testing.T) {
	st := newStore(t)
	create(t, st, "good").Close()
	for name, content := range map[string]string{
		"empty": "", "torn": `{"id": "x", "na`, "list": `[]`, "number": `{"id": 5}`, "binary": "\x00\xff",
		"zero": `{}`, "liar": `{"id":"x","name":"good","workspace":"/tmp/x","mode":"cow","driver":"native"}`,
		"relative": `{"id":"x","name":"relative","workspace":"x","mode":"cow","driver":"native"}`,
		"mode":     `{"id":"x","name":"mode","workspace":"/tmp/x","mode":"none","driver":"native"}`,
		"path":     `{"id":"../../x","name":"path","workspace":"/tmp/x","mode":"cow","driver":"native"}`,
	} {
		mkdirs(t, st.sessions(), name)
		if err := os.WriteFile(filepath.Join(st.sessions(), name, "session.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := st.Open(name); err == nil || !strings.Contains(err.Error(), "session "+name) || !strings.Contains(err.Error(), "session.json") {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				s.Close()
			}
		}
	}
	mkdirs(t, st.sessions(), "nothing")
	if _, err := st.Open("nothing"); !errors.Is(err, ErrNoSession) {
		t.Error(err)
	}
	if list, err := st.List(); err != nil || len(list) != 1 || list[0].Name != "good" {
		t.Errorf("%v, %v", list, err)
	}
}
