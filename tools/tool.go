package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Definition is what a tool is made of. In is its input, a struct whose JSON
// fields are those that agents send, with their descriptions in jsonschema tags;
// Out is the data that it returns; Progress is what it reports meanwhile.
type Definition[In, Out, Progress any] struct {
	// Name is what a model calls the tool, Aliases what it was called before.
	Name    string
	Aliases []string
	// Summary is a line for people, Description what a model is told.
	Summary     string
	Description string
	// Fields adds to the schema of fields what tags cannot say: bounds, enums.
	Fields map[string]func(*jsonschema.Schema)

	// Enabled says whether the tool is there at all; nil: it is.
	Enabled func() bool
	// ConcurrencySafe says whether a call may run beside others; nil: it may not.
	ConcurrencySafe func(In) bool
	// ReadOnly says whether a call changes nothing by its own meaning; nil: it
	// may change things.
	ReadOnly func(In) bool
	// Destructive says whether a call cannot be undone; nil: it can.
	Destructive func(In) bool

	// Validate reports what the schema cannot: an input that means nothing. It
	// looks at the input alone.
	Validate func(In) error
	// Backfill derives fields, on a copy that only hooks and the permission
	// system see.
	Backfill func(*Context, *In)
	// Access lists the paths that a call would touch, as far as its input says.
	Access func(*Context, In) []Access
	// Command is the shell command that the input holds; nil: none.
	Command func(In) string
	// Check is the tool's own word on a call; nil: it has no objection.
	Check func(*Context, In) Check
	// ClassifierInput is what the automatic classifier is shown; nil: nothing, it
	// leaves the call to the general system.
	ClassifierInput func(In) string

	// Site is where the call runs.
	Site Site
	// MaxResult is the most characters that a result may have; 0 is
	// [DefaultMaxResult], [Unlimited] is for a tool that limits itself at the
	// source.
	MaxResult int
	// Timeout is how long a call may take; nil is [DefaultTimeout].
	Timeout func(In) time.Duration
	// Deferred tools are sent by name only, until they are searched for.
	Deferred bool

	// Title says in a few words what a call does, for people; nil: its name.
	Title func(In) string
	// Diff shows what a call would change, as far as its input says: a diff whose
	// lines begin with a blank, + or -; nil, or "": that is not known.
	Diff func(In) string
	// Call does it. An error is told to the model, so it says what to do.
	Call func(ctx context.Context, c *Context, in In, progress func(Progress)) (*Result[Out], error)
	// Render is how the data reads to the model.
	Render func(Out) []Block
}

// Limits of a tool that sets none.
const (
	DefaultMaxResult = 100_000 // characters
	Unlimited        = -1
	DefaultTimeout   = 2 * time.Minute
)

// A Site is where a tool's call runs.
type Site int

const (
	// Container is the session's container.
	Container Site = iota
	// Host is for tools that touch nothing but the conversation, or the session's
	// own sandbox by its interface.
	Host
)

func (s Site) String() string {
	if s == Host {
		return "host"
	}
	return "container"
}

// An Access is a path that a call would touch.
type Access struct {
	Path  string // absolute and clean, not resolved
	Write bool
	// Tree means all that is below the path as well.
	Tree bool
}

// A Check is a tool's own word on a call.
type Check struct {
	Answer Answer
	Reason string
}

// An Answer is what a check comes to.
type Answer string

const (
	Passthrough Answer = "" // no objection of its own: the general system judges
	Allow       Answer = "allow"
	Ask         Answer = "ask"
	Deny        Answer = "deny"
)

// A Result is what a call returned.
type Result[Out any] struct {
	Data Out
	// IsError says that the data tells of a failure.
	IsError bool
	// Messages are added to the conversation after the result.
	Messages []string
	// Modify changes the state of whoever made the call; nil changes nothing. It
	// takes effect at once after a call that ran alone, and after all of them for
	// calls that ran beside each other.
	Modify func(*State)
}

// A Block is a part of a result, as in the Messages API.
type Block struct {
	Type string `json:"type"` // "text"
	Text string `json:"text,omitempty"`
}

// Text is a result of one text.
func Text(s string) []Block { return []Block{{Type: "text", Text: s}} }

// Count is a number of things in words: "1 line", "2 lines", "2 processes".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// A Tool is a tool whose types are forgotten. Its methods take the input that
// Parse returned.
type Tool struct {
	Name        string
	Aliases     []string
	Summary     string
	Description string
	Site        Site
	MaxResult   int // characters; Unlimited for none
	Deferred    bool
	// InputSchema is what the model is given, and what Parse holds input to.
	InputSchema *jsonschema.Schema

	Enabled         func() bool
	ConcurrencySafe func(in any) bool
	ReadOnly        func(in any) bool
	Destructive     func(in any) bool
	Validate        func(in any) error
	// Backfill returns a copy of the input with its derived fields.
	Backfill        func(c *Context, in any) any
	Access          func(c *Context, in any) []Access
	Command         func(in any) (command string, has bool)
	Check           func(c *Context, in any) Check
	ClassifierInput func(in any) string
	Timeout         func(in any) time.Duration
	Title           func(in any) string
	Diff            func(in any) string
	// Call runs the tool. Progress comes as JSON.
	Call func(ctx context.Context, c *Context, in any, progress func(json.RawMessage)) (*Called, error)

	resolved *jsonschema.Resolved
	fields   map[string]bool
	decode   func([]byte) (any, error)
	zero     any // an input in which nothing was given
}

// Called is the result of a tool whose types are forgotten.
type Called struct {
	Data     any
	Blocks   []Block
	IsError  bool
	Messages []string
	Modify   func(*State)
}

// Define makes a tool. It panics when the definition cannot be one.
func Define[In, Out, Progress any](d Definition[In, Out, Progress]) *Tool {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		panic(fmt.Sprintf("tools: %s: %v", d.Name, err))
	}
	// Unknown fields are reported, not fatal: agents change faster than tools.
	schema.AdditionalProperties = nil
	t := &Tool{
		Name: d.Name, Aliases: d.Aliases, Summary: d.Summary, Description: d.Description,
		Site: d.Site, MaxResult: d.MaxResult, Deferred: d.Deferred, InputSchema: schema,
		fields: make(map[string]bool),
		zero:   *new(In),
		decode: func(data []byte) (any, error) {
			var in In
			err := json.Unmarshal(data, &in)
			return in, err
		},
	}
	for name, change := range d.Fields {
		change(schema.Properties[name])
	}
	for name := range schema.Properties {
		t.fields[name] = true
	}
	if t.resolved, err = schema.Resolve(nil); err != nil {
		panic(fmt.Sprintf("tools: %s: %v", d.Name, err))
	}
	if t.MaxResult == 0 {
		t.MaxResult = DefaultMaxResult
	}

	t.Enabled = func() bool { return d.Enabled == nil || d.Enabled() }
	judge := func(f func(In) bool) func(any) bool {
		return func(in any) bool { return f != nil && f(in.(In)) }
	}
	t.ConcurrencySafe, t.ReadOnly, t.Destructive = judge(d.ConcurrencySafe), judge(d.ReadOnly), judge(d.Destructive)
	t.Validate = func(in any) error {
		if d.Validate == nil {
			return nil
		}
		return d.Validate(in.(In))
	}
	t.Backfill = func(c *Context, in any) any {
		filled := in.(In) // a copy
		if d.Backfill != nil {
			d.Backfill(c, &filled)
		}
		return filled
	}
	t.Access = func(c *Context, in any) []Access {
		if d.Access == nil {
			return nil
		}
		return d.Access(c, in.(In))
	}
	t.Command = func(in any) (string, bool) {
		if d.Command == nil {
			return "", false
		}
		return d.Command(in.(In)), true
	}
	t.Check = func(c *Context, in any) Check {
		if d.Check == nil {
			return Check{}
		}
		return d.Check(c, in.(In))
	}
	t.ClassifierInput = func(in any) string {
		if d.ClassifierInput == nil {
			return ""
		}
		return d.ClassifierInput(in.(In))
	}
	t.Timeout = func(in any) time.Duration {
		if d.Timeout == nil {
			return DefaultTimeout
		}
		return d.Timeout(in.(In))
	}
	t.Title = func(in any) string {
		if d.Title == nil {
			return d.Name
		}
		return d.Title(in.(In))
	}
	t.Diff = func(in any) string {
		if d.Diff == nil {
			return ""
		}
		return d.Diff(in.(In))
	}
	t.Call = func(ctx context.Context, c *Context, in any, progress func(json.RawMessage)) (*Called, error) {
		r, err := d.Call(ctx, c, in.(In), func(p Progress) {
			if progress == nil {
				return
			}
			if data, err := json.Marshal(p); err == nil {
				progress(data)
			}
		})
		if r == nil && err == nil {
			err = fmt.Errorf("%s returned nothing", d.Name)
		}
		if r == nil {
			return nil, err
		}
		return &Called{
			Data: r.Data, Blocks: d.Render(r.Data), IsError: r.IsError, Messages: r.Messages, Modify: r.Modify,
		}, err
	}
	return t
}

// An InputError is an input that is none of the tool's. Its text is for the
// model.
type InputError struct {
	Tool   string
	Reason string
}

func (e *InputError) Error() string { return fmt.Sprintf("invalid input of %s: %s", e.Tool, e.Reason) }

// Parse reads what a model sent. It returns the input, the names of fields that
// the tool does not know and that were ignored, and an [*InputError] when it is
// not held to the schema.
func (t *Tool) Parse(data json.RawMessage) (in any, unknown []string, err error) {
	wrong := func(format string, args ...any) error {
		return &InputError{Tool: t.Name, Reason: fmt.Sprintf(format, args...)}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = json.RawMessage("{}")
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		if !json.Valid(data) {
			return nil, nil, wrong("not valid JSON: %v", err)
		}
		return nil, nil, wrong("a JSON object is needed, with the fields %s", strings.Join(t.fieldNames(), ", "))
	}
	if fields == nil {
		return nil, nil, wrong("a JSON object is needed, not null")
	}
	// Of a field that stands there twice, the decoder would take parts of both,
	// and of one that is left out here the rest.
	same := len(fields) == topLevelFields(data)
	for name, value := range fields {
		if t.fields[name] {
			// null is what many agents send for a field that they leave out.
			if value == nil && !slices.Contains(t.InputSchema.Required, name) {
				delete(fields, name)
				same = false
			}
			continue
		}
		// The decoder would take it for the field that it looks like.
		for known := range t.fields {
			if strings.EqualFold(known, name) {
				return nil, nil, wrong("there is no field %q; did you mean %q?", name, known)
			}
		}
		// What a run before had as its result is handed on inside the pipeline, and
		// is nothing that a model can say.
		if strings.HasPrefix(name, "_") {
			return nil, nil, wrong("the field %q is not a model's to set; leave it out", name)
		}
		unknown = append(unknown, name)
		delete(fields, name)
	}
	slices.Sort(unknown)
	for _, name := range t.InputSchema.Required {
		if _, ok := fields[name]; !ok {
			return nil, unknown, wrong("the field %q is missing", name)
		}
	}
	for name, value := range fields {
		if err := t.checkField(name, value); err != nil {
			return nil, unknown, wrong("%v", err)
		}
	}
	if err := t.resolved.Validate(fields); err != nil {
		return nil, unknown, wrong("%v", err)
	}
	// What was checked is what is used.
	if !same {
		if data, err = json.Marshal(fields); err != nil {
			return nil, unknown, wrong("%v", err)
		}
	}
	if in, err = t.decode(data); err != nil {
		return nil, unknown, wrong("%v", err)
	}
	return in, unknown, nil
}

// topLevelFields counts the fields of an object in JSON that is valid.
func topLevelFields(data []byte) int {
	depth, n := 0, 0
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ':' && depth == 1:
			n++
		}
	}
	return n
}

// checkField says of a field of another type, or beyond its bounds, what the
// schema's own error says less plainly.
func (t *Tool) checkField(name string, value any) error {
	field := t.InputSchema.Properties[name]
	want, ok := field.Type, true
	switch v := value.(type) {
	case nil:
		ok = false
	case string:
		ok = want == "string"
	case bool:
		ok = want == "boolean"
	case float64:
		ok = want == "number" || want == "integer" && v == float64(int64(v))
	case []any:
		ok = want == "array"
	case map[string]any:
		ok = want == "object"
	}
	if !ok && want != "" {
		return fmt.Errorf("the field %q must be of type %s, not %s", name, want, short(value))
	}
	if n, ok := value.(float64); ok {
		switch least, most := field.Minimum, field.Maximum; {
		case least != nil && n < *least:
			return fmt.Errorf("the field %q must be at least %.0f, not %s", name, *least, short(value))
		case most != nil && n > *most:
			return fmt.Errorf("the field %q must be at most %.0f, not %s", name, *most, short(value))
		}
	}
	if text, ok := value.(string); ok && len(field.Enum) > 0 {
		names := make([]string, len(field.Enum))
		for i, one := range field.Enum {
			names[i] = fmt.Sprint(one)
		}
		if !slices.Contains(names, text) {
			return fmt.Errorf("the field %q must be one of %s, not %s", name, strings.Join(names, ", "), short(value))
		}
	}
	return nil
}

// short is the beginning of a value.
func short(value any) string {
	text, _ := json.Marshal(value)
	if len(text) > 60 {
		return string(text[:60]) + "..."
	}
	return string(text)
}

func (t *Tool) fieldNames() []string { return slices.Sorted(maps.Keys(t.fields)) }

// Flags are what is true of the tool whatever its input is, in words.
func (t *Tool) Flags() []string {
	var flags []string
	_, command := t.Command(t.zero)
	for _, f := range []struct {
		word string
		is   bool
	}{
		// What a shell command does is judged by the command.
		{"read-only", !command && t.ReadOnly(t.zero)},
		{"concurrency-safe", t.ConcurrencySafe(t.zero)},
		{"destructive", t.Destructive(t.zero)},
		{"deferred", t.Deferred},
	} {
		if f.is {
			flags = append(flags, f.word)
		}
	}
	return flags
}

// DefaultTimeout is how long a call may take whose input does not say.
func (t *Tool) DefaultTimeout() time.Duration { return t.Timeout(t.zero) }
