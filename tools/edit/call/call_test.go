package call

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/files"
)

func workspace(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// edit edits a file that was read.
func edit(t testing.TB, path, content, old, new string, all bool) (Output, string, error) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := Run(t.Context(), nil, Request{
		Path: []byte(path), Resolved: true, Workspace: "/work", Old: []byte(old), New: []byte(new), All: all,
		Expected: files.Hash([]byte(content)),
	})
	data, readErr := os.ReadFile(path)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if err == nil && (out.Hash != files.Hash(data) || out.Size != int64(len(data))) {
		t.Errorf("hash %s, size %d of %q", out.Hash, out.Size, data)
	}
	return out, string(data), err
}

func TestEdit(t *testing.T) {
	path := workspace(t) + "/file"
	for name, test := range map[string]struct {
		content, old, new string
		all               bool
		want              string
		replaced          int
	}{
		"a word":                     {"a b c\n", "b", "x", false, "a x c\n", 1},
		"lines":                      {"a\nb\nc\n", "a\nb\n", "x\n", false, "x\nc\n", 1},
		"at the beginning":           {"ab", "a", "", false, "b", 1},
		"all of it":                  {"ab", "ab", "", false, "", 1},
		"everywhere":                 {"a a a", "a", "aa", true, "aa aa aa", 3},
		"not overlapping":            {"aaaa", "aa", "b", true, "bb", 2},
		"everywhere it is once":      {"abc", "b", "x", true, "axc", 1},
		"line ends of the file":      {"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", false, "x\r\ny\r\nz\r\nc\r\n", 1},
		"a line end of the file":     {"a\r\nb\r\n", "\n", "\n\n", true, "a\r\n\r\nb\r\n\r\n", 2},
		"new lines in an old line":   {"a\r\nb\r\nc\r\n", "b", "x\ny", false, "a\r\nx\r\ny\r\nc\r\n", 1},
		"new lines in the last line": {"a\r\nb", "b", "x\ny", false, "a\r\nx\r\ny", 1},
		"explicit line ends":         {"a\r\nb\r\n", "a\r\nb", "x\r\ny", false, "x\r\ny\r\n", 1},
		"mixed line ends":            {"a\nb\r\nc\nd\r\n", "a\nb\nc", "x\ny", false, "x\ny\nd\r\n", 1},
		"each as it is":              {"a\nb\na\r\nb\r\n", "a\n", "x\ny\n", true, "x\ny\nb\nx\r\ny\r\nb\r\n", 2},
		"plain, from explicit ends":  {"a\nb\n", "a\r\nb", "x", false, "x\n", 1},
		"explicit, into plain":       {"a\nb\n", "a", "a\r", false, "a\r\nb\n", 1},
		"a carriage return alone":    {"a\rb\r\nc", "a\rb", "x", false, "x\r\nc", 1},
		"a mark is kept":             {"\ufeffa\nb", "a", "x", false, "\ufeffx\nb", 1},
		"a mark in what is replaced": {"\ufeffa\nb", "\ufeffa", "\ufeffx", false, "\ufeffx\nb", 1},
		"bytes that are no UTF-8":    {strings.Repeat("text ", 10) + "\xff b", "b", "☃", false, strings.Repeat("text ", 10) + "\xff ☃", 1},
		"what a regexp would mean":   {"a.c abc $1", "a.c", "$1", false, "$1 abc $1", 1},
	} {
		out, got, err := edit(t, path, test.content, test.old, test.new, test.all)
		if err != nil || got != test.want || out.Replaced != test.replaced || out.Created || out.Emptied != (got == "") {
			t.Errorf("%s: %q, %+v, %v, want %q", name, got, out, err, test.want)
		}
	}
}

func TestEditRefuses(t *testing.T) {
	path := workspace(t) + "/file"
	for name, test := range map[string]struct {
		content, old, new string
		want              string
	}{
		"what is not there":             {"a\n", "b", "c", "old_string is not in the file; Read the part"},
		"what is there twice":           {"b\na\nb\nxb", "b", "c", "there 3 times (lines 1, 3, 4); give more of the text around it, or set replace_all"},
		"twice, with other line ends":   {"a\nb\na\r\nb\r\n", "a\nb", "c", "there 2 times (lines 1, 3)"},
		"more than can be named":        {strings.Repeat("b\n", 100), "b", "c", "there 100 times (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ...)"},
		"nothing":                       {"a", "a", "a", "nothing would change"},
		"nothing but line ends":         {"a\r\nb", "a\nb", "a\r\nb", "nothing would change"},
		"an empty old string":           {"a", "", "b", "an empty old_string makes a new file"},
		"other white space at ends":     {"x\na  \nb\n", "a\nb", "c", "with other white space at the ends of lines (line 2)"},
		"other indentation":             {"x\n\tif a {\n\t\tb\n", "if a {\n    b", "c", "with other indentation; give the tabs and spaces exactly as they are (line 2)"},
		"other white space":             {"a  =  b\n", "a = b", "c", "with other white space (line 1)"},
		"with line numbers":             {"a\nb\n", "     1\ta\n     2\tb", "c", "without the line numbers"},
		"with the sign for other bytes": {strings.Repeat("text ", 10) + "\xff", "\ufffd", "c", "bytes that are no UTF-8"},
		"only a mark":                   {"\ufeffa", "\ufeff", "", "the mark at the beginning"},
		"binary":                        {"a\x00b", "a", "b", "not text but binary data of 3 bytes"},
	} {
		out, got, err := edit(t, path, test.content, test.old, test.new, false)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %+v, want %q", name, err, out, test.want)
		}
		if got != test.content {
			t.Errorf("%s: the file is %q", name, got)
		}
	}
}

func TestEditOfWhatIsNoReadFile(t *testing.T) {
	dir := workspace(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(dir+"/main.go", []byte("old"), 0o644))
	must(os.WriteFile(dir+"/empty", nil, 0o644))
	must(os.WriteFile(dir+"/large", nil, 0o644))
	must(os.Truncate(dir+"/large", files.MostHashed+1))
	must(os.Mkdir(dir+"/dir", 0o755))
	must(os.Symlink("main.go", dir+"/link"))
	must(unix.Mkfifo(dir+"/fifo", 0o644))
	old := files.Hash([]byte("old"))
	for _, test := range []struct {
		name, old, new, expected string
		err                      string // "" creates it
	}{
		{"main.go", "old", "new", "", "it has not been read yet; Read it first"},
		{"main.go", "old", "new", files.Hash([]byte("older")), "it changed since it was read; Read it again"},
		{"main.go", "", "new", "", "it has not been read yet"},
		{"main.go", "", "new", old, "an empty old_string makes a new file"},
		{"man.go", "old", "new", "", "did you mean " + dir + "/main.go? (relative paths start at /work)"},
		{"none/man.go", "old", "new", old, "there is no directory " + dir + "/none"},
		{"large", "a", "b", old, "larger than 64 MiB, the most that is changed by this tool; use Bash"},
		{"large", "a", "b", "", "larger than 64 MiB"},
		{"dir", "a", "b", "", "is a directory, not a regular file; Edit changes only those"},
		{"fifo", "a", "b", "", "is a FIFO"},
		{"link", "old", "new", old, inside.ErrChanged.Error()},
		{"empty", "a", "b", files.Hash(nil), "old_string is not in the file"},
		{"empty", "", "new\n", "", ""},
		{"deep/er/new", "", "new\n", "", ""},
	} {
		path := dir + "/" + test.name
		out, err := Run(t.Context(), nil, Request{
			Path: []byte(path), Resolved: true, Workspace: "/work", Old: []byte(test.old), New: []byte(test.new), Expected: test.expected,
		})
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", test.name, err, test.err)
			}
			continue
		}
		data, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || string(data) != test.new || out.Hash != files.Hash(data) || out.Created != (test.name != "empty") {
			t.Errorf("%s: %q, %+v, %v", test.name, data, out, err)
		}
	}
	// Through a link that no rule restricts, what it leads to is changed.
	out, err := Run(t.Context(), nil, Request{Path: []byte(dir + "/link"), Old: []byte("old"), New: []byte("new"), Expected: old})
	data, readErr := os.ReadFile(dir + "/main.go")
	if err != nil || readErr != nil || string(data) != "new" || out.Path != dir+"/main.go" {
		t.Errorf("%q, %+v, %v", data, out, err)
	}
	if target, err := os.Readlink(dir + "/link"); err != nil || target != "main.go" {
		t.Errorf("the link was replaced: %v", err)
	}
}

func TestSnippet(t *testing.T) {
	path := workspace(t) + "/file"
	var b strings.Builder
	for i := range 26 {
		b.WriteByte('a' + byte(i))
		b.WriteByte('\n')
	}
	letters := b.String()
	for name, test := range map[string]struct {
		content, old, new string
		snippet           string
		start             int
	}{
		"in the middle":    {letters, "m\n", "1\n2\n", "i\nj\nk\nl\n1\n2\nn\no\np\nq\nr", 9},
		"at the beginning": {letters, "a", "1", "1\nb\nc\nd\ne", 1},
		"at the end":       {letters, "z", "1", "v\nw\nx\ny\n1", 22},
		"lines that go":    {letters, "m\nn\no\n", "", "i\nj\nk\nl\np\nq\nr\ns\nt", 9},
		"carriage returns": {"a\r\nb\r\nc\r\n", "b", "1", "a\n1\nc", 1},
		"a mark":           {"\ufeffa\nb\n", "b", "1", "a\n1", 1},
		"nothing is left":  {"a", "a", "", "", 1},
	} {
		out, _, err := edit(t, path, test.content, test.old, test.new, false)
		if err != nil || out.Snippet != test.snippet || out.Start != test.start {
			t.Errorf("%s: from %d: %q, %v, want from %d: %q", name, out.Start, out.Snippet, err, test.start, test.snippet)
		}
	}
	long := strings.Repeat("x", 1<<20)
	out, _, err := edit(t, path, long+"a"+long+"\n", "a", strings.Repeat("y", 1<<20), false)
	if err != nil || len(out.Snippet) > MostSnippet || len(out.Snippet) == 0 || out.Start != 1 {
		t.Errorf("%d bytes from line %d, %v", len(out.Snippet), out.Start, err)
	}
}

func TestEditIsBounded(t *testing.T) {
	path := workspace(t) + "/file"
	_, got, err := edit(t, path, strings.Repeat("a", 1<<20), "a", strings.Repeat("b", 1<<20), true)
	if err == nil || !strings.Contains(err.Error(), "more than the 64 MiB that are edited") || len(got) != 1<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// In plain text an edit is what strings.Replace does. With other line ends it is
// that too, when they are not looked at.
func FuzzEdit(f *testing.F) {
	f.Add("a\nb\nc\n", "b\n", "x\ny", false)
	f.Add("a\r\nb\r\n", "\n", "\n\n", true)
	f.Add("\r\n\r\r\n\n", "\r", "\n", true)
	f.Add("aXa\r\naXa", "aXa\n", "", false)
	f.Fuzz(func(t *testing.T, content, old, new string, all bool) {
		if old == "" || strings.Contains(content+old+new, "\ufeff") {
			return
		}
		plain := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		n := strings.Count(plain(content), plain(old))
		c, err := find([]byte(content), []byte(old), []byte(new), all)
		if err != nil {
			if same := plain(old) == plain(new); !same && (n == 1 || n > 1 && all) {
				t.Errorf("%v, and it is there %d times", err, n)
			}
			return
		}
		if n == 0 || n > 1 && !all || c.count != n {
			t.Errorf("%d replacements, it is there %d times", c.count, n)
		}
		v := newView([]byte(content), c)
		var out bytes.Buffer
		c.emit([]byte(content), func(p []byte) error {
			v.take(p)
			out.Write(p)
			return nil
		})
		got := out.String()
		if c.size([]byte(content)) != int64(len(got)) {
			t.Errorf("%d bytes, said to be %d", len(got), c.size([]byte(content)))
		}
		if strings.Contains(content, "\r\n") {
			if want := strings.ReplaceAll(plain(content), plain(old), plain(new)); plain(got) != plain(want) {
				t.Errorf("%q for %q in %q: %q, want %q", new, old, content, got, want)
			}
		} else if want := strings.ReplaceAll(content, plain(old), new); got != want {
			t.Errorf("%q for %q in %q: %q, want %q", new, old, content, got, want)
		}
		if crOnly(content) && strings.Contains(content, "\r\n") && !strings.Contains(old+new, "\r") && !strings.Contains(content, "\r\r") && !crOnly(got) {
			t.Errorf("%q for %q in %q: %q has other line ends", new, old, content, got)
		}
		snippet, line := v.lines()
		if valid := strings.ToValidUTF8(plain(got), "\ufffd"); utf8.ValidString(got) && !strings.Contains(valid, snippet) {
			t.Errorf("the snippet %q is not in %q", snippet, got)
		}
		if line < 1 || line > strings.Count(got, "\n")+1 {
			t.Errorf("the snippet is from line %d of %q", line, got)
		}
	})
}

// crOnly reports whether every line end has a carriage return.
func crOnly(s string) bool { return strings.Count(s, "\n") == strings.Count(s, "\r\n") }
