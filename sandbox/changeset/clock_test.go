package changeset

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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
		if after := coarse(); stamp < before || stamp > after+int64(tick) {
			t.Fatalf("stamped %v before and %v after the clock", time.Duration(before-stamp), time.Duration(stamp-after))
		}
	}
}

// An ext4 with small inodes stamps in whole seconds: a file that is written after
// a moment may look older than it.
func TestStampsOfWholeSecondsProveNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system of a file")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("mkfs.ext4 is not installed (Debian: e2fsprogs)")
	}
	dir := t.TempDir()
	for inode, fine := range map[string]bool{"128": false, "256": true} {
		image, mnt := filepath.Join(dir, inode), filepath.Join(dir, "mnt"+inode)
		if err := os.Mkdir(mnt, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, cmd := range [][]string{
			{"truncate", "-s", "8M", image}, {"mkfs.ext4", "-q", "-I", inode, image}, {"mount", "-o", "loop", image, mnt},
		} {
			if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", cmd, err, out)
			}
		}
		t.Cleanup(func() {
			if err := unix.Unmount(mnt, 0); err != nil {
				t.Error(err)
			}
		})
		d, err := beneath.Open(mnt)
		if err != nil {
			t.Fatal(err)
		}
		_, err = clock(d)
		d.Close()
		if fine && err != nil || !fine && !errors.Is(err, ErrNoClock) {
			t.Errorf("inodes of %s bytes: %v", inode, err)
		}
	}
}
