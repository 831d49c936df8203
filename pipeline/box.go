package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools"
)

// A box is where one call runs its functions: under its envelope.
type box struct {
	place    caller
	envelope sandbox.Envelope

	bytes       int64
	background  int
	quarantined []string
	attempts    []sandbox.Attempt
	dropped     int // attempts that were not kept
}

// Call implements [tools.Box].
func (b *box) Call(ctx context.Context, function string, input []byte, progress func([]byte)) ([]byte, error) {
	got, err := b.place.call(ctx, function, input, b.envelope, progress)
	if got == nil {
		return nil, err
	}
	b.bytes += int64(len(got.Data))
	b.background += got.Background
	b.quarantined = append(b.quarantined, got.Quarantined...)
	b.attempts = append(b.attempts, got.Attempts...)
	b.dropped += got.AttemptsDropped
	return got.Data, err
}

// resolvePaths asks the session where the call's paths lead.
func (c *call) resolvePaths(ctx context.Context) error {
	names := make([]string, len(c.paths))
	for i, p := range c.paths {
		names[i] = p.Name
	}
	real, err := c.whereLead(ctx, names)
	if err != nil {
		return err
	}
	for i := range real {
		c.paths[i].Real = real[i]
		c.context.Judged[i] = tools.Judged{Path: real[i], Resolved: true}
	}
	return nil
}

// whereLead asks the session where paths lead when every link is followed. The
// answer comes from inside: whatever it says is what is judged, and a file tool
// opens that, through no link.
func (c *call) whereLead(ctx context.Context, names []string) ([]string, error) {
	var req inside.ResolveRequest
	for _, name := range names {
		req.Paths = append(req.Paths, []byte(name))
	}
	input, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	got, err := c.place.call(ctx, inside.ResolveName, input, sandbox.Envelope{Box: sandbox.Eye, Time: graceForTool}, nil)
	if err != nil {
		return nil, fmt.Errorf("looking up where %s leads: %w", c.Title, err)
	}
	errNone := errors.New("looking up where a path leads: the guest's answer is none")
	var answer inside.ResolveResponse
	if err := json.Unmarshal(got.Data, &answer); err != nil || len(answer.Paths) != len(names) {
		return nil, errNone
	}
	real := make([]string, len(names))
	for i, a := range answer.Paths {
		if a.Error != "" {
			return nil, errors.New(changeset.Printable(a.Error))
		}
		real[i] = string(a.Path)
		if !filepath.IsAbs(real[i]) || filepath.Clean(real[i]) != real[i] {
			return nil, errNone
		}
	}
	return real, nil
}

// recordDecision writes what was decided.
func (c *call) recordDecision() error {
	d := &audit.Decision{Behavior: string(c.Decision.Behavior), Reason: c.Decision.Reason, Denials: c.inARow}
	for _, s := range c.Decision.Chain {
		d.Chain = append(d.Chain, audit.Step(s))
	}
	r := audit.Record{Kind: audit.KindDecision, Tool: c.Tool, Decision: d, Image: Image}
	changes := false
	if c.Envelope != nil {
		r.Envelope, r.Mechanisms = envelope(*c.Envelope), c.place.mechanisms()
		if c.take {
			r.Envelope.Box = "fork" // it has run there already
		}
		changes = c.Envelope.Box == sandbox.Hand
	}
	return c.record(r, changes)
}

// record writes a decision with the input that it is about.
func (c *call) record(r audit.Record, durable bool) error {
	r.Call, r.Parent, r.Use, r.Principal = rand.Text(), c.context.Agent.Parent, c.Use.ID, c.principal()
	if err := r.SetInput(valid(c.Use.Input)); err != nil {
		return err
	}
	if c.sent != nil {
		if err := r.SetSent(valid(c.sent)); err != nil {
			return err
		}
	}
	if err := c.place.record(r, durable); err != nil {
		return err
	}
	c.id = r.Call
	return nil
}

// principal is who makes the call; nil is whoever opened the session.
func (c *call) principal() *audit.Principal {
	id := c.context.Agent.ID
	if id == "" {
		return c.Use.By
	}
	by := Self()
	if c.Use.By != nil {
		*by = *c.Use.By
	}
	by.Agent = id
	return by
}

// valid is an input as JSON, whatever it is.
func valid(input json.RawMessage) any {
	if json.Valid(input) {
		return input
	}
	return string(input)
}

// recordResult writes what came of a call. One that never came to a decision is
// recorded as refused.
func (c *call) recordResult(ctx context.Context) error {
	if c.id == "" {
		reason := "it could not be recorded"
		if c.Err != nil {
			reason = c.Err.Error()
		}
		return c.record(audit.Record{
			Kind: audit.KindDecision, Tool: c.Use.Name,
			Decision: &audit.Decision{
				Behavior: string(permission.Deny), Reason: reason,
				Chain: []audit.Step{{Layer: "input", Answer: string(permission.Deny)}},
			},
		}, false)
	}
	if c.leave == nil {
		return nil // it did not run
	}
	r := &audit.Result{Duration: c.Ran, Applied: c.Applied}
	if c.box != nil {
		r.Stdout, r.Background = c.box.bytes, c.box.background
	}
	if c.Err != nil {
		r.Error = c.Err.Error()
	} else if c.IsError {
		r.Error = "the tool failed"
	}
	if c.Envelope != nil && c.Envelope.Box == sandbox.Hand {
		c.place.addChanges(ctx, r)
	}
	return c.place.record(audit.Record{Kind: audit.KindResult, Call: c.id, Tool: c.Tool, Principal: c.principal(), Result: r}, false)
}
