package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/sallyport/sallyport/sandbox/changeset"
)

// Effects are what was done in a fork, beyond the session that it is a fork of.
// They are read from layers that stay open until Close; the fork may be closed
// only after that.
type Effects struct {
	// Unseen says why it was not noticed what programs tried beyond the layers.
	// Empty, it was: what each call tried comes with its result.
	Unseen string
	// Left are the processes that still ran when the effects were read. They may
	// have changed something since.
	Left []Process
	// Layers are the changes in each of the fork's writable layers.
	Layers []LayerEffects

	of     *Session // that the fork is a fork of
	writes uint64   // of it, when the fork began
	quiet  bool     // nothing was written in it since, until the effects were read
}

// LayerEffects are the changes in one layer of a fork.
type LayerEffects struct {
	Name string // "workspace", "home", "tmp", or "expose-N"
	Dir  string // where it is inside
	*Changes
}

// Workspace are the changes of the workspace itself.
func (e *Effects) Workspace() *Changes {
	for _, l := range e.Layers {
		if l.Name == "workspace" {
			return l.Changes
		}
	}
	return nil
}

// Box are how many paths were changed in what is the session's alone: its home and
// its /tmp.
func (e *Effects) Box() (n int) {
	for _, l := range e.Layers {
		if l.Name == "home" || l.Name == "tmp" {
			n += len(l.Set.Changes)
		}
	}
	return n
}

// Close lets go of the layers.
func (e *Effects) Close() error {
	var errs []error
	for _, l := range e.Layers {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Effects reads what was done in a fork.
func (s *Session) Effects(ctx context.Context, protected Protected) (_ *Effects, err error) {
	if s.parent == nil {
		return nil, errors.New("the effects of what is no fork")
	}
	unseen := ErrClosed.Error()
	s.mu.Lock()
	if b := s.boxes[Hand]; b != nil {
		unseen = b.unseen()
	}
	s.mu.Unlock()
	left, err := s.Processes(ctx)
	if err != nil {
		return nil, fmt.Errorf("what was left running: %w", err)
	}
	e := &Effects{Unseen: unseen, Left: left, of: s.parent, writes: s.began.writes, quiet: s.began.quiet && s.parent.running.quiet(s.began.writes)}
	for i := range s.layers {
		l := &s.layers[i]
		o := changeset.Options{Items: &changeset.Seen{Since: s.began.clock[l.name], Quiet: e.quiet}}
		if l.name == "workspace" {
			o.Protected, o.Refuse = protected, s.refuse
		}
		c, err := s.beyond(ctx, l, o)
		if err != nil {
			return nil, fmt.Errorf("the effects in %s: %w", l.dest, errors.Join(err, e.Close()))
		}
		e.Layers = append(e.Layers, LayerEffects{l.name, l.dest, c})
	}
	return e, nil
}

// beyond reads the changes of a layer of a fork.
func (s *Session) beyond(ctx context.Context, l *layer, o changeset.Options) (*Changes, error) {
	open, err := s.openLayer(l)
	if err != nil {
		return nil, err
	}
	set, err := changeset.Read(ctx, open.Layers, o)
	if err != nil {
		open.close()
		return nil, err
	}
	return &Changes{Set: set, layers: open}, nil
}

// openLayer opens a layer and those below it.
func (s *Session) openLayer(l *layer) (_ *openLayers, err error) {
	open := &openLayers{}
	defer func() {
		if err != nil {
			open.close()
		}
	}()
	if open.Upper, err = open.dir(l.upper); err != nil {
		return nil, fmt.Errorf("the layer %s: %w", l.name, err)
	}
	open.Lower.UserXattr = s.userxattr
	for _, path := range l.lower {
		d, err := open.dir(path)
		if err != nil {
			return nil, err
		}
		open.Lower.Layers = append(open.Lower.Layers, changeset.Layer{Dir: d, Policy: path == s.path(policyDir)})
	}
	return open, nil
}
