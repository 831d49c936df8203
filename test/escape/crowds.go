package escape

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// testCrowds takes all that there is of something. The session is held to its
// limit, or ends; another one, which runs all the while, does not notice.
func testCrowds(t *testing.T, s *suite) {
	other := s.session(t, "", sandbox.Limits{})
	for _, part := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"processes", testManyProcesses},
		{"fork bomb", testForkBomb},
		{"watchers", testManyWatchers},
		{"memory", testMuchMemory},
		{"disk", testMuchDisk},
		{"files", testManyFiles},
		{"100000 files", test100000Files},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.run(t, s)
			answers(t, other, "a crowd in another session")
		})
	}
}

// few is a limit on processes for tests.
const few = 64

func testManyProcesses(t *testing.T, s *suite) {
	live, err := s.start(t, "", s.held(sandbox.Limits{Pids: few}))
	if err != nil {
		t.Fatal(err)
	}
	crowd := background(t, live, "forks")
	if want := "EAGAIN: fork"; crowd.first != want {
		t.Errorf("got %s, want %s", crowd.first, want)
	}
	// There is room for no more, which is said. A guest that can have no thread
	// ends, and its session with it: the lowered RLIMIT_NPROC of the moment in
	// which a call is started is PID 1's own too, and root's crowd takes the room
	// in the cgroup that is meant for the guest.
	got := try(t.Context(), live, sandbox.Hand, "true")
	if why := over(t, live); why != "" {
		t.Logf("the crowd has ended its own session: %s", why)
		return
	}
	if got != "" && !strings.Contains(got, "resource temporarily unavailable") {
		t.Errorf("beside the crowd, a call gives %q", got)
	}
	crowd.stop()
	answers(t, live, "a crowd of processes")
}

func testForkBomb(t *testing.T, s *suite) {
	live, err := s.start(t, "", s.held(sandbox.Limits{Pids: few}))
	if err != nil {
		t.Fatal(err)
	}
	mark := "mark-" + rand.Text()
	_, err = live.Exec(t.Context(), sandbox.Command{
		Args:     []string{"bash", "-c", `bomb() { bomb | bomb & }; trap "" TERM HUP INT; bomb; wait; sleep 100000`, mark},
		Envelope: sandbox.Envelope{Time: 300 * time.Millisecond},
	})
	if !errors.Is(err, sandbox.ErrTime) {
		t.Errorf("the call ended with %v", err)
	}
	if left := processesWith(t, mark); len(left) > 0 {
		t.Errorf("the bomb has left %d processes", len(left))
	}
	answers(t, live, "a fork bomb")
}

// The kernel counts watchers for the user, to whom the machine's other programs
// belong too.
func testManyWatchers(t *testing.T, s *suite) {
	live, err := s.start(t, "", sandbox.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	crowd := background(t, live, "watchers")
	if want := "EMFILE: inotify"; crowd.first != want {
		t.Errorf("got %s, want %s", crowd.first, want)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Errorf("the session's watchers leave none to others: %v", err)
	} else {
		unix.Close(fd)
	}
	crowd.stop()
}

// over says why a session is over, if it is.
func over(t *testing.T, live *sandbox.Session) string {
	_, err := live.Processes(t.Context())
	if err != nil && strings.Contains(err.Error(), "the session is over") {
		return err.Error()
	}
	return ""
}

// held leaves out the limits that nothing here can hold for the whole session.
// The defaults are then held by what there is.
func (s *suite) held(l sandbox.Limits) sandbox.Limits {
	if !s.cgroups() {
		l.Pids = 0
	}
	return l
}

// cgroups reports whether the session's limits can be held for all its
// processes together.
func (s *suite) cgroups() bool { return os.Geteuid() == 0 }

func testMuchMemory(t *testing.T, s *suite) {
	const limit = 64 << 20
	live, err := s.start(t, "", sandbox.Limits{Memory: limit})
	if !s.cgroups() {
		if err == nil || !strings.Contains(err.Error(), "the limit on memory cannot be held") {
			t.Errorf("where nothing can hold it, a limit is answered by %v", err)
		}
		t.Skip("NOT TESTED: an ordinary user has no cgroup here to hold a memory limit; that it is refused was tested")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := try(t.Context(), live, sandbox.Hand, "attempt", "memory", "268435456"), "killed: killed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	answers(t, live, "a process that took all memory")

	// What no process holds is left when all are killed. Then the guest is too,
	// and it is said why.
	for _, args := range [][]string{
		{"attempt", "fill", "/dev/shm"},
		{"sh", "-c", "for i in 1 2 3 4 5 6 7 8; do attempt memory 268435456 & done; wait"},
	} {
		live := s.session(t, "", sandbox.Limits{Memory: limit})
		got := try(t.Context(), live, sandbox.Hand, args...)
		if strings.Contains(got, "unbounded") {
			t.Errorf("%s: %s", strings.Join(args, " "), got)
		}
		if got = try(t.Context(), live, sandbox.Hand, "echo", "here"); got != "here" && !strings.Contains(got, "raise it with --memory") {
			t.Errorf("after %s, the session answers %q", strings.Join(args, " "), got)
		}
	}
}

func testMuchDisk(t *testing.T, s *suite) {
	const limit = 8 << 20
	live := s.session(t, "", sandbox.Limits{Disk: limit})
	if got, want := try(t.Context(), live, sandbox.Hand, "truncate", "-s", "9M", "big"), "killed: file size limit exceeded"; got != want {
		t.Errorf("one file: got %q, want %q", got, want)
	}
	answers(t, live, "a file that is too large")
	if got := try(t.Context(), live, sandbox.Hand, "attempt", "fill", live.Workspace); got != "EFBIG: write" && !strings.Contains(got, "more than the limit of 8 MiB") {
		t.Errorf("one file: %q", got)
	}
	for _, dir := range []string{"work", "$HOME", "/tmp", "eye"} {
		parent := t.TempDir()
		box := sandbox.Hand
		if dir == "eye" {
			parent, box = varTemp(t), sandbox.Eye
		}
		live := s.session(t, s.workspaceIn(t, parent), sandbox.Limits{Disk: limit})
		place := strings.NewReplacer("work", live.Workspace, "eye", "/tmp").Replace(dir)
		got := try(t.Context(), live, box, "sh", "-c", "attempt fill "+place+" many")
		if !strings.Contains(got, "more than the limit of 8 MiB") {
			t.Errorf("many files in %s: %q", dir, got)
		}
		if got := try(t.Context(), live, sandbox.Hand, "true"); !strings.Contains(got, "more than the limit of 8 MiB") {
			t.Errorf("afterwards, a call gives %q", got)
		}
	}
}

func testManyFiles(t *testing.T, s *suite) {
	live := s.session(t, "", sandbox.Limits{Inodes: 2000})
	got := try(t.Context(), live, sandbox.Hand, "attempt", "files", live.Workspace)
	if !strings.Contains(got, "more than the limit of 2000") {
		t.Errorf("got %q", got)
	}
}

// test100000Files makes many files: the session, its change set and its end
// must bear them.
func test100000Files(t *testing.T, s *suite) {
	if s.kind.name == "owner" {
		t.Skip("skipped: tested as root in a workspace of root's own, which is the same here")
	}
	const count = "100000"
	live, err := s.startIn(t, memoryStore(t), s.workspace(t), sandbox.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := try(t.Context(), live, sandbox.Hand, "attempt", "files", live.Workspace, count), count+" files"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	changes, err := live.Changes(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()
	if n := len(changes.Changes); n != 100_100 {
		t.Errorf("there are %d changes", n)
	}
	answers(t, live, "a crowd of files")
}

// memoryStore returns a store on a file system in memory, where there is one:
// to make so many files on a disk takes long.
func memoryStore(t *testing.T) *sandbox.Store {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sallyport-escape-")
	if err != nil {
		t.Logf("on disk: %v", err)
		return sallytest.Store(t)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	st, err := sandbox.OpenStore(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	return st
}
