// Package hooks runs the commands that settings name as hooks, by the protocol of
// command hooks that agents' users have: JSON on standard input, an exit code and
// JSON on standard output.
//
// The hooks of the system's policy, the user and the command line are the user's
// own programs and run on the host ([Host]). Those that come with a workspace run
// in the session ([Box]): the agent can change what they run there, so they may
// object and may not allow.
//
// A hook's word is never trusted further than it must be. What it prints is
// bounded, one that hangs is ended, and one that fails in any way has asked for a
// person where it could have objected.
package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/pipeline"
)

// DefaultTimeout is how long a hook may take that sets no other time.
const DefaultTimeout = time.Minute

// mostAtOnce is how many hooks of one event run beside each other.
const mostAtOnce = 16

// A Place is where a hook's command runs, in a mode of the agent. Its error is that
// it could not run, or did not end before the context.
type Place interface {
	Run(ctx context.Context, h *settings.Hook, mode permission.Mode, input []byte) (*Ran, error)
}

// Hooks are the hooks of one agent. It implements [pipeline.Hooks].
type Hooks struct {
	host, box Place
	list      []*hook
}

// A hook is one of the settings.
type hook struct {
	settings.Hook
	matcher *regexp.Regexp   // of all names; nil matches all
	cond    *permission.Rule // nil for none
	boxed   bool
}

// namesNone reports whether a matcher is about names that no tool has.
func namesNone(matcher string) bool {
	return strings.ContainsAny(matcher, " \t\n") || strings.Contains(matcher, ",") && !strings.Contains(matcher, "{")
}

// New reads the hooks of the settings. Those of the workspace run in the box,
// which may be nil: then they run on the host too.
func New(list []settings.Hook, host, box Place) (*Hooks, error) {
	hooks := &Hooks{host: host, box: box}
	for _, s := range list {
		h := &hook{Hook: s, boxed: box != nil && OfWorkspace(s)}
		if s.Matcher != "" && s.Matcher != "*" {
			var err error
			if namesNone(s.Matcher) {
				return nil, fmt.Errorf("%s: the matcher %q of a hook matches no tool: no name has a blank or a comma; write A|B for two", s.Origin, short(s.Matcher))
			}
			if h.matcher, err = regexp.Compile(`^(?:` + s.Matcher + `)$`); err != nil {
				return nil, fmt.Errorf("%s: the matcher %q of a hook is no regular expression: %w", s.Origin, short(s.Matcher), err)
			}
		}
		if s.If != "" {
			rule, err := permission.ParseRule(s.If, permission.Ask, s.Source)
			if err != nil {
				return nil, fmt.Errorf("%s: the condition of a hook: %w", s.Origin, err)
			}
			h.cond = &rule
		}
		hooks.list = append(hooks.list, h)
	}
	return hooks, nil
}

// OfWorkspace reports whether a hook comes with the workspace.
func OfWorkspace(h settings.Hook) bool {
	return h.Source == permission.FromProject || h.Source == permission.FromLocal
}

// PreToolUse implements [pipeline.Hooks].
func (h *Hooks) PreToolUse(ctx context.Context, c *pipeline.HookCall) (*pipeline.HookAnswer, error) {
	return h.ofTool(ctx, c, &Input{Event: preToolUse})
}

// PermissionRequest implements [pipeline.Hooks].
func (h *Hooks) PermissionRequest(ctx context.Context, c *pipeline.HookCall) (*pipeline.HookAnswer, error) {
	return h.ofTool(ctx, c, &Input{Event: permissionRequest})
}

// PermissionDenied implements [pipeline.Hooks].
func (h *Hooks) PermissionDenied(ctx context.Context, c *pipeline.HookCall, d *permission.Decision) (*pipeline.HookAnswer, error) {
	return h.ofTool(ctx, c, &Input{Event: permissionDenied, Reason: d.Reason})
}

// PostToolUse implements [pipeline.Hooks]. A call that failed is another event.
func (h *Hooks) PostToolUse(ctx context.Context, c *pipeline.HookCall, o *pipeline.Outcome) (*pipeline.HookAnswer, error) {
	in := &Input{Event: postToolUse}
	if o.IsError || o.Err != nil {
		in.Event, in.Error = postToolUseFailure, o.Text()
		if in.Error == "" && o.Err != nil {
			in.Error = o.Err.Error()
		}
		return h.ofTool(ctx, c, in)
	}
	response := o.Data
	if response == nil {
		response = o.Text()
	}
	var err error
	if in.Response, err = json.Marshal(response); err != nil {
		return nil, fmt.Errorf("the result for hooks: %w", err)
	}
	return h.ofTool(ctx, c, in)
}

// SessionStart implements [pipeline.Hooks].
func (h *Hooks) SessionStart(ctx context.Context, c *pipeline.HookCall, source string) (*pipeline.HookAnswer, error) {
	return h.run(ctx, c, &Input{Event: sessionStart, Source: source}, source)
}

// SessionEnd implements [pipeline.Hooks].
func (h *Hooks) SessionEnd(ctx context.Context, c *pipeline.HookCall, reason string) (*pipeline.HookAnswer, error) {
	return h.run(ctx, c, &Input{Event: sessionEnd, Reason: reason}, reason)
}

func (h *Hooks) ofTool(ctx context.Context, c *pipeline.HookCall, in *Input) (*pipeline.HookAnswer, error) {
	in.Tool, in.ToolInput, in.UseID = c.Tool, c.Input, c.UseID
	return h.run(ctx, c, in, append([]string{c.Tool}, c.Aliases...)...)
}

// run runs the hooks of an event beside each other that match one of the names,
// and makes one answer of theirs.
func (h *Hooks) run(ctx context.Context, c *pipeline.HookCall, in *Input, names ...string) (*pipeline.HookAnswer, error) {
	var matching []*hook
	for _, hook := range h.list {
		if hook.Event == in.Event && hook.matches(c, names) {
			matching = append(matching, hook)
		}
	}
	if len(matching) == 0 {
		return nil, nil
	}
	in.Session, in.Dir, in.Mode = c.Session, c.Dir, c.Mode
	input, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("the input for hooks: %w", err)
	}
	input = append(input, '\n')
	answers := make([]*pipeline.HookAnswer, len(matching))
	var group errgroup.Group
	group.SetLimit(mostAtOnce)
	for i, hook := range matching {
		group.Go(func() error {
			answers[i] = h.one(ctx, hook, in, input)
			return nil
		})
	}
	_ = group.Wait()
	return joined(answers), nil
}

func (h *hook) matches(c *pipeline.HookCall, names []string) bool {
	named := h.matcher == nil
	for _, name := range names {
		named = named || h.matcher.MatchString(name)
	}
	return named && (h.cond == nil || c.Concerns == nil || c.Concerns(*h.cond))
}

// one runs one hook, and makes an answer of whatever comes of it.
func (h *Hooks) one(ctx context.Context, hook *hook, in *Input, input []byte) *pipeline.HookAnswer {
	event := in.Event
	place := h.host
	if hook.boxed {
		place = h.box
	}
	timeout := cmp.Or(hook.Timeout, DefaultTimeout)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ran, err := place.Run(limited, &hook.Hook, in.Mode, input)
	if errors.Is(limited.Err(), context.DeadlineExceeded) && err != nil {
		err = fmt.Errorf("it took longer than %v, and was ended", timeout)
	}
	var a *pipeline.HookAnswer
	if err == nil {
		a, err = answerOf(event, &hook.Hook, ran)
	}
	if err != nil {
		text := fmt.Sprintf("the hook %s failed at %s: %v", hook.Origin, event, err)
		a = &pipeline.HookAnswer{Notes: []string{text}}
		if event == preToolUse {
			a.Behavior, a.Reason = permission.Ask, text
		}
	}
	if ran != nil {
		for _, note := range ran.Notes {
			a.Notes = append(a.Notes, "the hook "+hook.Origin+" "+note)
		}
	}
	if hook.boxed && a.Behavior == permission.Allow {
		a.Behavior, a.Reason = "", ""
		if event == permissionRequest {
			a.UpdatedInput = nil
		}
		a.Notes = append(a.Notes, fmt.Sprintf("the hook %s runs in the session, where the agent could change it: what it allows does not count; see --hooks-on-host", hook.Origin))
	}
	return a
}

// joined makes one answer of several: the strictest counts, with the reasons of
// all that gave it, and of the changed inputs and results the last.
func joined(answers []*pipeline.HookAnswer) *pipeline.HookAnswer {
	all := &pipeline.HookAnswer{}
	var reasons, contexts []string
	for _, a := range answers {
		if more(a.Behavior, all.Behavior) {
			all.Behavior, reasons = a.Behavior, nil
		}
		if a.Behavior == all.Behavior && a.Reason != "" {
			reasons = append(reasons, a.Reason)
		}
		if a.AdditionalContext != "" {
			contexts = append(contexts, a.AdditionalContext)
		}
		if a.UpdatedInput != nil {
			all.UpdatedInput = a.UpdatedInput
		}
		if a.UpdatedOutput != nil {
			all.UpdatedOutput = a.UpdatedOutput
		}
		all.Notes = append(all.Notes, a.Notes...)
	}
	all.Reason, all.AdditionalContext = strings.Join(reasons, "; "), strings.Join(contexts, "\n")
	return all
}
