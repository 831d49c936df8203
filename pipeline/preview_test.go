package pipeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/wire"
	"github.com/sallyport/sallyport/tools"
)

// fakeThrowaway is a copy of a session in which every call returns one thing, and
// has changed some layers.
type fakeThrowaway struct {
	returned sandbox.Returned
	err      error
	changed  []string // layers, or a path in one: home:.bashrc
	hangs    bool

	ran, closed int
}

func (f *fakeThrowaway) call(ctx context.Context, _ string, _ []byte, e sandbox.Envelope, _ func([]byte)) (*sandbox.Returned, error) {
	f.ran++
	if f.hangs {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	r := f.returned
	r.Data = []byte("seen")
	return &r, f.err
}

func (f *fakeThrowaway) effects(context.Context) (*sandbox.Effects, error) {
	e := &sandbox.Effects{}
	for _, name := range []string{"workspace", "home", "tmp"} {
		set := &changeset.Set{}
		for _, changed := range f.changed {
			layer, path, _ := strings.Cut(changed, ":")
			if layer == name {
				set.Changes = append(set.Changes, &changeset.Change{Path: cmp.Or(path, "x"), Kind: changeset.Added, Type: changeset.Dir})
			}
		}
		e.Layers = append(e.Layers, sandbox.LayerEffects{Name: name, Dir: map[string]string{"workspace": "/work", "home": "/home/agent", "tmp": "/tmp"}[name], Changes: &sandbox.Changes{Set: set}})
	}
	return e, nil
}

func (f *fakeThrowaway) close() error { f.closed++; return nil }

// previewing is a pipeline in a mode whose calls are first run in a throwaway; in
// the session itself they return "poked a".
func previewing(t *testing.T, mode permission.Mode, f *fakeThrowaway, yes bool, rules ...string) (*Pipeline, *fakePlace, *fakePrompter) {
	p, place := newPipeline(func(d *tools.Definition[poke, string, int]) {
		d.Command = func(in poke) string { return "poke " + in.Path }
	})
	p.policy.Mode, p.NoPreview = mode, false
	for _, text := range rules {
		rule, err := permission.ParseRule(text, permission.Ask, permission.FromUser)
		if err != nil {
			t.Fatal(err)
		}
		p.policy = p.policy.With(rule)
	}
	prompter := &fakePrompter{answer: permission.Answer{Allow: yes, By: "test"}}
	p.Prompter, place.throwaway = prompter, f
	return p, place, prompter
}

const writes = `{"path":"a","write":true}`

func TestWhatHasNoEffectNeedsNoQuestion(t *testing.T) {
	attempt := func(a sandbox.Attempt) sandbox.Returned { return sandbox.Returned{Attempts: []sandbox.Attempt{a}} }
	workspace := []string{"workspace"}
	for _, test := range []struct {
		name  string
		mode  permission.Mode
		f     fakeThrowaway
		rule  string
		off   bool
		asked int
		err   string
		want  string // "" is what the throwaway returned
	}{
		{name: "no effect", mode: permission.Default},
		{name: "no effect, in dontAsk", mode: permission.DontAsk},
		{name: "no effect, in auto", mode: permission.Auto},
		{name: "no effect, in plan", mode: permission.Plan},
		{name: "caches", mode: permission.Default, f: fakeThrowaway{changed: []string{"home:.cache/go-build", "tmp"}}},
		{name: "configuration", mode: permission.Default, f: fakeThrowaway{changed: []string{"home:.gitconfig"}}, asked: 1},
		{name: "a program of the home directory", mode: permission.Default, f: fakeThrowaway{changed: []string{"home:.local/bin/ls"}}, asked: 1},
		{name: "what does no harm is tried beside", mode: permission.Default, f: fakeThrowaway{returned: attempt(sandbox.Attempt{Op: "write", Path: "/x", Opportunistic: true})}},
		{name: "a failure of the tool", mode: permission.Default, f: fakeThrowaway{err: &wire.CallFailure{Message: "no such text"}}, err: "no such text"},

		{name: "an effect", mode: permission.Default, f: fakeThrowaway{changed: workspace}, asked: 1},
		{name: "an effect, in dontAsk", mode: permission.DontAsk, f: fakeThrowaway{changed: workspace}, err: "dontAsk"},
		{name: "an effect, in plan", mode: permission.Plan, f: fakeThrowaway{changed: workspace}, err: "plan"},
		{name: "an attempt", mode: permission.Default, f: fakeThrowaway{returned: attempt(sandbox.Attempt{Op: "write", Path: "/etc/x"})}, asked: 1},
		{name: "attempts beyond what is listed", mode: permission.Default, f: fakeThrowaway{returned: sandbox.Returned{AttemptsDropped: 1}}, asked: 1},
		{name: "the network", mode: permission.Default, f: fakeThrowaway{returned: attempt(sandbox.Attempt{Op: "connect", Path: "127.0.0.1:80"})}, asked: 1, want: "poked a"},
		{name: "a process that goes on", mode: permission.Default, f: fakeThrowaway{returned: sandbox.Returned{Background: 1}}, asked: 1, want: "poked a"},
		{name: "a run that failed", mode: permission.Default, f: fakeThrowaway{err: errors.New("broken")}, asked: 1, want: "poked a"},
		{name: "a rule that asks", mode: permission.Default, rule: "Poke", asked: 1},
		{name: "turned off", mode: permission.Default, off: true, asked: 1},
		{name: "turned off, in dontAsk", mode: permission.DontAsk, off: true, err: "dontAsk"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var rules []string
			if test.rule != "" {
				rules = []string{test.rule}
			}
			p, place, prompter := previewing(t, test.mode, &test.f, true, rules...)
			p.policy.AskUnproven = test.off
			o := p.Run(t.Context(), use(writes))
			if len(prompter.asked) != test.asked {
				t.Errorf("asked %d times: %+v", len(prompter.asked), o.Decision)
			}
			want := test.want
			if want == "" {
				want = "seen"
			}
			if test.err != "" {
				if !o.IsError || !strings.Contains(o.Text(), test.err) {
					t.Errorf("%q, %v", o.Text(), o.Err)
				}
			} else if o.Text() != want || o.Applied != (want == "seen") {
				t.Errorf("%q, applied %v, %v", o.Text(), o.Applied, o.Err)
			}
			if test.f.closed != place.forks {
				t.Errorf("%d copies were made, %d closed", place.forks, test.f.closed)
			}
			previews, applied := 0, false
			for _, r := range place.records {
				if r.Event == "preview" {
					previews++
				}
				if r.Result != nil {
					applied = r.Result.Applied
				}
			}
			if recorded := previews == 1; recorded != (place.forks == 1) || applied != o.Applied {
				t.Errorf("%d previews on record; applied: %v", previews, applied)
			}
			if test.mode == permission.Plan && len(place.adopted) > 0 {
				t.Error("something was changed in the mode plan")
			}
			if adopted := len(place.adopted) > 0; adopted != (o.Applied && len(test.f.changed) > 0) {
				t.Errorf("adopted: %v", adopted)
			}
		})
	}
}

// A yes takes what was seen; a no leaves nothing.
func TestPrecomputed(t *testing.T) {
	for _, test := range []struct {
		name         string
		yes          bool
		noPrecompute bool
		noPreview    bool
		want         string
	}{
		{"yes", true, false, false, "seen"},
		{"no", false, false, false, ""},
		{"not to be taken", true, true, false, "poked a"},
		{"not to be run", true, false, true, "poked a"},
	} {
		f := &fakeThrowaway{changed: []string{"workspace"}}
		p, place, prompter := previewing(t, permission.Default, f, test.yes)
		p.NoPrecompute, p.NoPreview = test.noPrecompute, test.noPreview
		o := p.Run(t.Context(), use(writes))
		if test.want == "" && o.Err == nil || test.want != "" && o.Text() != test.want || len(prompter.asked) != 1 {
			t.Errorf("%s: %q, %v", test.name, o.Text(), o.Err)
		}
		if (len(place.adopted) == 1) != (test.want == "seen") || f.closed != place.forks || (f.ran == 1) == test.noPreview {
			t.Errorf("%s: adopted %d, closed %d of %d, run %d times", test.name, len(place.adopted), f.closed, place.forks, f.ran)
		}
	}
}

// What was seen is taken only for the session that it was seen in.
func TestOvertaken(t *testing.T) {
	f := &fakeThrowaway{changed: []string{"workspace"}}
	p, place, prompter := previewing(t, permission.Default, f, true)
	place.overtaken = []error{sandbox.ErrOvertaken}
	if o := p.Run(t.Context(), use(writes)); o.Text() != "seen" || !o.Applied || len(prompter.asked) != 2 || f.ran != 2 || f.closed != 2 || len(place.adopted) != 1 {
		t.Errorf("%q, asked %d times, run %d times, %v", o.Text(), len(prompter.asked), f.ran, o.Err)
	}
	place.overtaken = slices.Repeat([]error{sandbox.ErrOvertaken}, mostOvertaken+1)
	if o := p.Run(t.Context(), use(writes)); !errors.Is(o.Err, sandbox.ErrOvertaken) || o.Applied || f.closed != place.forks {
		t.Errorf("%q, %v", o.Text(), o.Err)
	}
	// A call that may change the session has run while somebody was asked.
	f.changed = nil
	p.policy.AskUnproven = true
	p.Prompter = askFunc(func(context.Context, *permission.Prompt) (permission.Answer, error) {
		if f.ran < 8 {
			p.generation.Add(1)
		}
		return permission.Answer{Allow: true}, nil
	})
	f.ran = 6
	if o := p.Run(t.Context(), use(writes)); !o.Applied || f.ran != 8 {
		t.Errorf("run %d times, %v", f.ran, o.Err)
	}
}

// A call that a hook allows, or that is interrupted, does not wait for its preview.
func TestPreviewIsNotWaitedFor(t *testing.T) {
	f := &fakeThrowaway{hangs: true}
	p, place, _ := previewing(t, permission.Default, f, true)
	p.Hooks = &fakeHooks{pre: func(*HookCall) (*HookAnswer, error) { return &HookAnswer{Behavior: permission.Allow}, nil }}
	if o := p.Run(t.Context(), use(writes)); o.Text() != "poked a" || f.closed != place.forks {
		t.Errorf("%q, %v", o.Text(), o.Err)
	}
	p.Hooks = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := p.Run(ctx, use(writes)); o.Err == nil || f.closed != place.forks {
		t.Errorf("%q, %v", o.Text(), o.Err)
	}
}

// A preview that takes long is waited for, and that is said.
func TestSlowPreviewIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeThrowaway{hangs: true}
		p, _, prompter := previewing(t, permission.Default, f, true)
		var said []string
		p.Context.UI.Status = func(text string) { said = append(said, text) }
		o := p.Run(t.Context(), use(writes))
		if !slices.Equal(said, []string{"runs in a copy of the session first: Poke a"}) {
			t.Errorf("%q", said)
		}
		if o.Text() != "poked a" || len(prompter.asked) != 1 || o.Duration < previewTime {
			t.Errorf("%q after %v, asked %d times, %v", o.Text(), o.Duration, len(prompter.asked), o.Err)
		}
	})
}

type askFunc func(context.Context, *permission.Prompt) (permission.Answer, error)

func (f askFunc) Ask(ctx context.Context, p *permission.Prompt) (permission.Answer, error) {
	return f(ctx, p)
}

// In the mode auto a classifier denies what is hostile, until it has done so too often.
func TestClassifierDenies(t *testing.T) {
	p, _, prompter := previewing(t, permission.Auto, &fakeThrowaway{changed: []string{"workspace"}}, true)
	f := &fakeClassifier{verdict: &Verdict{Behavior: permission.Deny, Reason: "hostile"}}
	p.Classifier = f
	p.Tools.All()[0].ClassifierInput = func(any) string { return "poke" }
	for i := range manyDenials + 1 {
		o := p.Run(t.Context(), use(writes))
		if asked := i == manyDenials; asked != (len(prompter.asked) == 1) || asked == (o.Err != nil) || !asked && !strings.Contains(o.Text(), "hostile") {
			t.Errorf("%d: %v, asked %d times", i, o.Err, len(prompter.asked))
		}
	}
	// A rule that asks is not the classifier's to answer.
	p, _, prompter = previewing(t, permission.Auto, &fakeThrowaway{}, true, "Poke")
	p.Classifier = f
	p.Tools.All()[0].ClassifierInput = func(any) string { return "poke" }
	if o := p.Run(t.Context(), use(writes)); len(prompter.asked) != 1 || o.Err != nil {
		t.Errorf("%v, asked %d times", o.Err, len(prompter.asked))
	}
}
