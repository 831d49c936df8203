package call

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/files"
)

func TestWrite(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(dir+"/file", []byte("old\n"), 0o755))
	must(os.WriteFile(dir+"/again", []byte("old\n"), 0o644))
	must(os.WriteFile(dir+"/unread", []byte("old\n"), 0o644))
	must(os.WriteFile(dir+"/touched", nil, 0o644))
	must(os.WriteFile(dir+"/large", nil, 0o644))
	must(os.Truncate(dir+"/large", files.MostHashed+1))
	must(os.Link(dir+"/again", dir+"/name"))
	must(os.Symlink("target", dir+"/dangling"))
	must(os.Symlink("unread", dir+"/link"))
	must(os.Mkdir(dir+"/dir", 0o755))
	must(unix.Mkfifo(dir+"/fifo", 0o644))
	old := files.Hash([]byte("old\n"))
	for _, test := range []struct {
		name     string
		resolved bool
		expected string
		content  string
		want     Output // without hash and path
		err      string
	}{
		{"new", true, "", "a\nb", Output{Created: true, Size: 3, Lines: 2}, ""},
		{"a/b/new", true, "", "", Output{Created: true}, ""},
		{"with\nnewline\xff", true, "", "x\n", Output{Created: true, Size: 2, Lines: 1}, ""},
		{"gone", true, old, "x", Output{Created: true, Size: 1, Lines: 1}, ""},
		{"file", true, old, "new\r\n", Output{Size: 5, Lines: 1}, ""},
		{"again", true, old, "", Output{Emptied: true, Links: 1}, ""},
		{"touched", true, "", "x", Output{Size: 1, Lines: 1}, ""},
		{"dangling", false, "", "x", Output{Created: true, Size: 1, Lines: 1}, ""},
		{"dangling", true, "", "x", Output{}, inside.ErrChanged.Error()},
		{"unread", true, "", "x", Output{}, "it has not been read yet; Read it first"},
		{"link", false, "", "x", Output{}, "it has not been read yet; Read it first"},
		{"unread", true, files.Hash([]byte("older")), "x", Output{}, "it changed since it was read; Read it again"},
		{"large", true, "", "x", Output{}, "larger than 64 MiB, the most that is changed by this tool; use Bash"},
		{"none/" + strings.Repeat("n", 256) + "/x", true, "", "x", Output{}, "too long"},
		{"none/" + strings.Repeat("n", 256), true, "", "x", Output{}, "too long"},
		{"large", true, old, "x", Output{}, "it changed since it was read"},
		{"dir", true, "", "x", Output{}, "is a directory, not a regular file; Write replaces only those"},
		{"fifo", true, "", "x", Output{}, "is a FIFO, not a regular file"},
		{"file/x", true, "", "x", Output{}, "is a regular file, not a directory"},
	} {
		got, err := Run(t.Context(), nil, Request{
			Path: []byte(dir + "/" + test.name), Resolved: test.resolved, Content: []byte(test.content), Expected: test.expected,
		})
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v, want %q", test.name, err, test.err)
			}
			continue
		}
		data, readErr := os.ReadFile(dir + "/" + test.name)
		if readErr != nil || string(data) != test.content || got.Hash != files.Hash(data) {
			t.Errorf("%q holds %q, %v, want %q", test.name, data, readErr, test.content)
		}
		got.Hash, got.Path = "", ""
		if err != nil || got != test.want {
			t.Errorf("%q: %+v, %v, want %+v", test.name, got, err, test.want)
		}
	}
	if _, err := os.Lstat(dir + "/none"); err == nil {
		t.Error("a directory was left for a file that could not be made")
	}
	if info, err := os.Stat(dir + "/file"); err != nil || info.Mode() != 0o755 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if target, err := os.Readlink(dir + "/dangling"); target != "target" || err != nil {
		t.Error("the link was replaced, not what it leads to")
	}
	if data, err := os.ReadFile(dir + "/name"); string(data) != "old\n" || err != nil {
		t.Errorf("the other name holds %q, %v", data, err)
	}
}
