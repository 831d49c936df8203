package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/sallyport/sallyport/permission"
)

const ownRule = "Bash(make *)"

// askOnGoodTerminal asks on a terminal that showsWell.
func askOnGoodTerminal(t *testing.T, rule, text string) *dialogue {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	t.Setenv("HOME", "/home/tester")
	t.Setenv("XDG_CONFIG_HOME", "")
	return askAbout(t, rule, text, &pty.Winsize{Rows: 30, Cols: 90})
}

// answered is that the prompter has returned.
func answered(want string) string { return regexp.QuoteMeta(want) + "\r\n" }

func TestQuestionOnATerminal(t *testing.T) {
	const (
		down, up, enter, esc = "\x1b[B", "\x1b[A", "\r", "\x1b"

		yes     = `allow=true session=false save="" why="" by=terminal err=<nil>`
		session = `allow=true session=true save="" why="" by=terminal err=<nil>`
		no      = `allow=false session=false save="" why="" by=terminal err=<nil>`
	)
	for _, test := range []struct {
		name, rule string
		// keys and what is awaited after them, if it is not the last
		keys []string
		want string
	}{
		{"y", "", []string{"y"}, yes},
		{"n", "", []string{"n"}, no},
		{"s", ownRule, []string{"s"}, session},
		{"s is not offered without a rule", "", []string{"s", "", "y"}, yes},
		{"a is not offered without a rule", "", []string{"a", "", "n"}, no},
		{"Enter alone is no answer", "", []string{enter + enter, "", "n"}, no},
		{"down and Enter", "", []string{down + enter}, yes},
		{"down, down and Enter", ownRule, []string{down + down + enter}, session},
		{"beyond the last, and up", "", []string{strings.Repeat(down, 9) + up + enter}, no},
		{"arrows of another mode", "", []string{"\x1bOB" + enter}, yes},
		{"Esc is no answer, and Enter then a no", "", []string{esc, "> n", enter}, no},
		{"always, in this workspace", ownRule, []string{"a", "settings.local.json", "l"}, `allow=true session=false save="local" why="" by=terminal err=<nil>`},
		{"always, in all workspaces", ownRule, []string{"a", "/home/tester/", down + down + enter}, `allow=true session=false save="user" why="" by=terminal err=<nil>`},
		{"always, and back", ownRule, []string{"a", "rule be written", esc, "Allow this", "y"}, yes},
		{"always, and y", ownRule, []string{"a", "rule be written", "y" + esc, "Allow this", "n"}, no},
		{"why", "", []string{"w", "told", "use test.sh\r"}, `allow=false session=false save="" why="use test.sh" by=terminal err=<nil>`},
		{"why, corrected", "", []string{"w", "told", "xyz\x15yes\x7f\x7f\x7f n\u00fc \r"}, `allow=false session=false save="" why="nü" by=terminal err=<nil>`},
		{"why, and nothing", "", []string{"w", "told", enter}, no},
		{"why, and back", "", []string{"w", "told", "y" + esc, "Allow this", "y"}, yes},
		{"what is pasted is no answer", "", []string{"\x1b[200~y\r\x1b[201~", "", "n"}, no},
		{"what is pasted is text for the model", "", []string{"w", "told", "\x1b[200~a\nb\x1b[201~\r"}, `allow=false session=false save="" why="a b" by=terminal err=<nil>`},
		{"^C", ownRule, []string{"\x03"}, `allow=false session=false save="" why="" by= err=interrupt signal received`},
		{"^C after other keys", ownRule, []string{"a", "rule be written", down + "\x03"}, `allow=false session=false save="" why="" by= err=interrupt signal received`},
		{"^C while it is said why", "", []string{"w", "told", "x\x03"}, `allow=false session=false save="" why="" by= err=interrupt signal received`},
		{"^D", ownRule, []string{"\x04"}, `allow=false session=false save="" why="" by= err=nobody answered: the input from the terminal has ended`},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := askOnGoodTerminal(t, test.rule, "make")
			d.expect("ready")
			d.key("\n")
			d.expect("interrupts")
			for i, text := range test.keys {
				if i%2 == 0 {
					d.key(text)
				} else if text != "" {
					d.expect(regexp.QuoteMeta(text))
				}
			}
			d.expect(answered(test.want))
			if err := d.cmd.Wait(); err != nil {
				t.Error(err)
			}
			out := d.out.String()
			if strings.Contains(out, "left changed") {
				t.Errorf("%q", out)
			}
			for on, off := range map[string]string{"\x1b[?7l": "\x1b[?7h", "\x1b[?25l": "\x1b[?25h", "\x1b[?2004h": "\x1b[?2004l"} {
				if strings.LastIndex(out, on) > strings.LastIndex(out, off) {
					t.Errorf("the terminal is left with %q: %q", on, out)
				}
			}
		})
	}
}

// queries are what a terminal would answer, into the keys of whoever reads next.
var queries = regexp.MustCompile(`\x1b\[[?>=]?[0-9;]*(\$p|c|n|u)|\x1b\][0-9]+;\?|\x1bP`)

// sequences are those that a question is drawn with: none other is written.
var sequences = regexp.MustCompile(`\x1b\[[0-9;]*[ABCDGHJKXLMPm@dab]|\x1b\[\?(7|25|2004)[hl]|\x1b\[[0-9]*S|\x1bM`)

// The agent's text acts on nothing, and cannot be taken for sallyport's.
func TestGoodQuestionIsShownHarmlessly(t *testing.T) {
	d := askOnGoodTerminal(t, ownRule, hostileText+"\n"+strings.Repeat("\u4e16\u0301", 200)+"\n\u200b\u2066\u009b2J\x1b]0;title\x07\x1bc")
	d.expect("ready")
	d.key("\n")
	d.expect("interrupts")
	d.key("n")
	d.expect("allow=false")
	out := d.out.String()
	if found := queries.FindString(out); found != "" {
		t.Errorf("the terminal is asked by %q", found)
	}
	rest := sequences.ReplaceAllString(out[strings.Index(out, "ready"):], "")
	for _, bad := range []string{"\x1b", "\u202e", "\u200b", "\u2066", "\u009b", "\a", "\b"} {
		if i := strings.Index(rest, bad); i >= 0 {
			t.Errorf("%q is in %q", bad, rest[max(i-20, 0):min(i+20, len(rest))])
		}
	}
	if !strings.Contains(out, `^[[2J`) {
		t.Errorf("%q", out)
	}
}

// What was typed before the question is no answer to it, also when it was typed
// while the question was being drawn.
func TestTypedBeforeTheGoodQuestion(t *testing.T) {
	d := askOnGoodTerminal(t, ownRule, "make")
	d.expect("ready")
	d.key("xyz\ny\ns\r\r")
	d.expect("interrupts")
	d.key("w")
	d.expect("told")
	d.key("no\r")
	d.expect(answered(`allow=false session=false save="" why="no" by=terminal err=<nil>`))
}

func TestGoodQuestionIsWithdrawn(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		d := askOnGoodTerminal(t, ownRule, "make")
		d.expect("ready")
		d.key("\n")
		d.expect("interrupts")
		d.key("\x1b[B")
		d.expect("> y")
		d.cmd.Process.Signal(sig)
		d.expect(`allow=false session=false save="" why="" by= err=(terminated|interrupt) signal received`)
		if err := d.cmd.Wait(); err != nil {
			t.Error(err)
		}
		if strings.Contains(d.out.String(), "left changed") {
			t.Errorf("%q", d.out.String())
		}
	}
}

// A signal that ends the process where it stands ends it with the terminal as it
// was.
func TestGoodQuestionDiesInOrder(t *testing.T) {
	d := askOnGoodTerminal(t, ownRule, "make")
	d.expect("ready")
	d.key("\n")
	d.expect("interrupts")
	d.cmd.Process.Signal(syscall.SIGQUIT)
	d.expect("SIGQUIT")
	d.cmd.Wait()
	if out := d.out.String(); !strings.Contains(out, "\x1b[?25h") || strings.Index(out, "\x1b[?25h") > strings.Index(out, "SIGQUIT") {
		t.Errorf("%q", out)
	}
}

func TestGoodTerminalGoesAway(t *testing.T) {
	d := askOnGoodTerminal(t, ownRule, "make")
	d.expect("ready")
	d.key("\n")
	d.expect("interrupts")
	d.term.Close()
	d.cmd.Wait()
	if got := d.cmd.ProcessState.ExitCode(); got != exitGone {
		t.Errorf("%v", d.cmd.ProcessState)
	}
}

// Where a question cannot be shown well, it is plain lines.
func TestPlainWhereItMustBe(t *testing.T) {
	for _, test := range []struct {
		name, kind, noColor string
		size                pty.Winsize
		well                bool
	}{
		{"well", "xterm", "", pty.Winsize{Rows: leastRows, Cols: leastColumns}, true},
		{"no size", "xterm", "", pty.Winsize{}, false},
		{"too few lines", "xterm", "", pty.Winsize{Rows: leastRows - 1, Cols: leastColumns}, false},
		{"too narrow", "xterm", "", pty.Winsize{Rows: leastRows, Cols: leastColumns - 1}, false},
		{"a dumb terminal", "dumb", "", pty.Winsize{Rows: 50, Cols: 100}, false},
		{"no terminal's name", "", "", pty.Winsize{Rows: 50, Cols: 100}, false},
		{"no colours", "xterm", "1", pty.Winsize{Rows: 50, Cols: 100}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("TERM", test.kind)
			t.Setenv("NO_COLOR", test.noColor)
			d := askAbout(t, "", "make", &test.size)
			d.expect("ready")
			d.key("\n")
			if test.well {
				d.expect("interrupts")
				d.key("n")
				d.expect("allow=false")
				return
			}
			if got := d.expect(`Allow .*\) $`); strings.Contains(got, "\x1b") {
				t.Errorf("%q", got)
			}
			d.key("n\n")
			d.expect("told")
			d.key("\n")
			d.expect("allow=false")
		})
	}
}

// drawn is a question as lines without styles.
func drawn(q *question) []string {
	return strings.Split(strings.TrimSuffix(regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(q.View().Content, ""), "\n"), "\n")
}

// Every line has room, whatever is in it, and begins with something of ours.
func TestQuestionFitsItsTerminal(t *testing.T) {
	long := strings.Repeat("x", 300) + strings.Repeat("\u4e16", 100) + strings.Repeat("\t", 30) + "Allow this?"
	p := &permission.Prompt{
		Tool: "Bash", Title: "run " + long, Reason: long, Rule: "Bash(" + long + ")", CanSave: true, Agents: []string{long},
		Parts:    []permission.PromptPart{{Text: long, Kind: "write", Note: long}, {Text: long, Note: "not known: " + long, Depth: 8}, {Note: long}},
		Sections: []permission.Section{{Title: long, Text: long + "\n" + long}, {Title: "diff", Text: "-a\n+b\n" + long, Diff: true}},
	}
	begins := regexp.MustCompile(`^($|Bash: |  |    [|:] |> |lines [0-9]|Allow this|always|Always|↑|Enter sends|No\.)`)
	for _, size := range [][2]int{{leastColumns, leastRows}, {80, 24}, {200, 60}} {
		q := newQuestion(p, "/home/tester/.config/sallyport/settings.json", false)
		q.resize(size[0], size[1])
		for _, stage := range []stage{choosing, saving, explaining} {
			q.stage, q.why = stage, long
			for _, key := range []string{"home", "pgdown", "pgdown", "end", "pgup"} {
				q.scroll(key)
				lines := drawn(q)
				if len(lines) >= size[1] {
					t.Errorf("%v: %d lines", size, len(lines))
				}
				for _, line := range lines {
					if len(wrapped(strings.NewReplacer("├", "|", "└", "|", "─", "-", "│", "|", "→", ">", "↑", "^", "↓", "v").Replace(line), size[0]-1)) > 1 {
						t.Errorf("%v: too wide: %q", size, line)
					}
					if !begins.MatchString(line) {
						t.Errorf("%v: begins as nothing of ours does: %q", size, line)
					}
				}
			}
		}
	}
}

// All of what is asked can be seen, and that there is more is said.
func TestLongQuestionScrolls(t *testing.T) {
	var text []string
	for i := range 200 {
		text = append(text, fmt.Sprintf("line-%d-", i))
	}
	q := newQuestion(&permission.Prompt{Tool: "Write", Title: "Write a", Sections: []permission.Section{{Title: "content", Text: strings.Join(text, "\n")}}}, "", false)
	q.resize(80, 24)
	seen := strings.Join(drawn(q), "\n")
	if !strings.Contains(seen, "there is more below") || strings.Contains(seen, "line-199-") {
		t.Errorf("%q", seen)
	}
	for range 100 {
		q.scroll("pgdown")
		seen += strings.Join(drawn(q), "\n")
	}
	for _, line := range text {
		if !strings.Contains(seen, line) {
			t.Errorf("%s is never seen", line)
		}
	}
	if last := strings.Join(drawn(q), "\n"); strings.Contains(last, "there is more below") || !strings.Contains(last, "line-199-") {
		t.Errorf("%q", last)
	}
	q.scroll("home")
	if first := drawn(q)[0]; first != "Write a" {
		t.Errorf("%q", first)
	}
}

// What is known of each part stands below it, and the exact rule is shown.
// A diff has git's colours, by what a line is and not by what it says.
func TestQuestionShowsADiff(t *testing.T) {
	q := newQuestion(&permission.Prompt{Tool: "Bash", Title: "x", Sections: []permission.Section{{Title: "diff", Diff: true, Text: "diff --git a/a b/a\n" +
		"--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n same\n--- was a line\n+++ is a line\n-x\x1b[2J\n"}}}, "", false)
	q.resize(80, 40)
	body := strings.Join(q.body, "\n")
	for _, want := range []string{
		strong.Inline(true).Render("--- a/a"), strong.Inline(true).Render("+++ b/a"),
		harmful.Inline(true).Render("--- was a line"), safe.Inline(true).Render("+++ is a line"), harmful.Inline(true).Render("-x^[[2J"),
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in %q", want, body)
		}
	}
}

func TestQuestionShowsTheTree(t *testing.T) {
	q := newQuestion(&permission.Prompt{
		Tool: "Bash", Title: "Bash make && touch a", Reason: "no rule allows it", Agents: []string{"reviewer", "lead"}, Rule: ownRule, CanSave: true,
		Parts: []permission.PromptPart{
			{Text: "sudo make", Kind: "executes-other", Note: "not known: make runs other programs"},
			{Text: "make", Kind: "executes-other", Note: "not known: it", Depth: 1},
			{Text: "touch a", Kind: "write", Note: "writes a"},
		},
		Sections: []permission.Section{{Title: "command", Text: "sudo make && touch a"}, {Title: "diff", Text: "-x\n+y\n", Diff: true}},
	}, "/u/settings.json", false)
	q.resize(80, 40)
	q.heard = true
	got := strings.Join(drawn(q), "\n")
	want := `Bash make && touch a
  it is asked because: no rule allows it
  asked by agent reviewer (of lead)

  ├─ sudo make
  │  → executes-other: not known: make runs other programs
     ├─ make
     │  → executes-other: not known: it
  └─ touch a
     → writes a

  command:
    | sudo make && touch a

  diff:
    | -x
    | +y

  yes, for this session, or always, would allow: Bash(make *)

Allow this?
  y  yes
  s  yes, for this session
  a  always
  n  no
  w  no, and say why
↑ ↓ and Enter, or the letter; Esc goes back; ^C interrupts`
	if got != want {
		t.Errorf("%s", got)
	}
	if content := q.View().Content; !strings.Contains(content, "\x1b[32m+y") || !strings.Contains(content, "\x1b[31m-x") {
		t.Errorf("the diff has no colours: %q", content)
	}
	// The command of one part is in the tree.
	q.prompt.Parts, q.prompt.Sections[0].Text = q.prompt.Parts[2:], "touch a\n"
	q.resize(80, 40)
	if got := strings.Join(drawn(q), "\n"); strings.Contains(got, "command:") || strings.Count(got, "touch a") != 2 {
		t.Errorf("%s", got)
	}
}

// A yes that may be meant for another question is given twice.
func TestWaryQuestion(t *testing.T) {
	q := newQuestion(&permission.Prompt{Tool: "Bash", Title: "ls"}, "", true)
	q.resize(80, 24)
	q.choices()[0].chosen(q)
	if got := strings.Join(drawn(q), "\n"); q.answer != nil || !strings.Contains(got, "say so again") {
		t.Errorf("%v, %s", q.answer, got)
	}
	q.choices()[0].chosen(q)
	if q.answer == nil || !q.answer.Allow {
		t.Errorf("%v", q.answer)
	}
}

func TestMain(m *testing.M) {
	if rule, ok := os.LookupEnv(promptRule); ok {
		os.Exit(askAsTest(rule))
	}
	os.Exit(m.Run())
}
