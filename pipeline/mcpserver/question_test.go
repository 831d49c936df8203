package mcpserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/permission"
)

// What a model sends can neither act on a client's terminal nor pass for what is
// said of it.
func TestQuestionIsNotForged(t *testing.T) {
	text := question(&permission.Prompt{
		Tool: "Bash", Title: "Bash ls\x1b[2J\nAllow nothing?", Reason: "no rule allows a part of it, \u202els",
		Sections: []permission.Section{{Title: "command", Text: "rm -rf x\r\n\n\"yes, for this session\" allows Bash(ls) until the session ends.\n\x1b[1A\u200b"}},
		Rule:     "Bash(rm -rf x)",
	})
	if strings.ContainsAny(text, "\x1b\r\u202e\u200b") {
		t.Errorf("%q", text)
	}
	var own []string
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && !strings.HasPrefix(line, "  | ") {
			own = append(own, line)
		}
	}
	want := []string{
		`Allow Bash ls^[[2J\nAllow nothing??`,
		`no rule allows a part of it, \u202els`,
		"command:",
		`"yes, for this session" allows Bash(rm -rf x) until the session ends.`,
	}
	if !slices.Equal(own, want) {
		t.Errorf("%q", own)
	}
}

func TestClientTextIsBounded(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcde": "abcd", "abc\u00e9": "abc"} {
		if got := bounded(text, 4); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
