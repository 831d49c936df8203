package pipeline

import (
	"context"
	"slices"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// misjudged returns what a call tried to write that was judged to be read-only, and
// so ran where it could not: the judgement was wrong. What programs do beside their
// work is none of it, nor what nobody has seen.
func (c *call) misjudged() []permission.Path {
	if c.box == nil || c.box.envelope.Box != sandbox.Eye {
		return nil
	}
	var tried []permission.Path
	for _, a := range c.box.attempts {
		if a.Opportunistic || a.Path == "" || slices.Contains([]string{"connect", "send", sandbox.OpSuspected}, a.Op) {
			continue
		}
		tried = append(tried, permission.Path{Name: a.Path, Write: true})
	}
	return tried
}

// recordAttempts puts on record what a call that was judged to be read-only tried.
// Nothing of it was done.
func (c *call) recordAttempts(misjudged bool) error {
	if c.box == nil || len(c.box.attempts) == 0 && c.box.dropped == 0 {
		return nil
	}
	r := audit.Record{Kind: audit.KindEvent, Event: "attempts", Call: c.id, Tool: c.Tool, Detail: map[string]any{"tried": recordedAttempts(c.box.attempts)}}
	if misjudged {
		r.Event = "misjudgement"
	}
	if c.box.dropped > 0 {
		r.Detail["more"] = c.box.dropped
	}
	return c.place.record(r, misjudged)
}

// A recordedAttempt is an attempt as it stands in the record.
type recordedAttempt struct {
	Op            string `json:"op"`
	Path          string `json:"path,omitempty"`
	Program       string `json:"program,omitempty"`
	Opportunistic bool   `json:"opportunistic,omitempty"`
}

func recordedAttempts(attempts []sandbox.Attempt) []recordedAttempt {
	list := make([]recordedAttempt, len(attempts))
	for i, a := range attempts {
		list[i] = recordedAttempt{a.Op, changeset.Printable(a.Path), changeset.Printable(a.Program), a.Opportunistic}
	}
	return list
}

// judgeAgain decides anew on a call that was misjudged, by what it tried, and runs
// it again if it is allowed now. What it did the first time has changed nothing. The
// turn is given back meanwhile: somebody may have to be asked.
func (c *call) judgeAgain(ctx context.Context, tried []permission.Path) error {
	if err := c.recordResult(ctx); err != nil {
		return err
	}
	c.leave(nil)
	c.leave = nil
	names := make([]string, len(tried))
	for i, p := range tried {
		names[i] = p.Name
	}
	real, err := c.whereLead(ctx, names)
	if err != nil {
		return err
	}
	for i := range tried {
		tried[i].Real = real[i]
	}
	first := c.Envelope
	c.tried, c.Envelope = tried, nil
	if err := c.decide(ctx); err != nil {
		return err
	}
	if err := c.handleDenial(ctx); err != nil {
		c.Envelope = first // it has run, though not as it wanted
		return err
	}
	c.called, c.Data, c.Blocks, c.IsError, c.box = nil, nil, nil, false, nil
	return c.runOnce(ctx)
}
