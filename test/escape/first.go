package escape

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
)

// testFirstProcess sends PID 1 every signal in every way. What the filter lets
// through, PID 1 must live through.
func testFirstProcess(t *testing.T, s *suite) {
	const (
		plain = "ok: kill tkill tgkill pidfd queued queued-thread setsig; EPERM: queued-pidfd kernel kernel-thread kernel-pidfd fault fault-thread fault-pidfd user user-thread user-pidfd tkill-code tkill-code-thread tkill-code-pidfd"
		// What a program is told of its own faults cannot be forged.
		fault = "ok: kill tkill tgkill pidfd; EPERM: queued queued-thread queued-pidfd kernel kernel-thread kernel-pidfd fault fault-thread fault-pidfd user user-thread user-pidfd tkill-code tkill-code-thread tkill-code-pidfd setsig"
	)
	faults := map[unix.Signal]bool{
		unix.SIGILL: true, unix.SIGTRAP: true, unix.SIGABRT: true, unix.SIGBUS: true, unix.SIGFPE: true,
		unix.SIGSEGV: true, unix.SIGSTKFLT: true, unix.SIGSYS: true,
	}
	live := s.session(t, "", sandbox.Limits{})
	for _, b := range []sandbox.Box{sandbox.Hand, sandbox.Eye} {
		for sig := unix.Signal(1); sig <= 64; sig++ {
			want := plain
			if faults[sig] {
				want = fault
			}
			if got := try(t.Context(), live, b, "attempt", "signal", strconv.Itoa(int(sig))); got != want {
				t.Errorf("signal %d in the %s:\ngot  %s\nwant %s", sig, b, got, want)
			}
			if got := try(t.Context(), live, b, "echo", "here"); got != "here" {
				t.Fatalf("after signal %d, the %s answers %q", sig, b, got)
			}
		}
	}
}
