package seccomp

import (
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// opensOnlyToRead is a mask of the flags of open(2), none of which is set when a
// file is only read.
const opensOnlyToRead = unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC

// changing are the calls by which a program changes a file by its path, or a
// file's attributes, or reaches another machine. To write to what is open takes
// none of them: it was opened for that.
const changing = `creat openat2 unlink unlinkat rmdir rename renameat renameat2 link linkat symlink symlinkat
	mkdir mkdirat mknod mknodat chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat
	utime utimes futimesat utimensat setxattr lsetxattr fsetxattr setxattrat
	removexattr lremovexattr fremovexattr removexattrat file_setattr truncate connect`

// Changes returns the profile that notifies a listener of calls that would change
// something, and refuses nothing: what is seen of a program that may only read.
// How a file is opened is looked at by the filter, so that to read one is never
// slower; but for openat2, whose flags are behind a pointer.
//
// It sees no address that sendmsg is given, no change by ioctl (chattr), and no
// call that another filter refuses.
func Changes() *specs.LinuxSeccomp {
	p := &specs.LinuxSeccomp{DefaultAction: specs.ActAllow}
	let := func(name string, ways ...specs.LinuxSeccompArg) {
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: ways})
	}
	let("open", masked(1, opensOnlyToRead, 0))
	let("openat", masked(2, opensOnlyToRead, 0))
	let("sendto", null(4)...) // on a socket that is connected
	p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{
		Names: append(strings.Fields(changing), "open", "openat", "sendto"), Action: specs.ActNotify,
	})
	return p
}
