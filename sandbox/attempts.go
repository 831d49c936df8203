package sandbox

import (
	"fmt"
	"math"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/wire"
)

// An Attempt is something that a program in the eye or in a fork tried to change.
// Nothing was changed: the mounts and Landlock stopped it. It is evidence, not what
// holds the call: a program that means to hide what it tried can show another path
// than the one that it used.
//
// What a program may write in the eye (a /tmp of its own, devices, its own /proc)
// is no attempt, nor is what would have failed anyway, such as removing what is not
// there.
type Attempt struct {
	// Op is one of "write" (to what exists), "create", "truncate", "remove",
	// "rename", "link", "symlink", "mkdir", "mknod", "chmod", "chown", "utime",
	// "xattr", "connect" and "send"; in a fork also "lookup" (of a name) and "read"
	// (of a denied path); or "suspected", where nothing watches and the program
	// failed as if it had tried something.
	Op string
	// Path is absolute and clean, with links in it not followed; Host and Port in
	// one for the network, "host:port", or the host alone when its name was looked
	// up; empty when it is not known. It may hold any byte but 0: see
	// changeset.Printable.
	Path string
	// Host is whom a program tried to reach: in a fork by the name that was looked
	// up, otherwise by the IP address; empty when the attempt is none at the network,
	// or the address is not known. Port is 0 when only a name was looked up.
	Host string
	Port uint16
	// Program is the path of the program's executable; empty when it is not known.
	Program string
	// Opportunistic attempts are what programs do beside their work, and do
	// without: caches, histories, git's index.
	Opportunistic bool
}

// Network reports whether it is an attempt to reach another machine, or a port of
// this one that nobody in the same box listens on.
func (a *Attempt) Network() bool {
	switch a.Op {
	case "connect", "send", "lookup":
		return !strings.HasPrefix(a.Path, "/") // else a Unix socket
	}
	return false
}

// OpSuspected is the operation of an attempt that nobody has seen.
const OpSuspected = "suspected"

var opNames = map[wire.Op]string{
	wire.Op_OP_WRITE:    "write",
	wire.Op_OP_CREATE:   "create",
	wire.Op_OP_TRUNCATE: "truncate",
	wire.Op_OP_REMOVE:   "remove",
	wire.Op_OP_RENAME:   "rename",
	wire.Op_OP_LINK:     "link",
	wire.Op_OP_SYMLINK:  "symlink",
	wire.Op_OP_MKDIR:    "mkdir",
	wire.Op_OP_MKNOD:    "mknod",
	wire.Op_OP_CHMOD:    "chmod",
	wire.Op_OP_CHOWN:    "chown",
	wire.Op_OP_UTIME:    "utime",
	wire.Op_OP_XATTR:    "xattr",
	wire.Op_OP_CONNECT:  "connect",
	wire.Op_OP_SEND:     "send",

	wire.Op_OP_SUSPECTED: OpSuspected,
}

// AttemptsMechanism is the key of [Session.Mechanisms] under which it stands by what
// attempts are noticed, and AttemptsSeen what stands there when they are seen;
// otherwise they are suspected of a program that fails with words that say so.
const (
	AttemptsMechanism = "attempts"
	AttemptsSeen      = "seccomp notification"
)

func attemptsNoticed(hello *wire.HelloResponse) string {
	if hello.Notifies {
		return AttemptsSeen
	}
	return fmt.Sprintf("suspected from what programs say: no seccomp notification (%v)", unix.Errno(hello.NotifyErrno))
}

// unseen says why attempts are not seen; empty if they are.
func (b *box) unseen() string {
	if b.attempts == AttemptsSeen {
		return ""
	}
	return b.attempts
}

// attempts are those that a guest has reported, which the wire has checked.
func attempts(a *wire.Attempts) (list []Attempt, dropped int) {
	for _, at := range a.GetAttempts() {
		try := Attempt{
			Op: opNames[at.Op], Path: string(at.Path), Program: string(at.Program), Opportunistic: at.Opportunistic,
		}
		if address, err := netip.ParseAddrPort(try.Path); err == nil {
			try.Host, try.Port = address.Addr().String(), address.Port()
		}
		list = append(list, try)
	}
	return list, int(min(a.GetDropped(), math.MaxInt32))
}
