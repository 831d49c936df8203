package pipeline

import (
	"context"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/effects"
)

// data is what was seen, as plain data. The preview is done.
func (p *preview) data() *effects.Preview {
	d := &effects.Preview{Time: p.took, Complete: p.partial == "", Why: p.partial, Limits: []string{}}
	d.SetEffects(p.effects)
	d.SetAttempts(nil, 0)
	if p.box != nil {
		d.SetAttempts(p.box.attempts, p.box.dropped)
		d.Processes.Running = p.box.background
	}
	return d
}

// shownSections are what a prompt shows of a call: what it did in a copy of the session,
// where that was seen, and what it was given. A diff of what the input says is
// left out where that of what it did is there.
func (c *call) shownSections(ctx context.Context) []permission.Section {
	input := c.describe()
	p := c.seen(ctx)
	if p == nil {
		return input
	}
	did := p.data().Sections(ctx)
	if len(did) > 1 && input[0].Diff {
		input = input[1:]
	}
	if len(input) > 0 && input[0].Title == "command" {
		return append(input, did...)
	}
	return append(did, input...)
}
