package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/sandbox/wire"
	"github.com/sallyport/sallyport/tools"
)

// A throwaway is a copy of the session for one call: what is done in it stays in
// it.
type throwaway interface {
	caller
	effects(ctx context.Context) (*sandbox.Effects, error)
	close() error
}

// Bounds of a preview.
const (
	previewTime  = time.Minute
	mostPreviews = 8 // of one session at once
)

// A preview is a run of a call in a throwaway: what the call would do and, where
// that is what is wanted, its result.
type preview struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when what follows is set

	throwaway  throwaway
	box        *box
	called     *tools.Called
	err        error // of the tool
	effects    *sandbox.Effects
	generation uint64 // of the session, when it was copied
	took       time.Duration
	recorded   bool
	// partial is why it is not all of what the call would do; "" when it is.
	partial string
}

// startPreview runs the call in a throwaway if it would be asked about, or denied
// for no more than that nobody knows what it does. Hooks and rules go on meanwhile.
func (c *call) startPreview(ctx context.Context) {
	c.endPreview()
	if c.NoPreview || !c.policy.Sealed || c.tool.Site != tools.Container {
		return
	}
	if d := c.policy.Resolve(*c.request(ctx)); !d.Unproven && (d.Behavior != permission.Ask || c.Prompter == nil) {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, previewTime, errPreviewTime)
	p := &preview{cancel: cancel, done: make(chan struct{})}
	c.preview = p
	own, tool, input := c.context, c.tool, c.input
	own.UI = tools.UI{}
	go func() {
		defer close(p.done)
		start := time.Now()
		p.run(ctx, c.root(), &own, tool, input)
		p.took = time.Since(start)
	}()
}

var errPreviewTime = fmt.Errorf("it did not end within %v", previewTime)

func (p *preview) run(ctx context.Context, root *Pipeline, own *tools.Context, tool *tools.Tool, input any) {
	if err := root.previews.Acquire(ctx, 1); err != nil {
		p.partial = "it was not run: " + err.Error()
		return
	}
	defer root.previews.Release(1)
	p.generation = root.generation.Load()
	var err error
	if p.throwaway, err = root.place.fork(ctx); err != nil {
		p.partial = "it was not run: " + err.Error()
		return
	}
	p.box = &box{place: p.throwaway, envelope: sandbox.Envelope{Time: tool.Timeout(input) + graceForTool}}
	own.Box = p.box
	p.called, p.err = tool.Call(ctx, own, input, nil)
	if cause := context.Cause(ctx); cause != nil {
		p.partial = cause.Error()
		return
	}
	if p.effects, err = p.throwaway.effects(ctx); err != nil {
		p.partial = "what it changed cannot be read: " + err.Error()
		return
	}
	p.partial = p.lacks()
}

// lacks says what of the call the run does not show; "" when that is nothing.
func (p *preview) lacks() string {
	var failure *wire.CallFailure
	if p.err != nil && !errors.As(p.err, &failure) {
		return p.err.Error()
	}
	return lacking(p.effects, p.box.background, p.box.attempts)
}

// lacking says what of a run that has ended cannot be taken for what it would do in
// the session itself; "" when that is nothing.
func lacking(e *sandbox.Effects, background int, attempts []sandbox.Attempt) string {
	if background > 0 {
		return fmt.Sprintf("it left %s running", tools.Count(background, "process"))
	}
	for _, a := range attempts {
		if a.Network() {
			return "it tried to reach " + changeset.Printable(a.Path) + ", and has no network there"
		}
	}
	switch {
	case len(e.Left) > 0:
		return fmt.Sprintf("it left %s running", tools.Count(len(e.Left), "process"))
	case e.Unseen != "":
		return "it is not known what it tried: " + e.Unseen
	}
	if err := e.Adoptable(); err != nil {
		return err.Error()
	}
	return ""
}

// effectFree reports whether the call does nothing that anybody would have to
// allow: it was seen whole, and what it changed, if anything, is in the session's
// own /tmp, or a cache in its home. What else is in a home directory decides how
// later calls go.
func (p *preview) effectFree(home string) bool {
	if p.partial != "" || p.box.dropped > 0 {
		return false
	}
	for _, a := range p.box.attempts {
		if !a.Opportunistic {
			return false
		}
	}
	for _, l := range p.effects.Layers {
		free := func(path string) bool {
			return l.Name == "tmp" || l.Name == "home" && inside.Opportunistic(filepath.Join(l.Dir, path), home)
		}
		for _, change := range l.Set.Changes {
			if !free(change.Path) {
				return false
			}
		}
		// A file that was given another time, and nothing else, is no change.
		items, incomplete := l.Set.Items()
		if incomplete != "" {
			return false
		}
		for _, i := range items {
			if i.Type == changeset.File && i.Changed() && !free(i.Path) {
				return false
			}
		}
	}
	return true
}

// seen waits for the preview; nil when there is none.
func (c *call) seen(ctx context.Context) *preview {
	if c.preview == nil {
		return nil
	}
	slow := time.NewTimer(sayAfter)
	defer slow.Stop()
	for {
		select {
		case <-c.preview.done:
			return c.preview
		case <-ctx.Done():
			return nil
		case <-slow.C:
			if c.context.UI.Status != nil {
				c.context.UI.Status("runs in a copy of the session first: " + c.Title)
			}
		}
	}
}

// sayAfter is how long a preview is waited for before that is said.
const sayAfter = time.Second

// endPreview throws the preview away.
func (c *call) endPreview() {
	p := c.preview
	if p == nil {
		return
	}
	c.preview, c.take = nil, false
	p.cancel()
	<-p.done
	if p.effects != nil {
		p.effects.Close()
	}
	if p.throwaway != nil {
		if err := p.throwaway.close(); err != nil {
			c.Notes = append(c.Notes, fmt.Sprintf("a throwaway copy of the session was not removed: %v", err))
		}
	}
}

// judgeEffects lets a call pass of which a run has shown that there is nothing to
// allow. The result of that run is the call's.
func (c *call) judgeEffects(ctx context.Context) {
	d := c.Decision
	if _, ok := c.tool.Command(c.filled); !ok || !d.Unproven {
		return // a tool that changes files is for that, wherever they are
	}
	p := c.seen(ctx)
	if p == nil || !p.effectFree(c.context.Home) {
		if did := p.did(); did != "" && d.Behavior == permission.Deny {
			d.Reason += "; " + did
		}
		return
	}
	d.Behavior, d.Reason = permission.Allow, "it ran in a copy of the session and changed nothing there"
	d.Chain = append(d.Chain, permission.Step{Layer: "effect-free", Answer: string(permission.Allow)})
	c.take = true
}

// precomputed says that the result of the preview is the call's, which is allowed,
// where it is all of it; and throws it away otherwise.
func (c *call) precomputed() {
	if c.take || c.preview == nil {
		return
	}
	select {
	case <-c.preview.done:
		c.take = c.preview.partial == "" && !c.NoPrecompute
	default:
	}
	if !c.take {
		c.endPreview()
	}
}

// takeResult makes what the preview did, and returned, what the call did and
// returns. Where the session is no longer what was copied it is ErrOvertaken, and
// nothing was done.
func (c *call) takeResult(ctx context.Context) error {
	p := c.preview
	if p.generation != c.root().generation.Load() {
		return fmt.Errorf("%w: another call has run meanwhile", sandbox.ErrOvertaken)
	}
	changes := 0
	for _, l := range p.effects.Layers {
		changes += len(l.Set.Changes)
	}
	// In the mode plan nothing is kept, not even a cache.
	if changes > 0 && c.policy.Mode != permission.Plan {
		defer c.root().generation.Add(1)
		if err := c.place.adopt(ctx, p.effects); err != nil {
			return err
		}
	}
	c.Applied, c.box, c.Ran = true, p.box, p.took
	if p.called != nil {
		c.called, c.Data, c.Blocks, c.IsError = p.called, p.called.Data, p.called.Blocks, p.called.IsError
	}
	return p.err
}

// mostOvertaken is how often a call is previewed anew because the session has
// changed since.
const mostOvertaken = 3

// previewAgain previews and decides anew, and goes on.
func (c *call) previewAgain(ctx context.Context, why error) error {
	c.leave(nil)
	c.leave = nil
	if c.overtaken++; c.overtaken > mostOvertaken {
		return fmt.Errorf("%w, again and again; try once more when nothing else runs", why)
	}
	c.Notes = append(c.Notes, fmt.Sprintf("previewed again: %v", why))
	c.Envelope = nil
	c.startPreview(ctx)
	if err := c.decide(ctx); err != nil {
		return err
	}
	if err := c.handleDenial(ctx); err != nil {
		return err
	}
	return c.runOnce(ctx)
}

// recordPreview puts on record what was seen of a call before it was decided on.
func (c *call) recordPreview(ctx context.Context) error {
	p := c.preview
	if p == nil || p.recorded {
		return nil
	}
	select {
	case <-p.done:
	default:
		return nil // nobody has waited for it
	}
	p.recorded = true
	return c.place.record(audit.Record{Kind: audit.KindEvent, Event: "preview", Use: c.Use.ID, Tool: c.Tool, Principal: c.principal(), Detail: p.detail(ctx)}, false)
}

// detail is what goes on record of a preview.
func (p *preview) detail(ctx context.Context) map[string]any {
	detail := map[string]any{"complete": p.partial == "", "took_ns": p.took}
	if p.partial != "" {
		detail["why"] = p.partial
	}
	if p.box != nil {
		if len(p.box.attempts) > 0 {
			detail["tried"] = recordedAttempts(p.box.attempts)
		}
		if p.box.dropped > 0 {
			detail["more_tried"] = p.box.dropped
		}
	}
	if p.effects != nil {
		if n := p.effects.Box(); n > 0 {
			detail["box"] = n
		}
		r := &audit.Result{}
		recordChanges(ctx, r, p.effects.Workspace())
		detail["change_set"], detail["paths"], detail["more_paths"] = r.ChangeSet, r.Paths, r.More
	}
	return detail
}
