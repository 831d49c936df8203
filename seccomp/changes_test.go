package seccomp

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Reading is not notified, changing is, and nothing is refused.
func TestChanges(t *testing.T) {
	const notify = unix.SECCOMP_RET_USER_NOTIF
	tables := kernelTables(t)
	for _, goarch := range []string{"amd64", "arm64"} {
		m := mustCompile(t, Changes(), goarch)
		for _, test := range []struct {
			name string
			args [6]uint64
			want uint32
		}{
			{"openat", [6]uint64{2: unix.O_RDONLY}, allow},
			{"openat", [6]uint64{2: unix.O_CLOEXEC | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_PATH | unix.O_NONBLOCK}, allow},
			{"openat", [6]uint64{2: unix.O_WRONLY}, notify},
			{"openat", [6]uint64{2: unix.O_RDWR | unix.O_CLOEXEC}, notify},
			{"openat", [6]uint64{2: unix.O_CREAT}, notify},
			{"openat", [6]uint64{2: unix.O_TRUNC}, notify},
			{"openat", [6]uint64{2: 0xffffffff00000000}, allow}, // the kernel takes an int
			{"openat", [6]uint64{0: 1, 1: 1}, allow},
			{"open", [6]uint64{1: unix.O_RDONLY | unix.O_CLOEXEC}, allow},
			{"open", [6]uint64{1: unix.O_WRONLY}, notify},
			{"open", [6]uint64{1: unix.O_CREAT}, notify},
			{"creat", [6]uint64{}, notify},
			{"openat2", [6]uint64{}, notify},
			{"sendto", [6]uint64{4: 0}, allow},
			{"sendto", [6]uint64{4: 1}, notify},
			{"sendto", [6]uint64{4: 1 << 32}, notify},
			{"connect", [6]uint64{}, notify},
			{"unlink", [6]uint64{}, notify},
			{"unlinkat", [6]uint64{}, notify},
			{"renameat2", [6]uint64{}, notify},
			{"fchmodat2", [6]uint64{}, notify},
			{"read", [6]uint64{}, allow},
			{"write", [6]uint64{}, allow},
			{"sendmsg", [6]uint64{}, allow},
			{"newfstatat", [6]uint64{}, allow},
			{"execve", [6]uint64{}, allow},
		} {
			nr, ok := tables[goarch][test.name]
			if !ok {
				continue // arm64 has none of the old ones
			}
			if got := m.run(t, call{nr: uint32(nr), arch: audit[goarch], args: test.args}); got != test.want {
				t.Errorf("%s: %s %x: %#x, want %#x", goarch, test.name, test.args, got, test.want)
			}
		}
	}
}
