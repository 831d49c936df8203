package permission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// A person is a prompter whose questions are answered by the test.
type person struct {
	asked  chan *Prompt
	answer chan Answer
	left   chan error // why the question ended without an answer
}

func newPerson() *person {
	return &person{make(chan *Prompt, 10), make(chan Answer), make(chan error, 10)}
}

func (p *person) Ask(ctx context.Context, q *Prompt) (Answer, error) {
	p.asked <- q
	select {
	case a := <-p.answer:
		return a, nil
	case <-ctx.Done():
		p.left <- context.Cause(ctx)
		return Answer{}, context.Cause(ctx)
	}
}

// A tower is a chain of sub-agents below each other; the last one asks.
type tower struct {
	*person
	stop   []context.CancelFunc // of the agent itself, of the first sub-agent ...
	bottom Prompter
	ctx    context.Context // of the last one
}

func newTower(depth int) *tower {
	t := &tower{person: newPerson()}
	ctx, stop := context.WithCancel(context.Background())
	t.stop = append(t.stop, stop)
	t.bottom = t.person
	for i := range depth {
		t.bottom = &BubblePrompter{Up: t.bottom, Parent: ctx, Agent: fmt.Sprint("agent", i+1)}
		ctx, stop = context.WithCancel(ctx)
		t.stop = append(t.stop, stop)
	}
	t.ctx = ctx
	return t
}

func TestBubbleCarriesTheAnswerDown(t *testing.T) {
	tower := newTower(5)
	go func() { tower.answer <- Answer{Allow: true, Session: true, Why: "because", By: "terminal"} }()
	sent := &Prompt{Tool: "Bash", Title: "make", Rule: "Bash(make)", CanSave: true}
	a, err := tower.bottom.Ask(tower.ctx, sent)
	if want := (Answer{Allow: true, Session: true, Why: "because", By: "terminal"}); a != want || err != nil {
		t.Errorf("%+v, %v", a, err)
	}
	q := <-tower.asked
	if want := []string{"agent5", "agent4", "agent3", "agent2", "agent1"}; !slices.Equal(q.Agents, want) {
		t.Errorf("it came up through %q", q.Agents)
	}
	if q.Title != sent.Title || q.Rule != sent.Rule || !q.CanSave {
		t.Errorf("%+v", q)
	}
	if sent.Agents != nil {
		t.Errorf("the prompt of the call was changed: %q", sent.Agents)
	}
}

// Whoever in the chain is stopped ends the question, and a yes that comes at the
// same moment does not count.
func TestBubbleEndsWithTheAgentsAbove(t *testing.T) {
	for stopped := range 6 {
		for _, answered := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				tower := newTower(5)
				defer tower.stop[0]()
				type result struct {
					a   Answer
					err error
				}
				got := make(chan result)
				go func() {
					// The call's own context does not end with the agents above.
					ctx := context.WithoutCancel(tower.ctx)
					if stopped == 5 {
						ctx = tower.ctx
					}
					a, err := tower.bottom.Ask(ctx, &Prompt{})
					got <- result{a, err}
				}()
				<-tower.asked
				tower.stop[stopped]()
				if answered {
					select {
					case tower.answer <- Answer{Allow: true}:
					default: // it has left already
					}
				}
				r := <-got
				want := ErrStopped
				if stopped == 5 {
					want = context.Canceled
				}
				if r.a != (Answer{}) || !errors.Is(r.err, want) {
					t.Errorf("agent %d stopped: %+v, %v", stopped, r.a, r.err)
				}
			})
		}
	}
}

// Questions that wait at once are answered each for itself.
func TestBubblesDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead := &BubblePrompter{Up: echo{}, Parent: t.Context(), Agent: "lead"}
		got := make(chan error)
		for i := range 20 {
			go func() {
				name := fmt.Sprint("worker", i)
				b := &BubblePrompter{Up: lead, Parent: t.Context(), Agent: name}
				a, err := b.Ask(t.Context(), &Prompt{Title: name})
				if err == nil && a.Why != name+": ["+name+" lead]" {
					err = errors.New(a.Why)
				}
				got <- err
			}()
		}
		for range 20 {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
	})
}

// echo answers with what it was asked.
type echo struct{}

func (echo) Ask(_ context.Context, p *Prompt) (Answer, error) {
	return Answer{Why: fmt.Sprintf("%s: %v", p.Title, p.Agents)}, nil
}

func TestBubbleWithoutAnybody(t *testing.T) {
	b := &BubblePrompter{Parent: t.Context(), Agent: "lead"}
	if a, err := b.Ask(t.Context(), &Prompt{}); err == nil || a.Allow {
		t.Errorf("%+v, %v", a, err)
	}
	unable := errors.New("no terminal")
	b.Up = failing{unable}
	if _, err := b.Ask(t.Context(), &Prompt{}); !errors.Is(err, unable) {
		t.Error(err)
	}
}

type failing struct{ error }

func (f failing) Ask(context.Context, *Prompt) (Answer, error) { return Answer{}, f.error }
