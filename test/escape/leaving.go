package escape

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// A leaving is a way that changes could take out of the workspace when they are
// applied.
type leaving struct {
	name string
	// inside is what a shell does in the session.
	inside string
	// swap is what happens on the host once the changes have been read.
	swap func(t *testing.T, workspace, outside string) (stop func())
	// want are paths of the workspace, and what they must be afterwards: the
	// content of a file, "-> target" of a link, "dir", or "" for nothing.
	want map[string]string
}

var leavings = []leaving{
	{
		name:   "through a link made inside",
		inside: "ln -s $OUTSIDE l && ! echo evil >l/x; ln -s $OUTSIDE/x m; ! echo evil >m",
		want:   map[string]string{"l": "-> $OUTSIDE", "m": "-> $OUTSIDE/x"},
	},
	{
		name:   "a directory becomes a link",
		inside: "rm -r d && ln -s $OUTSIDE d",
		want:   map[string]string{"d": "-> $OUTSIDE"},
	},
	{
		name:   "a link becomes a directory",
		inside: "rm out && mkdir out && echo evil >out/x && echo evil >out/new",
		want:   map[string]string{"out": "dir", "out/x": "evil\n"},
	},
	{
		name:   "a link becomes a file",
		inside: "rm filelink && echo evil >filelink",
		want:   map[string]string{"filelink": "evil\n"},
	},
	{
		name:   "hard link of the user's",
		inside: "echo evil >hard && chmod 777 hard",
		want:   map[string]string{"hard": "evil\n"},
	},
	{
		name:   "hard link made inside",
		inside: "ln hard other && echo evil >other && ln file second",
		want:   map[string]string{"other": "evil\n", "second": "a file of the user's\n"},
	},
	{
		name:   "what is no file",
		inside: "mkfifo fifo && chmod 6755 d/f && cp /usr/bin/env suid && chmod 4755 suid",
		want:   map[string]string{"fifo": ""},
	},
	{
		name:   "a directory was swapped",
		inside: "echo evil >d/f && echo evil >d/x && rm -f d/g",
		swap: func(t *testing.T, workspace, outside string) func() {
			swapForLink(t, workspace, outside)
			return func() {}
		},
		want: map[string]string{"d": "-> $OUTSIDE"},
	},
	{
		name:   "a directory is swapped all the time",
		inside: "for i in 1 2 3 4 5 6 7 8 9; do echo evil >d/$i; mkdir -p d/s$i/t; echo evil >d/s$i/t/x; done; echo evil >d/f; echo evil >d/x; rm d/g",
		swap: func(t *testing.T, workspace, outside string) func() {
			link := filepath.Join(workspace, "aside")
			if err := os.Symlink(outside, link); err != nil {
				t.Fatal(err)
			}
			quit, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-quit:
						return
					default:
						unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, filepath.Join(workspace, "d"), unix.RENAME_EXCHANGE)
					}
				}
			}()
			return func() {
				close(quit)
				<-done
			}
		},
	},
}

// swapForLink puts a link to outside where a directory is.
func swapForLink(t *testing.T, workspace, outside string) {
	dir := filepath.Join(workspace, "d")
	if err := os.Rename(dir, filepath.Join(workspace, "aside")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, dir); err != nil {
		t.Fatal(err)
	}
}

// testLeaving applies each, as it is and by force, and looks at what lies
// outside.
func testLeaving(t *testing.T, s *suite) {
	for _, l := range leavings {
		for _, force := range []bool{false, true} {
			name := l.name
			if force {
				if s.kind.name == "owner" {
					continue // as root in a workspace of root's own
				}
				name += " by force"
			}
			t.Run(name, func(t *testing.T) { s.leave(t, l, force) })
		}
	}
}

func (s *suite) leave(t *testing.T, l leaving, force bool) {
	workspace := s.workspace(t)
	outside := filepath.Join(t.TempDir(), "outside")
	in := func(name string) string { return filepath.Join(workspace, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(outside, 0o777))
	for _, name := range []string{"f", "g", "x", "hard"} {
		must(os.WriteFile(filepath.Join(outside, name), []byte("outside\n"), 0o666))
	}
	must(os.Mkdir(in("d"), 0o755))
	must(os.Symlink(outside, in("out")))
	must(os.Symlink(filepath.Join(outside, "x"), in("filelink")))
	must(os.Link(filepath.Join(outside, "hard"), in("hard")))
	s.give(t, in("d"), in("out"), in("hard"))
	for _, name := range []string{"d/f", "d/g"} {
		s.put(t, in(name), "a file of the user's\n")
	}
	before := describeTree(t, outside)
	sallytest.Settle(t)

	live := s.session(t, workspace, sandbox.Limits{})
	if got := try(t.Context(), live, sandbox.Hand, "sh", "-c", strings.ReplaceAll(l.inside, "$OUTSIDE", outside)); strings.Contains(got, "error: ") {
		t.Fatal(got)
	}
	changes, err := live.Changes(t.Context(), nil)
	must(err)
	defer changes.Close()
	stop := func() {}
	if l.swap != nil {
		stop = l.swap(t, workspace, outside)
	}
	report, err := live.Apply(t.Context(), changes, sandbox.ApplyOptions{Force: force})
	stop()
	t.Logf("%+v, %v", report, err)
	if after := describeTree(t, outside); after != before {
		t.Errorf("outside was\n%sand is\n%s", before, after)
	}
	for name, want := range l.want {
		if got := what(in(name)); got != strings.ReplaceAll(want, "$OUTSIDE", outside) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	// What has left is files, directories and links.
	must(filepath.WalkDir(workspace, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if odd := info.Mode() & (fs.ModeDevice | fs.ModeNamedPipe | fs.ModeSocket | fs.ModeSetuid | fs.ModeSetgid | fs.ModeIrregular); odd != 0 {
			t.Errorf("%s has left as %v", path, info.Mode())
		}
		return nil
	}))
}

// describeTree describes all that lies in a directory.
func describeTree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s: %v, %s\n", path, info.Mode(), what(path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// what says what is at a path.
func what(path string) string {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return err.Error()
	case info.IsDir():
		return "dir"
	case info.Mode()&fs.ModeSymlink != 0:
		target, _ := os.Readlink(path)
		return "-> " + target
	case !info.Mode().IsRegular():
		return info.Mode().String()
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
