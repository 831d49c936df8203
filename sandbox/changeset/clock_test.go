package changeset

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// The kernel stamps files by its coarse clock: a file that is made between two
// readings of it is stamped in between. On kernels with finer stamps it may be
// later by less than a tick.
func TestFilesAreStampedByTheCoarseClock(t *testing.T) {
	dir, err := beneath.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	coarse := func() int64 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
			t.Fatal(err)
		}
		return now.Nano()
	}
	for range 1000 {
		before := coarse()
		stamp, err := stampNow(dir)
		if err != nil {
			t.Skip("skipped:", err)
		}
		if after := coarse(); stamp < before || stamp > after+int64(settle)/2 {
			t.Fatalf("stamped %v before and %v after the clock", time.Duration(before-stamp), time.Duration(stamp-after))
		}
	}
}
