package pipeline

import (
	"context"
	"encoding/json"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/effects"
)

// Hooks are a user's own programs that take part in calls. A nil one does
// nothing. An answer that is nil says nothing.
type Hooks interface {
	// PreToolUse is called before a call is decided on. What it answers is one
	// voice of the decision; an input that it changes is parsed, validated and
	// judged as if the model had sent it. An error is an answer of "ask".
	PreToolUse(ctx context.Context, h *HookCall) (*HookAnswer, error)
	// PermissionRequest is called before a person is asked, and may answer in the
	// person's place. It cannot allow what is denied.
	PermissionRequest(ctx context.Context, h *HookCall) (*HookAnswer, error)
	// PermissionDenied is told of a denial.
	PermissionDenied(ctx context.Context, h *HookCall, d *permission.Decision) (*HookAnswer, error)
	// PostToolUse is called with what came of a call that ran, also of one that
	// failed, and may add to what the model is told.
	PostToolUse(ctx context.Context, h *HookCall, o *Outcome) (*HookAnswer, error)
	// SessionStart is called before the first call, with where the session comes
	// from: "startup" or "resume". A denial ends it.
	SessionStart(ctx context.Context, h *HookCall, source string) (*HookAnswer, error)
	// SessionEnd is called after the last call.
	SessionEnd(ctx context.Context, h *HookCall, reason string) (*HookAnswer, error)
}

// A HookCall is a call as hooks see it. At the start and the end of a session
// there is no tool.
type HookCall struct {
	Session string
	Mode    permission.Mode
	Dir     string // the working directory of the session, absolute
	Tool    string
	Aliases []string // of the tool
	UseID   string
	// Input is the input with its derived fields, as JSON.
	Input json.RawMessage
	// Concerns reports whether a rule is about the call, or may be.
	Concerns func(rule permission.Rule) bool
}

// A HookAnswer is what a hook said.
type HookAnswer struct {
	Behavior permission.Behavior // "" for nothing
	Reason   string
	// UpdatedInput replaces the input; nil leaves it.
	UpdatedInput json.RawMessage
	// UpdatedOutput replaces the result of a tool of an MCP server; nil leaves it.
	UpdatedOutput json.RawMessage
	// AdditionalContext is added to what the model is told.
	AdditionalContext string
	// Notes are for the person.
	Notes []string
}

// A Classifier forms an opinion of a call while hooks run.
type Classifier interface {
	// Start begins, and returns what waits for the verdict. It is shown to whoever
	// is asked. An objection makes a call that would be allowed by the mode alone be
	// asked about; an approval allows, in the mode auto, what would be asked about
	// only because no rule allows it. It never beats a rule, a hook or a person.
	Start(ctx context.Context, c *ClassifierCall) (wait func(context.Context) (*Verdict, error))
}

// A ClassifierCall is a call as the classifier sees it.
type ClassifierCall struct {
	Tool  string
	Input string // the tool's own text for the classifier; never ""
	// Seen waits for what the call did in a copy of the session; nil where it was not
	// run in one.
	Seen func(context.Context) *Seen
}

// Seen is what a call did in a copy of the session.
type Seen struct {
	*effects.Preview
	// Home are the paths in the session's home that were changed, beside caches and
	// histories; relative to it.
	Home []string
	// Users reports whether the user's workspace has a path, relative to it: what it
	// lacks, the session has made itself.
	Users func(path string) bool
}

// A Verdict is what the classifier found.
type Verdict struct {
	Behavior permission.Behavior // Allow, or an objection: Ask or Deny
	Reason   string
	Sections []permission.Section // what there is to show
}
