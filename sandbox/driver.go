package sandbox

import (
	"context"
	"net"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// A Driver starts the containers of sessions. It translates the specs that it
// is given and adds no policy of its own: what it cannot honour it refuses by
// name.
type Driver interface {
	// Name is what a user calls the driver.
	Name() string

	// Start prepares what the containers of one session share, and returns
	// without having started any. It is called once for each time a session
	// becomes live, by its one owner.
	//
	// An error means that nothing is left of the attempt. It names what is
	// missing on the machine and the cure.
	Start(ctx context.Context, s *Start) (Containers, error)
}

// Start is what a driver makes the containers of a session from.
type Start struct {
	// ID is unique among all sessions of the machine; a driver labels with it
	// whatever it leaves outside of Dir while the session is live.
	ID string
	// Dir is the session's directory. "driver" in it is the driver's own.
	Dir string
	// Process is the hand without its filesystem: who runs in it, under which
	// rlimits and filter. It is part of what Specs returns; a driver can begin
	// with it.
	Process *specs.Spec
	// Switch says that the caller is root, and the user perhaps somebody else.
	// Otherwise the caller has the user's numbers already.
	Switch bool
	// Resources are the limits of all containers together. Those in Required
	// must be held: one that cannot be is an error. The others the driver holds
	// as well as it can.
	Resources *specs.LinuxResources
	Required  []Limit
	// Specs describes the hand and the eye. The eye has the mounts of the hand,
	// each read-only, except those that it replaces. It is called once, and may
	// take a while: a driver can do other things meanwhile.
	Specs func() (hand, eye *specs.Spec, err error)
}

// Containers are the live containers of one session: the hand, the eye, and
// forks. The methods may be called by several goroutines at once.
type Containers interface {
	// Open starts a container and connects to the guest in it. Each of Hand
	// and Eye is opened at most once; when its connection ends, the session is
	// over. What comes over the connection is not to be trusted.
	Open(ctx context.Context, b Box) (net.Conn, error)

	// Fork starts a container of the hand's spec with other layers: where a
	// mount of the spec differs from the hand's at the same destination, it
	// replaces it. The id is unique in the session. Closing the returned
	// connection does not end the container; Remove does.
	Fork(ctx context.Context, id string, spec *specs.Spec) (net.Conn, error)

	// Remove ends a fork and returns when nothing of it runs. It may be called
	// again.
	Remove(id string) error

	// Refresh makes the session's workspace forget what it has cached of the
	// layers below its own, so that what the host has changed there is seen.
	// Names that a process holds open are not refreshed. A driver whose
	// workspace caches nothing does nothing.
	Refresh(ctx context.Context) error

	// Mechanisms says by what each part of the isolation is held, for the
	// audit: "limits.memory": "cgroup v2", for one.
	Mechanisms() map[string]string

	// Report is what became of the limits, once the containers have ended or
	// while they run.
	Report() Report

	// Close ends every container and returns when no process, mount or cgroup
	// of the session is left. It may be called again.
	Close() error
}

// A Box is one of a session's two containers.
type Box int

const (
	Hand Box = iota // read-write
	Eye             // the same view, read-only, with namespaces of its own
)

func (b Box) String() string {
	if b == Eye {
		return "eye"
	}
	return "hand"
}

// A Report is what a driver knows of a session's use of its limits.
type Report struct {
	OutOfMemory  int // processes that were killed for want of memory
	RefusedForks int // processes that were not made at the limit of them
}
