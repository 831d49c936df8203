package changeset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/internal/beneath"
)

const envJob = "CHANGESET_TEST_JOB"

// A job is an apply, or a recovery, in a process of its own, which kills itself
// before one of its steps.
type job struct {
	Lab        string
	Recover    bool
	Atomic     bool
	NoExchange bool
	Die        int // before this step, from 1; 0: never
}

var errDied = errors.New("died")

// do does the job in this process. Dying is a panic then: what is on disk is the
// same.
func (j job) do(die int) (steps int, err error) {
	defer func() {
		switch e := recover(); e {
		case nil:
		case errDied:
			err = errDied
		default:
			panic(e)
		}
	}()
	return steps, j.apply(func(string) {
		if steps++; steps == die {
			panic(errDied)
		}
	})
}

func applyAndDie(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	steps := 0
	return j.apply(func(string) {
		if steps++; steps == j.Die {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	})
}

func (j job) apply(step func(string)) error {
	dirs := make(map[string]*beneath.Dir)
	for _, name := range []string{"base", "upper", "state"} {
		d, err := beneath.Open(filepath.Join(j.Lab, name))
		if err != nil {
			return err
		}
		defer d.Close()
		dirs[name] = d
	}
	seam := seam{noExchange: j.NoExchange, step: step}
	ctx := context.Background()
	bases, err := OpenBases(dirs["state"])
	if err != nil {
		return err
	}
	defer bases.Close()
	left, err := recoverFrom(ctx, dirs["state"], dirs["base"], bases, seam)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("left %q", left)
	}
	if j.Recover || err != nil {
		return err
	}
	set, err := Read(ctx, Layers{
		Upper: dirs["upper"],
		Lower: View{Layers: []Layer{{Dir: dirs["base"]}}, UserXattr: os.Getuid() != 0},
	}, Options{Bases: bases})
	if err != nil {
		return err
	}
	report, err := Apply(ctx, set, dirs["base"], ApplyOptions{Atomic: j.Atomic, Journal: dirs["state"], seam: seam})
	if err == nil && len(report.Applied) != len(set.Changes) {
		err = errors.New(describeReport(report))
	}
	return err
}

// run reports whether the job died.
func (j job) run(t testing.TB) bool {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envRole+"=apply", envJob+"="+string(text))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	t.Fatalf("%+v: %v\n%s", j, err, out)
	return false
}

// crashBase and crashSession have every kind of change.
var crashBase = []op{
	{Do: "write", A: "a", Text: "a\n"}, {Do: "write", A: "b", Text: "b\n"}, {Do: "write", A: "c", Text: "c\n"},
	{Do: "write", A: "r", Text: "r\n"}, {Do: "write", A: "k", Text: "k\n"}, {Do: "write", A: "u", Text: "u\n"},
	{Do: "mkdir", A: "d"}, {Do: "mkdir", A: "d/e"}, {Do: "write", A: "d/e/x", Text: "x\n"},
	{Do: "mkdir", A: "f"}, {Do: "symlink", A: "l", Text: "a"},
	{Do: "mkdir", A: "m"}, {Do: "write", A: "m/m", Text: "m\n"},
	{Do: "mkdir", A: "o"}, {Do: "write", A: "o/1", Text: "1\n"}, {Do: "write", A: "o/2", Text: "2\n"},
	{Do: "mkdir", A: "o/p"}, {Do: "write", A: "o/p/3", Text: "3\n"},
	{Do: "mkdir", A: "t"}, {Do: "write", A: "t/t", Text: "t\n"},
}

var crashSession = []op{
	{Do: "write", A: "a", Text: "A\n"}, {Do: "remove", A: "b"}, {Do: "link", A: "c", B: "c2"},
	{Do: "rename", A: "r", B: "r2"}, {Do: "chmod", A: "k", Mode: 0o755}, {Do: "swap", A: "u"}, {Do: "write", A: "u/u", Text: "u\n"},
	{Do: "remove", A: "d"}, {Do: "chmod", A: "f", Mode: 0o700}, {Do: "remove", A: "l"}, {Do: "symlink", A: "l", Text: "b"},
	{Do: "mkdir", A: "n"}, {Do: "mkdir", A: "n/m"}, {Do: "write", A: "n/n", Text: "n\n"}, {Do: "write", A: "n/m/2", Text: "2\n"},
	{Do: "link", A: "n/n", B: "n/m/l"}, {Do: "link", A: "n/n", B: "ln"}, {Do: "rename", A: "m/m", B: "n/mm"},
	{Do: "remove", A: "o"}, {Do: "mkdir", A: "o"}, {Do: "write", A: "o/1", Text: "11\n"},
	{Do: "swap", A: "t", Text: "T\n"},
}

// newCrashLab returns a lab to apply in, and the trees before and after.
func newCrashLab(t testing.TB, b *box) (l *lab, before, after string) {
	t.Helper()
	l = newFastLab(t, b)
	model := filepath.Join(l.dir, "model")
	if err := os.Mkdir(model, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{l.base, model} {
		for _, o := range crashBase {
			o.do(dir)
		}
	}
	before = mustTree(t, l.base)
	bases := l.bases()
	l.begin(bases)
	for _, dir := range []string{l.view, model} {
		l.box.do(boxCall{Dir: dir, Ops: crashSession})
	}
	l.scan(bases)
	bases.Close()
	l.unmount()
	return l, before, mustTree(t, model)
}

var crashModes = []job{{}, {Atomic: true}, {NoExchange: true}, {Atomic: true, NoExchange: true}}

func (j job) name() string { return fmt.Sprintf("atomic=%v,exchange=%v", j.Atomic, !j.NoExchange) }

// Cut short before any of its steps and run again, an apply ends as if it had
// not been. In between, an atomic one that is recovered has done all or nothing;
// no file of the user is lost, and none of ours is left. So it is if recovering
// is cut short too.
func TestApplyCutShort(t *testing.T) {
	b := newBox(t)
	for _, mode := range crashModes {
		l, _, _ := newCrashLab(t, b)
		mode.Lab = l.dir
		steps, err := mode.do(0)
		if err != nil || steps < 50 {
			t.Fatal(steps, "steps", err)
		}
		for die := 1; die <= steps; die++ {
			t.Run(fmt.Sprintf("%s/%d", mode.name(), die), func(t *testing.T) {
				t.Parallel()
				l, before, after := newCrashLab(t, b)
				j := mode
				j.Lab = l.dir
				if _, err := j.do(die); !errors.Is(err, errDied) {
					t.Fatal(err)
				}
				r := job{Lab: l.dir, Recover: true, NoExchange: mode.NoExchange}
				for step := 1; ; step++ {
					if _, err := r.do(step); err == nil {
						break
					} else if !errors.Is(err, errDied) {
						t.Fatal(err)
					}
				}
				checkRecovered(t, l, mode.Atomic, before, after)
				if _, err := j.do(0); err != nil {
					t.Fatal(err)
				}
				checkApplied(t, l, after)
			})
		}
	}
}

// The same with processes that are really killed, at some of the steps.
func TestApplyKilled(t *testing.T) {
	b := newBox(t)
	for i, mode := range crashModes {
		for die := 5 + i; die < 80; die += 15 {
			t.Run(fmt.Sprintf("%s/%d", mode.name(), die), func(t *testing.T) {
				t.Parallel()
				l, before, after := newCrashLab(t, b)
				j := mode
				j.Lab, j.Die = l.dir, die
				if !j.run(t) {
					t.Fatal("not killed")
				}
				if die%2 == 0 {
					if (job{Lab: l.dir, Recover: true}).run(t) {
						t.Fatal("killed")
					}
					checkRecovered(t, l, mode.Atomic, before, after)
				}
				j.Die = 0
				j.run(t)
				checkApplied(t, l, after)
			})
		}
	}
}

func checkRecovered(t *testing.T, l *lab, atomic bool, before, after string) {
	t.Helper()
	now := mustTree(t, l.base)
	if strings.Contains(now, TempPrefix) {
		t.Errorf("after recovering there is left\n%s", now)
	}
	if atomic && now != before && now != after {
		t.Errorf("after recovering (-before +now)\n%s", cmp.Diff(before, now))
	}
}

func checkApplied(t *testing.T, l *lab, after string) {
	t.Helper()
	if diff := cmp.Diff(after, mustTree(t, l.base)); diff != "" {
		t.Errorf("after applying again (-model +applied)\n%s", diff)
	}
	names, err := os.ReadDir(filepath.Join(l.dir, "state"))
	if err != nil || len(names) != 1 {
		t.Errorf("after applying again, the journal is left: %v %v", names, err)
	}
}
