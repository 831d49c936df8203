package grep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/grep/call"
)

// box answers as a container that may be anyone's.
type box struct {
	got    call.Request
	answer string
	says   []string // progress
	err    error
}

func (b *box) Call(_ context.Context, function string, input []byte, progress func([]byte)) ([]byte, error) {
	if function != "Grep" {
		return nil, fmt.Errorf("function %q", function)
	}
	if err := json.Unmarshal(input, &b.got); err != nil {
		return nil, err
	}
	for _, s := range b.says {
		progress([]byte(s))
	}
	if b.err != nil {
		return nil, b.err
	}
	return []byte(b.answer), nil
}

func in(b *box) *tools.Context {
	return &tools.Context{
		Options: tools.Options{Workspace: "/work", Home: "/home/u"},
		Run:     tools.Run{Box: b, Judged: []tools.Judged{{Path: "/judged", Resolved: true}}},
	}
}

// search runs the tool as the pipeline does.
func search(t *testing.T, b *box, input string) (text string, data Output, err error) {
	t.Helper()
	parsed, _, err := Tool.Parse(json.RawMessage(input))
	if err == nil {
		err = Tool.Validate(parsed)
	}
	if err != nil {
		return "", Output{}, err
	}
	called, err := Tool.Call(t.Context(), in(b), parsed, nil)
	if err != nil {
		return "", Output{}, err
	}
	return called.Blocks[0].Text, called.Data.(Output), nil
}

func TestRequest(t *testing.T) {
	for input, want := range map[string]call.Request{
		`{"pattern":"a"}`: {Mode: call.Files, Limit: 250},
		`{"pattern":"a","output_mode":"count","head_limit":0,"offset":7}`:                                   {Mode: call.Count, Offset: 7},
		`{"pattern":"a","output_mode":"content","-A":1,"-B":2}`:                                             {Mode: call.Content, Limit: 250, After: 1, Before: 2},
		`{"pattern":"a","output_mode":"content","-C":3}`:                                                    {Mode: call.Content, Limit: 250, After: 3, Before: 3},
		`{"pattern":"a","output_mode":"content","context":3,"-A":1}`:                                        {Mode: call.Content, Limit: 250, After: 1, Before: 3},
		`{"pattern":"a","-A":1,"-C":2,"-o":true,"-n":true}`:                                                 {Mode: call.Files, Limit: 250}, // of content only
		`{"pattern":"a","output_mode":"content","-o":true,"-i":true,"multiline":true,"head_limit":1}`:       {Mode: call.Content, Limit: 1, Only: true, IgnoreCase: true, Multiline: true},
		`{"pattern":"a","glob":"*.{ts, tsx},!x  [,]b","type":"go","head_limit":null,"-A":null,"path":null}`: {Mode: call.Files, Limit: 250, Globs: []string{"*.{ts,tsx}", "!x", "[,]b"}, Type: "go"},
		`{"pattern":"a","glob":"my\\ dir/*"}`:                                                               {Mode: call.Files, Limit: 250, Globs: []string{`my\ dir/*`}},
	} {
		b := &box{answer: "{}"}
		if _, _, err := search(t, b, input); err != nil {
			t.Errorf("%s: %v", input, err)
			continue
		}
		want.Pattern, want.Path, want.Resolved, want.Workspace = "a", []byte("/judged"), true, "/work"
		if diff := cmp.Diff(want, b.got); diff != "" {
			t.Errorf("%s: -want +got\n%s", input, diff)
		}
	}
}

func TestBadInput(t *testing.T) {
	for input, want := range map[string]string{
		`{}`:                                                          `"pattern" is missing`,
		`{"pattern":""}`:                                              "pattern is empty",
		`{"pattern":1}`:                                               `must be of type string`,
		`{"pattern":"a\u0000b"}`:                                      "zero byte",
		`{"pattern":"a","glob":"\u0000"}`:                             "zero byte",
		`{"pattern":"a","path":"\u0000"}`:                             "zero byte",
		`{"pattern":"a","output_mode":"all"}`:                         "output_mode",
		`{"pattern":"a","-A":-1}`:                                     "-A",
		`{"pattern":"a","-C":1.5}`:                                    `"-C" must be of type integer`,
		`{"pattern":"a","-n":"yes"}`:                                  `"-n" must be of type boolean`,
		`{"pattern":"a","head_limit":"20"}`:                           `"head_limit" must be of type integer`,
		`{"pattern":"a","head_limit":-1}`:                             "head_limit",
		`{"pattern":"a","offset":1e12}`:                               "offset",
		`{"pattern":"a","-c":1}`:                                      `did you mean "-C"`,
		`{"pattern":"` + strings.Repeat("a", mostPattern+1) + `"}`:    "at most 16000",
		`{"pattern":"a","path":"/` + strings.Repeat("a", 4096) + `"}`: "at most 4095",
		`{"pattern":"a","glob":"` + strings.Repeat("a ", mostGlobs+1) + `"}`: "101 globs",
	} {
		_, _, err := search(t, &box{answer: "{}"}, input)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", input, err, want)
		}
	}
	if _, unknown, err := Tool.Parse(json.RawMessage(`{"pattern":"a","colour":true}`)); err != nil || !slices.Equal(unknown, []string{"colour"}) {
		t.Errorf("a field that is not known: %q, %v", unknown, err)
	}
}

func TestSchemaHasTheFieldsOfAgents(t *testing.T) {
	for _, name := range []string{"pattern", "path", "glob", "type", "output_mode", "-A", "-B", "-C", "context", "-n", "-i", "-o", "multiline", "head_limit", "offset"} {
		s := Tool.InputSchema.Properties[name]
		if s == nil || s.Type == "" || s.Description == "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if n := len(Tool.InputSchema.Properties); n != 15 {
		t.Errorf("%d fields", n)
	}
	if !Tool.ReadOnly(Input{}) || !Tool.ConcurrencySafe(Input{}) || Tool.Destructive(Input{}) || Tool.Site != tools.Container {
		t.Error("the tool's flags")
	}
	for path, want := range map[string]string{"": "/work", "src": "/work/src", "/etc": "/etc", "~": "/home/u", "../x/": "/x"} {
		if got := Tool.Access(in(nil), Input{Path: path}); !slices.Equal(got, []tools.Access{{Path: want, Tree: true}}) {
			t.Errorf("%q: %+v", path, got)
		}
	}
}

func TestResults(t *testing.T) {
	for _, c := range []struct{ name, input, answer, want string }{
		{"files", `{"pattern":"a"}`, `{"blocks":[{"path":"x"},{"path":"y/z"}],"files":2}`, "x\ny/z\n(2 files in all)"},
		{"outside", `{"pattern":"a","path":"/etc"}`, `{"blocks":[{"path":"x"}],"files":1}`, "/etc/x\n(1 file in all)"},
		{"a file", `{"pattern":"a","path":"x"}`, `{"blocks":[{"path":""}],"files":1}`, "x\n(1 file in all)"},
		{"none", `{"pattern":"a"}`, `{"blocks":[]}`, "No files found"},
		{"no lines", `{"pattern":"a","output_mode":"content"}`, `{"blocks":[]}`, "No matches found"},
		{"none left", `{"pattern":"a","offset":9}`, `{"blocks":[],"files":3}`, "(nothing is left at offset 9)\n(3 files in all)"},
		{"count", `{"pattern":"a","output_mode":"count"}`, `{"blocks":[{"path":"x","count":3}],"files":1,"matches":3}`, "x:3\n(3 lines in 1 file in all)"},
		{"content", `{"pattern":"a","output_mode":"content"}`, `{"blocks":[{"path":"x","lines":[{"n":1,"t":"a"},{"n":9,"t":"aa","cut":5}]},{"path":"y","lines":[{"n":2,"t":"a"}]}]}`,
			"x:1:a\nx:9:aa [5 more bytes]\ny:2:a"},
		{"without numbers", `{"pattern":"a","output_mode":"content","-n":false}`, `{"blocks":[{"path":"x","lines":[{"n":1,"t":"a"}]}]}`, "x:a"},
		{"context", `{"pattern":"a","output_mode":"content","-C":1}`, `{"blocks":[{"path":"x","lines":[{"n":1,"t":"a"},{"n":2,"t":"b","c":true},{"n":5,"t":"c","c":true},{"n":6,"t":"a"}]},{"path":"y","lines":[{"n":1,"t":"a"}]}]}`,
			"x:1:a\nx-2-b\n--\nx-5-c\nx:6:a\n--\ny:1:a"},
		{"cut", `{"pattern":"a","head_limit":1,"offset":4}`, `{"blocks":[{"path":"x"}],"more":true,"files":9}`, "x\n(9 files in all)\n(cut after 1 file; go on with offset 5, or search for less)"},
		{"more than was asked for", `{"pattern":"a","output_mode":"content","head_limit":2}`, `{"blocks":[{"path":"x","lines":[{"n":1,"t":"a"}]},{"path":"y","lines":[{"n":1,"t":"a"},{"n":2,"t":"a"}]},{"path":"z","lines":[{"n":1,"t":"a"}]}]}`,
			"x:1:a\ny:1:a\n(cut after 2 lines; go on with offset 2, or search for less)"},
		{"names", `{"pattern":"a"}`, `{"blocks":[{"path":"new\nline"},{"path":"\u001b[31m"},{"path":"\"q"},{"path":"ü ü"}],"files":4}`, `"new\nline"` + "\n" + `"\x1b[31m"` + "\n" + `"\"q"` + "\nü ü\n(4 files in all)"},
		{"notes", `{"pattern":"a"}`, `{"blocks":[],"notes":["x: permission denied","y\nz"]}`, "No files found\n(not searched: x: permission denied)\n(not searched: y\\nz)"},
		{"null", `{"pattern":"a"}`, `{}`, "No files found"},
		{"negative", `{"pattern":"a"}`, `{"files":-5,"matches":-1}`, "No files found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, _, err := search(t, &box{answer: c.answer}, c.input)
			if err != nil || text != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, text, c.want)
			}
		})
	}
}

// What comes from inside is no more than a result may be, and says the offset at
// which nothing is lost.
func TestResultsAreBounded(t *testing.T) {
	var all call.Result
	for i := range 1000 {
		all.Blocks = append(all.Blocks, call.Block{Path: fmt.Sprint("f", i), Lines: []call.Line{{Number: 1, Text: strings.Repeat("x", 500)}, {Number: 2, Text: strings.Repeat("y", 500)}}})
	}
	for range 1000 {
		all.Notes = append(all.Notes, strings.Repeat("n", 10_000))
	}
	answer, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []call.Mode{call.Content, call.Files, call.Count} {
		text, data, err := search(t, &box{answer: string(answer)}, `{"pattern":"a","head_limit":0,"output_mode":"`+string(mode)+`"}`)
		if err != nil || len(text) > tools.DefaultMaxResult || len(data.Notes) > 50 {
			t.Fatalf("%s: %d bytes, %d notes, %v", mode, len(text), len(data.Notes), err)
		}
		units := 0
		for _, b := range data.Blocks {
			if units++; mode == call.Content {
				units += len(b.Lines) - 1
			}
		}
		if mode == call.Content && (data.Next != units || units < 100) || mode != call.Content && (data.Next != 0 || units != 1000) {
			t.Errorf("%s: %d, next %d", mode, units, data.Next)
		}
	}
	// One that is too large by itself is not left out, or nothing would go on.
	one := `{"blocks":[{"path":"x","lines":[{"n":1,"t":"` + strings.Repeat("x", 200_000) + `"},{"n":2,"t":"a"}]}]}`
	if _, data, err := search(t, &box{answer: one}, `{"pattern":"a","output_mode":"content"}`); err != nil || data.Next != 1 {
		t.Errorf("next %d, %v", data.Next, err)
	}
}

func TestProgressIsHandedOn(t *testing.T) {
	b := &box{answer: "{}", says: []string{`{"matches":3,"files":2}`, `{"matches":-1}`, `nonsense`, `[]`}}
	var got []string
	called, err := Tool.Call(t.Context(), in(b), Input{Pattern: "a"}, func(p json.RawMessage) { got = append(got, string(p)) })
	if err != nil || called == nil || !slices.Equal(got, []string{`{"matches":3,"files":2}`}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	failed := errors.New("failed inside")
	if _, _, err := search(t, &box{err: failed}, `{"pattern":"a"}`); !errors.Is(err, failed) {
		t.Error(err)
	}
	if _, _, err := search(t, &box{answer: "nonsense"}, `{"pattern":"a"}`); err == nil {
		t.Error("no error for a result that is none")
	}
	c := in(&box{answer: "{}"})
	c.Judged = nil
	if _, err := Tool.Call(t.Context(), c, Input{Pattern: "a"}, nil); err == nil {
		t.Error("a path was searched that was not judged")
	}
}
