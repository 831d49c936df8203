package pipeline

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/effects"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools"
)

// data is what was seen, as plain data. The preview is done.
func (p *preview) data() *effects.Preview {
	d := &effects.Preview{Time: p.took, Complete: p.partial == "", Why: p.partial, Limits: []string{}}
	if p.box != nil {
		d.SetAttempts(p.box.attempts, p.box.dropped)
		d.Processes.Running = p.box.background
	} else {
		d.SetAttempts(nil, 0)
	}
	d.SetEffects(p.effects)
	return d
}

// forClassifier waits for the preview, as a classifier sees it.
func (c *call) forClassifier(ctx context.Context) *Seen {
	p := c.seen(ctx)
	if p == nil || p.effects == nil {
		return nil
	}
	s := &Seen{Preview: p.data(), Users: c.place.users}
	for _, l := range p.effects.Layers {
		if l.Name != "home" {
			continue
		}
		for _, change := range l.Set.Changes {
			if !inside.Opportunistic(filepath.Join(l.Dir, change.Path), c.context.Home) {
				s.Home = append(s.Home, change.Path)
			}
		}
	}
	return s
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
	// A command is shown above what may be a long diff.
	if len(input) > 0 && input[0].Title == "command" {
		return slices.Concat(did[:1], input, did[1:])
	}
	return append(did, input...)
}

// did says in a sentence what the call did in a copy of the session, for a model
// that is told no; "" when that was not seen.
func (p *preview) did() string {
	if p == nil || p.effects == nil {
		return ""
	}
	d := p.data()
	var what []string
	list := func(verb string, names []string) {
		const most = 3
		if n := len(names); n > most {
			names = append(names[:most:most], fmt.Sprintf("%d more", n-most))
		}
		if len(names) > 0 {
			what = append(what, verb+" "+strings.Join(names, ", "))
		}
	}
	var changed, tried, reached []string
	for _, c := range d.Changes.Workspace {
		changed = append(changed, changeset.Printable(c.Path))
	}
	for _, l := range p.effects.Layers {
		if l.Name == "home" {
			for _, c := range l.Set.Changes {
				changed = append(changed, "~/"+changeset.Printable(c.Path))
			}
		}
	}
	for _, a := range d.Outside {
		tried = append(tried, changeset.Printable(a.Path))
	}
	for _, n := range d.Network {
		reached = append(reached, changeset.Printable(n.Host))
	}
	list("changed", changed)
	list("tried to write", tried)
	list("tried to reach", reached)
	if n := d.Processes.Running; n > 0 {
		what = append(what, "left "+tools.Count(n, "process")+" running")
	}
	if len(what) == 0 {
		return ""
	}
	return "in a copy of the session it " + strings.Join(what, "; it ")
}
