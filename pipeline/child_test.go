package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
)

func newEditPipeline() (*Pipeline, *fakePlace) {
	p, place := newPipeline(func(d *tools.Definition[poke, string, int]) { d.Name, d.Aliases = "Edit", nil })
	p.policy.Mode = permission.Default
	return p, place
}

func edit(path string) Use {
	u := use(`{"path":"` + path + `","write":true}`)
	u.Name = "Edit"
	return u
}

// A question of a sub-agent comes to the person of the agent at the top, names the
// way, and its answer lets the sub-agent's call run.
func TestChildAsksAbove(t *testing.T) {
	p, place := newEditPipeline()
	prompter := &fakePrompter{answer: permission.Answer{Allow: true, Session: true, By: "terminal"}}
	p.Prompter = prompter
	low := p
	for i := range 5 {
		low = low.Child(t.Context(), fmt.Sprint("agent", i+1), permission.Bubble)
	}
	if o := low.Run(t.Context(), edit("a")); o.Err != nil || o.Text() != "poked a" {
		t.Fatalf("%v, %q", o.Err, o.Text())
	}
	if want := []string{"agent5", "agent4", "agent3", "agent2", "agent1"}; !slices.Equal(prompter.asked[0].Agents, want) {
		t.Errorf("it came up through %q", prompter.asked[0].Agents)
	}
	if by := place.records[0].Principal; by == nil || by.Agent != "agent1/agent2/agent3/agent4/agent5" {
		t.Errorf("on record it is of %+v", by)
	}
	// "Yes, for this session" holds for all agents on the way, and for those that
	// are started later.
	for _, who := range []*Pipeline{low, p, p.Child(t.Context(), "other", "")} {
		if o := who.Run(t.Context(), edit("a")); o.Err != nil || len(prompter.asked) != 1 {
			t.Errorf("%v, asked %d times", o.Err, len(prompter.asked))
		}
	}
	prompter.answer = permission.Answer{By: "terminal"}
	if o := low.Run(t.Context(), edit("b")); !errors.As(o.Err, new(*DeniedError)) {
		t.Errorf("%v", o.Err)
	}
}

func TestModeOfAChild(t *testing.T) {
	const same = permission.Mode("")
	for _, test := range []struct{ has, wants, want permission.Mode }{
		{permission.Default, same, permission.Default},
		{permission.Default, permission.Bubble, permission.Bubble},
		{permission.Default, permission.AcceptEdits, permission.Default},
		{permission.Default, permission.Bypass, permission.Default},
		{permission.Default, permission.Auto, permission.Default},
		{permission.Default, permission.Plan, permission.Plan},
		{permission.Default, permission.DontAsk, permission.DontAsk},
		{permission.Default, "nonesuch", permission.Default},
		{permission.AcceptEdits, permission.Default, permission.Default},
		{permission.AcceptEdits, permission.Bypass, permission.AcceptEdits},
		{permission.Bypass, permission.AcceptEdits, permission.AcceptEdits},
		{permission.Bypass, permission.Bubble, permission.Bubble},
		{permission.Plan, permission.Bypass, permission.Plan},
		{permission.Plan, permission.Default, permission.Plan},
		{permission.DontAsk, permission.Default, permission.DontAsk},
		{permission.DontAsk, permission.Bubble, permission.DontAsk},
		{permission.DontAsk, permission.Plan, permission.Plan},
		{permission.Auto, permission.Auto, permission.Auto},
		{permission.Auto, permission.Bubble, permission.Bubble},
	} {
		p, _ := newEditPipeline()
		p.policy.Mode = test.has
		if got := p.Child(t.Context(), "x", test.wants).Policy().Mode; got != test.want {
			t.Errorf("of %q, wanted %q: %q, want %q", test.has, test.wants, got, test.want)
		}
		if p.policy.Mode != test.has {
			t.Errorf("the agent's own mode became %q", p.policy.Mode)
		}
	}
}

// waitingPrompter asks until its context ends.
type waitingPrompter struct{ asked chan *permission.Prompt }

func (w waitingPrompter) Ask(ctx context.Context, p *permission.Prompt) (permission.Answer, error) {
	w.asked <- p
	<-ctx.Done()
	return permission.Answer{}, context.Cause(ctx)
}

// An agent that is stopped stops those below it: what they ask and what they run.
func TestStoppedAgentStopsItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, place := newEditPipeline()
		prompter := waitingPrompter{make(chan *permission.Prompt, 1)}
		p.Prompter = prompter
		middle, stop := context.WithCancel(t.Context())
		lead := p.Child(t.Context(), "lead", "")
		worker := lead.Child(middle, "worker", "").Child(context.WithoutCancel(middle), "deep", "")
		outcome := make(chan *Outcome)
		run := func(who *Pipeline, u Use) { go func() { outcome <- who.Run(t.Context(), u) }() }

		run(worker, edit("a"))
		<-prompter.asked
		stop()
		o := <-outcome
		if !errors.Is(o.Err, ErrAborted) || !errors.Is(o.Err, permission.ErrStopped) {
			t.Errorf("a question: %v", o.Err)
		}
		if d := o.Decision; d == nil || d.Behavior != permission.Deny || d.Reason != permission.ErrStopped.Error() {
			t.Errorf("a question: %+v", d)
		}

		// What it is asked to run afterwards does not begin; another's does.
		child := lead.Child(middle, "late", "")
		if o := child.Run(t.Context(), use(`{"path":"x"}`)); o.Err == nil {
			t.Error("it ran")
		}
		running := make(chan struct{})
		place.functions["poke"] = func(ctx context.Context, _ []byte, _ sandbox.Envelope) (*sandbox.Returned, error) {
			close(running)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		again, stopAgain := context.WithCancel(t.Context())
		read := edit("x")
		read.Input = []byte(`{"path":"x"}`)
		run(lead.Child(again, "runs", ""), read)
		<-running
		stopAgain()
		if o := <-outcome; !errors.Is(o.Err, permission.ErrStopped) {
			t.Errorf("a call that ran: %v", o.Err)
		}
	})
}

// What a sub-agent has is its own, or the session's, as Child says.
func TestWhatAChildHas(t *testing.T) {
	p, _ := newEditPipeline()
	p.Context.State.SetDir("/work/sub")
	p.Context.State.Saw("/work/a", "hash")
	p.Context.UI.Status = func(string) { t.Error("the agent's display was used") }
	p.Locked, p.SaveSession = true, permission.FromLocal
	child := p.Child(t.Context(), "x", "")
	if child.Tools != p.Tools || child.place != p.place || !child.Locked || child.SaveSession != permission.FromLocal || child.Context.Options != p.Context.Options {
		t.Error("what is the session's is not shared")
	}
	if child.Prompter != nil {
		t.Error("there is somebody to ask where there was nobody")
	}
	if got := child.Context.State.Dir(); got != "/work/sub" {
		t.Errorf("it begins in %s", got)
	}
	if _, seen := child.Context.State.Seen("/work/a"); seen {
		t.Error("it has seen what it has not read")
	}
	if child.Context.UI.Status != nil {
		t.Error("it has the agent's display")
	}
	child.Context.State.SetDir("/work")
	if got := p.Context.State.Dir(); got != "/work/sub" {
		t.Errorf("the agent's working directory became %s", got)
	}
	// A call of the agent that holds all turns, as that which runs the sub-agent
	// does, does not hold up the sub-agent's.
	leave, err := p.enter(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer leave(nil)
	read := edit("x")
	read.Input = []byte(`{"path":"x"}`)
	if o := child.Run(t.Context(), read); o.Err != nil {
		t.Error(o.Err)
	}
}

func TestDenialsAreCounted(t *testing.T) {
	p, place := newEditPipeline()
	read, denied := edit("x"), edit("a")
	read.Input = []byte(`{"path":"x"}`)
	child := p.Child(t.Context(), "reviewer", "")
	for i, step := range []struct {
		who    *Pipeline
		use    Use
		inARow int // 0: it runs
	}{
		{p, denied, 1}, {p, denied, 2},
		{child, denied, 1}, // counted by itself
		{p, denied, 3}, {p, denied, 4},
		{child, denied, 2},
		{p, read, 0}, {p, denied, 1},
		{child, denied, 3}, {child, read, 0}, {child, denied, 1},
	} {
		o := step.who.Run(t.Context(), step.use)
		was := (*DeniedError)(nil)
		if errors.As(o.Err, &was) != (step.inARow > 0) || was != nil && was.InARow != step.inARow {
			t.Errorf("step %d: %v", i, o.Err)
		}
		if said := strings.Contains(o.Text(), "denial in a row: ask what to do instead"); said != (step.inARow >= 3) {
			t.Errorf("step %d: %q", i, o.Text())
		}
	}
	want := map[string]tools.Denials{"": {InARow: 1, Total: 5}, "reviewer": {InARow: 1, Total: 4}}
	if got := p.Context.State.Denials(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := place.records[3].Decision.Denials; got != 3 {
		t.Errorf("on record it is denial %d", got)
	}
	if got := child.Context.State.Denials(); len(got) != 0 {
		t.Errorf("the sub-agent's own state has %v", got)
	}
	// A call that failed is no success.
	place.functions["poke"] = func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error) {
		return nil, errors.New("no such file")
	}
	p.Run(t.Context(), read)
	if got := p.Context.State.Denials()[""].InARow; got != 1 {
		t.Errorf("after a failure: %d", got)
	}
}

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 102: "102nd", 111: "111th"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
