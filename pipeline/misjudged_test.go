package pipeline

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/inside"
)

// trying is a pipeline whose tool tries to write what it should only read.
func trying(mode permission.Mode, attempts ...sandbox.Attempt) (*Pipeline, *fakePlace) {
	p, place := newPipeline(nil)
	p.policy.Mode = mode
	place.functions["poke"] = func(_ context.Context, _ []byte, e sandbox.Envelope) (*sandbox.Returned, error) {
		r := &sandbox.Returned{Data: []byte("ran in the " + e.Box.String())}
		if e.Box == sandbox.Eye {
			r.Attempts = attempts
		}
		return r, nil
	}
	place.functions[inside.ResolveName] = func(_ context.Context, input []byte, _ sandbox.Envelope) (*sandbox.Returned, error) {
		var req inside.ResolveRequest
		if err := json.Unmarshal(input, &req); err != nil {
			return nil, err
		}
		var resp inside.ResolveResponse
		for _, path := range req.Paths {
			resp.Paths = append(resp.Paths, inside.Resolved{Path: path})
		}
		data, err := json.Marshal(resp)
		return &sandbox.Returned{Data: data}, err
	}
	return p, place
}

// What was judged to be read-only and tries to write is seen, recorded, and asked
// about with the truth; only then does it run where it can.
func TestMisjudgement(t *testing.T) {
	write := sandbox.Attempt{Op: "create", Path: "/work/new", Program: "/usr/bin/touch"}
	for _, test := range []struct {
		name    string
		mode    permission.Mode
		attempt sandbox.Attempt
		yes     bool
		asked   int
		text    string // of the result
		events  string
		err     string
	}{
		{"asked and allowed", permission.Default, write, true, 1, "ran in the hand", "misjudgement", ""},
		{"asked and denied", permission.Default, write, false, 1, "ran in the eye", "misjudgement", "the user said no"},
		{"nobody is to be asked", permission.DontAsk, write, true, 0, "ran in the eye", "misjudgement", "tried to write /work/new"},
		{"nothing may be changed", permission.Plan, write, true, 0, "ran in the eye", "misjudgement", "the mode is plan"},
		{"everything is allowed", permission.Bypass, write, true, 0, "ran in the hand", "misjudgement", ""},
		{"a protected path", permission.Bypass, sandbox.Attempt{Op: "write", Path: "/work/.git/config"}, false, 1, "ran in the eye", "misjudgement", "the user said no"},
		{"beside its work", permission.Default, sandbox.Attempt{Op: "create", Path: "/work/.git/index.lock", Opportunistic: true}, true, 0, "ran in the eye", "attempts", ""},
		{"the network", permission.Default, sandbox.Attempt{Op: "connect", Path: "127.0.0.1:80"}, true, 0, "ran in the eye", "attempts", ""},
		{"only suspected", permission.Default, sandbox.Attempt{Op: sandbox.OpSuspected}, true, 0, "ran in the eye", "attempts", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, place := trying(test.mode, test.attempt)
			prompter := &fakePrompter{answer: permission.Answer{Allow: test.yes, By: "test"}}
			p.Prompter = prompter
			o := p.Run(t.Context(), use(`{"path":"a"}`))
			if len(prompter.asked) != test.asked || !strings.Contains(o.Text(), test.text) || (o.Err != nil) != (test.err != "") {
				t.Errorf("asked %d times, %q, %v", len(prompter.asked), o.Text(), o.Err)
			}
			if test.asked > 0 && !strings.Contains(prompter.asked[0].Reason, test.attempt.Path) {
				t.Errorf("the question does not say what was tried: %s", prompter.asked[0].Reason)
			}
			if test.err != "" && !strings.Contains(o.Text(), test.err) {
				t.Errorf("the model is told %q", o.Text())
			}
			var events []string
			decisions, results := 0, 0
			for _, r := range place.records {
				switch r.Kind {
				case audit.KindEvent:
					events = append(events, r.Event)
				case audit.KindDecision:
					decisions++
				case audit.KindResult:
					results++
				}
			}
			again := 0
			if test.events == "misjudgement" {
				again = 1
			}
			if strings.Join(events, " ") != test.events || decisions != 1+again || test.err == "" && results != 1+again {
				t.Errorf("events %v, %d decisions, %d results", events, decisions, results)
			}
		})
	}
}

// A call that runs in the hand may write: what it does there is no misjudgement.
func TestNoMisjudgementInTheHand(t *testing.T) {
	p, place := trying(permission.Bypass)
	place.functions["poke"] = func(context.Context, []byte, sandbox.Envelope) (*sandbox.Returned, error) {
		return &sandbox.Returned{Data: []byte("x"), Attempts: []sandbox.Attempt{{Op: "create", Path: "/work/x"}}}, nil
	}
	if o := p.Run(t.Context(), use(`{"path":"a","write":true}`)); o.Err != nil || o.Envelope.Box != sandbox.Hand {
		t.Fatal(o.Err)
	}
	for _, r := range place.records {
		if r.Event == "misjudgement" {
			t.Errorf("%+v", r)
		}
	}
}
