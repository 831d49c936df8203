package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/pipeline"
)

// The events of the protocol.
const (
	preToolUse         = "PreToolUse"
	postToolUse        = "PostToolUse"
	postToolUseFailure = "PostToolUseFailure"
	permissionRequest  = "PermissionRequest"
	permissionDenied   = "PermissionDenied"
	sessionStart       = "SessionStart"
	sessionEnd         = "SessionEnd"
)

// An Input is what a hook reads on standard input.
type Input struct {
	Session    string          `json:"session_id"`
	Transcript string          `json:"transcript_path"` // there is none: ""
	Dir        string          `json:"cwd"`
	Mode       permission.Mode `json:"permission_mode,omitempty"`
	Event      string          `json:"hook_event_name"`
	Tool       string          `json:"tool_name,omitempty"`
	ToolInput  json.RawMessage `json:"tool_input,omitempty"`
	UseID      string          `json:"tool_use_id,omitempty"`
	Response   json.RawMessage `json:"tool_response,omitempty"` // PostToolUse
	Error      string          `json:"error,omitempty"`         // PostToolUseFailure
	Reason     string          `json:"reason,omitempty"`        // PermissionDenied, SessionEnd
	Source     string          `json:"source,omitempty"`        // SessionStart
}

// An output is what a hook may print when it exits with 0. What else stands in it
// is another agent's.
type output struct {
	Continue   *bool  `json:"continue"`
	StopReason string `json:"stopReason"`
	System     string `json:"systemMessage"`
	Decision   string `json:"decision"` // the older form: block or approve
	Reason     string `json:"reason"`
	Specific   *struct {
		Event      string          `json:"hookEventName"`
		Decision   string          `json:"permissionDecision"`
		Reason     string          `json:"permissionDecisionReason"`
		Input      json.RawMessage `json:"updatedInput"`
		Context    string          `json:"additionalContext"`
		MCPOutput  json.RawMessage `json:"updatedMCPToolOutput"`
		Permission *struct {
			Behavior string          `json:"behavior"`
			Input    json.RawMessage `json:"updatedInput"`
			Message  string          `json:"message"`
		} `json:"decision"` // of PermissionRequest
	} `json:"hookSpecificOutput"`
}

// A Ran is how a hook ended.
type Ran struct {
	Code           int
	Signal         syscall.Signal // 0 when it exited
	Stdout, Stderr []byte
	Cut            bool     // Stdout had more
	Notes          []string // what else it did, for the person: "left a process"
}

// exitBlock is the exit code of a hook that objects: its errors are the reason.
const exitBlock = 2

// blocks reports whether there is something to object to at an event.
func blocks(event string) bool {
	return event != sessionStart && event != sessionEnd && event != permissionDenied
}

// mostText is the longest text that is taken from a hook, in characters.
const mostText = 10_000

// answerOf is what a hook said at an event. Its error is that it said nothing that
// can be understood.
func answerOf(event string, h *settings.Hook, ran *Ran) (*pipeline.HookAnswer, error) {
	stderr := short(string(ran.Stderr))
	switch {
	case ran.Signal != 0:
		return nil, explained(fmt.Sprintf("it was ended by a signal (%s)", ran.Signal), stderr)
	case ran.Code == exitBlock && blocks(event):
		if stderr == "" {
			stderr = "it gave no reason"
		}
		return &pipeline.HookAnswer{Behavior: permission.Deny, Reason: stderr}, nil
	case ran.Code != 0:
		return nil, explained(fmt.Sprintf("it exited with %d", ran.Code), stderr)
	case ran.Cut:
		return nil, fmt.Errorf("it printed more than %d bytes", mostStdout)
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(ran.Stdout), byteOrderMark))
	if len(text) == 0 || text[0] != '{' {
		if event == sessionStart {
			return &pipeline.HookAnswer{AdditionalContext: short(string(text))}, nil
		}
		return &pipeline.HookAnswer{}, nil
	}
	var out output
	d := json.NewDecoder(bytes.NewReader(text))
	err := d.Decode(&out)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = errors.New("there is more after its end")
		}
	}
	if err == nil {
		err = KeysOnce(text, 2)
	}
	if err != nil {
		return nil, fmt.Errorf("what it printed is not the JSON of an answer: %w", err)
	}
	a, err := out.answer(event)
	if err != nil {
		return nil, fmt.Errorf("what it printed is no answer: %w", err)
	}
	if out.System != "" {
		a.Notes = []string{"hook " + h.Origin + ": " + short(out.System)}
	}
	return a, nil
}

// byteOrderMark is what some programs begin a text in UTF-8 with.
var byteOrderMark = []byte("\uFEFF")

// KeysOnce checks that no object of a JSON text has a key twice: of two answers,
// or of two inputs, another reader may take the other. In the outermost of objects,
// as many deep as folded says, keys that differ in case alone are the same.
func KeysOnce(text []byte, folded int) error {
	type level struct {
		keys  map[string]bool // nil of a list
		value bool            // a key was read, its value is next
	}
	var levels []level
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		top := len(levels) - 1
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:top]
			continue
		}
		if top >= 0 && levels[top].keys != nil {
			if key, ok := token.(string); ok && !levels[top].value {
				name := key
				if top < folded {
					name = strings.ToLower(strings.ToUpper(key)) // as encoding/json compares them
				}
				if levels[top].keys[name] {
					return fmt.Errorf("the key %q stands twice", short(key))
				}
				levels[top].keys[name], levels[top].value = true, true
				continue
			}
			levels[top].value = false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{keys: make(map[string]bool)})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
}

func explained(what, stderr string) error {
	if stderr != "" {
		what += ": " + stderr
	}
	return errors.New(what)
}

func (o *output) answer(event string) (*pipeline.HookAnswer, error) {
	a := &pipeline.HookAnswer{}
	say := func(b permission.Behavior, reason string) {
		if more(b, a.Behavior) {
			a.Behavior, a.Reason = b, short(reason)
		}
	}
	switch o.Decision {
	case "":
	case "approve":
		if event == preToolUse || event == permissionRequest {
			say(permission.Allow, o.Reason)
		}
	case "block":
		if blocks(event) {
			say(permission.Deny, o.Reason)
		}
	default:
		return nil, fmt.Errorf("decision is block or approve, not %q", short(o.Decision))
	}
	if o.Continue != nil && !*o.Continue {
		reason := o.StopReason
		if reason == "" {
			reason = "a hook stops the agent here"
		}
		say(permission.Deny, reason)
	}
	s := o.Specific
	if s == nil {
		return a, nil
	}
	if s.Event != "" && s.Event != event {
		return nil, fmt.Errorf("it is about %q, and the event is %s", short(s.Event), event)
	}
	a.AdditionalContext = short(s.Context)
	switch event {
	case preToolUse:
		a.UpdatedInput = given(s.Input)
		switch b := permission.Behavior(s.Decision); b {
		case "":
		case permission.Allow, permission.Ask, permission.Deny:
			say(b, s.Reason)
		default:
			return nil, fmt.Errorf("permissionDecision is allow, deny or ask, not %q", short(s.Decision))
		}
	case permissionRequest:
		if s.Permission == nil {
			break
		}
		switch b := permission.Behavior(s.Permission.Behavior); b {
		case permission.Allow:
			a.UpdatedInput = given(s.Permission.Input)
			say(b, s.Permission.Message)
		case permission.Deny:
			say(b, s.Permission.Message)
		default:
			return nil, fmt.Errorf("decision.behavior is allow or deny, not %q", short(s.Permission.Behavior))
		}
	case postToolUse:
		a.UpdatedOutput = given(s.MCPOutput)
	}
	return a, nil
}

// given is a value, nil for one that is not there.
func given(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

// strictness orders answers: the greater one wins.
var strictness = map[permission.Behavior]int{permission.Allow: 1, permission.Ask: 2, permission.Deny: 3}

// more reports whether an answer is stricter than another.
func more(a, b permission.Behavior) bool { return strictness[a] > strictness[b] }

// short is a text from a hook, not longer than is taken.
func short(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if utf8.RuneCountInString(text) <= mostText {
		return text
	}
	return string([]rune(text)[:mostText]) + " ..."
}
