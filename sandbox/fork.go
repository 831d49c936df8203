package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/wire"
)

// ForkOptions bound a fork more than the session that it is of, whose limits it
// shares. Nothing can hold such a bound yet: one that is not zero is refused with
// [ErrNotHeld].
type ForkOptions struct {
	// Time is how long the fork lives; less than 0 is no limit.
	Time time.Duration
	// Memory is that of all its processes, and of what is in its /dev/shm, in bytes.
	Memory int64
	// Pids is how many processes and threads it may have.
	Pids int64
	// Written is how much its layers may hold beyond those of the session, in bytes,
	// and how long each of their files may be.
	Written int64
	// Files is how many files its layers may hold beyond those of the session.
	Files int64
}

// Fork makes a throwaway copy of the session: a container of its own whose
// layers begin with what the session has now. What happens in it stays in it;
// Close ends it and removes it. It has one box, the hand, and can be forked
// itself.
//
// It is not a snapshot: what the session writes later shows through where the
// fork has not written itself. What programs try to change outside of its layers,
// and whom they try to reach, is noticed as in the eye.
func (s *Session) Fork(ctx context.Context, o ForkOptions) (*Session, error) {
	if o != (ForkOptions{}) {
		return nil, fmt.Errorf("%w: limits of a fork's own", ErrNotHeld)
	}
	if s.Mode != Cow {
		return nil, fmt.Errorf("the session %s works on %s directly and cannot be forked", s.Name, s.Workspace)
	}
	root := s.root()
	fork := &Session{
		Stored: s.Stored, options: s.options, limits: s.limits, who: s.who, env: s.env, userxattr: s.userxattr,
		calls: s.calls, containers: s.containers, watch: s.watch,
		parent: s, forkID: fmt.Sprint(root.calls.Add(1)),
		boxes: make(map[Box]*box),
	}
	if err := fork.prepareFork(); err != nil {
		return nil, fmt.Errorf("forking: %w", err)
	}
	var err error
	if fork.running, err = newRunning(ctx, fork); err != nil {
		return nil, err
	}
	conn, err := s.containers.Fork(ctx, fork.forkID, fork.hand)
	if err != nil {
		return nil, fmt.Errorf("forking: %w", errors.Join(err, fork.removeFork()))
	}
	notify, err := changesFilter()
	if err != nil {
		return nil, fmt.Errorf("forking: %w", errors.Join(err, fork.removeFork()))
	}
	opened, err := fork.greet(ctx, wire.NewClient(conn), fork.hand, fork.writable(), notify)
	if err != nil {
		return nil, fmt.Errorf("forking: %w", errors.Join(err, fork.removeFork()))
	}
	fork.boxes[Hand] = opened
	if fork.began, err = fork.begin(); err != nil {
		return nil, fmt.Errorf("forking: %w", errors.Join(err, fork.stop(ErrClosed)))
	}
	return fork, nil
}

// A beginning is what is known of a session when the first call in a fork of it can
// begin, by which it is judged what the fork has seen.
type beginning struct {
	clock  map[string]changeset.Time // of what lies below each layer of the fork
	writes uint64                    // calls that may have written, so far
	quiet  bool                      // nothing runs
}

func (s *Session) begin() (beginning, error) {
	b := beginning{clock: make(map[string]changeset.Time)}
	b.writes, b.quiet = s.parent.running.writing()
	for i := range s.layers {
		open, err := s.openLayer(&s.layers[i])
		if err != nil {
			return b, err
		}
		now, err := open.Lower.Clock()
		open.close()
		if err != nil && !errors.Is(err, changeset.ErrNoClock) {
			return b, err
		}
		b.clock[s.layers[i].name] = now
	}
	return b, nil
}

// root is the session that a fork, or a fork of a fork, is of.
func (s *Session) root() *Session {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

func (s *Session) forkDir(rel string) string { return s.path("forks/" + s.forkID + rel) }

// prepareFork makes the fork's layers, each above that of the session, and its
// spec.
func (s *Session) prepareFork() error {
	if err := os.MkdirAll(s.forkDir(""), 0o700); err != nil {
		return err
	}
	for _, l := range s.parent.layers {
		over := layer{
			name: l.name, dest: l.dest, like: l.upper, lower: append([]string{l.upper}, l.lower...),
			upper: s.forkDir("/" + l.name + "/upper"), work: s.forkDir("/" + l.name + "/work"),
		}
		if err := s.prepareLayer(&over); err != nil {
			return errors.Join(err, s.removeLayers())
		}
		s.layers = append(s.layers, over)
	}
	spec := *s.parent.hand
	spec.Mounts = slices.Clone(spec.Mounts)
	for i, m := range spec.Mounts {
		for j := range s.layers {
			if l := &s.layers[j]; l.dest == m.Destination {
				spec.Mounts[i] = l.mount(s.userxattr)
			}
		}
	}
	s.hand = &spec
	return nil
}

// removeFork ends the fork's container. Nobody has to wait for the removal of
// its layers; closing the session does, and removes those of forks that were not
// closed. From then on the directory may be the next owner's.
func (s *Session) removeFork() error {
	err := s.containers.Remove(s.forkID)
	root := s.root()
	root.mu.Lock()
	defer root.mu.Unlock()
	if root.broken == nil {
		root.removing.Go(func() {
			if err := s.removeLayers(); err != nil {
				root.leftover(fmt.Errorf("removing the layers of a fork: %w", err))
			}
		})
	}
	return err
}

// leftover notes what closing the session has to report.
func (s *Session) leftover(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = errors.Join(s.left, err)
}

func (s *Session) removeLayers() error {
	dir, err := beneath.Open(s.path("forks"))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.RemoveAll(s.forkID)
}

// Changes is [Stored.Changes] for a live session. For a fork they are what it
// did beyond the session that it is a fork of, which has no base to apply them
// on.
func (s *Session) Changes(ctx context.Context, protected Protected) (*Changes, error) {
	if s.parent == nil {
		return s.Stored.Changes(ctx, protected)
	}
	i := slices.IndexFunc(s.layers, func(l layer) bool { return l.name == "workspace" })
	return s.beyond(ctx, &s.layers[i], changeset.Options{Protected: protected, Refuse: s.refuse})
}
