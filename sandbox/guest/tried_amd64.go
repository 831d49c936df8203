package guest

import (
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/wire"
)

// Calls of before the *at family, which newer architectures do not have.

var legacyTargets = map[int32]target{
	unix.SYS_UNLINK:    {op: wire.Op_OP_REMOVE, dir: none, path: 0},
	unix.SYS_RMDIR:     {op: wire.Op_OP_REMOVE, dir: none, path: 0},
	unix.SYS_LINK:      {op: wire.Op_OP_LINK, dir: none, path: 1, need: absent},
	unix.SYS_SYMLINK:   {op: wire.Op_OP_SYMLINK, dir: none, path: 1, need: absent},
	unix.SYS_MKDIR:     {op: wire.Op_OP_MKDIR, dir: none, path: 0, need: absent},
	unix.SYS_MKNOD:     {op: wire.Op_OP_MKNOD, dir: none, path: 0, need: absent},
	unix.SYS_CHMOD:     {op: wire.Op_OP_CHMOD, dir: none, path: 0},
	unix.SYS_CHOWN:     {op: wire.Op_OP_CHOWN, dir: none, path: 0},
	unix.SYS_LCHOWN:    {op: wire.Op_OP_CHOWN, dir: none, path: 0},
	unix.SYS_UTIME:     {op: wire.Op_OP_UTIME, dir: none, path: 0},
	unix.SYS_UTIMES:    {op: wire.Op_OP_UTIME, dir: none, path: 0},
	unix.SYS_FUTIMESAT: {op: wire.Op_OP_UTIME, dir: 0, path: 1, self: true},
}

var legacyRenames = map[int32][2]target{
	unix.SYS_RENAME: {{dir: none, path: 0}, {dir: none, path: 1}},
}

func legacyOpening(n *notification) (at target, flags uint64, ok bool) {
	at = target{dir: none, path: 0}
	switch n.nr {
	case unix.SYS_OPEN:
		return at, n.args[1], true
	case unix.SYS_CREAT:
		return at, unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC, true
	}
	return at, 0, false
}
