package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// running keeps account of the calls in a session, for two things that have to
// happen around them: before a call begins with nothing else running, the view
// is made fresh, so that the call sees what the user has changed meanwhile; and
// after each call that may have written, it is recorded what its changes were
// made on.
type running struct {
	s *Session

	mu         sync.Mutex
	calls      int    // that run now
	background bool   // processes of an earlier call may run
	writes     uint64 // calls that may have written, which have ended

	freshened time.Time // when the view was last made fresh; zero before the first call

	// Of a cow workspace that is not a fork's, until close; else nil.
	layersMu sync.Mutex
	bases    *changeset.Bases
	layers   *openLayers
}

// newRunning begins the account of a session in which nothing has run yet.
func newRunning(ctx context.Context, s *Session) (*running, error) {
	r := &running{s: s}
	if s.Mode != Cow || s.parent != nil {
		return r, nil
	}
	var err error
	if r.layers, err = s.openLayers(s.path(upperDir)); err != nil {
		return nil, err
	}
	if r.bases, err = r.layers.bases(s.Stored); err != nil {
		r.layers.close()
		return nil, err
	}
	// The last owner may have died in a call.
	if err := r.bases.Scan(ctx, r.layers.Layers); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// workspaceTime is the time by the clock of the workspace's file system; zero
// where that has none to rely on.
func (s *Session) workspaceTime() (changeset.Time, error) {
	base, err := beneath.OpenReal(s.Workspace)
	if err != nil {
		return changeset.Time{}, fmt.Errorf("the workspace: %w", err)
	}
	defer base.Close()
	now, err := changeset.View{Layers: []changeset.Layer{{Dir: base}}}.Clock()
	if errors.Is(err, changeset.ErrNoClock) {
		err = nil
	}
	return now, err
}

// close lets go of the layers. Calls may still be ending, whose changes are
// recorded when the session starts again.
func (r *running) close() {
	r.layersMu.Lock()
	defer r.layersMu.Unlock()
	if r.layers != nil {
		r.layers.close()
		r.layers, r.bases = nil, nil
	}
}

// begin notes that a call starts.
func (r *running) begin(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == 0 && r.background {
		left, err := r.s.anyProcess(ctx)
		if err != nil {
			return err
		}
		if !left {
			// What they wrote after the last scan is judged by the times of then.
			if err := r.scan(ctx); err != nil {
				return err
			}
			r.background = false
			r.s.watch.end()
		}
	}
	if r.calls == 0 && !r.background {
		if err := r.fresh(ctx); err != nil {
			return err
		}
	}
	r.calls++
	r.s.watch.begin()
	return nil
}

// fresh makes the view show the workspace as it is now, and begins a time from
// which on it is known to have. It does nothing so soon after the last time that
// no person can have done something in between and expect it to be seen.
func (r *running) fresh(ctx context.Context) error {
	if r.s.Mode != Cow || r.s.parent != nil || time.Since(r.freshened) < freshEnough {
		return nil
	}
	// What was written since the last scan, when nothing should have run, is
	// judged by the times of then.
	if err := r.scan(ctx); err != nil {
		return err
	}
	now, err := r.s.workspaceTime()
	if err != nil {
		return err
	}
	if err := r.s.denyAppeared(); err != nil {
		return fmt.Errorf("hiding denied paths: %w", err)
	}
	// Before the first call nobody has looked at the view: it is fresh.
	if !r.freshened.IsZero() {
		if err := r.s.containers.Refresh(ctx); err != nil {
			return err
		}
	}
	r.freshened = time.Now()
	r.layersMu.Lock()
	defer r.layersMu.Unlock()
	if r.bases == nil {
		return nil
	}
	return r.bases.Begin(changeset.Times{Call: now, Fresh: now})
}

const freshEnough = 50 * time.Millisecond

// end notes that a call has ended, and whether it may have left processes.
func (r *running) end(ctx context.Context, wrote, background bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
	switch {
	case background && !r.background:
		r.background = true // and the watch goes on
	default:
		r.s.watch.end()
	}
	if !wrote {
		return nil
	}
	r.writes++
	// Also when the call was cancelled.
	return r.scan(context.WithoutCancel(ctx))
}

// writing is how many calls that may have written have ended, and whether nothing
// runs that may write.
func (r *running) writing() (writes uint64, quiet bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes, r.calls == 0 && !r.background
}

// quiet reports whether nothing was written since there were so many calls that
// may have written, and nothing runs that may write.
func (r *running) quiet(since uint64) bool {
	writes, quiet := r.writing()
	return quiet && writes == since
}

func (r *running) scan(ctx context.Context) error {
	r.layersMu.Lock()
	defer r.layersMu.Unlock()
	if r.bases == nil {
		return nil
	}
	return r.bases.Scan(ctx, r.layers.Layers)
}

// idle reports whether nothing runs.
func (r *running) idle(ctx context.Context) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls > 0 || !r.background {
		return r.calls == 0, nil
	}
	left, err := r.s.anyProcess(ctx)
	return !left, err
}
