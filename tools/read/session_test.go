package read_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/read"
	"github.com/sallyport/sallyport/tools/read/call"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

// inSession is the context of a call on a path of the session that was judged.
func inSession(s *sandbox.Session, e sandbox.Envelope, path string) *tools.Context {
	return &tools.Context{
		Options: tools.Options{Workspace: s.Workspace},
		Run: tools.Run{
			State: tools.NewState(s.Workspace), Dir: s.Workspace, Box: sallytest.Box{Session: s, Envelope: e},
			Judged: []tools.Judged{{Path: path, Resolved: true}},
		},
	}
}

func lines(size int) []byte {
	return bytes.Repeat([]byte("a line of a file, as long as many: 64 bytes with its newline...\n"), size/64)
}

func TestReadInASession(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(work, "file")
	if err := os.WriteFile(file, lines(4096), 0o644); err != nil {
		t.Fatal(err)
	}
	s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	for _, e := range []sandbox.Envelope{{}, {Box: sandbox.Eye}} {
		c := inSession(s, e, file)
		called, err := read.Tool.Call(t.Context(), c, read.Input{FilePath: "file"}, nil)
		if err != nil {
			t.Fatalf("in the %v: %v", e.Box, err)
		}
		if out := called.Data.(call.Output); out.Lines != 64 || out.Size != 4096 || out.Next != 0 {
			t.Errorf("in the %v: %+v", e.Box, out)
		}
		called.Modify(c.State)
		if hash, ok := c.State.Seen(file); !ok || len(hash) != 64 {
			t.Errorf("in the %v: the state has %q", e.Box, hash)
		}
		for path, want := range map[string]string{
			"/dev/zero":           "is a device",
			work:                  "is a directory",
			"/dev/stdin":          "changed while it was judged",
			"/proc/self/fd/0":     "changed while it was judged",
			work + "/fil":         "did you mean " + work + "/file?",
			"/proc/1/environ":     "permission denied",
			"/proc/1/maps":        "permission denied",
			"/proc/1/mem":         "permission denied",
			"/proc/1/task/1/auxv": "permission denied",
			"/proc/sys/kernel/..": "is a directory",
		} {
			c.Judged[0].Path = path
			if _, err := read.Tool.Call(t.Context(), c, read.Input{FilePath: path}, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s in the %v: %v, want %q", path, e.Box, err, want)
			}
		}
		c.Judged[0].Path = "/proc/self/status"
		c.Judged[0].Resolved = false // through the link that self is
		called, err = read.Tool.Call(t.Context(), c, read.Input{FilePath: "/proc/self/status"}, nil)
		if err != nil || !strings.Contains(called.Blocks[0].Text, "sallyport-guest") {
			t.Errorf("/proc/self/status in the %v: %+v, %v", e.Box, called, err)
		}
	}
}

// A read end to end: the host's side, the wire, a thread that is held to the
// envelope, the file.
func BenchmarkReadInASession(b *testing.B) {
	work := filepath.Join(b.TempDir(), "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(work, "file")
	if err := os.WriteFile(file, lines(4096), 0o644); err != nil {
		b.Fatal(err)
	}
	s := sallytest.Session(b, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	b.Run("echo", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Call(b.Context(), "echo", []byte("hello"), sandbox.Envelope{}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Call(b.Context(), "resolve", []byte("{}"), sandbox.Envelope{}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, e := range []sandbox.Envelope{{}, {Box: sandbox.Eye}} {
		c := inSession(s, e, file)
		b.Run(e.Box.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := read.Tool.Call(b.Context(), c, read.Input{FilePath: "file"}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
