// Package inside is what a function of the guest is given: its input, a way to
// report progress, a way to run programs that are part of the same call, and
// ways to open what a decision was made on. It depends on nothing but the kernel,
// so that what a tool does in a container can be written and tested without one.
package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"
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

// JSON makes a Function of one whose input and result are values in JSON. The
// result is for [Result].
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
		t, ok := any(&out).(Texter)
		if !ok {
			return json.Marshal(out)
		}
		text := *t.Text()
		*t.Text() = ""
		head, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		data := make([]byte, 0, len(head)+1+len(text))
		return append(append(append(data, head...), '\n'), text...), nil
	}
}

// A Texter is a result with a text that may be long. It comes after the JSON of
// the rest and a newline, as it is: to escape a text, check and unescape it takes
// longer than to read it from a file.
type Texter interface {
	Text() *string
}

// Result reads into out what a function by [JSON] returned. Bytes of a text that
// are no UTF-8 become U+FFFD each, as in JSON.
func Result(data []byte, out any) error {
	t, ok := out.(Texter)
	if !ok {
		return json.Unmarshal(data, out)
	}
	head, text, found := bytes.Cut(data, []byte{'\n'})
	if !found {
		return errors.New("there is no text after the JSON")
	}
	if err := json.Unmarshal(head, out); err != nil {
		return err
	}
	*t.Text() = string(text)
	if !utf8.Valid(text) {
		*t.Text() = string([]rune(string(text)))
	}
	return nil
}
