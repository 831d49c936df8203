package sallytest

import (
	"context"
	"fmt"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/inside"
)

// Functions is what a tool is given to run its function, without a container:
// the functions themselves, by their names.
type Functions map[string]inside.Function

// Call implements the Box of package tools.
func (f Functions) Call(ctx context.Context, function string, input []byte, progress func([]byte)) ([]byte, error) {
	run, ok := f[function]
	if !ok {
		return nil, fmt.Errorf("no function %q", function)
	}
	return run(ctx, &inside.Call{Input: input, Progress: progress})
}

// Box is what a tool is given to run its function in a session.
type Box struct {
	Session  *sandbox.Session
	Envelope sandbox.Envelope
}

// Call implements the Box of package tools.
func (b Box) Call(ctx context.Context, function string, input []byte, progress func([]byte)) ([]byte, error) {
	got, err := b.Session.Call(ctx, function, input, b.Envelope, progress)
	if got == nil {
		return nil, err
	}
	return got.Data, err
}
