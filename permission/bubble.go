package permission

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrStopped is why a question of a sub-agent ended with the agent above it.
var ErrStopped = errors.New("the agent that asked was stopped")

// A BubblePrompter asks for a sub-agent: it hands the question up, to whoever asks for
// the agent that started it, and the answer down. That one may be one too.
type BubblePrompter struct {
	// Up is the prompter of the agent above; nil when nobody can be asked.
	Up Prompter
	// Parent is the context of the agent above: with it, the question ends.
	Parent context.Context
	// Agent is the name of the sub-agent.
	Agent string
}

var _ Prompter = (*BubblePrompter)(nil)

// Ask implements [Prompter]. When the agent above has ended, the error is
// [ErrStopped], also where an answer came at the same moment: nobody is there any
// more that the call would be for.
func (b *BubblePrompter) Ask(ctx context.Context, p *Prompt) (Answer, error) {
	if b.Up == nil {
		return Answer{}, fmt.Errorf("nobody can be asked for the agent %s", b.Agent)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(b.Parent, func() { end(ErrStopped) })()
	up := *p
	up.Agents = append(slices.Clone(p.Agents), b.Agent)
	a, err := b.Up.Ask(ctx, &up)
	switch {
	case b.Parent.Err() != nil:
		return Answer{}, ErrStopped
	case ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	}
	return a, err
}
