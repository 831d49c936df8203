package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
)

// A Use is one use of a tool, as a model asks for it: a tool_use block of the
// Messages API.
type Use struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	// By is who asks; nil is whoever opened the session.
	By *audit.Principal `json:"-"`
}

// An Outcome is what came of a use.
type Outcome struct {
	Use   Use
	Tool  string // the tool's own name; "" when there is none
	Title string // what it does, in a few words, for people

	// Decision is nil when the use did not come so far.
	Decision *permission.Decision
	// Envelope is what the kernel held the call to; nil when it did not run.
	Envelope *sandbox.Envelope

	// Blocks are the result as the model reads it, and IsError says that it is
	// one that failed, for whatever reason: Err.
	Blocks  []tools.Block
	IsError bool
	Err     error
	// Data is what the tool returned; nil when it did not.
	Data any
	// Unknown are fields of the input that the tool does not know, and Notes what
	// else there is to say to whoever watches.
	Unknown []string
	Notes   []string
	// Messages are to be added to the conversation after the result.
	Messages []string

	// Applied says that what a preview had done was applied to the session: the call
	// did not run again.
	Applied bool

	// Duration is of the whole way, Ran of the call in it, and Asked of the time
	// that somebody took to answer.
	Duration, Ran, Asked time.Duration
}

// Text is the text of the result.
func (o *Outcome) Text() string {
	var b strings.Builder
	for _, block := range o.Blocks {
		b.WriteString(block.Text)
	}
	return b.String()
}

// A DeniedError says that a call was not allowed, and why. Its text is for the
// model.
type DeniedError struct {
	Tool   string
	Reason string
	// InARow is how many calls of the agent were denied up to this one, without
	// one between them that was carried out.
	InARow int
}

func (e *DeniedError) Error() string {
	text := fmt.Sprintf("permission to use %s was denied: %s", e.Tool, e.Reason)
	if e.InARow >= manyDenials {
		text += fmt.Sprintf("; this is the %s denial in a row: ask what to do instead", ordinal(e.InARow))
	}
	return text
}

// manyDenials is from how many denials in a row on the model is told so.
const manyDenials = 3

// ordinal is a number as in "the 3rd".
func ordinal(n int) string {
	ending := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return fmt.Sprint(n, ending)
}

// ErrAborted is the error of a call that was stopped before it ran.
var ErrAborted = errors.New("interrupted before it ran")

// A Pipeline carries the calls of one agent through the steps, to one session.
// Run may be called by several goroutines at once: calls that are safe beside
// others run beside them, the others alone.
type Pipeline struct {
	// Tools are those that there are.
	Tools *tools.Set
	// Prompter asks a person; nil when there is nobody.
	Prompter permission.Prompter
	// Hooks and Classifier take part in decisions; nil when there are none.
	Hooks      Hooks
	Classifier Classifier
	// Save keeps a rule that a person has allowed for longer than the session, in
	// the settings of a source; nil when there is no place for it.
	Save func(rule permission.Rule, to permission.Source) error
	// SaveSession is where the answers for the rest of the session are saved as
	// well; "" for nowhere.
	SaveSession permission.Source
	// Locked says that an answer allows its call alone: no rule is offered.
	Locked bool
	// NoPreview says that no call is run in a throwaway copy of the session before
	// it is asked about, and NoPrecompute that one which was is run again when it is
	// allowed.
	NoPreview, NoPrecompute bool
	// Context is what each call's context begins with.
	Context tools.Context
	// Progress takes what a tool reports while it runs, as JSON; nil throws it
	// away.
	Progress func(u Use, progress json.RawMessage)

	place place

	// Of a sub-agent, the pipeline of the agent above and its context; see Child.
	parent *Pipeline
	above  context.Context

	mu     sync.Mutex
	policy *permission.Policy
	// opening is for the model, with the first result.
	opening []string

	turns *semaphore.Weighted // a call that may run beside others takes one, another all
	batch batch

	// Of the session, so at the root alone.
	previews   *semaphore.Weighted
	generation atomic.Uint64 // grows with every call that may change the session
}

// A caller runs functions inside, without recording it.
type caller interface {
	call(ctx context.Context, function string, input []byte, e sandbox.Envelope, progress func([]byte)) (*sandbox.Returned, error)
}

// A place is where calls run and are recorded: a live session.
type place interface {
	caller
	// record writes to the session's record.
	record(r audit.Record, durable bool) error
	mechanisms() map[string]string
	// addChanges adds to a result what the session has changed by now.
	addChanges(ctx context.Context, r *audit.Result)
	OutOfMemory() int
	// fork makes a throwaway copy of the session.
	fork(ctx context.Context) (throwaway, error)
	// adopt makes the effects of a fork those of the session. Its error wraps
	// [sandbox.ErrOvertaken] where what they were made on has changed; then nothing
	// was done.
	adopt(ctx context.Context, e *sandbox.Effects) error
	// users reports whether the user's workspace has a path, relative to it.
	users(path string) bool
}

// allTurns is how many calls may run beside each other.
const allTurns = 64

// New returns the pipeline of an agent whose calls run in a session.
func New(s *Session, set *tools.Set, policy *permission.Policy) (*Pipeline, error) {
	policy.Workspace, policy.Home, policy.Sealed = s.Workspace, s.Home(), s.Mode == sandbox.Cow
	policy.Protected = permission.ProtectedBy(s.Workspace)
	for _, e := range s.Expose {
		for _, dir := range e.Dirs {
			policy.Exposed = append(policy.Exposed, dir.Path)
		}
	}
	if err := policy.Check(); err != nil {
		return nil, err
	}
	state, err := s.loadState()
	if err != nil {
		return nil, err
	}
	return &Pipeline{
		Tools: set, place: s, policy: policy, turns: semaphore.NewWeighted(allTurns), previews: semaphore.NewWeighted(mostPreviews),
		Context: tools.Context{
			Options: tools.Options{Workspace: s.Workspace, Home: s.Home(), Driver: s.Driver, Session: s.Name},
			Run:     tools.Run{State: state},
		},
	}, nil
}

// Policy is what decisions are made by now.
func (p *Pipeline) Policy() *permission.Policy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.policy
}

// addRule adds what a person has allowed for the rest of the session: to this
// agent, and to those above it.
func (p *Pipeline) addRule(text string) error {
	rule, err := permission.ParseRule(text, permission.Allow, permission.FromSession)
	if err != nil {
		return err
	}
	for ; p != nil; p = p.parent {
		p.mu.Lock()
		p.policy = p.policy.With(rule)
		p.mu.Unlock()
	}
	return nil
}

// Run carries a use of a tool through the steps. What went wrong is in the
// outcome, for the model as well.
func (p *Pipeline) Run(ctx context.Context, u Use) *Outcome {
	ctx, end := p.bound(ctx)
	defer end()
	c := &call{Pipeline: p, Outcome: Outcome{Use: u}, context: p.Context, started: time.Now()}
	c.Messages = p.takeOpening()
	for _, s := range steps {
		if c.Err == nil || s.always {
			if err := s.run(c, ctx); err != nil && c.Err == nil {
				c.Err = err
			}
		}
	}
	return &c.Outcome
}

// batch holds back what calls that run beside each other change, until the last
// of them has ended.
type batch struct {
	mu      sync.Mutex
	running int
	modify  []func(*tools.State)
}

// enter waits for a call's turn. What it returns ends the turn, and puts into
// effect what the call changes.
func (p *Pipeline) enter(ctx context.Context, safe bool) (leave func(modify func(*tools.State)), err error) {
	n := int64(allTurns)
	if safe {
		n = 1
	}
	if err := p.turns.Acquire(ctx, n); err != nil {
		return nil, p.aborted(ctx)
	}
	p.batch.mu.Lock()
	defer p.batch.mu.Unlock()
	p.batch.running++
	return func(modify func(*tools.State)) {
		p.batch.mu.Lock()
		defer p.batch.mu.Unlock()
		if modify != nil {
			p.batch.modify = append(p.batch.modify, modify)
		}
		if p.batch.running--; p.batch.running == 0 {
			for _, modify := range p.batch.modify {
				modify(p.Context.State)
			}
			p.batch.modify = nil
		}
		p.turns.Release(n)
	}, nil
}
