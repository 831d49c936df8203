package changeset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mustTree(t testing.TB, dir string) string {
	t.Helper()
	s, err := tree(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What a session does to its view, applied to the workspace, is what the same
// would have done to the workspace; and then nothing is left to apply.
func TestApplyIsWhatTheSessionDid(t *testing.T) {
	t.Parallel()
	b := newBox(t)
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
		for range rapid.IntRange(1, 3).Draw(rt, "calls") {
			l.begin(bases)
			ops := rapid.SliceOfN(genOp(), 1, 12).Draw(rt, "ops")
			l.box.do(boxCall{Dir: l.view, Ops: ops})
			l.box.do(boxCall{Dir: model, Ops: ops})
			l.scan(bases)
		}
		l.unmount()
		set := l.read(Options{Bases: bases})
		for _, c := range set.Changes {
			if c.Base == BaseConflict {
				rt.Fatalf("%s: %s", c.Path, c.Conflict)
			}
		}
		report, err := Apply(t.Context(), set, openDir(inner, l.base), ApplyOptions{
			Journal: l.state,
			Atomic:  rapid.Bool().Draw(rt, "atomic"),
		})
		if err != nil {
			rt.Fatalf("%v %+v", err, report)
		}
		if len(report.Applied) != len(set.Changes) {
			rt.Fatalf("%+v\nof\n%s", report, describe(set))
		}
		if diff := cmp.Diff(mustTree(inner, model), mustTree(inner, l.base)); diff != "" {
			rt.Fatalf("(-model +applied)\n%s\nthe set was\n%s", diff, describe(set))
		}
		if again := describe(l.read(Options{})); again != "" {
			rt.Fatalf("after applying\n%s\nthere is still\n%s", describe(set), again)
		}
		if names, err := os.ReadDir(filepath.Join(l.dir, "state")); err != nil || len(names) != 1 {
			rt.Fatal("the journal was left:", names, err)
		}
	})
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

func (i *inner) cleanup() {
	for n := len(i.clean) - 1; n >= 0; n-- {
		i.clean[n]()
	}
}
