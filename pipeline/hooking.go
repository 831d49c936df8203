package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/tools"
)

// hookCall is the call as hooks see it now.
func (c *call) hookCall(ctx context.Context) *HookCall {
	input, err := json.Marshal(c.filled)
	if err != nil {
		input = c.Use.Input
	}
	h := c.Pipeline.hookCall()
	h.Dir, h.Tool, h.Aliases, h.UseID, h.Input = c.context.Dir, c.Tool, c.tool.Aliases, c.Use.ID, input
	h.Concerns = func(rule permission.Rule) bool {
		r := c.request(ctx)
		r.Links = func(paths []string) ([]string, error) { return c.whereLead(ctx, paths) }
		return c.policy.Concerns(rule, *r)
	}
	return h
}

// hookCall is what hooks are told of the session.
func (p *Pipeline) hookCall() *HookCall {
	return &HookCall{Session: p.Context.Session, Mode: p.Policy().Mode, Dir: p.Context.State.Dir()}
}

// hear passes on what a hook tells the model and the person.
func (c *call) hear(a *HookAnswer) {
	if a.AdditionalContext != "" {
		c.Messages = append(c.Messages, a.AdditionalContext)
	}
	c.Notes = append(c.Notes, a.Notes...)
}

// heard is hear where nothing depends on whether the hook failed.
func (c *call) heard(a *HookAnswer, err error) {
	if err != nil {
		c.Notes = append(c.Notes, fmt.Sprintf("a hook failed: %v", err))
	}
	if a != nil {
		c.hear(a)
	}
}

// change makes the input what a hook wants it to be. It takes the same way as one
// that a model sent.
func (c *call) change(ctx context.Context, input json.RawMessage) error {
	if c.sent == nil {
		c.sent = c.Use.Input
	}
	c.Use.Input = input
	for _, again := range []func(*call, context.Context) error{(*call).parse, (*call).validate, (*call).backfill} {
		if err := again(c, ctx); err != nil {
			return fmt.Errorf("a hook changed the input: %w", err)
		}
	}
	return nil
}

// askHooks lets hooks answer in a person's place. What they change is judged
// again: their word is for what would be asked about, and not for what is denied.
func (c *call) askHooks(ctx context.Context) error {
	if c.Hooks == nil {
		return nil
	}
	answer, err := c.Hooks.PermissionRequest(ctx, c.hookCall(ctx))
	if c.heard(answer, err); answer == nil {
		return nil
	}
	if answer.Behavior == permission.Allow && answer.UpdatedInput != nil {
		if err := c.change(ctx, answer.UpdatedInput); err != nil {
			return err
		}
		if c.Decision = c.policy.Resolve(*c.request(ctx)); c.Decision.Behavior != permission.Ask {
			return nil
		}
	}
	if answer.Behavior != permission.Allow && answer.Behavior != permission.Deny {
		return nil
	}
	d := c.Decision
	d.Behavior, d.Reason = answer.Behavior, answer.Reason
	if d.Reason == "" {
		d.Reason = "a hook answered"
	}
	d.Chain = append(d.Chain, permission.Step{Layer: "hook", Rule: "PermissionRequest", Answer: string(d.Behavior)})
	return nil
}

// tellHooks tells hooks what came of a call that ran, and passes on what they say.
func (c *call) tellHooks(ctx context.Context) *HookAnswer {
	if c.Hooks == nil || c.leave == nil || ctx.Err() != nil {
		return nil
	}
	answer, err := c.Hooks.PostToolUse(ctx, c.hookCall(ctx), &c.Outcome)
	c.heard(answer, err)
	if answer != nil && answer.Behavior == permission.Deny {
		c.Messages = append(c.Messages, "A hook objects to what the call did: "+answer.Reason)
	}
	return answer
}

// blocksOf is a result that a hook wrote: a text, a list of blocks, or any JSON.
func blocksOf(output json.RawMessage) []tools.Block {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return tools.Text(text)
	}
	var blocks []tools.Block
	if json.Unmarshal(output, &blocks) == nil {
		for i := range blocks {
			if blocks[i].Type != "text" {
				return tools.Text(string(output))
			}
		}
		return blocks
	}
	return tools.Text(string(output))
}

// Begin tells the hooks that the session begins, before its first call, and what
// it comes from: "startup" or "resume". What they tell the model comes with the
// result of the first call. The notes are for the person; the error is a hook's
// that wants no session.
func (p *Pipeline) Begin(ctx context.Context, source string) (notes []string, err error) {
	if p.Hooks == nil {
		return nil, nil
	}
	a, err := p.Hooks.SessionStart(ctx, p.hookCall(), source)
	if a == nil || err != nil {
		return nil, err
	}
	if a.Behavior == permission.Deny {
		return a.Notes, fmt.Errorf("a hook stops the session: %s", a.Reason)
	}
	if a.AdditionalContext != "" {
		p.mu.Lock()
		p.opening = append(p.opening, a.AdditionalContext)
		p.mu.Unlock()
	}
	return a.Notes, nil
}

// Finish tells the hooks that the session ends, after its last call.
func (p *Pipeline) Finish(ctx context.Context, reason string) (notes []string, err error) {
	if p.Hooks == nil {
		return nil, nil
	}
	a, err := p.Hooks.SessionEnd(ctx, p.hookCall(), reason)
	if a != nil {
		notes = a.Notes
	}
	return notes, err
}

// takeOpening is what the hooks of the session's start have for the model, once.
func (p *Pipeline) takeOpening() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	opening := p.opening
	p.opening = nil
	return opening
}
