package approval

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/permission"
)

// askIn makes the test binary an asker, which a test can kill.
const askIn = "SALLYPORT_TEST_ASK_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(askIn); dir != "" {
		q := Queue{Session: dir, Asked: func(w Waiting) { fmt.Println(w.ID) }}
		a, err := q.Ask(context.Background(), prompt())
		fmt.Println(a, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func prompt() *permission.Prompt {
	return &permission.Prompt{
		ID: "toolu_1", Session: "work", Tool: "Bash", Title: "run make", Reason: "no rule allows it",
		Parts:    []permission.PromptPart{{Text: "make", Kind: "executes-other", Note: "not known: \u202e"}, {Text: "rm x", Kind: "write", Note: "writes x", Depth: 1}},
		Sections: []permission.Section{{Title: "command", Text: "make\n\ttest \u00fc <&> \x1b[2J"}, {Title: "effects", Text: "+1", Diff: true}},
		Agents:   []string{"reviewer", "lead"},
		Rule:     "Bash(make *)", CanSave: true,
	}
}

// An asking is a question of this process.
type asking struct {
	Waiting
	cancel context.CancelCauseFunc
	done   chan struct{}
	answer permission.Answer
	err    error
}

// ask asks and returns when the question can be answered.
func ask(t *testing.T, dir string, within time.Duration, p *permission.Prompt) *asking {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	a := &asking{cancel: cancel, done: make(chan struct{})}
	asked := make(chan Waiting, 1)
	go func() {
		defer close(a.done)
		q := Queue{Session: dir, Within: within, Asked: func(w Waiting) { asked <- w }}
		a.answer, a.err = q.Ask(ctx, p)
	}()
	t.Cleanup(func() { cancel(nil); <-a.done })
	select {
	case a.Waiting = <-asked:
	case <-a.done:
		t.Fatalf("not asked: %v", a.err)
	}
	return a
}

func list(t *testing.T, dir string) []Waiting {
	t.Helper()
	got, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// empty checks that nothing is left of any question.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(dir, Dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAnswered(t *testing.T) {
	for _, test := range []struct {
		name string
		rule string
		give permission.Answer
		want string // the error of AnswerTo
	}{
		{"yes", "", permission.Answer{Allow: true}, ""},
		{"no", "", permission.Answer{}, ""},
		{"no and why", "", permission.Answer{Why: "use the other \u00fc\ndirectory"}, ""},
		{"yes for the session", "Bash(make *)", permission.Answer{Allow: true, Session: true}, ""},
		{"yes for the session that is not offered", "", permission.Answer{Allow: true, Session: true}, "nothing can be allowed for the rest"},
		{"always", "Bash(make *)", permission.Answer{Allow: true, Save: permission.FromLocal}, ""},
		{"always, where nothing is offered", "", permission.Answer{Allow: true, Save: permission.FromLocal}, "no rule can be saved"},
		{"never, for always", "Bash(make *)", permission.Answer{Save: permission.FromLocal}, "a refusal is not saved"},
		{"always, for everybody", "Bash(make *)", permission.Answer{Allow: true, Save: permission.FromPolicy}, "saved to the settings local or user"},
		{"no for the session", "Bash(make *)", permission.Answer{Session: true}, "a refusal is not for the session"},
		{"too much to say", "", permission.Answer{Why: strings.Repeat("x", mostWhy+1)}, "use at most 4096"},
		{"what is no text", "", permission.Answer{Why: "\xff"}, "UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, p := t.TempDir(), prompt()
			p.Rule = test.rule
			a := ask(t, dir, time.Hour, p)
			if err := AnswerTo(dir, a.ID, test.give); test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				if len(list(t, dir)) != 1 {
					t.Error("the question does not wait any more")
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			<-a.done
			want := test.give
			want.By = "approve"
			if a.err != nil || a.answer != want {
				t.Errorf("%+v, %v", a.answer, a.err)
			}
			if err := AnswerTo(dir, a.ID, test.give); !errors.Is(err, ErrGone) {
				t.Errorf("answered again: %v", err)
			}
			empty(t, dir)
		})
	}
}

func TestListShowsWhatWasAsked(t *testing.T) {
	dir := t.TempDir()
	if got := list(t, dir); got != nil {
		t.Errorf("without questions: %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, Dir)); err == nil {
		t.Error("looking made a directory")
	}
	a := ask(t, dir, time.Hour, prompt())
	b := ask(t, dir, time.Minute, &permission.Prompt{Tool: "Edit"})
	got := list(t, dir)
	if diff := cmp.Diff([]Waiting{a.Waiting, b.Waiting}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(*prompt(), got[0].Prompt); diff != "" {
		t.Error(diff)
	}
	if got[0].PID != os.Getpid() || got[0].Expires.Sub(got[0].Asked) != time.Hour {
		t.Errorf("%+v", got[0])
	}
	w, err := Find(dir, b.ID)
	if err != nil || !cmp.Equal(*w, b.Waiting) {
		t.Errorf("%+v, %v", w, err)
	}
	info, err := os.Stat(filepath.Join(dir, Dir))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	dir := t.TempDir()
	a := ask(t, dir, 10*time.Millisecond, prompt())
	<-a.done
	if a.err == nil || a.answer.Allow {
		t.Fatalf("%+v, %v", a.answer, a.err)
	}
	for _, part := range []string{"nobody answered within 10ms: ", "sallyport approve", "--allow"} {
		if !strings.Contains(a.err.Error(), part) {
			t.Errorf("%q does not say %q", a.err, part)
		}
	}
	if err := AnswerTo(dir, a.ID, permission.Answer{Allow: true}); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	empty(t, dir)
}

// The clock went on while the machine slept, and the asker's timer did not.
func TestExpiredWhileTheMachineSlept(t *testing.T) {
	dir := t.TempDir()
	d, err := openQueue(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o, err := put(d, prompt(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	o.Expires = time.Now().Add(-time.Second)
	if err := o.wait(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "nobody answered") {
		t.Errorf("%v", err)
	}
}

// What has expired cannot be answered, though its asker has not seen it yet.
func TestExpiredIsNotAnswered(t *testing.T) {
	dir := t.TempDir()
	d, err := openQueue(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o, err := put(d, prompt(), time.Nanosecond) // and nobody waits
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	if got := list(t, dir); len(got) != 0 {
		t.Errorf("listed: %v", got)
	}
	if err := AnswerTo(dir, o.ID, permission.Answer{Allow: true}); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
}

func TestContextEnds(t *testing.T) {
	dir := t.TempDir()
	a := ask(t, dir, time.Hour, prompt())
	stopped := errors.New("the agent was stopped")
	a.cancel(stopped)
	<-a.done
	if !errors.Is(a.err, stopped) || a.answer.Allow {
		t.Errorf("%+v, %v", a.answer, a.err)
	}
	empty(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := Queue{Session: dir, Asked: func(Waiting) { t.Error("asked") }}
	if _, err := q.Ask(ctx, prompt()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestQuestionWasRemoved(t *testing.T) {
	dir := t.TempDir()
	a := ask(t, dir, time.Hour, prompt())
	if err := os.RemoveAll(filepath.Join(dir, Dir)); err != nil {
		t.Fatal(err)
	}
	<-a.done
	if a.err == nil || !strings.Contains(a.err.Error(), "was removed") {
		t.Errorf("%v", a.err)
	}
}

func TestQuestionOfKilledAskerIsSwept(t *testing.T) {
	for _, who := range []string{"a list", "another question", "an answer"} {
		t.Run(who, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), askIn+"="+dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			id, err := bufio.NewReader(out).ReadString('\n')
			id = strings.TrimSpace(id)
			if got := list(t, dir); err != nil || len(got) != 1 || got[0].ID != id || got[0].PID != cmd.Process.Pid {
				t.Errorf("%v, %v", got, err)
			}
			cmd.Process.Signal(syscall.SIGKILL)
			cmd.Wait()
			switch who {
			case "a list":
				if got := list(t, dir); len(got) != 0 {
					t.Errorf("%v", got)
				}
			case "another question":
				a := ask(t, dir, time.Hour, prompt())
				a.cancel(nil)
				<-a.done
			case "an answer":
				if err := AnswerTo(dir, id, permission.Answer{Allow: true}); !errors.Is(err, ErrGone) {
					t.Errorf("%v", err)
				}
				list(t, dir)
			}
			empty(t, dir)
		})
	}
}

// An asker that is stopped is still there.
func TestQuestionOfStoppedAskerWaits(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), askIn+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	lines.Scan()
	id := lines.Text()
	cmd.Process.Signal(syscall.SIGSTOP)
	if got := list(t, dir); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if err := AnswerTo(dir, id, permission.Answer{Allow: true, Why: "first"}); err != nil {
		t.Error(err)
	}
	// The answer was not taken yet, and is there.
	if err := AnswerTo(dir, id, permission.Answer{Why: "second"}); !errors.Is(err, ErrAnswered) {
		t.Errorf("%v", err)
	}
	if _, err := Find(dir, id); !errors.Is(err, ErrAnswered) {
		t.Errorf("%v", err)
	}
	if got := list(t, dir); len(got) != 0 {
		t.Errorf("an answered question is listed: %v", got)
	}
	cmd.Process.Signal(syscall.SIGCONT)
	lines.Scan()
	if got, want := lines.Text(), fmt.Sprint(permission.Answer{Allow: true, Why: "first", By: "approve"}, nil); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	empty(t, dir)
}

func TestFirstAnswerWins(t *testing.T) {
	dir := t.TempDir()
	a := ask(t, dir, time.Hour, prompt())
	const n = 20
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = AnswerTo(dir, a.ID, permission.Answer{Allow: true, Why: fmt.Sprint(i)}) })
	}
	all.Wait()
	<-a.done
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			won++
			if a.err != nil || a.answer.Why != fmt.Sprint(i) {
				t.Errorf("%d was told that it won, and not %+v, %v", i, a.answer, a.err)
			}
		case !errors.Is(err, ErrAnswered) && !errors.Is(err, ErrGone):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

// Whoever answers at the moment the asker gives up is told what came of it.
func TestAnswerAtTheLastMoment(t *testing.T) {
	dir := t.TempDir()
	d, err := openQueue(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	took := 0
	for i := range 500 {
		o, err := put(d, prompt(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var told, gotErr error
		var got permission.Answer
		var all sync.WaitGroup
		all.Go(func() { told = AnswerTo(dir, o.ID, permission.Answer{Allow: true}) })
		all.Go(func() { List(dir) }) // which sweeps
		all.Go(func() {
			defer o.close()
			if o.withdraw() {
				got, gotErr = o.take()
			}
		})
		all.Wait()
		if told != nil && !errors.Is(told, ErrGone) {
			t.Errorf("%d: %v", i, told)
		}
		if gotErr != nil || got.Allow != (told == nil) {
			t.Fatalf("%d: told %v, taken %+v, %v", i, told, got, gotErr)
		}
		if got.Allow {
			took++
		}
	}
	t.Logf("%d of 500 were answered", took)
	empty(t, dir)
}

// Each step of one who comes too late, in the order that is the worst.
func TestLateAnswerIsSeenToBeLate(t *testing.T) {
	dir := t.TempDir()
	d, err := openQueue(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, test := range []struct {
		name string
		end  func(*open)
		want fate
	}{
		{"it waits", func(*open) {}, waits},
		{"its asker gave up", func(o *open) { o.withdraw(); o.close() }, over},
		{"its asker is giving up", func(o *open) { o.withdraw() }, over},
		{"its asker died", func(o *open) { o.file.Close() }, over},
		{"its asker died and was swept", func(o *open) { o.file.Close(); sweep(o.dir) }, over},
		{"its asker took an answer", func(o *open) { o.close() }, done},
	} {
		o, err := put(d, prompt(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		_, f, err := find(d, o.ID)
		if err != nil {
			t.Fatal(err)
		}
		test.end(o)
		if got := state(f); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
		f.Close()
		o.close()
	}
	empty(t, dir)
}

func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	const n = 50
	q := Queue{Session: dir, Within: time.Hour}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			a, err := q.Ask(t.Context(), &permission.Prompt{Tool: "Bash", Title: fmt.Sprint(i)})
			if err != nil || a.Allow != (i%2 == 0) || a.Why != fmt.Sprint(i) {
				t.Errorf("%d: %+v, %v", i, a, err)
			}
		})
	}
	for answered := 0; answered < n; {
		for _, w := range list(t, dir) {
			i := 0
			fmt.Sscan(w.Prompt.Title, &i)
			if err := AnswerTo(dir, w.ID, permission.Answer{Allow: i%2 == 0, Why: w.Prompt.Title}); err != nil {
				t.Errorf("%d: %v", i, err)
			}
			answered++
		}
	}
	all.Wait()
	empty(t, dir)
}

// What is too much is cut, and says so; what is no text is spelled out. A rule is
// offered whole or not at all.
func TestLongPrompts(t *testing.T) {
	dir := t.TempDir()
	p := &permission.Prompt{
		Tool: "Bash", Title: "bad\xff\ngood\t\u00fc", Rule: strings.Repeat("x", mostLine+1),
		Sections: []permission.Section{{Title: "a", Text: strings.Repeat("\x01\u00fc", mostText)}, {Title: "b", Text: "b"}},
	}
	a := ask(t, dir, time.Hour, p)
	got := list(t, dir)
	if len(got) != 1 {
		t.Fatalf("%d questions", len(got))
	}
	w := got[0].Prompt
	if diff := cmp.Diff(a.Prompt, w); diff != "" {
		t.Error("it was not read as it was written")
	}
	if w.Title != "bad\\xff\ngood\t\u00fc" || w.Rule != "" || len(w.Sections) != 2 {
		t.Errorf("%q, %q, %d sections", w.Title, w.Rule, len(w.Sections))
	}
	if s := w.Sections[0].Text; !strings.HasSuffix(s, "more bytes are not shown: it is too much]") || len(s) > mostText+100 {
		t.Errorf("%d bytes, %q", len(s), s[max(0, len(s)-80):])
	}
	if w.Sections[1].Title != "1 more sections are not shown: it is too much" {
		t.Errorf("%q", w.Sections[1].Title)
	}
	p = &permission.Prompt{Tool: "Bash", Sections: make([]permission.Section, mostSections+5)}
	b := Bounded(p)
	if len(b.Sections) != mostSections || !strings.HasPrefix(b.Sections[mostSections-1].Title, "6 more") {
		t.Errorf("%d, %q", len(b.Sections), b.Sections[len(b.Sections)-1].Title)
	}
	p = &permission.Prompt{Tool: "Bash", Parts: make([]permission.PromptPart, mostParts+5), Agents: make([]string, mostAgents+1)}
	p.Parts[0] = permission.PromptPart{Text: strings.Repeat("x", mostPart+1), Kind: "\xff", Note: strings.Repeat("y", 2*mostPart), Depth: 1 << 30}
	p.Parts[1].Depth, p.Agents[0] = -1, strings.Repeat("z", mostLine)
	b = Bounded(p)
	if first := b.Parts[0]; !strings.HasPrefix(first.Text, "xxx") || len(first.Text) > mostPart+100 || len(first.Note) > mostPart+100 ||
		first.Kind != `\xff` || first.Depth != mostDepth || b.Parts[1].Depth != 0 || len(b.Agents[0]) > mostPart+100 {
		t.Errorf("%+v, %d", b.Parts[:2], len(b.Agents[0]))
	}
	if len(b.Parts) != mostParts || !strings.HasPrefix(b.Parts[mostParts-1].Note, "6 more") || len(b.Agents) != mostAgents || b.Agents[mostAgents-1] != "2 more" {
		t.Errorf("%d, %d, %q", len(b.Parts), len(b.Agents), b.Agents[len(b.Agents)-1])
	}
}

// A crash can leave anything: none of it is listed, answered or followed.
func TestHostileQuestions(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	const good = `{"id":"abcdef","tool":"Bash","asked":"2026-01-01T00:00:00Z","expires":"2999-01-01T00:00:00Z","pid":1}`
	write := func(content string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(content), 0o600) }
	}
	for name, put := range map[string]func(path string) error{
		"empty":            write(""),
		"torn":             write(good[:40]),
		"of another ID":    write(strings.Replace(good, "abcdef", "abcdeg", 1)),
		"without a time":   write(strings.Replace(good, "2999", "0001", 1)),
		"of no process":    write(strings.Replace(good, `"pid":1`, `"pid":0`, 1)),
		"a part too deep":  write(strings.Replace(good, `"pid":1`, `"pid":1,"parts":[{"depth":9}]`, 1)),
		"too many agents":  write(strings.Replace(good, `"pid":1`, `"pid":1,"agents":[""`+strings.Repeat(`,""`, mostAgents)+`]`, 1)),
		"no JSON":          write("\x00\xff"),
		"far too large":    func(p string) error { return errors.Join(write(good)(p), os.Truncate(p, 1<<40)) },
		"symlink":          func(p string) error { return os.Symlink(secret, p) },
		"dangling symlink": func(p string) error { return os.Symlink("/nonexistent", p) },
		"FIFO":             func(p string) error { return unix.Mkfifo(p, 0o600) },
		"directory":        func(p string) error { return os.Mkdir(p, 0o700) },
		"socket":           func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o600, 0) },
	} {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s held=%v", name, held), func(t *testing.T) {
				dir := t.TempDir()
				d, err := openQueue(dir, true)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				path := filepath.Join(dir, Dir, "abcdef"+askSuffix)
				if err := put(path); err != nil {
					t.Fatal(err)
				}
				if info, _ := os.Lstat(path); held && info.Mode().IsRegular() {
					f, err := os.OpenFile(path, os.O_RDWR, 0)
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					if err := lock(f); err != nil {
						t.Fatal(err)
					}
				}
				if err := AnswerTo(dir, "abcdef", permission.Answer{Allow: true}); !errors.Is(err, ErrGone) {
					t.Errorf("answered: %v", err)
				}
				if got := list(t, dir); len(got) != 0 {
					t.Errorf("listed: %v", got)
				}
				if !held {
					empty(t, dir)
				}
			})
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("%q, %v", data, err)
	}
}

// Who answers by a file does not choose how that is recorded.
func TestAnswerDoesNotSayByWhat(t *testing.T) {
	dir := t.TempDir()
	a := ask(t, dir, time.Hour, prompt())
	forged := []byte(`{"allow":true,"by":"terminal"}`)
	if err := os.WriteFile(filepath.Join(dir, Dir, ".new-forged"), forged, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, Dir, ".new-forged"), filepath.Join(dir, Dir, a.ID+answerSuffix)); err != nil {
		t.Fatal(err)
	}
	<-a.done
	if a.err != nil || a.answer != (permission.Answer{Allow: true, By: "approve"}) {
		t.Errorf("%+v, %v", a.answer, a.err)
	}
}

// A question that another process made up is shown, and a yes to it is heard by
// nobody: no question that an asker waits with is answered.
func TestPlantedQuestion(t *testing.T) {
	dir := t.TempDir()
	a := ask(t, dir, time.Hour, prompt())
	from, err := os.ReadFile(filepath.Join(dir, Dir, a.ID+askSuffix))
	if err != nil {
		t.Fatal(err)
	}
	const id = "abcdef"
	planted, err := os.Create(filepath.Join(dir, Dir, id+askSuffix))
	if err != nil {
		t.Fatal(err)
	}
	defer planted.Close()
	if err := lock(planted); err != nil {
		t.Fatal(err)
	}
	if _, err := planted.WriteString(strings.Replace(string(from), a.ID, id, 1)); err != nil {
		t.Fatal(err)
	}
	if err := AnswerTo(dir, id, permission.Answer{Allow: true, Session: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir, a.ID); err != nil {
		t.Errorf("the real question: %v", err)
	}
	if err := AnswerTo(dir, a.ID, permission.Answer{Why: "no"}); err != nil {
		t.Error(err)
	}
	<-a.done
	if a.err != nil || a.answer != (permission.Answer{Why: "no", By: "approve"}) {
		t.Errorf("%+v, %v", a.answer, a.err)
	}
}

// An answer that cannot be understood allows nothing.
func TestHostileAnswers(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(`{"allow":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(content string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(content), 0o600) }
	}
	for name, put := range map[string]func(path string) error{
		"empty":                   write(""),
		"torn":                    write(`{"allow":tr`),
		"saying nothing":          write(`{"by":"x"}`),
		"for an unoffered rule":   write(`{"allow":true,"session":true}`),
		"too long":                write(`{"allow":true,"why":"` + strings.Repeat("x", mostWhy+1) + `"}`),
		"far too large":           func(p string) error { return errors.Join(write(`{"allow":true}`)(p), os.Truncate(p, 1<<40)) },
		"a symlink to a good one": func(p string) error { return os.Symlink(secret, p) },
		"a FIFO":                  func(p string) error { return unix.Mkfifo(p, 0o600) },
		"a directory":             func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, p := t.TempDir(), prompt()
			p.Rule = ""
			a := ask(t, dir, time.Hour, p)
			if err := put(filepath.Join(dir, Dir, a.ID+answerSuffix)); err != nil {
				t.Fatal(err)
			}
			<-a.done
			if a.err == nil || a.answer != (permission.Answer{}) || !strings.Contains(a.err.Error(), "cannot be read") {
				t.Errorf("%+v, %v", a.answer, a.err)
			}
			empty(t, dir)
		})
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
}

func TestOrphansAreSwept(t *testing.T) {
	dir := t.TempDir()
	d, err := openQueue(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	at := func(name string) string { return filepath.Join(dir, Dir, name) }
	for _, name := range []string{"abcdef.answer", ".new-OLD", ".new-FRESH", "somebody's file"} {
		if err := os.WriteFile(at(name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(at(".new-OLD"), old, old); err != nil {
		t.Fatal(err)
	}
	list(t, dir)
	var left []string
	entries, _ := os.ReadDir(filepath.Join(dir, Dir))
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{".new-FRESH", "somebody's file"}, left); diff != "" {
		t.Error(diff)
	}
}

func TestDirectoryMustBeOnesOwn(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"open to others": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o750)) },
		"a symlink":      func(dir string) error { return os.Symlink("/tmp", dir) },
		"a file":         func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"in no session":  func(dir string) error { return os.Remove(filepath.Dir(dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "session")
			if err := errors.Join(os.Mkdir(dir, 0o700), prepare(filepath.Join(dir, Dir))); err != nil {
				t.Fatal(err)
			}
			q := Queue{Session: dir, Asked: func(Waiting) { t.Error("asked") }}
			if a, err := q.Ask(t.Context(), prompt()); err == nil || a.Allow || !strings.HasPrefix(err.Error(), "nobody could be asked: ") {
				t.Errorf("%+v, %v", a, err)
			}
			if err := AnswerTo(dir, "abcdef", permission.Answer{}); err == nil {
				t.Error("answered")
			}
		})
	}
}

func TestIDs(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		id := newID()
		if !validID(id) || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
	for _, id := range []string{"", "abcde", "abcdefg", "abcde1", "../../", "ABCDEF", "abc/ef", "abcde\n"} {
		if validID(id) {
			t.Errorf("%q", id)
		}
		if err := AnswerTo(t.TempDir(), id, permission.Answer{}); !errors.Is(err, ErrGone) {
			t.Errorf("%q: %v", id, err)
		}
	}
}
