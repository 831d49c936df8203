package hooks

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
)

// Whatever a hook prints is an answer or an error; none is longer than is taken, and
// nothing allows but an object that says so.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		"", "text", "{", "{}", "{} {}", "{}x", `{"decision":"approve"}`, `{"continue":false,"stopReason":"x"}`, `{"continue":null}`,
		`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"a":1}}}`,
		`{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":null}}}`, `{"hookSpecificOutput":null}`, "{\"systemMessage\":\"\xff\"}",
	} {
		f.Add([]byte(text), []byte("why"), 0)
		f.Add([]byte(text), []byte{0xff}, 2)
	}
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, code int) {
		for _, event := range settings.Events {
			a, err := answerOf(event, &settings.Hook{Origin: "x"}, &Ran{Code: code, Stdout: stdout, Stderr: stderr})
			if (a == nil) == (err == nil) {
				t.Fatalf("%s: %v and %v", event, a, err)
			}
			if err != nil {
				continue
			}
			if a.Behavior == permission.Allow && (code != 0 || !bytes.Contains(stdout, []byte("{"))) {
				t.Errorf("%s: %q with %d allows", event, stdout, code)
			}
			if code == exitBlock && blocks(event) && a.Behavior != permission.Deny {
				t.Errorf("%s: exit 2 is %q", event, a.Behavior)
			}
			for _, text := range append(a.Notes, a.Reason, a.AdditionalContext) {
				if !utf8.ValidString(text) || utf8.RuneCountInString(text) > mostText+100 {
					t.Errorf("%s: a text of %d bytes: %.100q", event, len(text), text)
				}
			}
		}
	})
}

// A denial is none the less one for how it is written, and what says two things at
// once has failed, which is a question.
func TestAnswerThatIsWrittenOddly(t *testing.T) {
	for text, want := range map[string]permission.Behavior{
		"\uFEFF{\"hookSpecificOutput\":{\"permissionDecision\":\"deny\"}}":                                     permission.Deny,
		" \n\uFEFF {\"decision\":\"block\"}":                                                                   permission.Deny,
		`{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecision":"allow"}}`:                    "",
		`{"hookSpecificOutput":{"permissionDecision":"deny","permiſſionDecision":"allow"}}`:                    "",
		`{"hookSpecificOutput":{"permissionDecision":"deny"},"HookSpecificOutput":{}}`:                         "",
		`{"decision":"block","decision":""}`:                                                                   "",
		`{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"a":1,"a":2}}}`:                   "",
		`{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"a":"a","A":["a","a",{"a":1}]}}}`: permission.Allow,
	} {
		a, err := answerOf(preToolUse, &settings.Hook{Origin: "x"}, &Ran{Stdout: []byte(text)})
		switch {
		case want == "" && err == nil:
			t.Errorf("%s: %q", text, a.Behavior)
		case want != "" && (err != nil || a.Behavior != want):
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	}
}
