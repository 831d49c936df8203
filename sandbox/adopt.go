package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sallyport/sallyport/sandbox/changeset"
)

// ErrOvertaken is wrapped by the error for effects that were made on something
// else than what the session has now. Nothing was written; make them again.
var ErrOvertaken = errors.New("overtaken")

// ErrInexact is wrapped by the error for effects that the session cannot be given
// exactly as they are. Run the call in the session.
var ErrInexact = errors.New("cannot be taken over exactly")

// An Adoption is what [Session.Adopt] did.
type Adoption struct {
	// Paths were made, changed or removed, absolute, as they are inside.
	Paths []string
	// Left are those that were not, of an adoption that failed half way. When the
	// session is over, the first of them may have been.
	Left  []string
	Bytes int64 // of content that was written
}

// Adoptable reports why Adopt would refuse the effects, whatever the session has
// now: then the error wraps [ErrInexact] and names the paths.
func (e *Effects) Adoptable() error {
	const most = 5
	var why []string
	n := 0
	for i := range e.Layers {
		l := &e.Layers[i]
		items, incomplete := l.Set.Items()
		if incomplete != "" {
			return fmt.Errorf("the result %w: in %s %s", ErrInexact, changeset.Printable(l.Dir), incomplete)
		}
		into := make(map[string]bool) // directories in which names change
		for _, item := range items {
			if item.Changed() && item.Path != "." {
				into[filepath.Dir(item.Path)] = true
			}
		}
		for _, item := range items {
			reason := e.inexact(l, item, into[item.Path])
			if reason == "" {
				continue
			}
			if n++; n <= most {
				why = append(why, changeset.Printable(inLayer(l, item))+": "+changeset.Printable(reason))
			}
		}
	}
	if n > most {
		why = append(why, fmt.Sprintf("and %d more", n-most))
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("the result %w: %s", ErrInexact, strings.Join(why, "; "))
}

// inexact says why an item cannot be made again; empty if it can. Names may change
// in it, if it is a directory.
func (e *Effects) inexact(l *LayerEffects, i *changeset.Item, names bool) string {
	if !i.Changed() && !(i.Type == changeset.Dir && names) {
		return ""
	}
	if i.Refused != "" {
		return i.Refused
	}
	path := inLayer(l, i)
	for _, readOnly := range e.of.root().names.readOnly {
		if within(path, readOnly) || within(readOnly, path) && (i.Type != changeset.Dir || i.Replaced) {
			return "it is read-only in the session"
		}
	}
	who := &e.of.who
	switch {
	case i.Type == "":
		return ""
	case i.UID != who.uid:
		return "it belongs to another user"
	case i.GID != who.gid && (!i.Same || i.Mode&0o2000 != 0 && i.Mode != i.Old.Mode):
		return "it belongs to another group"
	}
	return ""
}

func inLayer(l *LayerEffects, i *changeset.Item) string { return filepath.Join(l.Dir, i.Path) }

// Adopt brings what was done in a fork of the session into the session itself, as
// it was read, without running anything again: the session is then as if the
// fork's calls had run in it. The effects may be adopted once.
//
// The session's guest writes it, in the hand, as a call would. Nothing is written
// unless everything that was changed is as the fork had it: that is looked at from
// outside and, right before, from inside; else the error wraps [ErrOvertaken] and
// names a path. Effects that cannot be given exactly are refused before ([Effects.Adoptable]).
//
// New content is first written beside, so that want of space is met with before
// anything shows. Then directories are made before what is in them, each file takes
// its place at once, and what is gone is removed last. An error in this, after
// which Adoption.Left is not empty, leaves the session between the two states.
func (s *Session) Adopt(ctx context.Context, e *Effects) (_ *Adoption, err error) {
	if e.of != s {
		return nil, errors.New("adopting the effects of what is no fork of this session")
	}
	if err := e.Adoptable(); err != nil {
		return nil, err
	}
	b, env, err := s.enter(ctx, Envelope{Box: Hand})
	if err != nil {
		return nil, err
	}
	quiet := e.quiet && s.running.quiet(e.writes)
	if err := s.running.begin(ctx); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, s.running.end(ctx, true, false))
	}()
	for _, l := range e.Layers {
		path, why, err := l.Set.Recheck(ctx, quiet)
		if err != nil {
			return nil, err
		}
		if path != "" {
			return nil, overtaken(filepath.Join(l.Dir, path), why)
		}
	}
	a := &adopter{s: s, box: b, env: env, did: &Adoption{}}
	for i := range e.Layers {
		a.layers = append(a.layers, newAdopted(i, &e.Layers[i]))
	}
	return a.did, a.run(ctx)
}

func overtaken(path, why string) error {
	return fmt.Errorf("%w: %s: %s; preview it again", ErrOvertaken, changeset.Printable(path), why)
}

// run does the steps: all that is looked at, all that does not show yet, and then
// what does.
func (a *adopter) run(ctx context.Context) error {
	for _, l := range a.layers {
		a.check(ctx, l)
	}
	for _, l := range a.layers {
		a.stage(ctx, l)
	}
	if err := ctx.Err(); err != nil && a.err == nil {
		a.err = a.halfWay(err)
	}
	// From here on it is not given up, so that no half is left.
	ctx = context.WithoutCancel(ctx)
	for _, l := range a.layers {
		a.commit(ctx, l)
	}
	for _, l := range a.layers {
		a.finish(ctx, l)
	}
	a.flush(ctx)
	if a.err != nil {
		a.cleanUp(ctx)
	}
	return a.err
}
