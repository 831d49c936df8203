package changeset

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// A Time is a moment by a file system's own clock, as it stamps files. The zero
// Time is an unknown one: nothing is proved by it.
type Time struct {
	// Nano is nanoseconds since 1970, with the granularity of the file system.
	Nano int64 `json:"nano"`
	// Boot is the machine's wall clock less the time since it was started. If it
	// gets smaller the clock was set back, and comparing times means nothing.
	Boot int64 `json:"boot"`
}

// margin is how much older than a moment a time stamp must be to be known to
// come from before it. A moment is read from the very clock by which files are
// stamped, and a stamp may be finer than that clock but never behind it: any
// difference would do.
const margin = 2 * time.Millisecond

// tick is the longest time between two steps of that clock (CONFIG_HZ=100).
const tick = 10 * time.Millisecond

// Settle is how long after a change a call must begin for the change to be known
// to come from before it.
const Settle = tick + margin

// before reports whether what is stamped nano surely happened before t.
func (t Time) before(nano int64) bool {
	return t != Time{} && nano < t.Nano-int64(margin)
}

// earlier returns the earlier of two times, unknown if one is.
func earlier(a, b Time) Time {
	if (a == Time{}) || (b != Time{}) && a.Nano < b.Nano {
		return a
	}
	return b
}

// setBack reports whether the clock was set back between then and now.
func setBack(then, now Time) bool {
	return now.Boot < then.Boot-int64(time.Millisecond)
}

// ErrNoClock is returned by View.Clock for a file system whose time stamps prove
// nothing. Changes to what exists there are conflicts.
var ErrNoClock = errors.New("time stamps cannot be relied on")

// clocked are the file systems whose time stamps are relied on: the kernel of
// this machine sets them, so that nobody else changes the files unseen, and
// renaming a file or a directory changes its ctime. A file with an old ctime has
// then had its name as long as its content.
var clocked = map[int64]string{
	0xef53:     "ext4",
	0x58465342: "xfs",
	0x9123683e: "btrfs",
	0xf2f52010: "f2fs",
	0xca451a4e: "bcachefs",
	0x2fc12fc1: "zfs",
	0x01021994: "tmpfs",
	0x794c7630: "overlay",
}

// Clock returns the time by the clocks of the view's layers, the earliest of
// several. A policy layer has no part in it: it does not change.
func (v View) Clock() (Time, error) {
	var t Time
	for _, l := range v.Layers {
		if l.Policy {
			continue
		}
		now, err := clock(l.Dir)
		if err != nil {
			return Time{}, err
		}
		if (t == Time{}) || now.Nano < t.Nano {
			t = now
		}
	}
	return t, nil
}

// clock returns the time of the file system that dir is on: the kernel's coarse
// clock, by which it stamps all of clocked. What an overlay is stored on cannot
// be told; there a file without a name is made, to see how it is stamped.
// Nothing appears in dir.
func clock(dir *beneath.Dir) (Time, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir.Fd(), &fs); err != nil {
		return Time{}, fmt.Errorf("reading the clock of %s: %w", dir.Name(), err)
	}
	kind := int64(uint32(fs.Type))
	if clocked[kind] == "" {
		return Time{}, fmt.Errorf("reading the clock of %s: file system type %#x: %w", dir.Name(), kind, ErrNoClock)
	}
	if clocked[kind] == "ext4" {
		if fine, err := stampsFinely(dir); err != nil || !fine {
			return Time{}, errors.Join(err, fmt.Errorf("reading the clock of %s: its time stamps are whole seconds: %w", dir.Name(), ErrNoClock))
		}
	}
	boot, err := bootTime()
	if err != nil {
		return Time{}, err
	}
	if clocked[kind] == "overlay" {
		nano, err := stampNow(dir)
		return Time{Nano: nano, Boot: boot}, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return Time{}, fmt.Errorf("reading the clock: %w", err)
	}
	return Time{Nano: now.Nano(), Boot: boot}, nil
}

// fineStamps says of ext4 file systems, by device, whether their time stamps are
// finer than a second. Those with inodes of 128 bytes have no room for more.
var fineStamps sync.Map // uint64 to bool

func stampsFinely(dir *beneath.Dir) (bool, error) {
	st, err := dir.Lstat(".")
	if err != nil {
		return false, err
	}
	if fine, known := fineStamps.Load(st.Dev); known {
		return fine.(bool), nil
	}
	nano, err := stampNow(dir)
	if err != nil {
		return false, err
	}
	fine := nano%int64(time.Second) != 0
	fineStamps.Store(st.Dev, fine)
	return fine, nil
}

// stampNow returns how a file that is made in dir is stamped.
func stampNow(dir *beneath.Dir) (int64, error) {
	f, err := dir.OpenFile(".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if err != nil {
		return 0, fmt.Errorf("reading the clock: %w: %w", err, ErrNoClock)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, fmt.Errorf("reading the clock of %s: %w", dir.Name(), err)
	}
	return st.Ctim.Nano(), nil
}

// bootTime returns when, by the wall clock as it is set now, the machine was
// started. It is read until no interruption spoils the difference.
func bootTime() (int64, error) {
	var best, width int64
	for try := range 8 {
		var a, wall, b unix.Timespec
		if err := errors.Join(
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &a),
			unix.ClockGettime(unix.CLOCK_REALTIME, &wall),
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &b),
		); err != nil {
			return 0, fmt.Errorf("reading the clock: %w", err)
		}
		if w := b.Nano() - a.Nano(); try == 0 || w < width {
			best, width = wall.Nano()-(a.Nano()+b.Nano())/2, w
		}
		if width < int64(200*time.Microsecond) {
			break
		}
	}
	return best, nil
}
