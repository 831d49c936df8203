package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/wire"
	"github.com/sallyport/sallyport/tools"
)

// steps are the way of a call. Every call of every tool passes through all of
// them, in this order, until one returns an error, which is what the model is
// told; the last is taken in any case.
var steps = [...]struct {
	name   string
	run    func(*call, context.Context) error
	always bool
}{
	{"look the tool up", (*call).lookUp, false},
	{"stop if aborted", (*call).stopIfAborted, false},
	{"parse and validate the input", (*call).parse, false},
	{"validate its meaning", (*call).validate, false},
	{"start the speculative classifier", (*call).startClassifier, false},
	{"backfill derived fields on a copy", (*call).backfill, false},
	{"PreToolUse hooks", (*call).preToolUse, false},
	{"resolve the permission", (*call).resolvePermission, false},
	{"handle a denial", (*call).handleDenial, false},
	{"run the call", (*call).runCall, false},
	{"hold the result to its budget", (*call).holdToBudget, false},
	{"PostToolUse hooks", (*call).postToolUse, false},
	{"append messages, queue modifiers", (*call).appendMessages, false},
	{"classify errors, close the record", (*call).closeRecord, true},
}

// A call is a use of a tool on its way through the steps.
type call struct {
	*Pipeline
	Outcome

	started  time.Time
	tool     *tools.Tool
	context  tools.Context   // this call's own copy
	sent     json.RawMessage // what the model sent, where a hook has changed it
	input    any             // as the model sent it, or as a hook changed it
	filled   any             // the same with derived fields: for hooks and permission only
	paths    []permission.Path
	verdict  func(context.Context) (*Verdict, error)
	hook     *HookAnswer
	tried    []permission.Path // by a run that was judged to be read-only
	policy   *permission.Policy
	sections []permission.Section // what the classifier has to show
	inARow   int                  // denials, with this one

	preview   *preview // nil where there is none
	take      bool     // the result of the preview is the call's
	overtaken int      // how often the session had changed since the preview

	id     string // in the record; "" before the decision is on it
	called *tools.Called
	box    *box
	modify func(*tools.State)
	leave  func(modify func(*tools.State)) // ends the call's turn; nil without one
}

// Step 1.
func (c *call) lookUp(context.Context) error {
	tool, err := c.Tools.Find(c.Use.Name)
	if err != nil {
		return err
	}
	c.tool, c.Tool, c.Title = tool, tool.Name, tool.Name
	return nil
}

// Step 2.
func (c *call) stopIfAborted(ctx context.Context) error {
	if err := c.aborted(ctx); err != nil {
		return err
	}
	return nil
}

// Step 3. The schema that the model was given is the one that its input is held
// to.
func (c *call) parse(context.Context) (err error) {
	c.input, c.Unknown, err = c.tool.Parse(c.Use.Input)
	return err
}

// Step 4.
func (c *call) validate(context.Context) error {
	if err := c.tool.Validate(c.input); err != nil {
		return &tools.InputError{Tool: c.Tool, Reason: err.Error()}
	}
	c.Title = c.tool.Title(c.input)
	return nil
}

// Step 5. It runs while the next steps do; step 8 waits for it.
func (c *call) startClassifier(ctx context.Context) error {
	if c.Classifier == nil {
		return nil
	}
	c.verdict = nil
	if text := c.tool.ClassifierInput(c.input); text != "" {
		c.verdict = c.Classifier.Start(ctx, &ClassifierCall{Tool: c.Tool, Input: text, Seen: c.forClassifier})
	}
	return nil
}

// Step 6. What is derived is for judging: the call gets the input as it was
// sent. A path that a decision could depend on is judged by where it leads, and
// that is asked of the session itself.
func (c *call) backfill(ctx context.Context) error {
	c.policy = c.Policy()
	c.context.Dir = c.context.State.Dir()
	c.filled = c.tool.Backfill(&c.context, c.input)
	access := c.tool.Access(&c.context, c.filled)
	resolve, depends := false, c.policy.DependsOnPath()
	c.paths, c.context.Judged = pathsOf(access), make([]tools.Judged, len(access))
	for i, a := range access {
		c.context.Judged[i] = tools.Judged{Path: a.Path}
		resolve = resolve || a.Write || depends
	}
	if resolve {
		if err := c.resolvePaths(ctx); err != nil {
			return err
		}
	}
	c.startPreview(ctx)
	return nil
}

// Step 7. An input that a hook changes takes the same way as one that a model
// sent.
func (c *call) preToolUse(ctx context.Context) error {
	if c.Hooks == nil {
		return nil
	}
	answer, err := c.Hooks.PreToolUse(ctx, c.hookCall(ctx))
	if err != nil {
		answer = &HookAnswer{Behavior: permission.Ask, Reason: fmt.Sprintf("a hook failed: %v", err)}
	}
	if answer == nil {
		return nil
	}
	c.hook = answer
	c.hear(answer)
	if answer.UpdatedInput == nil {
		return nil
	}
	if err := c.change(ctx, answer.UpdatedInput); err != nil {
		return err
	}
	return c.startClassifier(ctx) // its opinion is of what will run
}

// Step 8. The decision is on record before anything is done by it; of a call
// that can change something it is on disk.
func (c *call) resolvePermission(ctx context.Context) error { return c.decide(ctx) }

func (c *call) decide(ctx context.Context) error {
	c.Decision = c.policy.Resolve(*c.request(ctx))
	c.judgeEffects(ctx)
	if err := c.hearClassifier(ctx); err != nil {
		return err
	}
	if c.Decision.Behavior == permission.Ask {
		if err := c.askHooks(ctx); err != nil {
			return err
		}
	}
	if c.Decision.Behavior == permission.Ask {
		c.ask(ctx)
	}
	if err := c.aborted(ctx); err != nil {
		return err
	}
	if err := c.recordPreview(ctx); err != nil {
		return err
	}
	if c.Decision.Behavior == permission.Allow {
		c.precomputed()
		c.Envelope = envelopeFor(c.Decision, c.tool, c.input)
	}
	if c.Decision.Behavior == permission.Deny {
		c.inARow = c.root().Context.State.Denied(c.context.Agent.ID)
	}
	return c.recordDecision()
}

// graceForTool is how much longer than it sets itself a tool may take before it
// is stopped from outside.
const graceForTool = 5 * time.Second

func (c *call) request(ctx context.Context) *permission.Request {
	r := requestOf(c.tool, &c.context, c.filled)
	r.Paths, r.Dir, r.Tried = c.paths, c.context.Dir, c.tried
	if r.HasCommand {
		r.Links = func(paths []string) ([]string, error) { return c.whereLead(ctx, paths) }
	}
	if c.hook != nil {
		r.Hook = permission.Check{Answer: c.hook.Behavior, Reason: c.hook.Reason}
	}
	return r
}

// hearClassifier waits for a verdict, if one was begun and matters: an objection
// makes a call be asked about that no person and no rule has allowed, and an
// approval answers what it may answer ([permission.Decision].Classifiable).
func (c *call) hearClassifier(ctx context.Context) error {
	if c.verdict == nil || c.Decision.Behavior == permission.Deny {
		return nil
	}
	v, err := c.verdict(ctx)
	if err := c.aborted(ctx); err != nil {
		return err
	}
	if err != nil {
		v = &Verdict{Behavior: permission.Ask, Reason: fmt.Sprintf("the classifier failed: %v", err)}
	}
	if v == nil {
		return nil
	}
	chain := c.Decision.Chain
	c.Decision.Chain = append(chain, permission.Step{Layer: "classifier", Rule: v.Reason, Answer: string(v.Behavior)})
	c.sections = v.Sections
	switch {
	case v.Behavior == permission.Allow:
		if c.Decision.Classifiable {
			c.Decision.Behavior, c.Decision.Reason = permission.Allow, v.Reason
		}
	case v.Behavior == permission.Deny && c.Decision.Classifiable && c.root().Context.State.Denials()[c.context.Agent.ID].InARow < manyDenials:
		// After that a person looks at what is going on.
		c.Decision.Behavior, c.Decision.Reason = permission.Deny, v.Reason
	case c.Decision.Behavior == permission.Allow && chain[len(chain)-1].Layer == "mode":
		c.Decision.Behavior, c.Decision.Reason = permission.Ask, v.Reason
	}
	return nil
}

// ask asks a person, and makes the decision what is answered.
func (c *call) ask(ctx context.Context) {
	d := c.Decision
	if c.Locked {
		d.Rule = ""
	}
	answered := func(b permission.Behavior, by, reason string) {
		d.Behavior, d.Reason = b, reason
		d.Chain = append(d.Chain, permission.Step{Layer: "prompt", Source: by, Answer: string(b)})
	}
	p := c.seen(ctx) // what it does is what is asked about
	if c.Prompter == nil {
		reason := d.Reason + ", and there is nobody to ask"
		if did := p.did(); did != "" {
			reason += "; " + did
		}
		if d.Rule != "" {
			reason += "; it can be allowed beforehand with --allow '" + strings.ReplaceAll(d.Rule, "'", `'\''`) + "'"
		}
		answered(permission.Deny, "nobody", reason)
		return
	}
	start := time.Now()
	answer, err := c.Prompter.Ask(ctx, &permission.Prompt{
		ID: c.Use.ID, Session: c.context.Session, Tool: c.Tool, Title: c.Title, Reason: d.Reason,
		Parts: c.parts(), Sections: append(c.shownSections(ctx), c.sections...), Rule: d.Rule,
		CanSave: d.Rule != "" && c.Save != nil,
	})
	c.Asked = time.Since(start)
	switch {
	case err != nil:
		answered(permission.Deny, "nobody", err.Error())
	case !answer.Allow && answer.Why != "":
		answered(permission.Deny, answer.By, "the user said no: "+answer.Why)
	case !answer.Allow:
		answered(permission.Deny, answer.By, "the user said no; do not try the same in another way, ask what to do instead")
	default:
		answered(permission.Allow, answer.By, "the user said yes")
		if err := c.keep(answer); err != nil {
			c.Notes = append(c.Notes, err.Error())
		}
	}
}

// keep puts into effect what an answer allows beyond its call.
func (c *call) keep(a permission.Answer) error {
	text, save := c.Decision.Rule, a.Save
	if save == "" && a.Session {
		save = c.SaveSession
	}
	if text == "" || !a.Session && save == "" {
		return nil
	}
	if err := c.addRule(text); err != nil || save == "" {
		return err
	}
	err := errors.New("there is no place to save it")
	if c.Save != nil {
		var rule permission.Rule
		if rule, err = permission.ParseRule(text, permission.Allow, save); err == nil {
			err = c.Save(rule, save)
		}
	}
	if err != nil {
		return fmt.Errorf("%s is allowed for this session only: %w", text, err)
	}
	return nil
}

// Step 9.
func (c *call) handleDenial(ctx context.Context) error {
	if c.Decision.Behavior == permission.Allow {
		return nil
	}
	if c.Hooks != nil {
		answer, err := c.Hooks.PermissionDenied(ctx, c.hookCall(ctx), c.Decision)
		c.heard(answer, err)
	}
	return &DeniedError{Tool: c.Tool, Reason: c.Decision.Reason, InARow: c.inARow}
}

// Step 10. The call gets the input as it was sent, and is held to what was
// judged: by the envelope, and by opening the paths that were judged.
//
// One that was judged to be read-only and tries to write is judged again.
func (c *call) runCall(ctx context.Context) error {
	err := c.runOnce(ctx)
	if c.leave == nil {
		return err
	}
	tried := c.misjudged()
	if recordErr := c.recordAttempts(len(tried) > 0); recordErr != nil {
		return recordErr
	}
	if len(tried) == 0 || ctx.Err() != nil {
		return err
	}
	return c.judgeAgain(ctx, tried)
}

func (c *call) runOnce(ctx context.Context) (err error) {
	if c.leave, err = c.enter(ctx, !c.take && c.tool.ConcurrencySafe(c.input)); err != nil {
		return err
	}
	if c.take {
		if err := c.takeResult(ctx); errors.Is(err, sandbox.ErrOvertaken) {
			return c.previewAgain(ctx, err)
		} else {
			return err
		}
	}
	if c.Envelope != nil && c.Envelope.Box == sandbox.Hand {
		g := &c.root().generation
		g.Add(1)
		defer g.Add(1)
	}
	if c.Envelope != nil {
		c.box = &box{place: c.place, envelope: *c.Envelope}
		c.context.Box = c.box
	}
	var progress func(json.RawMessage)
	if c.Progress != nil {
		progress = func(data json.RawMessage) { c.Progress(c.Use, data) }
	}
	start := time.Now()
	called, err := c.tool.Call(ctx, &c.context, c.input, progress)
	c.Ran = time.Since(start)
	if called != nil {
		c.called, c.Data, c.Blocks, c.IsError = called, called.Data, called.Blocks, called.IsError
	}
	return err
}

// Step 11. What is cut is said, with what is left of it: the beginning and the
// end.
func (c *call) holdToBudget(context.Context) error {
	if c.tool.MaxResult == tools.Unlimited {
		return nil
	}
	left := c.tool.MaxResult
	for i := range c.Blocks {
		n := utf8.RuneCountInString(c.Blocks[i].Text)
		if n > left {
			c.Blocks[i].Text = cut(c.Blocks[i].Text, n, left)
			n = left
		}
		left -= n
	}
	return nil
}

// cut shortens a text of n characters to about most.
func cut(s string, n, most int) string {
	head := []rune(s)
	tail := head[n-most/4:]
	head = head[:most-most/4]
	return fmt.Sprintf("%s\n\n[%d characters are left out here: the result had %d, and may have %d]\n\n%s",
		string(head), n-len(head)-len(tail), n, most, string(tail))
}

// Step 12. Of a call that failed, hooks are told in step 14.
func (c *call) postToolUse(ctx context.Context) error {
	answer := c.tellHooks(ctx)
	if answer == nil || answer.UpdatedOutput == nil || !strings.HasPrefix(c.Tool, "mcp__") {
		return nil
	}
	c.Blocks = blocksOf(answer.UpdatedOutput)
	return c.holdToBudget(ctx)
}

// Step 13.
func (c *call) appendMessages(context.Context) error {
	c.Messages = append(c.Messages, c.called.Messages...)
	c.modify = c.called.Modify
	return nil
}

// Step 14. It is taken by every call, however far it came.
func (c *call) closeRecord(ctx context.Context) error {
	if c.Err != nil {
		c.tellError()
		c.tellHooks(ctx)
	}
	if len(c.Unknown) > 0 {
		names := strings.Join(c.Unknown, ", ")
		if n := utf8.RuneCountInString(names); n > mostNames {
			names = cut(names, n, mostNames)
		}
		c.Notes = append(c.Notes, fmt.Sprintf("%s has no field %s: ignored", c.Tool, names))
	}
	if c.box != nil {
		c.tellBox()
	}
	err := c.recordResult(ctx)
	c.endPreview()
	if c.leave != nil && !c.IsError {
		c.root().Context.State.Succeeded(c.context.Agent.ID)
	}
	if c.leave != nil {
		c.leave(c.modify)
	}
	c.Duration = time.Since(c.started)
	if err != nil && c.Err == nil {
		// What cannot be recorded did not happen, as far as the model can know.
		c.Err = err
		c.tellError()
	}
	return err
}

// mostNames is how much of the names of unknown fields is said, in characters.
const mostNames = 1000

// tellError makes the result what the model can act on.
func (c *call) tellError() {
	text := c.Err.Error()
	switch failure := (*wire.CallFailure)(nil); {
	case errors.As(c.Err, &failure):
		text = failure.Message
	case errors.Is(c.Err, sandbox.ErrTime):
		text = fmt.Sprintf("the call was stopped: it took longer than %v", c.Envelope.Time)
	case errors.Is(c.Err, context.Canceled) && c.box != nil:
		text = "interrupted by the user while it ran; what it had done by then stays done"
	}
	// An error may name what it is about, which may be anything that was sent.
	if n := utf8.RuneCountInString(text); n > tools.DefaultMaxResult {
		text = cut(text, n, tools.DefaultMaxResult)
	}
	if c.called != nil && len(c.Blocks) > 0 && c.Text() != "" {
		c.Blocks = append(c.Blocks, tools.Block{Type: "text", Text: "\n" + text})
	} else {
		c.Blocks = tools.Text(text)
	}
	c.IsError = true
}

// tellBox adds what the session has to say of the call.
func (c *call) tellBox() {
	for _, path := range c.box.quarantined {
		c.Notes = append(c.Notes, path+" appeared, which is protected; it was moved away")
		c.Messages = append(c.Messages, path+" is protected: what appeared there was moved away.")
	}
	if c.IsError && c.Envelope.Box == sandbox.Hand {
		if n := c.place.OutOfMemory(); n > 0 {
			text := fmt.Sprintf("The session's memory limit was reached, and %d of its processes were killed.", n)
			c.Blocks = append(c.Blocks, tools.Block{Type: "text", Text: "\n" + text})
		}
	}
}
