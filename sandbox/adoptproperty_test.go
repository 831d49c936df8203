package sandbox_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// genPath is one of few paths, so that commands meet.
func genPath() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		root := rapid.SampledFrom([]string{"", "", "", "~/", "/tmp/t/"}).Draw(t, "root")
		return root + rapid.SampledFrom([]string{"a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/b", "f", "f/a", "f/b"}).Draw(t, "name")
	})
}

// genCommand is one command. It may fail.
func genCommand() *rapid.Generator[string] {
	forms := []string{
		"mkdir P", "mkdir -p P", "rmdir P", "rm -f P", "rm -rf P", "rm -rf P; mkdir P", "rm -rf P; echo new > P",
		"mv P P", "mv -fT P P", "cp P P", "cp -r P P", "cp -aT P P", "ln P P", "ln -f P P", "ln -sf a P", "ln -sfT ../b P", "ln -sT /etc/passwd P",
		"echo text > P", "echo more >> P", "echo >> P", ": > P", "truncate -s 3 P", "truncate -s 70000 P", "head -c 300000 /dev/zero | tr '\\0' x > P",
		"touch P", "touch -d 2003-04-05 P", "touch -hd 2004-05-06 P", "mkfifo P", "sed -i s/t/T/ P", "echo text > P; mv -fT P P",
		"chmod 600 P", "chmod 755 P", "chmod 555 P", "chmod 4755 P", "chmod 2711 P", "chmod 1777 P", "chmod -R go-rwx P", "test -d P || chmod 0 P",
		"(umask 077; echo x > P; mkdir -p P)", "exec 3>> P; echo open >&3; rm -f P; exec 3>&-",
	}
	return rapid.Custom(func(t *rapid.T) string {
		form := rapid.SampledFrom(forms).Draw(t, "form")
		last, guard := "", ""
		for strings.Contains(form, "P") {
			path := genPath().Draw(t, "path")
			if last != "" && strings.HasPrefix(path, last+"/") {
				path = last // what is copied into itself depends on the order of names
			}
			if guard += "test -p " + path + " || "; last != "" {
				guard += "test -p " + path + "/" + filepath.Base(last) + " || "
			}
			form, last = strings.Replace(form, "P", path, 1), path
		}
		if strings.HasPrefix(form, "mkfifo") || strings.HasPrefix(form, "mv") || strings.HasPrefix(form, "rm") {
			return form
		}
		return guard + "{ " + form + "; }" // nobody reads a FIFO
	})
}

func genScript(least, most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return "mkdir -p /tmp/t\n" + strings.Join(rapid.SliceOfN(genCommand(), least, most).Draw(t, "commands"), "\n")
	})
}

// genWorkspace is what the user has.
func genWorkspace() *rapid.Generator[map[string]string] {
	return rapid.MapOfN(
		rapid.SampledFrom([]string{"a", "b", "d/", "d/a", "d/b", "d/e/", "d/e/a", "f/", "f/b"}),
		rapid.SampledFrom([]string{"", "user\n", "text\nof the user\n"}), 0, 8)
}

func TestAdoptedScriptIsTheScript(t *testing.T) {
	adopted, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		files := genWorkspace().Draw(rt, "workspace")
		before := genScript(0, 6).Draw(rt, "before")
		if rapid.IntRange(0, 3).Draw(rt, "links") == 0 {
			before += "\nrm -rf a d ~/a; mkdir d; echo one > a; ln -f a b; ln -f a d/a; echo one > ~/a; ln -f ~/a ~/b"
		}
		script := genScript(1, 8).Draw(rt, "script")
		t := &inner{TB: t, rt: rt}
		defer t.cleanup()
		adopts := sallytest.Session(t, sandbox.Settings{Workspace: aged(t, tree(t, files))}, sandbox.Limits{})
		runs := sallytest.Session(t, sandbox.Settings{Workspace: aged(t, tree(t, files))}, sandbox.Limits{})
		try(t, adopts, sandbox.Envelope{}, before)
		try(t, runs, sandbox.Envelope{}, before)

		f := fork(t, adopts)
		defer f.Close()
		try(t, f, sandbox.Envelope{}, script)
		e := effects(t, f)
		was := snapshot(t, adopts, false)
		if _, err := adopts.Adopt(t.Context(), e); errors.Is(err, sandbox.ErrInexact) {
			refused++
			if diff := cmp.Diff(was, snapshot(t, adopts, false)); diff != "" {
				t.Fatalf("refused, and yet\n%s", diff)
			}
			return
		} else if err != nil {
			t.Fatal(err)
		}
		adopted++
		if diff := cmp.Diff(snapshot(t, f, false), snapshot(t, adopts, false)); diff != "" {
			t.Fatalf("(-fork +adopted)\n%s", diff)
		}
		try(t, runs, sandbox.Envelope{}, script)
		if diff := cmp.Diff(snapshot(t, runs, true), snapshot(t, adopts, true)); diff != "" {
			t.Fatalf("(-run +adopted)\n%s", diff)
		}
		if diff := cmp.Diff(withBases(changes(t, runs)), withBases(changes(t, adopts))); diff != "" {
			t.Fatalf("changes (-run +adopted)\n%s", diff)
		}
	})
	t.Logf("%d adopted, %d refused", adopted, refused)
	if adopted < 2*refused {
		t.Errorf("%d were adopted and %d refused", adopted, refused)
	}
}

// withBases is a change set with what is known of the bases, a line a change.
func withBases(c *sandbox.Changes) string {
	var lines []string
	for _, c := range c.Changes {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s", c.Kind, c.Path, c.Base, c.Conflict, c.Refused))
	}
	return strings.Join(lines, "\n")
}

// inner is a test inside a rapid check: what it cleans up is cleaned up at the
// end of each run.
type inner struct {
	testing.TB
	rt    *rapid.T
	clean []func()
}

func (i *inner) Cleanup(f func())          { i.clean = append(i.clean, f) }
func (i *inner) Fatal(args ...any)         { i.rt.Helper(); i.rt.Fatal(args...) }
func (i *inner) Fatalf(f string, a ...any) { i.rt.Helper(); i.rt.Fatalf(f, a...) }
func (i *inner) Error(args ...any)         { i.rt.Helper(); i.rt.Error(args...) }
func (i *inner) Errorf(f string, a ...any) { i.rt.Helper(); i.rt.Errorf(f, a...) }

func (i *inner) cleanup() {
	for n := len(i.clean) - 1; n >= 0; n-- {
		i.clean[n]()
	}
}
