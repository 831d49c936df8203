package main

import (
	"github.com/sallyport/sallyport/sandbox"
)

// benchCall measures calls in a running session.
func benchCall(e *env) ([]Row, error) {
	workspace, err := e.workspace(10)
	if err != nil {
		return nil, err
	}
	s, live, err := e.start(workspace)
	if err != nil {
		return nil, err
	}
	defer s.Remove()
	defer live.Close()
	bash := func(b sandbox.Box) func() error {
		return func() error {
			_, err := live.Exec(e.ctx, sandbox.Command{Args: []string{"bash", "-c", "true"}, Envelope: sandbox.Envelope{Box: b}})
			return err
		}
	}
	echo := func() error {
		_, err := live.Call(e.ctx, "echo", []byte("hello"), sandbox.Envelope{}, nil)
		return err
	}
	got, err := turns(400, command("bash", "-c", "true"), bash(sandbox.Hand), bash(sandbox.Eye))
	if err != nil {
		return nil, err
	}
	host := got[0]
	rows := []Row{
		row("bash -c true in the hand, against the host", "ms", got[1], host, 1.6),
		row("bash -c true in the eye, against the host", "ms", got[2], host, 1.6),
	}
	if got, err = turns(5000, echo); err != nil {
		return nil, err
	}
	return append(rows, row("a call that starts no program", "µs", got[0], nil, 60)), nil
}
