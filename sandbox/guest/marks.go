package guest

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Every process that a call starts carries the call's number, and so do its
// descendants, whatever they do: daemons, new sessions, double forks. The mark
// is their soft limit of RLIMIT_RTTIME. It is inherited by fork and kept by
// exec; the system call filter of every call refuses to set it; PID 1 reads it
// with prlimit(2). The limit itself means nothing: it bounds the time of
// processes with a real-time schedule, which nothing inside can have.
//
// A cgroup for each call would do the same, where cgroups can be had at all,
// but joining one costs a wait for all processors on most kernels; a sub-reaper
// for each call costs another exec and can be killed by its own children.
//
// The same moment serves for RLIMIT_NPROC: it must bind what a call starts,
// but not PID 1, for which a refused thread is fatal.
type marks struct {
	mu   sync.Mutex
	hard uint64 // of RLIMIT_RTTIME; call n is marked by hard-n
	// processes is the soft RLIMIT_NPROC of what is started, 0 for none.
	processes uint64
}

const rlimitRTTIME = 15 // RLIMIT_RTTIME; golang.org/x/sys/unix has no name for it

func newMarks() (*marks, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(rlimitRTTIME, &r); err != nil {
		return nil, fmt.Errorf("RLIMIT_RTTIME: %w", err)
	}
	m := &marks{hard: r.Max}
	return m, m.set(rlimitRTTIME, m.hard, m.hard)
}

func (m *marks) set(resource int, soft, hard uint64) error {
	return unix.Prlimit(0, resource, &unix.Rlimit{Cur: soft, Max: hard}, nil)
}

// during calls fork while the limits of this process are those that a process
// of the call shall inherit. Limits belong to the whole process, so one call
// forks at a time; fork itself is a matter of a fraction of a millisecond.
// The thread that forks is made before: while RLIMIT_NPROC is low, the runtime
// may not get another one, which is fatal. Nor does it restore the limits: the
// call's filter forbids it to.
func (m *marks) during(call uint64, fork func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if call == 0 || call >= m.hard {
		return fmt.Errorf("call number %d is out of range", call)
	}
	var nproc unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &nproc); err != nil {
		return err
	}
	if m.processes > 0 {
		if err := m.set(unix.RLIMIT_NPROC, min(m.processes, nproc.Max), nproc.Max); err != nil {
			return fmt.Errorf("RLIMIT_NPROC: %w", err)
		}
		defer m.set(unix.RLIMIT_NPROC, nproc.Cur, nproc.Max)
	}
	if err := m.set(rlimitRTTIME, m.hard-call, m.hard); err != nil {
		return fmt.Errorf("marking: %w", err)
	}
	defer m.set(rlimitRTTIME, m.hard, m.hard)
	return fork()
}

// of returns the call that a process belongs to, 0 when it is none of a call
// or is gone.
func (m *marks) of(pid int) uint64 {
	var r unix.Rlimit
	if err := unix.Prlimit(pid, rlimitRTTIME, nil, &r); err != nil {
		return 0
	}
	return m.hard - r.Cur
}

// each calls f for every process of the container that carries a mark and is
// not a zombie.
func (m *marks) each(f func(pid int, call uint64)) error {
	proc, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == 1 {
			continue
		}
		if call := m.of(pid); call != 0 && !zombie(name) {
			f(pid, call)
		}
	}
	return nil
}

// count returns how many processes of a call are left.
func (m *marks) count(call uint64) (n uint32) {
	if alone() {
		return 0
	}
	m.each(func(_ int, c uint64) {
		if c == call {
			n++
		}
	})
	return n
}

// signal sends a signal to every process of a call once.
func (m *marks) signal(call uint64, sig unix.Signal) (n uint32, err error) {
	err = m.each(func(pid int, c uint64) {
		if c == call && unix.Kill(pid, sig) == nil {
			n++
		}
	})
	return n, err
}

// kill ends every process of a call, and returns when none is left. A process
// that was sent SIGKILL forks no more, so each pass leaves only children that
// were made during it, and those that are still dying.
func (m *marks) kill(call uint64) error {
	for pause := time.Duration(0); ; pause = min(pause+50*time.Microsecond, time.Millisecond) {
		n, err := m.signal(call, unix.SIGKILL)
		if err != nil || n == 0 {
			return err
		}
		time.Sleep(pause)
	}
}

// zombie reports whether a process has ended and waits for its parent: it can
// do nothing any more. Its marks can still be read.
func zombie(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return true
	}
	// "pid (comm) S ...": comm may hold anything, also parentheses.
	for i := len(stat) - 1; i > 0; i-- {
		if stat[i] == ')' {
			return i+2 < len(stat) && (stat[i+2] == 'Z' || stat[i+2] == 'X')
		}
	}
	return true
}
