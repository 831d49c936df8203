package starter

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// born runs the program in a child that is in the cgroup from the start. Moving
// it there afterwards would cost milliseconds: the kernel waits for all
// processors.
//
// With cgroup v2 the child is cloned into it. With v1 the calling thread, which
// must be locked, joins it while it forks; a thread may move itself cheaply.
func (c *Cgroup) born(p *program, flags uintptr) (pid int, err error) {
	if len(c.GetV2()) > 0 {
		dir, err := unix.Open(string(c.V2), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, fmt.Errorf("the session's cgroup: %w", err)
		}
		defer unix.Close(dir)
		return p.run(flags, dir)
	}
	v1 := c.GetV1()
	defer func() {
		for i := 1; i < len(v1); i += 2 {
			if e := joinV1(v1[i]); e != nil && err == nil {
				err = fmt.Errorf("leaving the session's cgroup: %w", e)
			}
		}
	}()
	for i := 0; i < len(v1); i += 2 {
		if err := joinV1(v1[i]); err != nil {
			return 0, fmt.Errorf("joining the session's cgroup: %w", err)
		}
	}
	return p.run(flags, -1)
}

// joinV1 moves the calling thread into a cgroup of v1.
func joinV1(dir []byte) error {
	fd, err := unix.Open(string(dir)+"/tasks", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("0")) // the writer itself
	return err
}
