// Package inside is what a function of the guest is given: its input, a way to
// report progress, a way to run programs that are part of the same call, and
// ways to open what a decision was made on. It depends on nothing but the kernel,
// so that what a tool does in a container can be written and tested without one.
package inside

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// A Function is one that the host can run in a container: what a tool does
// inside. It runs on a thread that is held to the call's envelope, and so does
// every file operation that it makes itself; goroutines that it starts are not,
// and must touch no files. ctx ends when the call is killed.
type Function func(ctx context.Context, c *Call) ([]byte, error)

// A Call is one run of a function.
type Call struct {
	// Input is what the host sent.
	Input []byte
	// Progress sends the host something before the result. It waits while the
	// host is behind.
	Progress func([]byte)
	// Programs runs programs as part of the call.
	Programs Programs
	// Env is the environment of programs in this container.
	Env []string
}

// Programs starts programs that are held to the call's envelope and are killed
// with it.
type Programs interface {
	// Run runs a program and returns when it has ended and its output was
	// written; processes that it leaves in the background live on. When ctx ends,
	// every process of the call is killed, and the error is the context's; the
	// exit is returned as well. An error without an exit means that the program
	// could not be started, and wraps the errno.
	Run(ctx context.Context, p Program) (*Exit, error)
	// Start starts a program that nobody waits for.
	Start(p Program) error
}

// A Program is what Programs runs. Its standard input is empty.
type Program struct {
	// Args are the program and its arguments. One without a slash is looked for
	// in the PATH of Env.
	Args []string
	Env  []string // all of its environment
	Dir  string   // absolute
	// Files are its descriptors from 3 on.
	Files []*os.File
	// Stdout and Stderr take what it writes; nil throws it away. An [os.File] is
	// handed to it as it is, anything else is written to by one goroutine each.
	Stdout, Stderr io.Writer
}

// An Exit is how a program ended.
type Exit struct {
	Code   int // the exit code, when Signal is 0
	Signal int // the signal that ended it
	User   time.Duration
	Sys    time.Duration
}

// JSON makes a Function of one whose input and result are values in JSON.
func JSON[In, Out any](f func(ctx context.Context, c *Call, in In) (Out, error)) Function {
	return func(ctx context.Context, c *Call) ([]byte, error) {
		var in In
		if err := json.Unmarshal(c.Input, &in); err != nil {
			return nil, fmt.Errorf("the input of the function: %w", err)
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}
