package hooks

import (
	"bytes"
	"context"
	"fmt"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox"
)

// A Box runs hooks in the session, where the agent's calls run, and on its record.
type Box struct {
	Session *pipeline.Session
}

// Run implements [Place]. In the mode plan nothing may change, and so nothing can.
// What a hook leaves running ends with the session.
func (p *Box) Run(ctx context.Context, h *settings.Hook, mode permission.Mode, input []byte) (*Ran, error) {
	out, errs := kept{most: mostStdout}, kept{most: mostStderr}
	cmd := sandbox.Command{
		Args: []string{"/bin/sh", "-c", h.Command}, Env: environment(p.Session.Workspace),
		Stdin: bytes.NewReader(input), Stdout: &out, Stderr: &errs,
	}
	if mode == permission.Plan {
		cmd.Envelope.Box = sandbox.Eye
	}
	exit, err := p.Session.ExecHook(ctx, h.Event, h.Source, h.Origin, cmd)
	if exit == nil {
		return nil, err
	}
	ran := &Ran{Code: exit.Code, Signal: exit.Signal, Stdout: out.data, Stderr: errs.data, Cut: out.cut}
	for _, path := range exit.Quarantined {
		ran.Notes = append(ran.Notes, fmt.Sprintf("made %s, which is protected; it was moved away", path))
	}
	return ran, err
}
