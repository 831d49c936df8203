package starter

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// newUserNamespace makes a user namespace in which the user and the group are
// known by their own numbers. All others are unknown there, and cannot be
// taken.
//
// It is born with a child that does nothing else. A container's first process
// could not make it: the kernel lets nobody unshare it who shares memory.
func newUserNamespace(u *User) (int, error) {
	p, err := newProgram()
	if err != nil {
		return -1, err
	}
	defer p.discard()
	p.do("waiting for the end", unix.SYS_PPOLL, 0, 0, 0, 0, 0)
	pid, err := p.fork(unix.CLONE_NEWUSER, nil)
	if err != nil {
		return -1, err
	}
	defer func() {
		unix.Kill(pid, unix.SIGKILL)
		reap(pid)
	}()
	for _, file := range [][2]string{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("%d %d 1", u.Uid, u.Uid)},
		{"gid_map", fmt.Sprintf("%d %d 1", u.Gid, u.Gid)},
	} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file[0]), []byte(file[1]), 0); err != nil {
			return -1, fmt.Errorf("mapping the user: %w", err)
		}
	}
	return unix.Open(fmt.Sprintf("/proc/%d/ns/user", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}
