package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
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

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func request(path string) Request {
	return Request{Path: []byte(path), Resolved: true, Workspace: "/work", Offset: 1, Limit: DefaultLimit}
}

func TestRead(t *testing.T) {
	dir := workspace(t)
	long := strings.Repeat("x", mostLine)
	snow := strings.Repeat("☃", mostLine)
	for name, test := range map[string]struct {
		content       string
		offset, limit int
		want          Output // without size and hash
	}{
		"a file":                        {"a\nb\n", 1, 2000, Output{Content: "a\nb", Lines: 2, Total: 2}},
		"no newline at the end":         {"a\nb", 1, 2000, Output{Content: "a\nb", Lines: 2, Total: 2}},
		"empty lines":                   {"\n\n\n", 1, 2000, Output{Content: "\n\n", Lines: 3, Total: 3}},
		"one newline":                   {"\n", 1, 2000, Output{Lines: 1, Total: 1}},
		"empty":                         {"", 1, 2000, Output{}},
		"only a mark":                   {"\ufeff", 1, 2000, Output{Total: 1}},
		"from a line on":                {"a\nb\nc\n", 2, 2000, Output{Content: "b\nc", Lines: 2, Total: 3}},
		"some lines":                    {"a\nb\nc\nd\n", 2, 2, Output{Content: "b\nc", Lines: 2, Total: 4, Next: 4}},
		"as many as there are":          {"a\nb\n", 1, 2, Output{Content: "a\nb", Lines: 2, Total: 2}},
		"past the end":                  {"a\nb\n", 3, 10, Output{Total: 2}},
		"far past the end":              {"a\nb\n", 1 << 60, 1 << 60, Output{Total: 2}},
		"carriage returns":              {"a\r\nb\r\n\r\nc\r", 1, 10, Output{Content: "a\nb\n\nc\r", Lines: 4, Total: 4}},
		"mark":                          {"\ufeffa\n", 1, 10, Output{Content: "a", Lines: 1, Total: 1}},
		"a line that just fits":         {long + "\n" + snow + "\n", 1, 10, Output{Content: long + "\n" + snow, Lines: 2, Total: 2}},
		"a line that does not":          {long + "yz\nb\n", 1, 10, Output{Content: long + "... [2 more bytes of this line are not shown]\nb", Lines: 2, Total: 2}},
		"a line of wide characters":     {snow + "☃", 1, 10, Output{Content: snow + "... [3 more bytes of this line are not shown]", Lines: 1, Total: 1}},
		"a long line that is passed by": {strings.Repeat(long, 100) + "\nb\n", 2, 10, Output{Content: "b", Lines: 1, Total: 2}},
	} {
		path := dir + "/file"
		write(t, path, test.content)
		req := request(path)
		req.Offset, req.Limit = test.offset, test.limit
		got, err := Run(t.Context(), nil, req)
		want := test.want
		want.Start, want.Size, want.Hash = test.offset, int64(len(test.content)), files.Hash([]byte(test.content))
		if err != nil || got != want {
			t.Errorf("%s: %.300v, %v, want %.300v", name, got, err, want)
		}
	}
}

func TestReadStopsAtItsSize(t *testing.T) {
	dir := workspace(t)
	const n = 10_000
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d %s\n", i+1, strings.Repeat("x", 90))
	}
	write(t, dir+"/file", b.String())
	req := request(dir + "/file")
	req.Limit = 1 << 40
	var all []string
	for calls := 0; ; calls++ {
		out, err := Run(t.Context(), nil, req)
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Content) > mostBytes || out.Total != n || (out.Next > 0) != out.Full || len(strings.Split(out.Content, "\n")) != out.Lines {
			t.Fatalf("%d bytes, total %d, next %d, full %v", len(out.Content), out.Total, out.Next, out.Full)
		}
		all = append(all, out.Content)
		if out.Next == 0 {
			if calls < 3 {
				t.Errorf("%d calls", calls)
			}
			break
		}
		req.Offset = out.Next
	}
	if strings.Join(all, "\n")+"\n" != b.String() {
		t.Error("the parts are not the file")
	}
}

func TestReadRefuses(t *testing.T) {
	dir := workspace(t)
	write(t, dir+"/main.go", "x")
	write(t, dir+"/binary", "a\x00b")
	write(t, dir+"/no\nname", "\x00")
	if err := unix.Mkfifo(dir+"/fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", dir+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Symlink("main.go", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                                 "is a directory, not a regular file; use Bash ls or Glob",
		dir + "/fifo":                       "is a FIFO, not a regular file",
		dir + "/socket":                     "is a socket",
		"/dev/zero":                         "is a device",
		dir + "/binary":                     "not text but binary data of 3 bytes",
		dir + "/no\nname":                   `no\nname": it is not text`,
		dir + "/man.go":                     "did you mean " + dir + "/main.go? (relative paths start at /work)",
		dir + "/link":                       inside.ErrChanged.Error(),
		dir + strings.Repeat("/deep", 1000): "too long",
	} {
		out, err := Run(t.Context(), nil, request(path))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, %v, want %q", path, out, err, want)
		}
	}
	req := request(dir + "/link")
	req.Resolved = false
	if out, err := Run(t.Context(), nil, req); err != nil || out.Content != "x" {
		t.Errorf("through a link that no rule restricts: %v, %v", out, err)
	}
	for _, path := range []string{"/dev/stdin", "/proc/self/fd/0", "/proc/self/exe"} {
		req.Path = []byte(path)
		if _, err := Run(t.Context(), nil, req); err == nil || !strings.Contains(err.Error(), "what a process has open") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A file of /proc says that it is empty.
func TestReadOfProc(t *testing.T) {
	out, err := Run(t.Context(), nil, request("/proc/version"))
	if err != nil || !strings.HasPrefix(out.Content, "Linux version") || out.Size == 0 || out.Total != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Memory is bounded, whatever the size of a file and of its lines.
func TestReadOfHugeFiles(t *testing.T) {
	dir := workspace(t)
	sparse := func(name, head string, size int64) string {
		t.Helper()
		path := dir + "/" + name
		write(t, path, head)
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := strings.Repeat("some text\n", 1000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	zeros := sparse("zeros", "", 1<<40)
	if _, err := Run(t.Context(), nil, request(zeros)); err == nil || !strings.Contains(err.Error(), "1099511627776 bytes") {
		t.Error(err)
	}
	// Below the size to which all is hashed, all is counted.
	path := sparse("counted", text, files.MostHashed)
	out, err := Run(t.Context(), nil, request(path))
	if err != nil || out.Lines != 1001 || out.Total != 1001 || out.Hash == "" || out.Next != 0 {
		t.Errorf("%d of %d lines, hash %q, %v", out.Lines, out.Total, out.Hash, err)
	}
	path = sparse("large", text, files.MostHashed+1)
	req := request(path)
	req.Limit = 10
	out, err = Run(t.Context(), nil, req)
	if err != nil || out.Lines != 10 || out.Total != -1 || out.Hash != "" || out.Next != 11 || out.Size != files.MostHashed+1 {
		t.Errorf("%+v, %v", out, err)
	}
	path = sparse("endless", text, mostScanned+1<<20)
	out, err = Run(t.Context(), nil, request(path))
	if err != nil || out.Lines != 1001 || !out.Far || len(out.Content) > len(text)+keptLine {
		t.Errorf("%d lines, far %v, %v", out.Lines, out.Far, err)
	}
	req = request(path)
	req.Offset = 1002
	if _, err := Run(t.Context(), nil, req); err == nil || !strings.Contains(err.Error(), "line 1002 is beyond the first 1024 MiB") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, nil, request(path)); !errors.Is(err, context.Canceled) {
		t.Errorf("of a call that was stopped: %v", err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

// lineByLine is what the cutter does, for all at once.
func lineByLine(data string, offset, limit int) (content string, lines int, full bool) {
	var taken []string
	shown := 0
	for i, line := range strings.SplitAfter(data, "\n") {
		if line == "" || i+1 < offset || len(taken) == limit {
			continue
		}
		if plain, ended := strings.CutSuffix(line, "\n"); ended {
			line = strings.TrimSuffix(plain, "\r")
		}
		if n := utf8.RuneCountInString(line); n > mostLine {
			at, seen := len(line), 0
			for i := range line {
				if seen++; seen > mostLine {
					at = i
					break
				}
			}
			line = fmt.Sprintf("%s... [%d more bytes of this line are not shown]", line[:at], len(line)-at)
		}
		if shown += len(line) + numbered; shown > mostBytes && len(taken) > 0 {
			full = true
			break
		}
		taken = append(taken, line)
	}
	return strings.Join(taken, "\n"), len(taken), full
}

// In whatever pieces a file is read, its lines are the same.
func FuzzCutter(f *testing.F) {
	f.Add("a\nb\r\nc", 1, 10, 1, 1)
	f.Add("\n\n\r\n", 2, 1, 3, 7)
	f.Add("long ☃ \xff\xf0\x9f\n", 1, 100, 2, 3000)
	f.Add("x\r\n", 1, 40000, 64, 40000)
	f.Fuzz(func(t *testing.T, text string, offset, limit, size, times int) {
		if offset < 1 || limit < 1 || size < 1 || times < 1 || times > 100_000 || len(text)*times > 1<<20 {
			return
		}
		data := strings.Repeat(text, times)
		c := cutter{offset: offset, limit: limit}
		for rest := []byte(data); len(rest) > 0; {
			n := min(size, len(rest))
			c.feed(bytes.Clone(rest[:n]))
			rest = rest[n:]
		}
		c.end()
		content, lines, full := lineByLine(data, offset, limit)
		if string(c.out) != content || c.lines != lines || c.full != full {
			t.Errorf("%d lines, full %v: %.200q\nwant %d, %v: %.200q", c.lines, c.full, c.out, lines, full, content)
		}
		if more := c.done && c.more; more != (lines > 0 && offset+lines-1 < files.CountLines([]byte(data))) {
			t.Errorf("more: %v", more)
		}
	})
}

func TestReadOfOneByteAtATime(t *testing.T) {
	out, err := read(t.Context(), iotest.OneByteReader(strings.NewReader("\ufeffa\r\nb")), 0, 1, 10)
	if err != nil || out.Content != "a\nb" || out.Size != 7 {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := read(t.Context(), iotest.ErrReader(unix.EIO), 0, 1, 10); !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
}

func BenchmarkRead(b *testing.B) {
	dir := workspace(b)
	write(b, dir+"/file", strings.Repeat("a line of a file, as long as many: 64 bytes with its newline...\n", 64))
	req := request(dir + "/file")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(b.Context(), nil, req); err != nil {
			b.Fatal(err)
		}
	}
}
