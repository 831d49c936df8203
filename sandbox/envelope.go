package sandbox

import (
	"errors"
	"time"
)

// An Envelope is what the kernel holds one call to. The zero value is the hand
// with all that it may do.
type Envelope struct {
	// Box is the container that the call runs in: the eye for a call that only
	// reads.
	Box Box
	// Writable narrows what the call may write to these absolute paths, and
	// what is below them. Nil does not narrow; an empty slice leaves nothing.
	// One that does not exist stands for the directory that it would be made in,
	// as far as the session may write it; one that leads through a link is left
	// out. The rest of the view stays readable, and device nodes writable.
	Writable []string
	// Memory, CPUs and Pids narrow the session's limits for this call; 0 does
	// not. No driver can do so yet for a call in a running container, so
	// anything else is refused; a fork has limits of its own.
	Memory int64
	CPUs   float64
	Pids   int64
	// Time is how long the call may take; 0 is no limit. When it has passed,
	// every process of the call is killed.
	Time time.Duration
}

// ErrNotHeld is the error of a call whose envelope nothing on this machine can
// hold. The call was not run.
var ErrNotHeld = errors.New("the envelope cannot be held")
