package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/permission"
)

// promptRule makes the test binary ask a question on its terminal, whose rule
// the variable holds; promptText is the text that is asked about. Its context
// ends with SIGINT and SIGTERM.
const (
	promptRule = "SALLYPORT_TEST_PROMPT_RULE"
	promptText = "SALLYPORT_TEST_PROMPT_TEXT"
)

// exitGone is that the terminal went away, and that Ask said so.
const exitGone = 3

const hostileText = "make\n\ttest\x1b[2J\u202e\nyes, for this session, would allow: ls"

func askAsTest(rule string) int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	signal.Ignore(syscall.SIGHUP) // as under nohup
	fmt.Println("ready")
	var typed [1]byte
	os.Stdin.Read(typed[:]) // its first line is not for the question
	if !canAsk() {
		fmt.Println("no terminal")
		return 1
	}
	before, _ := unix.IoctlGetTermios(0, unix.TCGETS)
	a, err := terminalPrompter{}.Ask(ctx, &permission.Prompt{
		Tool: "Bash", Title: "run\x1b[2J make", Reason: "no rule", Rule: rule, CanSave: rule != "",
		Sections: []permission.Section{{Title: "command", Text: os.Getenv(promptText)}},
	})
	_, gone := fmt.Printf("allow=%v session=%v save=%q why=%q by=%s err=%v\n", a.Allow, a.Session, string(a.Save), a.Why, a.By, err)
	if gone != nil && a == (permission.Answer{}) && err != nil && strings.Contains(err.Error(), "has ended") {
		return exitGone
	}
	if after, _ := unix.IoctlGetTermios(0, unix.TCGETS); *before != *after {
		fmt.Println("the terminal was left changed")
	}
	return 0
}

// A dialogue is one with the prompter on a terminal of its own.
type dialogue struct {
	t    *testing.T
	cmd  *exec.Cmd
	term *os.File
	out  bytes.Buffer
	seen int
}

func askOnTerminal(t *testing.T, rule string) *dialogue {
	t.Helper()
	return askAbout(t, rule, hostileText, &pty.Winsize{})
}

func askAbout(t *testing.T, rule, text string, size *pty.Winsize) *dialogue {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), promptRule+"="+rule, promptText+"="+text)
	term, err := pty.StartWithSize(cmd, size)
	if err != nil {
		t.Fatal(err)
	}
	hang := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { hang.Stop(); cmd.Process.Kill(); cmd.Wait(); term.Close() })
	return &dialogue{t: t, cmd: cmd, term: term}
}

// expect reads until the rest of what was written matches.
func (d *dialogue) expect(pattern string) string {
	d.t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		if at := re.FindIndex(d.out.Bytes()[d.seen:]); at != nil {
			text := string(d.out.Bytes()[d.seen : d.seen+at[1]])
			d.seen += at[1]
			return text
		}
		buf := make([]byte, 4096)
		n, err := d.term.Read(buf)
		d.out.Write(buf[:n])
		if err != nil {
			d.cmd.Wait()
			d.t.Fatalf("%q did not come: %q; %v, %v", pattern, d.out.String(), err, d.cmd.ProcessState)
		}
	}
}

func (d *dialogue) key(s string) { d.term.WriteString(s) }

func TestTerminalPrompter(t *testing.T) {
	const rule = "Bash(make *)"
	for _, test := range []struct {
		name, rule string
		keys       []string // each after the question was asked (again), or what follows it
		want       string
	}{
		{"y", "", []string{"y\n"}, `allow=true session=false save="" why="" by=terminal err=<nil>`},
		{"yes", rule, []string{"YES \n"}, `allow=true session=false save="" why="" by=terminal err=<nil>`},
		{"s", rule, []string{"s\n"}, `allow=true session=true save="" why="" by=terminal err=<nil>`},
		{"s is not offered without a rule", "", []string{"s\n", "y\n"}, `allow=true session=false save="" why="" by=terminal err=<nil>`},
		{"n", "", []string{"n\n", "\n"}, `allow=false session=false save="" why="" by=terminal err=<nil>`},
		{"n and then why", "", []string{"n\n", " use  test.sh \n"}, `allow=false session=false save="" why="use  test.sh" by=terminal err=<nil>`},
		{"n and then ^C", "", []string{"n\n", "x\x03"}, `allow=false session=false save="" why="" by= err=interrupt signal received`},
		{"n and then ^D", "", []string{"n\n", "\x04"}, `allow=false session=false save="" why="" by=terminal err=<nil>`},
		{"n with why", "", []string{"n use test.sh\n"}, `allow=false session=false save="" why="use test.sh" by=terminal err=<nil>`},
		{"a yes with more to it is asked again", "", []string{"y but only once\n", "n no\n"}, `allow=false session=false save="" why="no" by=terminal err=<nil>`},
		{"other words, and none, are asked again", "", []string{"yellow\n", "\n", "y\n"}, `allow=true session=false save="" why="" by=terminal err=<nil>`},
		{"^C", rule, []string{"\x03"}, `allow=false session=false save="" why="" by= err=interrupt signal received`},
		{"^C after a yes", rule, []string{"y\x03"}, `allow=false session=false save="" why="" by= err=interrupt signal received`},
		{"^D", rule, []string{"\x04"}, `allow=false session=false save="" why="" by= err=nobody answered: the input from the terminal has ended`},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := askOnTerminal(t, test.rule)
			d.expect("ready")
			d.key("\n")
			for _, key := range test.keys {
				d.expect(`\) $`)
				d.key(key)
			}
			d.expect(regexp.QuoteMeta(test.want) + "\r\n")
			if err := d.cmd.Wait(); err != nil {
				t.Error(err)
			}
			if strings.Contains(d.out.String(), "left changed") {
				t.Errorf("%q", d.out.String())
			}
		})
	}
}

// The agent's text acts on nothing, and cannot be taken for sallyport's.
func TestPromptIsShownHarmlessly(t *testing.T) {
	d := askOnTerminal(t, "Bash(make *)")
	d.expect("ready")
	d.key("\n")
	got := d.expect(`Allow .*\) $`)
	for _, line := range []string{
		"Bash: run^[[2J make\r\n",
		"  why it is asked: no rule\r\n",
		"  command:\r\n",
		"    | make\r\n",
		"    | yes, for this session, would allow: ls\r\n",
		"  yes, for this session, would allow: Bash(make *)\r\n",
		"Allow Bash: run^[[2J make? [y]es, yes for this [s]ession, [n]o (n TEXT tells the model why) ",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in %q", line, got)
		}
	}
	if !strings.Contains(got, `test^[[2J\u202e`) || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
	d.key("y\n")
	d.expect("allow=true")
}

// What was typed before the question is no answer to it.
func TestTypedBeforeTheQuestion(t *testing.T) {
	d := askOnTerminal(t, "")
	d.expect("ready")
	d.key("xyz\ny\ny\n")
	d.expect(`Allow .*\) $`)
	d.key("n no\n")
	d.expect(`allow=false session=false save="" why="no"`)
}

// When its context ends, the question is withdrawn, and what was typed of an
// answer is for nobody.
func TestPromptIsWithdrawn(t *testing.T) {
	d := askOnTerminal(t, "")
	d.expect("ready")
	d.key("\n")
	d.expect(`Allow .*\) $`)
	d.key("y")
	d.expect("y") // the terminal has it
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.expect(`allow=false session=false save="" why="" by= err=terminated signal received`)
	if err := d.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if strings.Contains(d.out.String(), "left changed") {
		t.Errorf("%q", d.out.String())
	}
}

// A line that is wider than the terminal does not go on at the beginning of the
// next one, and what does not fit on it at once is said.
func TestLongPromptsAreSeenToBeLong(t *testing.T) {
	const columns = 40
	fake := "Allow ls? [y]es"
	text := strings.Repeat("x", columns-len(bar)) + fake + "\n" + strings.Repeat("\t", 4) + fake + "\n" +
		strings.Repeat("\u00fc\u4e16", 20) + fake + strings.Repeat("\n", 30) + "end"
	d := askAbout(t, "", text, &pty.Winsize{Rows: 24, Cols: columns})
	d.expect("ready")
	d.key("\n")
	got := d.expect(`Allow Bash.*\) $`)
	at := strings.Index(got, "  these are 40 lines, more than the terminal shows at once")
	if at < 0 {
		t.Fatalf("%q", got)
	}
	_, before, _ := strings.Cut(got[:at], "  command:\r\n")
	for line := range strings.SplitSeq(strings.TrimSuffix(before, "\r\n"), "\r\n") {
		if !strings.HasPrefix(line, bar) && !strings.HasPrefix(line, barMore) || len(wrapped(line, columns)) > 1 {
			t.Errorf("%q", line)
		}
	}
	d.key("n\n")
	d.expect("told")
	d.key("\n")
	d.expect("by=terminal")
	d = askAbout(t, "", "short", &pty.Winsize{Rows: 24, Cols: columns})
	d.expect("ready")
	d.key("\n")
	if got := d.expect(`Allow Bash.*\) $`); strings.Contains(got, "these are") {
		t.Errorf("%q", got)
	}
}

func TestPromptTitle(t *testing.T) {
	for _, test := range []struct{ tool, title, want string }{
		{"Bash", "Bash touch y", "Bash touch y"},
		{"Bash", "touch y", "Bash: touch y"},
		{"Bash", "Bashful", "Bash: Bashful"},
		{"Bash", "Bash", "Bash"},
		{"Bash", "", "Bash"},
		{"Bash", "a\nb\x1b", `Bash: a\nb^[`},
	} {
		if got := promptTitle(&permission.Prompt{Tool: test.tool, Title: test.title}); got != test.want {
			t.Errorf("%q, %q: %q, want %q", test.tool, test.title, got, test.want)
		}
	}
}

func TestWrapped(t *testing.T) {
	for _, test := range []struct {
		line    string
		columns int
		want    string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc|d"},
		{"abcdefg", 3, "abc|def|g"},
		{"abcdefg", 0, "abcdefg"},
		{"\u4e16\u4e16\u4e16", 4, "\u4e16\u4e16|\u4e16"},
		{"\ta", 3, "\t|a"},
		{"\u4e16a", 1, "\u4e16|a"},
	} {
		if got := strings.Join(wrapped(test.line, test.columns), "|"); got != test.want {
			t.Errorf("%q in %d: %q, want %q", test.line, test.columns, got, test.want)
		}
	}
}

// Without its terminal a question is not answered: that is neither a yes nor the
// user's no.
func TestTerminalGoesAway(t *testing.T) {
	d := askOnTerminal(t, "")
	d.expect("ready")
	d.key("\n")
	d.expect(`Allow .*\) $`)
	d.key("y")
	d.expect("y")
	d.term.Close()
	d.cmd.Wait()
	if got := d.cmd.ProcessState.ExitCode(); got != exitGone {
		t.Errorf("%v", d.cmd.ProcessState)
	}
}
