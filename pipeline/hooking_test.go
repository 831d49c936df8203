package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
)

func TestHooksAnswerInAPersonsPlace(t *testing.T) {
	asks, writes := `{"path":"a","write":true}`, func(path string) json.RawMessage {
		return json.RawMessage(`{"path":"` + path + `","write":true}`)
	}
	for _, test := range []struct {
		name   string
		answer *HookAnswer
		err    error
		rules  []string // denials
		want   permission.Behavior
		reason string // a part
		asked  bool   // a person, who says no
		ran    string // the result
	}{
		{"nothing", nil, nil, nil, permission.Deny, "the user said no", true, ""},
		{"a failure", nil, errors.New("crashed"), nil, permission.Deny, "the user said no", true, ""},
		{"allow", &HookAnswer{Behavior: permission.Allow, Reason: "known"}, nil, nil, permission.Allow, "known", false, "poked a"},
		{"deny", &HookAnswer{Behavior: permission.Deny, Reason: "never"}, nil, nil, permission.Deny, "never", false, ""},
		{"ask", &HookAnswer{Behavior: permission.Ask, Reason: "sure?"}, nil, nil, permission.Deny, "the user said no", true, ""},
		{"a change", &HookAnswer{Behavior: permission.Allow, UpdatedInput: writes("b")}, nil, nil, permission.Allow, "a hook answered", false, "poked b"},
		{"a change without leave", &HookAnswer{UpdatedInput: writes("b")}, nil, nil, permission.Deny, "the user said no", true, ""},
		{"a change to what is denied", &HookAnswer{Behavior: permission.Allow, UpdatedInput: writes("secret")}, nil, []string{"Edit(secret)"}, permission.Deny, "Edit(secret)", false, ""},
		{"a change to what leads to what is denied", &HookAnswer{Behavior: permission.Allow, UpdatedInput: writes("link/x")}, nil, []string{"Edit(/target/x)"}, permission.Deny, "Edit(/target/x)", false, ""},
		{"a change that is no input", &HookAnswer{Behavior: permission.Allow, UpdatedInput: json.RawMessage(`{"path":1}`)}, nil, nil, "", "a hook changed the input", false, ""},
	} {
		p, _ := newPipeline(nil)
		p.policy.Mode = permission.Default
		for _, text := range test.rules {
			rule, err := permission.ParseRule(text, permission.Deny, permission.FromUser)
			if err != nil {
				t.Fatal(err)
			}
			p.policy = p.policy.With(rule)
		}
		asked := &fakePrompter{answer: permission.Answer{By: "test"}}
		p.Prompter = asked
		p.Hooks = &fakeHooks{request: func(*HookCall) (*HookAnswer, error) { return test.answer, test.err }}
		o := p.Run(t.Context(), use(asks))
		if test.want == "" {
			if o.Err == nil || !strings.Contains(o.Err.Error(), test.reason) || o.Envelope != nil {
				t.Errorf("%s: %+v, %v", test.name, o.Decision, o.Err)
			}
			continue
		}
		if o.Decision.Behavior != test.want || !strings.Contains(o.Decision.Reason, test.reason) || len(asked.asked) > 0 != test.asked {
			t.Errorf("%s: %+v, asked %d", test.name, o.Decision, len(asked.asked))
		}
		if test.ran != "" && o.Text() != test.ran {
			t.Errorf("%s: %q", test.name, o.Text())
		}
		if (test.err != nil) != slices.Contains(o.Notes, "a hook failed: crashed") {
			t.Errorf("%s: notes %q", test.name, o.Notes)
		}
	}
	// What needs no question is not offered.
	p, _ := newPipeline(nil)
	p.Hooks = &fakeHooks{request: func(*HookCall) (*HookAnswer, error) {
		t.Error("a hook was asked about what is allowed or denied")
		return nil, nil
	}}
	p.Run(t.Context(), use(`{"path":"a"}`))
	p.policy = p.policy.With(permission.Rule{Tool: "Poke", Behavior: permission.Deny})
	p.Run(t.Context(), use(`{"path":"a"}`))
}

// The classifier's opinion is of what will run.
func TestClassifierSeesTheChangedInput(t *testing.T) {
	p, _ := newPipeline(classified)
	f := &fakeClassifier{}
	p.Classifier = f
	p.Hooks = &fakeHooks{pre: func(*HookCall) (*HookAnswer, error) {
		return &HookAnswer{UpdatedInput: json.RawMessage(`{"path":"b"}`)}, nil
	}}
	if o := p.Run(t.Context(), use(`{"path":"a"}`)); o.Err != nil || !slices.Equal(f.saw, []string{"Poke: a", "Poke: b"}) {
		t.Errorf("it saw %v, %v", f.saw, o.Err)
	}
}

func TestConditionsSeeTheCall(t *testing.T) {
	p, _ := newPipeline(nil)
	var got []bool
	p.Hooks = &fakeHooks{pre: func(h *HookCall) (*HookAnswer, error) {
		for _, text := range []string{"Read(/target/x)", "Read(other)", "Poke"} {
			rule, err := permission.ParseRule(text, permission.Deny, permission.FromUser)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, h.Concerns(rule))
		}
		return nil, nil
	}}
	p.Run(t.Context(), use(`{"path":"link/x"}`))
	if !slices.Equal(got, []bool{true, false, true}) {
		t.Error(got)
	}
}

func TestHooksAfterTheCall(t *testing.T) {
	var seen *Outcome
	answer := &HookAnswer{UpdatedOutput: json.RawMessage(`"another result"`), Notes: []string{"for the person"}}
	post := &fakeHooks{post: func(_ *HookCall, o *Outcome) (*HookAnswer, error) {
		copied := *o
		seen = &copied
		return answer, nil
	}}
	p, _ := newPipeline(nil)
	p.Hooks = post
	if o := p.Run(t.Context(), use(`{"path":"a"}`)); o.Text() != "poked a" || !slices.Equal(o.Notes, answer.Notes) {
		t.Errorf("the result of a tool that is no server's is %q, notes %q", o.Text(), o.Notes)
	}
	mcp := func(d *tools.Definition[poke, string, int]) { d.Name, d.MaxResult = "mcp__x__poke", 100 }
	p, _ = newPipeline(mcp)
	p.Hooks = post
	u := Use{ID: "use-1", Name: "mcp__x__poke", Input: json.RawMessage(`{"path":"a"}`)}
	for output, want := range map[string]string{
		`"text"`:                           "text",
		`[{"type":"text","text":"block"}]`: "block",
		`[{"type":"image","data":"x"}]`:    `[{"type":"image","data":"x"}]`,
		`{"a":1}`:                          `{"a":1}`,
	} {
		answer.UpdatedOutput = json.RawMessage(output)
		if o := p.Run(t.Context(), u); o.Text() != want || o.Err != nil {
			t.Errorf("%s: %q, %v", output, o.Text(), o.Err)
		}
	}
	answer.UpdatedOutput = json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)
	if o := p.Run(t.Context(), u); !strings.Contains(o.Text(), "left out here") || len(o.Text()) > 300 {
		t.Errorf("a result of %d bytes", len(o.Text()))
	}

	// A call that failed is told of too, one that did not run is not.
	answer.UpdatedOutput = nil
	p, place := newPipeline(nil)
	p.Hooks, seen = post, nil
	place.functions["poke"] = func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error) {
		return nil, errors.New("broken")
	}
	if o := p.Run(t.Context(), use(`{"path":"a"}`)); seen == nil || seen.Err == nil || !o.IsError || !slices.Contains(o.Notes, "for the person") {
		t.Errorf("told of %+v, %+v", seen, o)
	}
	seen = nil
	p.policy = p.policy.With(permission.Rule{Tool: "Poke", Behavior: permission.Deny})
	if p.Run(t.Context(), use(`{"path":"a"}`)); seen != nil {
		t.Errorf("told of %+v", seen)
	}
}

func TestHooksOfTheSession(t *testing.T) {
	p, _ := newPipeline(nil)
	hooks := &fakeHooks{session: &HookAnswer{AdditionalContext: "know this", Notes: []string{"hello"}}}
	p.Hooks = hooks
	notes, err := p.Begin(t.Context(), "startup")
	if err != nil || !slices.Equal(notes, []string{"hello"}) {
		t.Errorf("%q, %v", notes, err)
	}
	for _, want := range [][]string{{"know this"}, nil} {
		if o := p.Run(t.Context(), use(`{"path":"a"}`)); !slices.Equal(o.Messages, want) {
			t.Errorf("messages %q, want %q", o.Messages, want)
		}
	}
	if notes, err := p.Finish(t.Context(), "other"); err != nil || !slices.Equal(notes, []string{"hello"}) {
		t.Errorf("%q, %v", notes, err)
	}
	hooks.session.Behavior, hooks.session.Reason = permission.Deny, "closed on Sundays"
	if _, err := p.Begin(t.Context(), "startup"); err == nil || !strings.Contains(err.Error(), "closed on Sundays") {
		t.Error(err)
	}
}
