package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

type input struct {
	Path  string   `json:"path" jsonschema:"where"`
	Count int      `json:"count,omitempty"`
	Flag  bool     `json:"-f,omitempty"`
	List  []string `json:"list,omitempty"`
}

// A definition that says nothing fails closed.
func TestDefaults(t *testing.T) {
	tool := Define(Definition[input, string, struct{}]{Name: "T"})
	in := input{Path: "a"}
	if tool.ConcurrencySafe(in) || tool.ReadOnly(in) || tool.Destructive(in) || tool.Deferred || tool.Site != Container {
		t.Error("a tool that says nothing is more than it says")
	}
	if !tool.Enabled() || tool.Check(nil, in) != (Check{}) || tool.ClassifierInput(in) != "" || tool.MaxResult != 100_000 ||
		tool.Access(nil, in) != nil || tool.Validate(in) != nil || tool.Timeout(in) != 2*time.Minute || tool.Title(in) != "T" {
		t.Error("a default is not what it is said to be")
	}
	if _, has := tool.Command(in); has {
		t.Error("it has a command")
	}
	if filled := tool.Backfill(nil, in); !reflect.DeepEqual(filled, in) {
		t.Errorf("%+v", filled)
	}
	if flags := tool.Flags(); len(flags) > 0 {
		t.Errorf("%v", flags)
	}
	if tool.InputSchema.AdditionalProperties != nil {
		t.Error("the schema forbids what Parse ignores")
	}
}

// The schema that is given out is the one that input is held to.
func TestOneSchema(t *testing.T) {
	tool := Define(Definition[input, string, struct{}]{
		Name:   "T",
		Fields: map[string]func(*jsonschema.Schema){"count": func(s *jsonschema.Schema) { s.Maximum = jsonschema.Ptr(9.0) }},
	})
	data, err := json.Marshal(tool.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"required":["path"]`, `"maximum":9`, `"description":"where"`, `"-f":{"type":"boolean"}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s has no %s", data, want)
		}
	}
	if _, _, err := tool.Parse(json.RawMessage(`{"path":"a","count":10}`)); err == nil {
		t.Error("what the schema forbids was taken")
	}
	if in, _, err := tool.Parse(json.RawMessage(`{"path":"a","count":9,"-f":true}`)); err != nil || in.(input).Count != 9 || !in.(input).Flag {
		t.Errorf("%+v, %v", in, err)
	}
}

func TestCallForgetsTypes(t *testing.T) {
	tool := Define(Definition[input, int, float64]{
		Name: "T",
		Call: func(_ context.Context, _ *Context, in input, progress func(float64)) (*Result[int], error) {
			progress(0.5)
			return &Result[int]{Data: len(in.Path), IsError: true, Messages: []string{"m"}}, nil
		},
		Render: func(n int) []Block { return Text(fmt.Sprint(n)) },
	})
	var progress []string
	got, err := tool.Call(t.Context(), &Context{}, input{Path: "abc"}, func(p json.RawMessage) { progress = append(progress, string(p)) })
	if err != nil || got.Data != 3 || got.Blocks[0].Text != "3" || !got.IsError || !slices.Equal(got.Messages, []string{"m"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if !slices.Equal(progress, []string{"0.5"}) {
		t.Errorf("%v", progress)
	}
	if _, err := tool.Call(t.Context(), &Context{}, input{}, nil); err != nil {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	define := func(name string, aliases ...string) *Tool {
		return Define(Definition[input, string, struct{}]{Name: name, Aliases: aliases})
	}
	off := Define(Definition[input, string, struct{}]{Name: "Off", Enabled: func() bool { return false }})
	s := NewSet(define("Write"), define("Read", "View"), off)
	var names []string
	for _, tool := range s.All() {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"Read", "Write"}) {
		t.Errorf("%v", names)
	}
	for name, want := range map[string]string{"Read": "Read", "View": "Read"} {
		if got, err := s.Find(name); err != nil || got.Name != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"read": "did you mean Read?", "Reed": "did you mean Read?", "Veiw": "did you mean Read?", "Wrtie": "did you mean Write?",
		"Off": "there are Read, Write", "Grep": "there are Read, Write", "": "there are Read, Write",
		strings.Repeat("x", 1000): "there are Read, Write",
	} {
		if _, err := s.Find(name); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPaths(t *testing.T) {
	c := &Context{Options: Options{Workspace: "/work", Home: "/home/agent"}}
	for path, want := range map[string]string{
		"a": "/work/a", "": "/work", ".": "/work", "a/../../b": "/b", "/x/../y": "/y", "~": "/home/agent", "~/a": "/home/agent/a", "~x": "/work/~x",
	} {
		if got := c.Abs(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]string{"/work/a/b": "a/b", "/work": "/work", "/workshop/a": "/workshop/a"} {
		if got := c.Rel(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestStateIsBoundedAndKept(t *testing.T) {
	s := NewState("/work")
	for i := range mostReads + 5 {
		s.Saw(fmt.Sprint("/f", i), fmt.Sprint(i))
		s.Seen("/f0") // it is in use, and stays
	}
	if _, ok := s.Seen("/f1"); ok {
		t.Error("the oldest is still remembered")
	}
	s.SetDir("/work/sub")
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	kept := NewState("/")
	if err := json.Unmarshal(data, kept); err != nil {
		t.Fatal(err)
	}
	if hash, ok := kept.Seen("/f0"); !ok || hash != "0" || kept.Dir() != "/work/sub" || kept.order.Len() != mostReads {
		t.Errorf("%q, %v, %s, %d", hash, ok, kept.Dir(), kept.order.Len())
	}
}

// Whatever a model sends is an input or an error, and nothing that was not
// checked gets through.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"path":"a"}`, `{"path":"a","path":"b","count":null}`, `{"PATH":1}`, `[]`, `{"path":"\u0000","list":["a",null]}`, `{`, `{"path":"a","count":1e400}`} {
		f.Add([]byte(s))
	}
	tool := Define(Definition[input, string, struct{}]{
		Name:   "T",
		Fields: map[string]func(*jsonschema.Schema){"count": func(s *jsonschema.Schema) { s.Maximum = jsonschema.Ptr(9.0) }},
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		in, _, err := tool.Parse(data)
		if err != nil {
			if _, ok := err.(*InputError); !ok {
				t.Fatalf("%T", err)
			}
			return
		}
		if got := in.(input); got.Count > 9 {
			t.Fatalf("%s became %+v", data, got)
		}
		var fields map[string]any
		if err := json.Unmarshal(data, &fields); err != nil {
			t.Fatalf("%s is no JSON and was taken", data)
		}
		if fields["path"] != in.(input).Path {
			t.Fatalf("checked was %q, used is %q", fields["path"], in.(input).Path)
		}
	})
}
