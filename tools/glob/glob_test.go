package glob

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/glob/call"
)

// box answers as a container that may be anyone's.
type box struct {
	got    call.Request
	answer string
}

func (b *box) Call(_ context.Context, function string, input []byte, _ func([]byte)) ([]byte, error) {
	if function != "Glob" {
		return nil, fmt.Errorf("function %q", function)
	}
	return []byte(b.answer), json.Unmarshal(input, &b.got)
}

func in(b *box) *tools.Context {
	return &tools.Context{
		Options: tools.Options{Workspace: "/work", Home: "/home/u"},
		Run:     tools.Run{Box: b, Judged: []tools.Judged{{Path: "/judged", Resolved: true}}},
	}
}

func find(t *testing.T, b *box, input string) (text string, data Output, err error) {
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

// A pattern may say itself where to look.
func TestWhereItLooks(t *testing.T) {
	for _, c := range []struct{ pattern, path, dir, rest string }{
		{"*.go", "", "/work", "*.go"},
		{"**/*.go", "src", "/work/src", "**/*.go"},
		{"./src/*", "", "/work", "src/*"},
		{".//./x", "", "/work", "x"},
		{"*", "~/x", "/home/u/x", "*"},
		{"/etc/*.conf", "", "/etc", "*.conf"},
		{"/etc/**/x", "src", "/etc", "**/x"},
		{"/etc/host{s,name}", "", "/etc", "host{s,name}"},
		{"/etc/hosts", "", "/etc", "hosts"},
		{"/etc/", "", "/", "etc/"},
		{"/*", "", "/", "*"},
		{"/{etc,usr}/*", "", "/", "{etc,usr}/*"},
		{`/a\*b/c`, "", "/", `a\*b/c`},
		{"~/.config/*", "", "/home/u/.config", "*"},
		{"~x/*", "", "/work", "~x/*"},
	} {
		got := Tool.Access(in(nil), Input{Pattern: c.pattern, Path: c.path})
		if !slices.Equal(got, []tools.Access{{Path: c.dir, Tree: true}}) {
			t.Errorf("%q in %q: %+v, want %s", c.pattern, c.path, got, c.dir)
		}
		b := &box{answer: `{"files":["f"],"total":1}`}
		input, _ := json.Marshal(Input{Pattern: c.pattern, Path: c.path})
		_, data, err := find(t, b, string(input))
		if err != nil || b.got.Pattern != c.rest || string(b.got.Path) != "/judged" || !b.got.Resolved {
			t.Errorf("%q in %q: %+v, %v", c.pattern, c.path, b.got, err)
		}
		if want := strings.TrimPrefix(strings.TrimSuffix(c.dir, "/")+"/f", "/work/"); err == nil && data.Files[0] != want {
			t.Errorf("%q in %q: found %q, want %q", c.pattern, c.path, data.Files, want)
		}
	}
}

func TestBadInput(t *testing.T) {
	for input, want := range map[string]string{
		`{}`:                              `"pattern" is missing`,
		`{"pattern":""}`:                  "pattern is empty",
		`{"pattern":["*"]}`:               "must be of type string",
		`{"pattern":"a\u0000"}`:           "zero byte",
		`{"pattern":"../*"}`:              "has ..",
		`{"pattern":"/work/../x"}`:        "has ..",
		`{"pattern":"[a"}`:                "[ without a ]",
		`{"pattern":"{a"}`:                "{ without a }",
		`{"pattern":"a\\"}`:               `ends in a single \`,
		`{"pattern":"*","path":"\u0000"}`: "zero byte",
		`{"pattern":"*","Path":"x"}`:      `did you mean "path"`,
		`{"pattern":"` + strings.Repeat("a", 5000) + `"}`:            "longer than 4096",
		`{"pattern":"` + strings.Repeat("{a,b}", 20) + `"}`:          "use fewer braces",
		`{"pattern":"*","path":"` + strings.Repeat("a", 5000) + `"}`: "at most 4095",
	} {
		if _, _, err := find(t, &box{answer: "{}"}, input); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", input, err, want)
		}
	}
	if !Tool.ReadOnly(Input{}) || !Tool.ConcurrencySafe(Input{}) || Tool.Destructive(Input{}) || Tool.Site != tools.Container {
		t.Error("the tool's flags")
	}
	c := in(&box{answer: "{}"})
	c.Judged = nil
	if _, err := Tool.Call(t.Context(), c, Input{Pattern: "*"}, nil); err == nil {
		t.Error("a path was looked into that was not judged")
	}
}

func TestResults(t *testing.T) {
	for answer, want := range map[string]string{
		`{"files":["b","a/c"],"total":2}`: "b\na/c",
		`{"files":[],"total":0}`:          "No files found",
		`{}`:                              "No files found",
		`{"total":-3}`:                    "No files found",
		`{"files":["a"],"total":500}`:     "a\n(the 1 newest of 500 files are shown; use a narrower pattern or path)",
		`{"files":["new\nline","\u001b["],"total":2}`:                   `"new\nline"` + "\n" + `"\x1b["`,
		`{"files":["a"],"total":1,"notes":["x\ny: permission denied"]}`: "a\n(not looked at: x\\ny: permission denied)",
	} {
		if text, _, err := find(t, &box{answer: answer}, `{"pattern":"*"}`); err != nil || text != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", answer, err, text, want)
		}
	}
	long, err := json.Marshal(call.Result{Files: slices.Repeat([]string{strings.Repeat("d/", 2000)}, 1000), Total: 1000, Notes: slices.Repeat([]string{"n"}, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	text, data, err := find(t, &box{answer: string(long)}, `{"pattern":"*"}`)
	if err != nil || len(text) > tools.DefaultMaxResult || len(data.Files) == 0 || !strings.Contains(text, "of 1000 files are shown") {
		t.Errorf("%d bytes, %d files, %v", len(text), len(data.Files), err)
	}
}
