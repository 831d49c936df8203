package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools"
)

// fakePlace is a session that runs nothing: its functions are the test's own.
type fakePlace struct {
	log       *audit.Log // nil: what is recorded is only kept
	records   []audit.Record
	durable   []bool
	refuse    error // of recording
	functions map[string]func(ctx context.Context, input []byte, e sandbox.Envelope) (*sandbox.Returned, error)
	oom       int
	changed   int // how often the changes were looked at

	throwaway throwaway
	forks     int
	overtaken []error // of the next adoptions
	adopted   []*sandbox.Effects
}

func (f *fakePlace) call(ctx context.Context, function string, input []byte, e sandbox.Envelope, _ func([]byte)) (*sandbox.Returned, error) {
	return f.functions[function](ctx, input, e)
}

func (f *fakePlace) record(r audit.Record, durable bool) error {
	if f.refuse != nil {
		return f.refuse
	}
	if f.log != nil {
		return f.log.Write(r, false)
	}
	f.records, f.durable = append(f.records, r), append(f.durable, durable)
	return nil
}

func (f *fakePlace) mechanisms() map[string]string { return map[string]string{"namespaces": "native"} }

func (f *fakePlace) addChanges(context.Context, *audit.Result) { f.changed++ }

func (f *fakePlace) OutOfMemory() int { return f.oom }

func (f *fakePlace) fork(context.Context) (throwaway, error) {
	if f.throwaway == nil {
		return nil, errors.New("nothing can be copied here")
	}
	f.forks++
	return f.throwaway, nil
}

func (f *fakePlace) users(path string) bool { return path != "new" }

func (f *fakePlace) adopt(_ context.Context, e *sandbox.Effects) error {
	if len(f.overtaken) > 0 {
		err := f.overtaken[0]
		f.overtaken = f.overtaken[1:]
		return err
	}
	f.adopted = append(f.adopted, e)
	return nil
}

// poke is the input of the tool of these tests.
type poke struct {
	Path   string `json:"path"`
	Write  bool   `json:"write,omitempty"`
	Size   int    `json:"size,omitempty"`
	Bad    bool   `json:"bad,omitempty"`
	Filled string `json:"filled,omitempty"`
}

// newPipeline is a pipeline of one tool, Poke, in a place that is none.
func newPipeline(change func(*tools.Definition[poke, string, int])) (*Pipeline, *fakePlace) {
	d := tools.Definition[poke, string, int]{
		Name: "Poke", Aliases: []string{"OldPoke"}, Summary: "poke",
		ReadOnly:        func(in poke) bool { return !in.Write },
		ConcurrencySafe: func(in poke) bool { return !in.Write },
		Validate: func(in poke) error {
			if in.Bad {
				return errors.New("bad was asked for; leave it out")
			}
			return nil
		},
		Backfill: func(_ *tools.Context, in *poke) { in.Filled = "filled" },
		Access: func(c *tools.Context, in poke) []tools.Access {
			return []tools.Access{{Path: c.Abs(in.Path), Write: in.Write}}
		},
		Title: func(in poke) string { return "Poke " + in.Path },
		Call: func(ctx context.Context, c *tools.Context, in poke, progress func(int)) (*tools.Result[string], error) {
			out, err := c.Box.Call(ctx, "poke", []byte(in.Path), nil)
			if out == nil {
				return nil, err
			}
			return &tools.Result[string]{Data: string(out)}, err
		},
		Render: func(out string) []tools.Block { return tools.Text(out) },
	}
	if change != nil {
		change(&d)
	}
	place := &fakePlace{functions: map[string]func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error){
		"poke": func(_ context.Context, input []byte, _ sandbox.Envelope) (*sandbox.Returned, error) {
			return &sandbox.Returned{Data: fmt.Appendf(nil, "poked %s", input)}, nil
		},
		inside.ResolveName: func(_ context.Context, input []byte, _ sandbox.Envelope) (*sandbox.Returned, error) {
			var req inside.ResolveRequest
			if err := json.Unmarshal(input, &req); err != nil {
				return nil, err
			}
			var resp inside.ResolveResponse
			for _, p := range req.Paths {
				p = []byte(strings.Replace(string(p), "/link/", "/target/", 1))
				resp.Paths = append(resp.Paths, inside.Resolved{Path: p})
			}
			data, err := json.Marshal(resp)
			return &sandbox.Returned{Data: data}, err
		},
	}}
	policy := &permission.Policy{Mode: permission.AcceptEdits, Workspace: "/work", Home: "/home/agent", Protected: permission.ProtectedBy("/work"), Sealed: true}
	return &Pipeline{
		turns: semaphore.NewWeighted(allTurns), previews: semaphore.NewWeighted(mostPreviews), NoPreview: true,
		Tools: tools.NewSet(tools.Define(d)), place: place, policy: policy,
		Context: tools.Context{
			Options: tools.Options{Workspace: "/work", Home: "/home/agent", Session: "test"},
			Run:     tools.Run{State: tools.NewState("/work")},
		},
	}, place
}

func use(input string) Use {
	return Use{ID: "use-1", Name: "Poke", Input: json.RawMessage(input)}
}

// through takes a call through the steps up to one, which it returns the error
// of. The steps before must not fail.
func through(t *testing.T, p *Pipeline, u Use, last string) (*call, error) {
	t.Helper()
	c := &call{Pipeline: p, Outcome: Outcome{Use: u}, context: p.Context, started: time.Now()}
	for _, s := range steps {
		err := s.run(c, t.Context())
		if s.name == last {
			return c, err
		}
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	t.Fatalf("there is no step %q", last)
	return nil, nil
}

func TestTheStepsAreTheFourteen(t *testing.T) {
	if len(steps) != 14 {
		t.Fatalf("%d steps", len(steps))
	}
	for i, s := range steps {
		if s.always != (i == 13) {
			t.Errorf("step %d: %s", i+1, s.name)
		}
	}
}

func TestLookUp(t *testing.T) {
	p, _ := newPipeline(nil)
	for name, want := range map[string]string{"Poke": "", "OldPoke": "", "poke": "did you mean Poke?", "Pork": "did you mean Poke?", "Elsewhere": "there are Poke"} {
		c, err := through(t, p, Use{Name: name}, "look the tool up")
		if want == "" {
			if err != nil || c.Tool != "Poke" {
				t.Errorf("%s: %v, %v", name, c.Tool, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestStopIfAborted(t *testing.T) {
	p, place := newPipeline(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := p.Run(ctx, use(`{"path":"a"}`)); o.Err != ErrAborted || !o.IsError || o.Decision != nil {
		t.Errorf("%+v", o)
	}
	if len(place.records) != 1 || place.records[0].Decision.Behavior != "deny" {
		t.Errorf("%+v", place.records)
	}
}

func TestParse(t *testing.T) {
	p, _ := newPipeline(nil)
	for _, test := range []struct{ input, want string }{
		{`{"path":"a"}`, ""},
		{`{"path":"a","more":1}`, ""},
		{`{"path":"a","size":null}`, ""},
		{``, `the field "path" is missing`},
		{`{}`, `the field "path" is missing`},
		{`{"path":null}`, `the field "path" must be of type string, not null`},
		{`{"path":1}`, `the field "path" must be of type string, not 1`},
		{`{"path":"a","size":"x"}`, `the field "size" must be of type integer, not "x"`},
		{`{"path":"a","size":1.5}`, `the field "size" must be of type integer, not 1.5`},
		{`{"Path":"a"}`, `did you mean "path"?`},
		{`{"path":"a","PATH":"b"}`, `did you mean "path"?`},
		{`{"path":"a"`, "not valid JSON"},
		{`[]`, "a JSON object is needed, with the fields bad, filled, path, size, write"},
		{`null`, "a JSON object is needed"},
	} {
		c, err := through(t, p, use(test.input), "parse and validate the input")
		if test.want == "" {
			if err != nil || c.input.(poke).Path != "a" {
				t.Errorf("%s: %+v, %v", test.input, c.input, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.input, err, test.want)
		}
	}
	c, _ := through(t, p, use(`{"path":"a","zoo":1,"ape":2}`), "parse and validate the input")
	if !slices.Equal(c.Unknown, []string{"ape", "zoo"}) {
		t.Errorf("unknown: %v", c.Unknown)
	}
	// A field that stands there twice is one field, the one that was checked.
	c, _ = through(t, p, use(`{"path":"a","size":7,"size":null}`), "parse and validate the input")
	if c.input.(poke).Size != 0 {
		t.Errorf("%+v", c.input)
	}
}

func TestValidate(t *testing.T) {
	p, _ := newPipeline(nil)
	_, err := through(t, p, use(`{"path":"a","bad":true}`), "validate its meaning")
	if err == nil || err.Error() != "invalid input of Poke: bad was asked for; leave it out" {
		t.Error(err)
	}
	if c, err := through(t, p, use(`{"path":"a"}`), "validate its meaning"); err != nil || c.Title != "Poke a" {
		t.Errorf("%q, %v", c.Title, err)
	}
}

// The call gets the input as it was sent; the copy is for judging.
func TestBackfill(t *testing.T) {
	p, place := newPipeline(nil)
	c, err := through(t, p, use(`{"path":"link/a","write":true}`), "backfill derived fields on a copy")
	if err != nil {
		t.Fatal(err)
	}
	if c.input.(poke).Filled != "" || c.filled.(poke).Filled != "filled" {
		t.Errorf("%+v, %+v", c.input, c.filled)
	}
	want := permission.Path{Name: "/work/link/a", Real: "/work/target/a", Write: true}
	if len(c.paths) != 1 || c.paths[0] != want {
		t.Errorf("%+v", c.paths)
	}
	if j := c.context.Judged[0]; j.Path != "/work/target/a" || !j.Resolved {
		t.Errorf("what is judged is not what is opened: %+v", j)
	}
	// No decision depends on where a read leads that no rule restricts.
	c, err = through(t, p, use(`{"path":"link/a"}`), "backfill derived fields on a copy")
	if err != nil || c.paths[0].Real != "" || c.context.Judged[0].Resolved {
		t.Errorf("%+v, %v", c.paths, err)
	}
	for _, answer := range []string{`{}`, `x`, `{"paths":[{"path":"cmVs"}]}`, `{"paths":[{"path":"L2EvLi4vYg=="}]}`, `{"paths":[{"path":""}]}`} {
		place.functions[inside.ResolveName] = func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error) {
			return &sandbox.Returned{Data: []byte(answer)}, nil
		}
		if _, err = through(t, p, use(`{"path":"a","write":true}`), "backfill derived fields on a copy"); err == nil {
			t.Errorf("the guest's answer %s was taken", answer)
		}
	}
}

// fakeHooks answers what the test says.
type fakeHooks struct {
	pre     func(*HookCall) (*HookAnswer, error)
	request func(*HookCall) (*HookAnswer, error)
	post    func(*HookCall, *Outcome) (*HookAnswer, error)
	session *HookAnswer
	denied  []string
}

func (f *fakeHooks) PreToolUse(_ context.Context, h *HookCall) (*HookAnswer, error) {
	if f.pre == nil {
		return nil, nil
	}
	return f.pre(h)
}

func (f *fakeHooks) PermissionDenied(_ context.Context, h *HookCall, d *permission.Decision) (*HookAnswer, error) {
	f.denied = append(f.denied, h.Tool+": "+d.Reason)
	return nil, nil
}

func (f *fakeHooks) PermissionRequest(_ context.Context, h *HookCall) (*HookAnswer, error) {
	if f.request == nil {
		return nil, nil
	}
	return f.request(h)
}

func (f *fakeHooks) SessionStart(_ context.Context, h *HookCall, source string) (*HookAnswer, error) {
	return f.session, nil
}

func (f *fakeHooks) SessionEnd(_ context.Context, h *HookCall, reason string) (*HookAnswer, error) {
	return f.session, nil
}

func (f *fakeHooks) PostToolUse(_ context.Context, h *HookCall, o *Outcome) (*HookAnswer, error) {
	if f.post == nil {
		return nil, nil
	}
	return f.post(h, o)
}

func TestPreToolUse(t *testing.T) {
	p, place := newPipeline(nil)
	var seen string
	hooks := &fakeHooks{pre: func(h *HookCall) (*HookAnswer, error) {
		seen = string(h.Input)
		return &HookAnswer{AdditionalContext: "told"}, nil
	}}
	p.Hooks = hooks
	if o := p.Run(t.Context(), use(`{"path":"a"}`)); o.Text() != "poked a" || !slices.Contains(o.Messages, "told") {
		t.Errorf("%+v", o)
	}
	if seen != `{"path":"a","filled":"filled"}` {
		t.Errorf("the hook saw %s", seen)
	}
	// A changed input takes the whole way again: it is what is judged and run.
	answer := `{"path":"link/b","write":true}`
	hooks.pre = func(*HookCall) (*HookAnswer, error) { return &HookAnswer{UpdatedInput: json.RawMessage(answer)}, nil }
	c, err := through(t, p, use(`{"path":"a"}`), "PreToolUse hooks")
	if err != nil || c.input.(poke).Path != "link/b" || c.paths[0].Real != "/work/target/b" || !c.paths[0].Write || c.Title != "Poke link/b" {
		t.Errorf("%+v, %+v, %v", c.input, c.paths, err)
	}
	// On record is also what the model sent.
	place.records = nil
	p.Run(t.Context(), use(`{"path":"a"}`))
	if r := place.records[0]; string(r.Input) != answer || string(r.Sent) != `{"path":"a"}` || r.SentHash == r.InputHash {
		t.Errorf("on record: %s, sent %s", r.Input, r.Sent)
	}
	for _, answer = range []string{`{"path":1}`, `{"path":"a","bad":true}`, `{`} {
		if _, err := through(t, p, use(`{"path":"a"}`), "PreToolUse hooks"); err == nil || !strings.Contains(err.Error(), "a hook changed the input") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}
