package guest

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A reaper waits for every child of PID 1: those that it started and those
// that were orphaned inside.
type reaper struct {
	mu      sync.Mutex
	started sync.Cond // signalled when there may be children again
	owners  map[int]chan<- exited
}

type exited struct {
	status unix.WaitStatus
	usage  unix.Rusage
}

func newReaper() *reaper {
	r := &reaper{owners: make(map[int]chan<- exited)}
	r.started.L = &r.mu
	return r
}

// start calls fork, and returns where the end of the process that it made will
// be told.
func (r *reaper) start(fork func() (int, error)) (int, <-chan exited, error) {
	// The lock is held across the fork, so that the child cannot be reaped
	// before its owner is known.
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	ch := make(chan exited, 1)
	r.owners[pid] = ch
	r.started.Signal()
	return pid, ch, nil
}

// run reaps until the process ends.
func (r *reaper) run() {
	for {
		var e exited
		pid, err := unix.Wait4(-1, &e.status, unix.WALL, &e.usage)
		switch {
		case err == unix.ECHILD:
			r.mu.Lock()
			if len(r.owners) == 0 {
				r.started.Wait()
			}
			r.mu.Unlock()
		case err == nil:
			r.mu.Lock()
			owner := r.owners[pid]
			delete(r.owners, pid)
			r.mu.Unlock()
			if owner != nil {
				owner <- e
			}
		}
	}
}

// alone reports whether no process is left in the container but this one:
// whatever lives there descends from a child of PID 1.
func alone() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil) == unix.ECHILD
}
