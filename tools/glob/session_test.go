package glob_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/glob"
	"github.com/sallyport/sallyport/tools/internal/tree/treetest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

func TestGlobInASession(t *testing.T) {
	dir, outside := treetest.Hostile(t)
	s := sallytest.Session(t, sandbox.Settings{Workspace: dir}, sandbox.Limits{})
	for _, e := range []sandbox.Envelope{{}, {Box: sandbox.Eye}} {
		find := func(path, pattern string) (glob.Output, error) {
			called, err := glob.Tool.Call(t.Context(), &tools.Context{
				Options: tools.Options{Workspace: s.Workspace},
				Run:     tools.Run{Box: sallytest.Box{Session: s, Envelope: e}, Judged: []tools.Judged{{Path: path, Resolved: true}}},
			}, glob.Input{Pattern: pattern}, nil)
			if err != nil {
				return glob.Output{}, err
			}
			return called.Data.(glob.Output), nil
		}
		out, err := find(dir, "**/*")
		if err != nil {
			t.Fatalf("in the %v: %v", e.Box, err)
		}
		for _, name := range []string{"plain", "new\nline", "sparse", "link-dir"} {
			if !slices.Contains(out.Files, name) {
				t.Errorf("in the %v: %q was not found among %q", e.Box, name, out.Files)
			}
		}
		for _, name := range out.Files {
			if strings.Contains(name, "/") || name == "fifo" || name == "zero" {
				t.Errorf("in the %v: %q was found", e.Box, name)
			}
		}
		for path, want := range map[string]string{
			"/proc": "not searched", "/proc/1/fd": "permission denied", "/dev/zero": "a device", dir + "/plain": "is a file",
			dir + "/link-dir": "changed while it was judged", filepath.Dir(outside) + "/outside": "does not exist",
		} {
			if out, err := find(path, "*"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("in the %v: %s: %+v, %v; want %q", e.Box, path, out, err, want)
			}
		}
	}
}
