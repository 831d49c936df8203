package guest

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock rights that change something (landlock(7)), by the ABI that brought
// them. What may be read or executed is decided by what is mounted, so reading
// is not among them.
var landlockWrites = []uint64{
	0, // no Landlock
	unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM,
	unix.LANDLOCK_ACCESS_FS_REFER,
	unix.LANDLOCK_ACCESS_FS_TRUNCATE,
	0, // 4: TCP
	unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
}

// atEachOpen are rights that the kernel looks up when any file is opened, because
// the open file carries them.
const atEachOpen = unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// landlockFile are those of them that mean something on a file that is no
// directory.
const landlockFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// oldestLandlock is the oldest ABI that is used. The first one forbids every
// rename from one directory into another, which no program expects.
const oldestLandlock = 2

// errNotHeld is the answer to an envelope that nothing here can hold.
var errNotHeld = errors.New("this kernel cannot hold a call to a part of the writable paths: it has no Landlock (Linux 5.19)")

// landlockABI returns the version of Landlock that this kernel has and this
// package uses, 0 for none.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < oldestLandlock {
		return 0
	}
	return int(abi)
}

// newRuleset makes a ruleset that lets a thread write what is at the paths, and
// below them, and nothing else. A path that does not exist, or leads through a
// link, is left out.
//
// A narrow one lets it write a part of what is mounted writable, and so forbids to
// truncate the rest too. For the whole of it the mounts do that, and a ruleset that
// knows of truncation is looked up at each open, also for reading.
func newRuleset(abi int, writable [][]byte, narrow bool) (int, error) {
	if abi == 0 {
		return -1, errNotHeld
	}
	var handled uint64
	for since, rights := range landlockWrites {
		if since <= abi {
			handled |= rights
		}
	}
	if !narrow {
		handled &^= atEachOpen
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	// The first field alone is what every ABI knows.
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return -1, fmt.Errorf("making a Landlock ruleset: %w", errno)
	}
	ruleset := int(n)
	for _, path := range writable {
		if err := allow(ruleset, path, handled); err != nil && err != unix.ENOENT && err != unix.ELOOP {
			unix.Close(ruleset)
			return -1, fmt.Errorf("making a Landlock ruleset: %s: %w", path, err)
		}
	}
	return ruleset, nil
}

func allow(ruleset int, path []byte, rights uint64) error {
	fd, err := openReal(string(path))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= landlockFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// openReal opens a path that leads through no link.
func openReal(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// restrict holds the calling thread, and what it starts, to a ruleset.
func restrict(ruleset int) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return fmt.Errorf("taking the Landlock rules: %w", errno)
	}
	return nil
}
