package files_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/test/sallytest"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/edit"
	editcall "github.com/sallyport/sallyport/tools/edit/call"
	"github.com/sallyport/sallyport/tools/read"
	readcall "github.com/sallyport/sallyport/tools/read/call"
	"github.com/sallyport/sallyport/tools/write"
	writecall "github.com/sallyport/sallyport/tools/write/call"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// byName are the tools of this test, by their names.
var byName = map[string]*tools.Tool{"Read": read.Tool, "Write": write.Tool, "Edit": edit.Tool}

// functions are what the tools run inside.
var functions = sallytest.Functions{
	inside.ResolveName: inside.JSON(inside.ResolvePaths),
	"Read":             inside.JSON(readcall.Run),
	"Write":            inside.JSON(writecall.Run),
	"Edit":             inside.JSON(editcall.Run),
}

// object is an input in JSON: names and values in turn.
func object(t testing.TB, fields ...any) string {
	t.Helper()
	m := make(map[string]any)
	for i := 0; i < len(fields); i += 2 {
		m[fields[i].(string)] = fields[i+1]
	}
	data, err := json.Marshal(m)
	must(t, err)
	return string(data)
}

// Whatever a model sends that is no input, it is told in one line what to correct,
// and nothing is done.
func TestBadInput(t *testing.T) {
	box := sallytest.Functions{} // nothing can be called
	long := strings.Repeat("x", 3_000_001)
	for _, test := range []struct{ tool, input, want string }{
		{"Read", ``, `the field "file_path" is missing`},
		{"Read", `{`, "not valid JSON"},
		{"Read", `null`, "a JSON object is needed, not null"},
		{"Read", `"main.go"`, "a JSON object is needed, with the fields file_path, limit, offset"},
		{"Read", `{"path":"a"}`, `the field "file_path" is missing`},
		{"Read", `{"File_Path":"a"}`, `there is no field "File_Path"; did you mean "file_path"?`},
		{"Read", `{"file_path":["a"]}`, `the field "file_path" must be of type string, not ["a"]`},
		{"Read", `{"file_path":null}`, `"file_path"`},
		{"Read", `{"file_path":""}`, "file_path is empty"},
		{"Read", `{"file_path":"a\u0000b"}`, "a zero byte"},
		{"Read", object(t, "file_path", strings.Repeat("a/", 2100)), "file_path has 4200 bytes; at most 4095"},
		{"Read", `{"file_path":"a","offset":"1"}`, `the field "offset" must be of type integer, not "1"`},
		{"Read", `{"file_path":"a","offset":1.5}`, `the field "offset" must be of type integer, not 1.5`},
		{"Read", `{"file_path":"a","offset":1e30}`, "offset"},
		{"Read", `{"file_path":"a","offset":-1}`, "offset is -1; lines are counted from 1"},
		{"Read", `{"file_path":"a","limit":-1}`, "limit is -1; it must be positive"},
		{"Read", `{"file_path":"a","limit":true}`, `the field "limit" must be of type integer, not true`},

		{"Write", `{"file_path":"a"}`, `the field "content" is missing`},
		{"Write", `{"content":"a"}`, `the field "file_path" is missing`},
		{"Write", `{"file_path":"a","content":{"a":1}}`, `the field "content" must be of type string`},
		{"Write", `{"file_path":"a","content":null}`, `"content"`},
		{"Write", `{"file_path":"a/","content":""}`, "file_path ends in a slash: name a file, not a directory"},
		{"Write", `{"file_path":"","content":""}`, "file_path is empty"},
		{"Write", object(t, "file_path", "a", "content", long), "content has 3000001 bytes; at most 3000000"},

		{"Edit", `{"file_path":"a","old_string":"b"}`, `the field "new_string" is missing`},
		{"Edit", `{"file_path":"a","new_string":"b"}`, `the field "old_string" is missing`},
		{"Edit", `{"file_path":"a","old_string":1,"new_string":"b"}`, `the field "old_string" must be of type string, not 1`},
		{"Edit", `{"file_path":"a","old_string":"a","new_string":"b","replace_all":"true"}`, `the field "replace_all" must be of type boolean, not "true"`},
		{"Edit", `{"file_path":"a","old_string":"b","new_string":"b"}`, "nothing would change"},
		{"Edit", `{"file_path":"a/","old_string":"","new_string":"b"}`, "ends in a slash"},
		{"Edit", object(t, "file_path", "a", "old_string", "x", "new_string", long), "3000002 bytes; at most 3000000"},
	} {
		agent := sallytest.NewAgent("/work", box)
		text, err := agent.Call(t.Context(), byName[test.tool], test.input)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%s %.80s: %.300q, %.300v, want %q", test.tool, test.input, text, err, test.want)
		}
	}
}

// What agents send beside the fields of a tool, or for those that they leave out,
// is no reason to refuse a call.
func TestForgivenInput(t *testing.T) {
	for tool, input := range map[string]string{
		"Read":  `{"file_path":"a","offset":null,"limit":null}`,
		"Write": `{"file_path":"a","content":"","mode":"0644"}`,
		"Edit":  `{"file_path":"a","old_string":"b","new_string":"c","replace_all":null,"expected":1}`,
	} {
		if _, _, err := byName[tool].Parse(json.RawMessage(input)); err != nil {
			t.Errorf("%s: %v", tool, err)
		}
	}
}

// A step of an agent: a call, and a part of what it is told.
type step struct {
	tool   string
	fields []any
	want   string
	fails  bool
}

func do(tool string, want string, fields ...any) step { return step{tool, fields, want, false} }
func no(tool string, want string, fields ...any) step { return step{tool, fields, want, true} }

// steps makes calls one after the other.
func steps(t *testing.T, agent *sallytest.Agent, all ...step) {
	t.Helper()
	for i, s := range all {
		text, err := agent.Call(t.Context(), byName[s.tool], object(t, s.fields...))
		if err != nil {
			text = err.Error()
		}
		if (err != nil) != s.fails || !strings.Contains(text, s.want) {
			t.Errorf("step %d, %s %.100v: %.500s, want %q", i+1, s.tool, s.fields, text, s.want)
		}
	}
}

// An agent changes only what it has seen as it is.
func TestSeenBeforeChanged(t *testing.T) {
	work, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.WriteFile(work+"/file", []byte("one\ntwo\n"), 0o640))
	must(t, os.WriteFile(work+"/other", []byte("x\nx\n"), 0o644))
	must(t, os.Symlink("file", work+"/link"))
	agent := sallytest.NewAgent(work, functions)

	const readFirst, readAgain = "it has not been read yet; Read it first", "it changed since it was read; Read it again"
	steps(t, agent,
		no("Write", readFirst, "file_path", "file", "content", "x"),
		no("Edit", readFirst, "file_path", "file", "old_string", "one", "new_string", "1"),
		do("Read", "     1\tone\n(lines 1 to 1 of 2 are shown; read on with offset 2)", "file_path", "file", "limit", 1),
		do("Edit", "     1\t1\n     2\ttwo", "file_path", work+"/file", "old_string", "one", "new_string", "1"),
		do("Edit", "     2\t2", "file_path", "./file", "old_string", "two", "new_string", "2"), // its own change was seen
		no("Write", readFirst, "file_path", "other", "content", "x"),
		do("Write", "updated "+work+"/file: 6 bytes, 1 line", "file_path", "file", "content", "three\n"),
		do("Edit", "     1\tfour", "file_path", "file", "old_string", "three", "new_string", "four"),
		do("Write", "created "+work+"/new/er: 1 byte, 1 line", "file_path", "new/er", "content", "a"),
		do("Edit", "b", "file_path", "new/er", "old_string", "a", "new_string", "b"),
		do("Edit", "created "+work+"/e/new: 1 bytes", "file_path", "e/new", "old_string", "", "new_string", "c"),
		do("Write", "updated", "file_path", "e/new", "content", "d"),
		no("Edit", "an empty old_string makes a new file", "file_path", "e/new", "old_string", "", "new_string", "c"),
	)
	must(t, os.WriteFile(work+"/file", []byte("from outside\n"), 0o640))
	steps(t, agent,
		no("Write", readAgain, "file_path", "file", "content", "x"),
		no("Edit", readAgain, "file_path", "file", "old_string", "outside", "new_string", "inside"),
		do("Read", "from outside", "file_path", "file"),
		do("Edit", "from inside", "file_path", "file", "old_string", "outside", "new_string", "inside"),
		// A link is another name for what it leads to: that is changed, it stays.
		no("Edit", readFirst, "file_path", "link", "old_string", "inside", "new_string", "a link"),
		do("Read", "from inside", "file_path", "link"),
		do("Edit", "updated "+work+"/file", "file_path", "link", "old_string", "inside", "new_string", "a link"),
		do("Read", "x", "file_path", "other"),
		no("Edit", "there 2 times (lines 1, 2)", "file_path", "other", "old_string", "x", "new_string", "y"),
		do("Edit", "2 replacements", "file_path", "other", "old_string", "x", "new_string", "y", "replace_all", true),
		no("Edit", "old_string is not in the file", "file_path", "other", "old_string", "x", "new_string", "y"),
	)
	if target, err := os.Readlink(work + "/link"); target != "file" || err != nil {
		t.Errorf("the link is %q, %v", target, err)
	}
	for name, want := range map[string]string{"file": "from a link\n", "other": "y\ny\n", "new/er": "b", "e/new": "d"} {
		if got, err := os.ReadFile(filepath.Join(work, name)); string(got) != want || err != nil {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
	if info, err := os.Stat(work + "/file"); err != nil || info.Mode() != 0o640 {
		t.Errorf("the mode became %v, %v", info.Mode(), err)
	}
	// A file that is gone is made anew only by those that make files.
	must(t, os.Remove(work+"/other"))
	steps(t, agent,
		no("Edit", "it does not exist", "file_path", "other", "old_string", "y", "new_string", "z"),
		do("Write", "created", "file_path", "other", "content", "z"),
	)
}

// What was read is known to an agent that goes on later, from what was kept.
func TestSeenIsKept(t *testing.T) {
	work, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.WriteFile(work+"/file", []byte("a"), 0o644))
	agent := sallytest.NewAgent(work, functions)
	steps(t, agent, do("Read", "a", "file_path", "file"))
	kept, err := json.Marshal(agent.State)
	must(t, err)
	later := sallytest.NewAgent(work, functions)
	must(t, json.Unmarshal(kept, later.State))
	steps(t, later, do("Edit", "b", "file_path", "file", "old_string", "a", "new_string", "b"))
}

// The text of a file comes back as it is, whatever bytes it has; what cannot be
// shown cannot be taken for what is there.
func TestBytesOfText(t *testing.T) {
	work, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	text := strings.Repeat("text ", 20)
	for name, test := range map[string]struct{ content, shown, old, new, want string }{
		"no UTF-8":        {text + "\xff\xfe é\n", text + "\ufffd\ufffd é", "é", "è", text + "\xff\xfe è\n"},
		"a mark and CRLF": {"\ufeffa\r\nb\r\n", "     1\ta\n     2\tb", "a\nb", "c\nd\ne", "\ufeffc\r\nd\r\ne\r\n"},
		"controls":        {"a\x1b[31m\x07\x7f\u2028b\n", "a\x1b[31m\x07\x7f\u2028b", "\x1b[31m", "", "a\x07\x7f\u2028b\n"},
		"what JSON has":   {"<a href=\"x\">\\ & \t</a>", "<a href=\"x\">\\ & \t</a>", "\\ & \t", "\\\\", "<a href=\"x\">\\\\</a>"},
		"no end":          {"a\nb", "     2\tb", "b", "c", "a\nc"},
		"a long line":     {"a" + strings.Repeat("x", 10_000) + "b\n", "... [8002 more bytes of this line are not shown]", "xb\n", "c", "a" + strings.Repeat("x", 9_999) + "c"},
	} {
		must(t, os.WriteFile(work+"/file", []byte(test.content), 0o644))
		steps(t, sallytest.NewAgent(work, functions),
			do("Read", test.shown, "file_path", "file"),
			do("Edit", "updated", "file_path", "file", "old_string", test.old, "new_string", test.new),
		)
		if got, err := os.ReadFile(work + "/file"); string(got) != test.want || err != nil {
			t.Errorf("%s: %.200q, %v, want %.200q", name, got, err, test.want)
		}
	}
}

// answer is a container in which every tool returns the same.
func answer[Out any](out Out) sallytest.Functions {
	return lying(inside.JSON(func(context.Context, *inside.Call, struct{}) (Out, error) { return out, nil }))
}

// raw is one in which they return these bytes.
func raw(data []byte) sallytest.Functions {
	return lying(func(context.Context, *inside.Call) ([]byte, error) { return data, nil })
}

func lying(lie inside.Function) sallytest.Functions {
	return sallytest.Functions{inside.ResolveName: functions[inside.ResolveName], "Read": lie, "Write": lie, "Edit": lie}
}

// What a container returns is not believed.
func TestHostileResults(t *testing.T) {
	for name, test := range map[string]struct {
		box   sallytest.Functions
		step  step
		state bool // whether something was noted
	}{
		"Read, too much":          {answer(readcall.Output{Content: strings.Repeat("x", 4*readcall.MostContent), Lines: 1}), no("Read", "more than it may", "file_path", "a"), false},
		"Read, no JSON":           {raw([]byte("{\n")), no("Read", "the container returned what is no result of Read", "file_path", "a"), false},
		"Read, no text":           {raw([]byte(`{"lines":1}`)), no("Read", "no result of Read: there is no text", "file_path", "a"), false},
		"Read, nothing":           {raw(nil), no("Read", "no result", "file_path", "a"), false},
		"Read, a hash of its own": {answer(readcall.Output{Content: "x", Lines: 1, Hash: "../../etc"}), do("Read", "x", "file_path", "a"), false},
		"Read, numbers":           {answer(readcall.Output{Content: "x", Lines: -5, Total: -7, Start: -1 << 62, Next: 1 << 62}), do("Read", "", "file_path", "a"), false},
		"Edit, too much":          {answer(editcall.Output{Snippet: strings.Repeat("x", 2*editcall.MostSnippet)}), no("Edit", "more than it may", "file_path", "a", "old_string", "b", "new_string", "c"), false},
		"Edit, a path":            {answer(editcall.Output{Path: "/a\n\x1b[31m" + strings.Repeat("x", 1000), Snippet: "y"}), do("Edit", `updated "/a\n\x1b[31mxxx`, "file_path", "a", "old_string", "b", "new_string", "c"), false},
		"Write, a path":           {answer(writecall.Output{Path: "\u202e", Size: -1}), do("Write", `updated "\u202e"`, "file_path", "a", "content", "b"), false},
		"Write, a hash":           {answer(writecall.Output{Path: "/a", Hash: strings.Repeat("0a", 32)}), do("Write", "updated /a", "file_path", "a", "content", "b"), true},
	} {
		t.Run(name, func(t *testing.T) {
			agent := sallytest.NewAgent("/work", test.box)
			steps(t, agent, test.step)
			if hash, seen := agent.State.Seen("/work/a"); seen != test.state {
				t.Errorf("the state has %q", hash)
			}
		})
	}
}

// Kinds of files that are none of text, by their own names and through links.
func TestOtherKinds(t *testing.T) {
	work, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Mkdir(work+"/dir", 0o755))
	must(t, unix.Mkfifo(work+"/fifo", 0o666))
	must(t, os.WriteFile(work+"/binary", []byte("\x7fELF\x00\x01"), 0o755))
	for name, target := range map[string]string{"zero": "/dev/zero", "tofifo": "fifo", "todir": "dir", "loop": "loop", "fd": "/proc/self/fd/0"} {
		must(t, os.Symlink(target, work+"/"+name))
	}
	agent := sallytest.NewAgent(work, functions)
	for path, want := range map[string]string{
		"/dev/zero": "is a device", "/dev/full": "is a device", "/dev/tty": "is a device", "zero": "is a device",
		"/dev/stdin": "what a process has open", "fd": "what a process has open", "/proc/self/fd/1": "what a process has open",
		"dir": "is a directory", "todir": "is a directory", ".": "is a directory",
		"fifo": "is a FIFO", "tofifo": "is a FIFO", "loop": "too many links",
		"binary/x": "not a directory", "dir/none/../x": "it does not exist",
	} {
		if path != "dir/none/../x" { // which is cleaned to a file that can be made
			steps(t, agent,
				no("Write", want, "file_path", path, "content", "x"),
				no("Edit", want, "file_path", path, "old_string", "x", "new_string", "y"),
			)
		}
		steps(t, agent, no("Read", want, "file_path", path))
	}
	steps(t, agent,
		no("Read", "it is not text but an ELF binary of 6 bytes", "file_path", "binary"),
		no("Write", "it has not been read yet", "file_path", "binary", "content", "x"),
	)
	if data, err := os.ReadFile(work + "/binary"); string(data) != "\x7fELF\x00\x01" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if left, err := filepath.Glob(work + "/.sallyport*"); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}
