package changeset

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// lines is a set without what is inferred, by path.
func (l *lab) lines(b *Bases) map[string]string {
	l.t.Helper()
	lines := make(map[string]string)
	for _, c := range l.read(Options{raw: true, Bases: b}).Changes {
		c.Outside = false // depends on what else is there
		lines[c.Path] = fmt.Sprint(describe(&Set{Changes: []*Change{c}}), c.Base, c.Size)
	}
	return lines
}

// After dropping any of the changes, the upper makes all others and no more, and
// their bases are known as before.
func TestDropLeavesTheRest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	rapid.Check(t, func(rt *rapid.T) {
		inner := &inner{TB: t, rt: rt}
		defer inner.cleanup()
		l := newFastLab(inner, b)
		for _, o := range genTree().Draw(rt, "base") {
			o.do(l.base)
		}
		bases := l.bases()
		l.begin(bases)
		l.box.do(boxCall{Dir: l.view, Ops: rapid.SliceOfN(genOp(), 1, 15).Draw(rt, "ops")})
		l.scan(bases)
		l.unmount()

		want := l.lines(bases)
		set := l.read(Options{Bases: bases})
		before := describe(set)
		drop := make(map[string]bool)
		for _, c := range set.Changes {
			if !rapid.Bool().Draw(rt, "drop "+c.Path) {
				continue
			}
			drop[c.Path] = true
			if c.makesDir() {
				for _, below := range set.Select(c.Path) {
					drop[below] = true
				}
			}
		}
		var names []string
		for _, c := range set.Changes {
			if drop[c.Path] {
				names = append(names, c.Path)
				delete(want, c.Path)
				if c.Kind == Renamed && !c.fromDir {
					delete(want, c.From)
				}
			}
		}
		if err := Drop(t.Context(), set, append(names, set.Unchanged()...)); err != nil {
			rt.Fatalf("%v\n%s", err, before)
		}
		if diff := cmp.Diff(want, l.lines(bases)); diff != "" {
			rt.Fatalf("dropped %q of\n%s(-want +got)\n%s", names, before, diff)
		}
		l.scan(bases)
		bases.Close()
		if diff := cmp.Diff(want, l.lines(l.bases())); diff != "" {
			rt.Fatalf("dropped %q of\n%sand opened again (-want +got)\n%s", names, before, diff)
		}
		if len(want) == 0 {
			for line := range strings.Lines(mustTree(inner, l.upper)) {
				if !strings.Contains(line, " d") { // an opaque directory may hide nothing
					rt.Fatalf("all was dropped of\n%s, and there is left %s", before, line)
				}
			}
		}
	})
}

// A session that goes on after some of its changes were applied sees what it
// saw before, and what it does then is no conflict.
func TestApplyAndDropKeepTheView(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	op := genOp().Filter(func(o op) bool { return o.Do != "link" }) // applying splits links
	rapid.Check(t, func(rt *rapid.T) {
		inner := &inner{TB: t, rt: rt}
		defer inner.cleanup()
		l := newFastLab(inner, b)
		for _, o := range genTree().Draw(rt, "base") {
			o.do(l.base)
		}
		model := filepath.Join(l.dir, "model")
		if err := copyTree(l.base, model); err != nil {
			rt.Fatal(err)
		}
		bases := l.bases()
		var told strings.Builder
		rounds := rapid.IntRange(1, 3).Draw(rt, "rounds")
		for round := range rounds {
			l.begin(bases)
			ops := rapid.SliceOfN(op, 1, 10).Draw(rt, "ops")
			l.box.do(boxCall{Dir: l.view, Ops: ops})
			l.box.do(boxCall{Dir: model, Ops: ops})
			l.scan(bases)
			l.unmount()
			set := l.read(Options{Bases: bases})
			fmt.Fprintf(&told, "round %d: %v\n%s", round, ops, describe(set))
			o := ApplyOptions{Journal: l.state}
			if round < rounds-1 {
				o.Paths = []string{}
				for _, c := range set.Changes {
					if rapid.Bool().Draw(rt, "apply "+c.Path) {
						o.Paths = append(o.Paths, c.Path)
					}
				}
			}
			report, err := Apply(t.Context(), set, openDir(inner, l.base), o)
			if err != nil || len(report.Conflicts)+len(report.Failed)+len(report.Refused) > 0 {
				rt.Fatalf("%s%v\n%s", &told, err, describeReport(report))
			}
			fmt.Fprintf(&told, "applied %q\n", report.Applied)
			if err := Drop(t.Context(), set, report.Applied); err != nil {
				rt.Fatal(err)
			}
			l.mount()
			if diff := cmp.Diff(mustTree(inner, model), l.viewTree()); diff != "" {
				rt.Fatalf("%s(-model +view)\n%s", &told, diff)
			}
		}
		if diff := cmp.Diff(mustTree(inner, model), mustTree(inner, l.base)); diff != "" {
			rt.Fatalf("%s(-model +base)\n%s", &told, diff)
		}
	})
}

// viewTree is the tree that the session sees.
func (l *lab) viewTree() string {
	l.t.Helper()
	l.box.do(boxCall{Tree: filepath.Join(l.dir, "tree"), Dir: l.view})
	return l.file("tree")
}

func TestDropDirectories(t *testing.T) {
	b := newBox(t)
	for _, test := range []struct{ name, base, session, drop, want, upper string }{
		{"one of what an opaque directory hides",
			`mkdir -p d/e/f; for i in d/1 d/2 d/e/3 d/e/4 d/e/f/5; do echo > $i; done`,
			`rm -r d; mkdir -p d/e; echo n > d/n; echo 33 > d/e/3`,
			`d/e/4`, `
			deleted file "d/1"
			deleted file "d/2"
			modified file "d/e/3"
			deleted dir "d/e/f" below 1
			added file "d/n"`, ``},
		{"a directory that was deleted", `mkdir d; echo x > d/x`, `rm -r d`, `d`, ``, `.`},
		{"the last change in a directory", `mkdir -p d/e; echo x > d/e/x`, `echo y > d/e/x`, `d/e/x`, ``, `.`},
		{"a new directory in which something stays", ``, `mkdir d; echo 1 > d/1; echo 2 > d/2`, `d d/1`, `
			added dir "d"
			added file "d/2"`, ``},
		{"the mode of a directory in which something stays", `mkdir d`, `chmod 700 d; echo 1 > d/1`, `d`, `
			added file "d/1"`, ``},
		{"a file in place of a directory", `mkdir d; echo x > d/x`, `rm -r d; echo d > d`, `d`, ``, `.`},
		{"a directory in place of a file", `echo d > d`, `rm d; mkdir d; echo x > d/x`, `d d/x`, ``, `.`},
		{"what was renamed", `echo long > a`, `mv a b`, `b`, ``, `.`},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, b)
			bases := l.sessionOn(test.base+"\n:", test.session)
			if err := Drop(t.Context(), l.read(Options{Bases: bases}), strings.Fields(test.drop)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(trim(test.want), describe(l.read(Options{Bases: bases}))); diff != "" {
				t.Error("(-want +got)\n", diff)
			}
			if test.upper == "." && mustTree(t, l.upper) != "" {
				t.Error("the upper has", mustTree(t, l.upper))
			}
		})
	}
}
