package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/wire"
	"github.com/sallyport/sallyport/tools"
)

// fakeClassifier has one verdict.
type fakeClassifier struct {
	verdict *Verdict
	err     error
	saw     []string
}

func (f *fakeClassifier) Start(_ context.Context, c *ClassifierCall) func(context.Context) (*Verdict, error) {
	f.saw = append(f.saw, c.Tool+": "+c.Input)
	return func(context.Context) (*Verdict, error) { return f.verdict, f.err }
}

// fakePrompter gives one answer.
type fakePrompter struct {
	answer permission.Answer
	err    error
	asked  []*permission.Prompt
}

func (f *fakePrompter) Ask(_ context.Context, p *permission.Prompt) (permission.Answer, error) {
	f.asked = append(f.asked, p)
	return f.answer, f.err
}

func classified(d *tools.Definition[poke, string, int]) {
	d.ClassifierInput = func(in poke) string {
		if in.Size == 1 {
			return "" // nothing for the classifier
		}
		return in.Path
	}
}

func TestClassifier(t *testing.T) {
	p, _ := newPipeline(classified)
	f := &fakeClassifier{}
	p.Classifier = f
	for _, input := range []string{`{"path":"a"}`, `{"path":"b","size":1}`} {
		if o := p.Run(t.Context(), use(input)); o.Err != nil {
			t.Error(o.Err)
		}
	}
	if !slices.Equal(f.saw, []string{"Poke: a"}) {
		t.Errorf("it saw %v", f.saw)
	}
	objection := &Verdict{Behavior: permission.Deny, Reason: "strange", Sections: []permission.Section{{Title: "why", Text: "because"}}}
	for _, test := range []struct {
		name    string
		verdict *Verdict
		err     error
		rule    string
		asked   bool
	}{
		{"an objection to what the mode alone allows", objection, nil, "", true},
		{"an objection to what a rule allows", objection, nil, "Edit(/a)", false},
		{"one that failed", nil, errors.New("broken"), "", true},
	} {
		p, _ := newPipeline(func(d *tools.Definition[poke, string, int]) { classified(d); d.Name = "Edit"; d.Aliases = nil })
		prompter := &fakePrompter{answer: permission.Answer{Allow: true, By: "test"}}
		p.Classifier, p.Prompter = &fakeClassifier{verdict: test.verdict, err: test.err}, prompter
		if test.rule != "" {
			if err := p.addRule(test.rule); err != nil {
				t.Fatal(err)
			}
		}
		u := use(`{"path":"a","write":true}`)
		u.Name = "Edit"
		o := p.Run(t.Context(), u)
		if o.Err != nil || (len(prompter.asked) == 1) != test.asked {
			t.Errorf("%s: asked %d times, %v, %+v", test.name, len(prompter.asked), o.Err, o.Decision)
		}
		if test.asked && test.verdict != nil && !slices.Contains(prompter.asked[0].Sections, objection.Sections[0]) {
			t.Errorf("%s: the question shows %+v", test.name, prompter.asked[0].Sections)
		}
	}
}

// A decision is on record before anything is done by it, on disk before what can
// change something.
func TestResolvePermission(t *testing.T) {
	p, place := newPipeline(nil)
	place.functions["poke"] = func(_ context.Context, _ []byte, e sandbox.Envelope) (*sandbox.Returned, error) {
		if len(place.records) == 0 || place.records[len(place.records)-1].Kind != audit.KindDecision {
			t.Error("it ran before its decision was on record")
		}
		return &sandbox.Returned{Data: []byte(e.Box.String())}, nil
	}
	o := p.Run(t.Context(), use(`{"path":"a"}`))
	if o.Text() != "eye" || o.Envelope.Box != sandbox.Eye || o.Envelope.Time != tools.DefaultTimeout+graceForTool {
		t.Errorf("%+v", o)
	}
	p.policy.Mode = permission.Bypass
	if o = p.Run(t.Context(), use(`{"path":"a","write":true}`)); o.Text() != "hand" {
		t.Errorf("%+v, %v", o.Decision, o.Err)
	}
	if len(place.records) != 4 || !slices.Equal(place.durable, []bool{false, false, true, false}) || place.changed != 1 {
		t.Fatalf("%d records, %v, looked at changes %d times", len(place.records), place.durable, place.changed)
	}
	d, r := place.records[2], place.records[3]
	if d.Tool != "Poke" || d.Use != "use-1" || d.Call == "" || r.Call != d.Call || d.Decision.Behavior != "allow" || len(d.Decision.Chain) == 0 ||
		d.Envelope.Box != "hand" || d.Mechanisms["namespaces"] != "native" || string(d.Input) != `{"path":"a","write":true}` {
		t.Errorf("%+v", d)
	}
	if r.Kind != audit.KindResult || r.Result.Stdout != 4 || r.Result.Error != "" {
		t.Errorf("%+v", r.Result)
	}
	// What cannot be recorded does not run.
	place.refuse = errors.New("disk full")
	place.functions["poke"] = func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error) {
		t.Error("it ran without a record")
		return nil, nil
	}
	if o := p.Run(t.Context(), use(`{"path":"a"}`)); !errors.Is(o.Err, place.refuse) || !o.IsError {
		t.Errorf("%+v", o)
	}
}

func TestAsking(t *testing.T) {
	for _, test := range []struct {
		name     string
		prompter *fakePrompter
		allowed  bool
		text     string
		by       string
	}{
		{"nobody there", nil, false, "there is nobody to ask", "nobody"},
		{"yes", &fakePrompter{answer: permission.Answer{Allow: true, By: "terminal"}}, true, "poked a", "terminal"},
		{"no", &fakePrompter{answer: permission.Answer{By: "terminal"}}, false, "the user said no", "terminal"},
		{"no, and why", &fakePrompter{answer: permission.Answer{Why: "use b", By: "terminal"}}, false, "the user said no: use b", "terminal"},
		{"gone", &fakePrompter{err: errors.New("nobody answered within 5m0s")}, false, "nobody answered within 5m0s", "nobody"},
	} {
		p, place := newPipeline(nil)
		p.policy.Mode = permission.Default
		if test.prompter != nil {
			p.Prompter = test.prompter
		}
		o := p.Run(t.Context(), use(`{"path":"a","write":true}`))
		if (o.Err == nil) != test.allowed || !strings.Contains(o.Text(), test.text) {
			t.Errorf("%s: %q, %v", test.name, o.Text(), o.Err)
		}
		if last := o.Decision.Chain[len(o.Decision.Chain)-1]; last.Layer != "prompt" || last.Source != test.by {
			t.Errorf("%s: %+v", test.name, last)
		}
		if got := place.records[0].Decision; got.Behavior != string(o.Decision.Behavior) || got.Reason != o.Decision.Reason {
			t.Errorf("%s: on record is %+v", test.name, got)
		}
		if test.prompter == nil {
			continue
		}
		q := test.prompter.asked[0]
		if q.ID != "use-1" || q.Session != "test" || q.Tool != "Poke" || q.Title != "Poke a" || q.Reason == "" || !strings.Contains(q.Sections[0].Text, `"path": "a"`) {
			t.Errorf("%+v", q)
		}
	}
}

// A question shows a text of several lines as they are, to the last newline, and
// what a page of the web would escape unescaped.
func TestQuestionShowsTheInput(t *testing.T) {
	rest, texts := describeInput(struct {
		Path string `json:"path"`
		Text string `json:"text"`
		Flat string `json:"flat"`
		N    int    `json:"n,omitempty"`
	}{"a", "one\n\ttwo \"2\"\n", "x < y && z", 3})
	got, want := append([]permission.Section{rest}, texts...), []permission.Section{
		{Title: "input", Text: "{\n  \"path\": \"a\",\n  \"flat\": \"x < y && z\",\n  \"n\": 3\n}"},
		{Title: "text", Text: "one\n\ttwo \"2\"\n\n"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// "Yes, for this session" allows the rule that was shown, and nothing wider.
func TestYesForTheSession(t *testing.T) {
	p, _ := newPipeline(func(d *tools.Definition[poke, string, int]) { d.Name = "Edit"; d.Aliases = nil })
	p.policy.Mode = permission.Default
	prompter := &fakePrompter{answer: permission.Answer{Allow: true, Session: true, By: "test"}}
	p.Prompter = prompter
	run := func(path string) *Outcome {
		return p.Run(t.Context(), Use{Name: "Edit", Input: json.RawMessage(`{"path":"` + path + `","write":true}`)})
	}
	for _, path := range []string{"a", "a"} {
		if o := run(path); o.Err != nil {
			t.Error(o.Err)
		}
	}
	if len(prompter.asked) != 1 || prompter.asked[0].Rule == "" {
		t.Fatalf("asked %d times: %+v", len(prompter.asked), prompter.asked[0])
	}
	if run("ab"); len(prompter.asked) != 2 {
		t.Errorf("the rule %s allows another file", prompter.asked[0].Rule)
	}
}

// An answer is kept where it says, or where the answers for the session are; what
// could not be kept is said, and holds for the session.
func TestAnswersAreSaved(t *testing.T) {
	session, always := permission.Answer{Allow: true, Session: true}, permission.Answer{Allow: true, Save: permission.FromUser}
	for _, test := range []struct {
		name     string
		answer   permission.Answer
		sessions permission.Source // where answers for the session are saved
		fails    error
		saved    string
		note     string
	}{
		{"yes", permission.Answer{Allow: true}, permission.FromLocal, nil, "", ""},
		{"no", permission.Answer{Save: permission.FromLocal}, "", nil, "", ""},
		{"yes for the session", session, "", nil, "", ""},
		{"yes for the session, which is saved", session, permission.FromLocal, nil, "Edit(/a) to local", ""},
		{"always", always, "", nil, "Edit(/a) to user", ""},
		{"always, elsewhere than the answers for the session", always, permission.FromLocal, nil, "Edit(/a) to user", ""},
		{"a place that cannot be written", always, "", errors.New("disk full"), "Edit(/a) to user", "Edit(/a) is allowed for this session only: disk full"},
	} {
		p, _ := newPipeline(func(d *tools.Definition[poke, string, int]) { d.Name = "Edit"; d.Aliases = nil })
		p.policy.Mode = permission.Default
		saved := ""
		p.Save = func(r permission.Rule, to permission.Source) error {
			if r.Behavior != permission.Allow || r.Source != to {
				t.Errorf("%s: the rule is %+v", test.name, r)
			}
			saved = r.String() + " to " + string(to)
			return test.fails
		}
		prompter := &fakePrompter{answer: test.answer}
		p.SaveSession, p.Prompter = test.sessions, prompter
		u := use(`{"path":"a","write":true}`)
		u.Name = "Edit"
		o := p.Run(t.Context(), u)
		if saved != test.saved || strings.Join(o.Notes, "; ") != test.note {
			t.Errorf("%s: saved %q, said %q", test.name, saved, o.Notes)
		}
		if q := prompter.asked[0]; q.Rule == "" || !q.CanSave {
			t.Errorf("%s: asked %+v", test.name, q)
		}
		p.Run(t.Context(), u)
		if wide := test.answer.Allow && (test.answer.Session || test.answer.Save != ""); (len(prompter.asked) == 1) != wide {
			t.Errorf("%s: asked %d times", test.name, len(prompter.asked))
		}
	}

	p, _ := newPipeline(func(d *tools.Definition[poke, string, int]) { d.Name = "Edit"; d.Aliases = nil })
	p.policy.Mode = permission.Default
	p.Locked, p.Prompter = true, &fakePrompter{answer: session}
	locked := use(`{"path":"a","write":true}`)
	locked.Name = "Edit"
	for range 2 {
		p.Run(t.Context(), locked)
	}
	if asked := p.Prompter.(*fakePrompter).asked; len(asked) != 2 || asked[0].Rule != "" || asked[0].CanSave {
		t.Errorf("locked: asked %+v", asked)
	}
	p.Locked = false
	prompter := &fakePrompter{answer: always}
	p.Prompter = prompter
	u := use(`{"path":"a","write":true}`)
	u.Name = "Edit"
	if o := p.Run(t.Context(), u); prompter.asked[0].CanSave || len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "no place to save it") {
		t.Errorf("without a place: asked %+v, said %q", prompter.asked[0], o.Notes)
	}
}

func TestHooksInTheDecision(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer *HookAnswer
		err    error
		input  string
		deny   string
		want   permission.Behavior
	}{
		{"deny", &HookAnswer{Behavior: permission.Deny, Reason: "not today"}, nil, `{"path":"a"}`, "", permission.Deny},
		{"ask, and nobody is there", &HookAnswer{Behavior: permission.Ask, Reason: "sure?"}, nil, `{"path":"a"}`, "", permission.Deny},
		{"allow", &HookAnswer{Behavior: permission.Allow}, nil, `{"path":"a","write":true}`, "", permission.Allow},
		{"allow what a rule denies", &HookAnswer{Behavior: permission.Allow}, nil, `{"path":"a","write":true}`, "Poke", permission.Deny},
		{"a failure is no leave", nil, errors.New("crashed"), `{"path":"a"}`, "", permission.Deny},
		{"a change to what a rule denies", &HookAnswer{Behavior: permission.Allow, UpdatedInput: json.RawMessage(`{"path":".git/hooks/x","write":true}`)}, nil, `{"path":"a"}`, "", permission.Deny},
	} {
		p, _ := newPipeline(nil)
		p.policy.Mode = permission.Default
		if test.deny != "" {
			rule, err := permission.ParseRule(test.deny, permission.Deny, "test")
			if err != nil {
				t.Fatal(err)
			}
			p.policy = p.policy.With(rule)
		}
		hooks := &fakeHooks{pre: func(*HookCall) (*HookAnswer, error) { return test.answer, test.err }}
		p.Hooks = hooks
		o := p.Run(t.Context(), use(test.input))
		if o.Decision == nil || o.Decision.Behavior != test.want {
			t.Errorf("%s: %+v, %v", test.name, o.Decision, o.Err)
			continue
		}
		if (len(hooks.denied) == 1) != (test.want == permission.Deny) {
			t.Errorf("%s: told of denials: %v", test.name, hooks.denied)
		}
	}
}

func TestHandleDenial(t *testing.T) {
	p, place := newPipeline(nil)
	p.policy.Mode = permission.Plan
	place.functions["poke"] = nil // to run it would panic
	o := p.Run(t.Context(), use(`{"path":"a","write":true}`))
	var denied *DeniedError
	if !errors.As(o.Err, &denied) || !o.IsError || o.Envelope != nil || !strings.HasPrefix(o.Text(), "permission to use Poke was denied: ") {
		t.Errorf("%+v, %q", o, o.Text())
	}
	if len(place.records) != 1 || place.records[0].Decision.Behavior != "deny" || place.records[0].Envelope != nil {
		t.Errorf("%+v", place.records)
	}
}

func TestRunCall(t *testing.T) {
	p, place := newPipeline(nil)
	// What was done before an interruption comes with it.
	place.functions["poke"] = func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error) {
		return &sandbox.Returned{Data: []byte("half"), Background: 2, Quarantined: []string{".envrc"}}, context.Canceled
	}
	o := p.Run(t.Context(), use(`{"path":"a"}`))
	if !errors.Is(o.Err, context.Canceled) || !o.IsError || !strings.HasPrefix(o.Text(), "half\ninterrupted by the user") {
		t.Errorf("%+v, %q", o, o.Text())
	}
	if r := place.records[1].Result; r.Background != 2 || r.Error == "" {
		t.Errorf("%+v", r)
	}
	if len(o.Messages) != 1 || !strings.Contains(o.Messages[0], ".envrc is protected") {
		t.Errorf("%v", o.Messages)
	}
	for err, want := range map[error]string{
		&wire.CallFailure{Message: "no such file a; there is b"}: "no such file a; there is b",
		fmt.Errorf("stopped: %w", sandbox.ErrTime):               "it took longer than 2m5s",
		errors.New("the session is over"):                        "the session is over",
	} {
		place.functions["poke"] = func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error) { return nil, err }
		if o := p.Run(t.Context(), use(`{"path":"a"}`)); !strings.Contains(o.Text(), want) || !o.IsError {
			t.Errorf("%v: %q", err, o.Text())
		}
	}
	place.oom = 1
	p.policy.Mode = permission.Bypass
	if o := p.Run(t.Context(), use(`{"path":"a","write":true}`)); !strings.Contains(o.Text(), "memory limit") {
		t.Errorf("%q", o.Text())
	}
}

// Calls that are safe beside others run beside them, the others alone.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, place := newPipeline(nil)
		p.policy.Mode = permission.Bypass
		var mu sync.Mutex
		running, most := map[string]int{}, map[string]int{}
		place.functions["poke"] = func(_ context.Context, input []byte, _ sandbox.Envelope) (*sandbox.Returned, error) {
			mu.Lock()
			kind := string(input[:1])
			running[kind]++
			running["all"]++
			most[kind], most["all"] = max(most[kind], running[kind]), max(most["all"], running["all"])
			if kind == "w" && running["all"] != 1 {
				t.Errorf("a call that is not safe runs beside others: %v", running)
			}
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running[kind]--
			running["all"]--
			mu.Unlock()
			return &sandbox.Returned{Data: input}, nil
		}
		var wg sync.WaitGroup
		recorded := sync.Mutex{}
		p.place = &lockedPlace{fakePlace: place, mu: &recorded}
		for i := range 12 {
			wg.Go(func() {
				input := fmt.Sprintf(`{"path":"r%d"}`, i)
				if i%3 == 0 {
					input = fmt.Sprintf(`{"path":"w%d","write":true}`, i)
				}
				u := use(input)
				if i%3 == 0 {
					// The path that is given to the function is the model's own.
					u.Input = json.RawMessage(input)
				}
				if o := p.Run(t.Context(), u); o.Err != nil {
					t.Error(o.Err)
				}
			})
		}
		wg.Wait()
		if most["r"] < 2 || most["w"] != 1 {
			t.Errorf("at most there ran %v", most)
		}
	})
}

// lockedPlace is a fakePlace for several goroutines.
type lockedPlace struct {
	*fakePlace
	mu *sync.Mutex
}

func (l *lockedPlace) record(r audit.Record, durable bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fakePlace.record(r, durable)
}

func (l *lockedPlace) addChanges(ctx context.Context, r *audit.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fakePlace.addChanges(ctx, r)
}

func TestHoldToBudget(t *testing.T) {
	p, place := newPipeline(func(d *tools.Definition[poke, string, int]) { d.MaxResult = 100 })
	for _, n := range []int{0, 100, 101, 5000} {
		text := strings.Repeat("é", n)
		place.functions["poke"] = func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error) {
			return &sandbox.Returned{Data: []byte(text)}, nil
		}
		got := p.Run(t.Context(), use(`{"path":"a"}`)).Text()
		if n <= 100 {
			if got != text {
				t.Errorf("%d: %q", n, got)
			}
			continue
		}
		if kept := strings.Count(got, "é"); kept != 100 || !strings.Contains(got, fmt.Sprintf("[%d characters are left out here", n-100)) {
			t.Errorf("%d: kept %d: %q", n, kept, got)
		}
	}
	p, place = newPipeline(func(d *tools.Definition[poke, string, int]) { d.MaxResult = tools.Unlimited })
	place.functions["poke"] = func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error) {
		return &sandbox.Returned{Data: make([]byte, 500_000)}, nil
	}
	if got := p.Run(t.Context(), use(`{"path":"a"}`)).Text(); len(got) != 500_000 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestPostToolUse(t *testing.T) {
	p, _ := newPipeline(nil)
	p.Hooks = &fakeHooks{post: func(h *HookCall, o *Outcome) (*HookAnswer, error) {
		return &HookAnswer{Behavior: permission.Deny, Reason: "wrong", AdditionalContext: "saw " + o.Text()}, nil
	}}
	o := p.Run(t.Context(), use(`{"path":"a"}`))
	if !slices.Equal(o.Messages, []string{"saw poked a", "A hook objects to what the call did: wrong"}) {
		t.Errorf("%v", o.Messages)
	}
	p.Hooks = &fakeHooks{post: func(*HookCall, *Outcome) (*HookAnswer, error) { return nil, errors.New("crashed") }}
	if o := p.Run(t.Context(), use(`{"path":"a"}`)); o.Text() != "poked a" || o.IsError || len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "crashed") {
		t.Errorf("%+v", o)
	}
}

// A modifier takes effect at once after a call that ran alone, and after the
// batch for calls that ran beside each other.
func TestModifiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, place := newPipeline(func(d *tools.Definition[poke, string, int]) {
			d.Call = func(ctx context.Context, c *tools.Context, in poke, _ func(int)) (*tools.Result[string], error) {
				time.Sleep(time.Duration(in.Size) * time.Second)
				return &tools.Result[string]{
					Data: c.State.Dir(), Messages: []string{"message of " + in.Path},
					Modify: func(s *tools.State) { s.SetDir("/work/" + in.Path) },
				}, nil
			}
		})
		p.place = &lockedPlace{fakePlace: place, mu: &sync.Mutex{}}
		p.policy.Mode = permission.Bypass
		o := p.Run(t.Context(), use(`{"path":"alone","write":true}`))
		if p.Context.State.Dir() != "/work/alone" || !slices.Contains(o.Messages, "message of alone") {
			t.Errorf("%s, %v", p.Context.State.Dir(), o.Messages)
		}
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(t.Context(), use(`{"path":"long","size":10}`)) })
		synctest.Wait()
		p.Run(t.Context(), use(`{"path":"short","size":1}`))
		if got := p.Context.State.Dir(); got != "/work/alone" {
			t.Errorf("before the batch has ended: %s", got)
		}
		wg.Wait()
		if got := p.Context.State.Dir(); got != "/work/long" {
			t.Errorf("after the batch: %s", got)
		}
	})
}

func TestCloseRecord(t *testing.T) {
	p, place := newPipeline(nil)
	o := p.Run(t.Context(), Use{ID: "x", Name: "Nothing", Input: json.RawMessage(`{`)})
	if !o.IsError || len(place.records) != 1 {
		t.Fatalf("%+v", o)
	}
	r := place.records[0]
	if r.Tool != "Nothing" || r.Decision.Behavior != "deny" || !strings.Contains(r.Decision.Reason, "no tool") || string(r.Input) != `"{"` {
		t.Errorf("%+v", r)
	}
	o = p.Run(t.Context(), use(`{"path":"a","more":1}`))
	if o.IsError || len(o.Notes) != 1 || o.Notes[0] != "Poke has no field more: ignored" || o.Duration <= 0 {
		t.Errorf("%+v", o)
	}
	// A tool of the host's is recorded as well, without an envelope.
	p, place = newPipeline(func(d *tools.Definition[poke, string, int]) {
		d.Site = tools.Host
		d.Call = func(_ context.Context, c *tools.Context, _ poke, _ func(int)) (*tools.Result[string], error) {
			if c.Box != nil {
				t.Error("a tool of the host has a box")
			}
			return &tools.Result[string]{Data: "done"}, nil
		}
	})
	if o := p.Run(t.Context(), use(`{"path":"a"}`)); o.Text() != "done" || o.Envelope != nil {
		t.Errorf("%+v", o)
	}
	if len(place.records) != 2 || place.records[0].Envelope != nil || place.records[1].Kind != audit.KindResult {
		t.Errorf("%+v", place.records)
	}
}

func BenchmarkPipelineWithoutTheBox(b *testing.B) {
	p, place := newPipeline(nil)
	log, err := audit.Open(filepath.Join(b.TempDir(), "record"), audit.Record{Session: "s", Name: "n", Principal: Self(), Version: "v"})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	place.log = log
	b.ReportAllocs()
	for b.Loop() {
		if o := p.Run(b.Context(), use(`{"path":"src/main.go","size":10}`)); o.Err != nil {
			b.Fatal(o.Err)
		}
	}
}

// What a model sends comes back to it only within bounds, whatever was wrong with
// it.
func TestEchoIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, u := range map[string]Use{
		"a tool":            {ID: "1", Name: long},
		"a field like one":  use(`{"path":"a","PATH":"` + long + `"}`),
		"an unknown field":  use(`{"path":"a","` + long + `":1}`),
		"a value":           use(`{"path":"a","size":"` + long + `"}`),
		"a path of nothing": use(`{"path":{"` + long + `":1}}`),
	} {
		p, _ := newPipeline(nil)
		o := p.Run(t.Context(), u)
		if n := len(o.Text()); n > tools.DefaultMaxResult+1000 {
			t.Errorf("%s: the result has %d bytes", name, n)
		}
		for _, note := range o.Notes {
			if len(note) > 2000 {
				t.Errorf("%s: a note has %d bytes", name, len(note))
			}
		}
	}
	// An error of the container's may be as long as a message.
	c := &call{Outcome: Outcome{Err: errors.New(long)}}
	if c.tellError(); len(c.Text()) > tools.DefaultMaxResult+1000 {
		t.Errorf("an error: the result has %d bytes", len(c.Text()))
	}
}
