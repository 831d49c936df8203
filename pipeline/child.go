package pipeline

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/tools"
)

// Child returns the pipeline of a sub-agent of this pipeline's agent, in the same
// session. ctx is the agent's own: with it, the sub-agent's calls and questions
// end. A name tells the sub-agents of one agent from each other.
//
// The mode "" is the agent's own, and so is one that would allow more than that
// does by itself: a sub-agent is never the way to what its agent may not do.
func (p *Pipeline) Child(ctx context.Context, name string, mode permission.Mode) *Pipeline {
	policy := *p.Policy()
	policy.Mode = narrower(policy.Mode, mode)
	// Its own working directory begins where the agent's is now; what the agent
	// has read, the sub-agent has not.
	state := tools.NewState(p.Context.State.Dir())
	child := &Pipeline{
		// Shared: the session and what there is in it; it is one box with one record.
		place: p.place,
		Tools: p.Tools,
		// Shared: what the user has set up binds every agent alike.
		Hooks: p.Hooks, Classifier: p.Classifier,
		Save: p.Save, SaveSession: p.SaveSession, Locked: p.Locked,
		NoPreview: p.NoPreview, NoPrecompute: p.NoPrecompute,
		// Cloned: the rules. What is allowed for the session by an answer to the
		// sub-agent is added to those of all agents above as well, see addRule;
		// what is allowed to another agent later is not the sub-agent's.
		policy: &policy,
		// Fresh: calls of the sub-agent run while a call of its agent waits for
		// them, and must not wait for that one's turn. What they leave is their own.
		turns: semaphore.NewWeighted(allTurns),
		batch: batch{},
		Context: tools.Context{
			Options: p.Context.Options, // shared: they are of the session
			Run:     tools.Run{State: state},
			UI:      tools.UI{}, // a no-op: what is shown is of the agent's call
			Agent: tools.Agent{
				ID:     strings.TrimPrefix(p.Context.Agent.ID+"/"+name, "/"),
				Parent: p.Context.Agent.Parent,
			},
		},
		// A no-op: nobody waits for the progress of a call within a call.
		Progress: nil,
		// Shared, through the chain: the person who is asked, and the counts of
		// denials, which are kept with the state of the agent at the top.
		parent: p, above: ctx,
	}
	if p.Prompter != nil {
		child.Prompter = &permission.BubblePrompter{Up: p.Prompter, Parent: ctx, Agent: name}
	}
	return child
}

// narrower is the mode of a sub-agent that wants one, of an agent that has one.
func narrower(has, wants permission.Mode) permission.Mode {
	switch {
	case has == permission.Plan, wants == "":
		return has
	case wants == permission.Plan, wants == permission.DontAsk:
		return wants
	case has == permission.DontAsk:
		return has // nobody is to be asked
	case wants == permission.Default, wants == permission.Bubble:
		return wants
	case wants == permission.AcceptEdits && has == permission.Bypass:
		return wants
	}
	return has
}

// root is the pipeline of the agent at the top.
func (p *Pipeline) root() *Pipeline {
	for p.parent != nil {
		p = p.parent
	}
	return p
}

// bound ends a context with any of the agents above.
func (p *Pipeline) bound(ctx context.Context) (context.Context, func()) {
	if p.above == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var stops []func() bool
	for ; p.above != nil; p = p.parent {
		stops = append(stops, context.AfterFunc(p.above, func() { cancel(permission.ErrStopped) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// aborted is the error of a call that has been stopped, by its own context or with
// an agent above; nil for another.
func (p *Pipeline) aborted(ctx context.Context) error {
	for ; p.above != nil; p = p.parent {
		if p.above.Err() != nil {
			return fmt.Errorf("%w: %w", ErrAborted, permission.ErrStopped)
		}
	}
	if ctx.Err() != nil {
		return ErrAborted
	}
	return nil
}
