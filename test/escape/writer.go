package escape

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/sandbox"
)

// testWriter has a process in the hand that would write for whoever reaches it,
// and tries to from the eye by everything that two processes can have in common.
// That it can be reached is proved from the hand, at the end.
func testWriter(t *testing.T, s *suite) {
	t.Run("workspace", func(t *testing.T) {
		// The eye's own /tmp lies over the hand's: there is the name of a FIFO,
		// but nobody at its other end.
		s.testWriter(t, varTemp(t), "EACCES: fifo-work fifo-rw-work fifo-home fifo-rw-home; EPERM: stream-work dgram-work stream-home dgram-home stream-tmp dgram-tmp abstract abstract-dgram pair-dgram; ENXIO: fifo-tmp; ok: fifo-rw-tmp; ECONNREFUSED: tcp udp; ENOENT: sysv posix; 0: sysv-list; unseen: writer; ESRCH: kill-all")
	})
	t.Run("workspace in /tmp", func(t *testing.T) {
		s.testWriter(t, t.TempDir(), "EACCES: fifo-work fifo-rw-work fifo-home fifo-rw-home fifo-tmp fifo-rw-tmp; EPERM: stream-work dgram-work stream-home dgram-home stream-tmp dgram-tmp abstract abstract-dgram pair-dgram; ECONNREFUSED: tcp udp; ENOENT: sysv posix; 0: sysv-list; unseen: writer; ESRCH: kill-all")
	})
}

func (s *suite) testWriter(t *testing.T, parent, fromEye string) {
	live := s.session(t, s.workspaceIn(t, parent), sandbox.Limits{})
	home := try(t.Context(), live, sandbox.Hand, "sh", "-c", "echo $HOME")
	dirs := []string{"work=" + live.Workspace, "home=" + home, "tmp=/tmp"}
	writer := background(t, live, append([]string{"serve"}, dirs...)...)
	pid, ready := strings.CutPrefix(writer.first, "ready ")
	if !ready {
		t.Fatalf("the writer says %q", writer.first)
	}
	peer := append([]string{"attempt", "peer", pid}, dirs...)

	if got := try(t.Context(), live, sandbox.Eye, peer...); got != fromEye {
		t.Errorf("from the eye:\ngot  %s\nwant %s", got, fromEye)
	}
	// A terminal of the hand's.
	if got, want := try(t.Context(), live, sandbox.Eye, "attempt", "list", "pts=/dev/pts", "shm=/dev/shm"), "[ptmx]: pts; []: shm"; got != want {
		t.Errorf("from the eye, got %s, want %s", got, want)
	}
	if reached := writer.printed(); len(reached) > 0 {
		t.Errorf("from the eye, the writer was %q", reached)
	}

	const fromHand = "ok: fifo-work fifo-rw-work stream-work dgram-work fifo-home fifo-rw-home stream-home dgram-home fifo-tmp fifo-rw-tmp stream-tmp dgram-tmp abstract abstract-dgram tcp udp pair-dgram sysv sysv-attach posix; 1: sysv-list; seen: writer"
	if got := try(t.Context(), live, sandbox.Hand, peer...); got != fromHand {
		t.Errorf("from the hand:\ngot  %s\nwant %s", got, fromHand)
	}
	for _, name := range []string{"fifo-work", "fifo-home", "fifo-tmp", "stream-work", "dgram-home", "abstract", "abstract-dgram", "tcp", "udp"} {
		// It says so in its own time.
		for late := time.Now().Add(10 * time.Second); !slices.Contains(writer.printed(), "reached "+name); time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("the writer cannot be reached by %s at all: the test proves nothing", name)
			}
		}
	}
	writer.stop()
	answers(t, live, "a writer")
}
