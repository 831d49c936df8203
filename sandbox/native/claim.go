package native

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"golang.org/x/sys/unix"
)

// A host process that is killed cannot remove its sessions' cgroups. They are
// removed at the next start of a session, whoever starts it. What must not be
// removed is the cgroup of a session that is live or about to be, and nothing
// in a cgroup's name says whose it is: sessions of several stores lie beside one
// another.
//
// So whoever has a cgroup directory holds flock(2) on it, which the kernel gives
// back with the process. A directory is removed only by who holds its lock and
// has then seen that the path still leads to it. A session that makes a
// directory takes the lock and looks in the same way: if it was removed in
// between, it makes it again. Limits are written and processes are born only
// behind that, so neither can lose the directory.

// A claim is a cgroup directory that this process has locked.
type claim struct {
	dir string
	fd  int
}

// newClaim makes a cgroup directory, if it is not there, and locks it.
func newClaim(dir string) (c claim, err error) {
	// Others may remove what is empty at any moment, the parent too.
	for range 1000 {
		if err = os.MkdirAll(dir, 0o755); err == nil {
			if c, err = lock(dir, unix.LOCK_EX); err == nil {
				return c, nil
			}
			err = &os.PathError{Op: "locking the cgroup", Path: dir, Err: err}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return claim{}, err
}

// lock locks a directory. The error is ENOENT when it is not, or is no longer,
// at its path.
func lock(dir string, how int) (claim, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return claim{}, err
	}
	c := claim{dir: dir, fd: fd}
	if err := c.take(how); err != nil {
		unix.Close(fd)
		return claim{}, err
	}
	return c, nil
}

// take locks the directory that was opened.
func (c claim) take(how int) error {
	err := unix.Flock(c.fd, how)
	for err == unix.EINTR {
		err = unix.Flock(c.fd, how)
	}
	if err != nil {
		return err
	}
	var held, there unix.Stat_t
	if err := unix.Fstat(c.fd, &held); err != nil {
		return err
	}
	if err := unix.Lstat(c.dir, &there); err != nil {
		return err
	}
	if held.Dev != there.Dev || held.Ino != there.Ino {
		return unix.ENOENT
	}
	return nil
}

func (c claim) release() { unix.Close(c.fd) }

// sweepPause is how long a process goes without sweeping again. One that starts
// thousands of sessions must not look at thousands of cgroups for each.
const sweepPause = time.Minute

var lastSweep atomic.Int64 // of this process, in nanoseconds since 1970

// sweepDue reports whether it is time to sweep, and takes it that it is done.
func sweepDue(now time.Time) bool {
	last := lastSweep.Load()
	return now.Sub(time.Unix(0, last)) >= sweepPause && lastSweep.CompareAndSwap(last, now.UnixNano())
}

// sweep removes the cgroups that dead processes have left where this process
// makes its own. Processes die with the host that they belonged to, but the
// kernel may still be about it: it is given a moment.
func (f cgroupFS) sweep() {
	var left []string
	for _, p := range f.parents() {
		entries, err := os.ReadDir(p.dir)
		if err != nil {
			continue // there is none yet, or it is not for this process to see
		}
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), p.prefix) {
				left = append(left, filepath.Join(p.dir, e.Name()))
			}
		}
	}
	for wait := time.Millisecond; wait < 100*time.Millisecond; wait *= 2 {
		left = slices.DeleteFunc(left, func(dir string) bool { return removeLeftover(dir) != unix.EBUSY })
		if len(left) == 0 {
			return
		}
		time.Sleep(wait)
	}
}

// A parent is a directory whose directories with a prefix are sessions'.
type parent struct{ dir, prefix string }

// parents are where this process makes cgroups.
func (f cgroupFS) parents() []parent {
	switch f.mode {
	case cgroups.Unified:
		group, err := f.groupV2("")
		if err != nil {
			return nil
		}
		dir, prefix := path.Split(group)
		return []parent{{filepath.Join(f.mount, dir), prefix}}
	case cgroups.Legacy, cgroups.Hybrid:
		nested, err := f.nested()
		if err != nil {
			return nil
		}
		var list []parent
		for _, name := range []cgroup1.Name{cgroup1.Memory, cgroup1.Pids, cgroup1.Cpu} {
			if own, err := nested(name); err == nil {
				list = append(list, parent{dir: filepath.Join(f.mount, string(name), own, cgroupParent)})
			}
		}
		return list
	}
	return nil
}

// removeLeftover removes a cgroup, unless somebody has claimed it or a process is
// in it.
func removeLeftover(dir string) error {
	c, err := lock(dir, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return err
	}
	defer c.release()
	return unix.Rmdir(dir)
}
