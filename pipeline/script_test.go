package pipeline

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestScript(t *testing.T) {
	use := `{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"a"}}`
	for _, test := range []struct{ name, line, want string }{
		{"a message", `{"role":"assistant","content":[{"type":"text","text":"I read "},` + use + `,{"type":"text","text":"a."}]}`, `I read a.|t1 Read {"file_path":"a"}`},
		{"a text alone", `{"role":"assistant","content":"done"}`, "done|"},
		{"one of a transcript", `{"type":"assistant","message":{"role":"assistant","content":[` + use + `]},"uuid":"x"}`, `|t1 Read {"file_path":"a"}`},
		{"one as the API returns it", `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[` + use + `],"stop_reason":"tool_use","usage":{}}`, `|t1 Read {"file_path":"a"}`},
		{"blocks of other kinds", `{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},` + use + `]}`, `|t1 Read {"file_path":"a"}`},
		{"an input that is none of the tool's is the pipeline's to refuse", `{"role":"assistant","content":[{"type":"tool_use","name":"Read","input":7}]}`, "| Read 7"},
		{"no content", `{"role":"assistant"}`, "line 1 of the script: its content is neither"},
		{"empty lines", "\n  \n" + `{"role":"assistant","content":"x"}` + "\n\n", "x|"},
		{"somebody else's", `{"role":"user","content":"go"}`, "EOF"},
		{"a line of another kind", `{"type":"summary","summary":"s"}`, "EOF"},
		{"nothing", "", "EOF"},
		{"no JSON", "hello", "line 1 of the script: it is not JSON: "},
		{"cut off", `{"role":"assistant","content":[`, "line 1 of the script: it is not JSON: "},
		{"a list", "[]", "line 1 of the script: a JSON object is needed"},
		{"no role", `{"content":"x"}`, "line 1 of the script: it is no message: it has no role"},
		{"content of another kind", `{"role":"assistant","content":7}`, "line 1 of the script: its content is neither"},
		{"a call without a name", `{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a"}]}`, "line 1 of the script: block 2: a tool_use needs a name"},
		{"a message that is none", `{"type":"assistant","message":"x"}`, "line 1 of the script: its message is none"},
		{"the second line", `{"role":"user"}` + "\nx", "line 2 of the script: it is not JSON"},
		{"a line that is too long", `{"role":"assistant","content":"` + strings.Repeat("x", longestLine) + `"}`, "line 1 of the script: it is longer than"},
	} {
		turn, err := NewScript(strings.NewReader(test.line)).Next()
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = turn.Text + "|"
			for _, u := range turn.Uses {
				got += u.ID + " " + u.Name + " " + string(u.Input)
			}
		}
		if got != test.want && (err == nil || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// After a line that is none the script goes on, and its errors are the reader's.
func TestScriptGoesOn(t *testing.T) {
	long := strings.Repeat("x", longestLine+10)
	s := NewScript(io.MultiReader(strings.NewReader("x\n"+long+"\n{\"role\":\"assistant\",\"content\":\"end\"}\n"), &failing{}))
	for line := 1; line <= 2; line++ {
		var wrong *ScriptError
		if _, err := s.Next(); !errors.As(err, &wrong) || wrong.Line != line {
			t.Fatalf("line %d: %v", line, err)
		}
	}
	if turn, err := s.Next(); err != nil || turn.Text != "end" {
		t.Fatal(turn, err)
	}
	if _, err := s.Next(); err != errFailing {
		t.Fatal(err)
	}
}

var errFailing = errors.New("the disk is on fire")

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errFailing }

// Whatever the script is, it is read to its end, every line is a message or an
// error that names it, and no call lacks a name.
func FuzzScript(f *testing.F) {
	f.Add([]byte(`{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Read","input":{}}]}`))
	f.Add([]byte("{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"content\":\"x\"}}\nx\n\n{}"))
	f.Add([]byte(`{"role":"assistant","Role":"user","content":null,"message":{"role":""}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScript(strings.NewReader(string(data)))
		for last, n := 0, 0; ; n++ {
			turn, err := s.Next()
			var wrong *ScriptError
			switch {
			case err == io.EOF:
				return
			case errors.As(err, &wrong):
				if wrong.Line <= last || wrong.Line > strings.Count(string(data), "\n")+1 {
					t.Fatalf("an error of line %d after one of line %d", wrong.Line, last)
				}
				last = wrong.Line
			case err != nil:
				t.Fatal(err)
			default:
				for _, u := range turn.Uses {
					if u.Name == "" {
						t.Fatal("a call without a name")
					}
				}
			}
			if n > len(data) {
				t.Fatal("it does not end")
			}
		}
	})
}
