package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/tools"
)

func agentCommand() *cli.Command {
	return &cli.Command{
		Name:      "agent",
		Usage:     "run an agent's recorded tool calls",
		ArgsUsage: " ",
		Description: "Takes an agent's messages from a file, one JSON object a line as the Messages API returns them, and runs\n" +
			"the tool calls in them, in order, in the session of this directory. Prints what each was, how it was decided\n" +
			"and why, how it was held, how long it took, and its result; with --json the tool_result blocks, one a line.\n\n" +
			"   sallyport agent --script session.jsonl --mode acceptEdits --allow 'Bash(go test *)'\n\n" +
			"A line that is no message is reported, and the script goes on after it. The exit code is 0 when every line\n" +
			"was a message, whatever became of its calls; 130 when it was interrupted.",
		Flags: agentFlags(
			&cli.StringFlag{Name: "script", Usage: "the `FILE` with the messages; - is standard input"},
			&cli.IntFlag{Name: "lines", Value: 10, Usage: "show `N` lines of each result; 0 for all"},
			jsonFlag(),
		),
		BashComplete: completeFlags,
		Action:       atMost(0, runAgent),
	}
}

func runAgent(c *cli.Context) error {
	if c.String("script") == "" {
		return usageError(c, "name the file with the messages: --script FILE, or - for standard input")
	}
	if c.Int("lines") < 0 {
		return usageError(c, "--lines %d: use 0 or more", c.Int("lines"))
	}
	in := io.Reader(os.Stdin)
	if name := c.String("script"); name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("the script: %w", err)
		}
		defer f.Close()
		in = f
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	r, err := openAgent(ctx, c)
	if err != nil {
		return err
	}
	r.pipeline.Prompter = r.prompter()
	t := &timeline{out: os.Stdout, lines: c.Int("lines"), color: colored(os.Stdout)}
	wrong, err := r.play(ctx, pipeline.NewScript(in), t)
	if !c.Bool("json") {
		t.end()
		r.hintChanges()
	}
	err = errors.Join(err, r.close())
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return exitCode(130)
	case wrong:
		return exitCode(1)
	}
	return nil
}

// play runs the calls of a script. It returns whether a line was wrong.
func (r *agentRun) play(ctx context.Context, s *pipeline.Script, t *timeline) (wrong bool, err error) {
	for ctx.Err() == nil {
		turn, err := s.Next()
		if errors.Is(err, io.EOF) {
			return wrong, nil
		}
		if errors.As(err, new(*pipeline.ScriptError)) {
			complain(err.Error())
			wrong = true
			continue
		}
		if err != nil {
			return wrong, fmt.Errorf("the script: %w", err)
		}
		if !r.cli.Bool("json") {
			t.say(turn.Text)
		}
		for _, use := range turn.Uses {
			o := r.pipeline.Run(ctx, use)
			if r.cli.Bool("json") {
				if err := printJSON(resultOf(o)); err != nil {
					return wrong, err
				}
				continue
			}
			t.show(o)
		}
	}
	return wrong, nil
}

// colored reports whether what is written to a file may have colours.
func colored(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == ""
}

// A timeline shows an agent's calls to a person.
type timeline struct {
	out   io.Writer
	lines int // of each result; 0 for all
	color bool

	calls, denied, failed int
	took                  time.Duration
}

const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
)

func (t *timeline) paint(color, text string) string {
	if !t.color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// say shows what the agent said.
func (t *timeline) say(text string) {
	if text = strings.TrimSpace(text); text != "" {
		fmt.Fprintf(t.out, "\n%s\n", shown(text))
	}
}

// show shows a call: what it was, the decision and why, how it was held, how long
// it took, and its result.
func (t *timeline) show(o *pipeline.Outcome) {
	t.calls++
	t.took += o.Duration - o.Asked
	title := o.Title
	if title == "" {
		title = o.Use.Name
	}
	mark, color := "+", green
	switch {
	case errors.As(o.Err, new(*pipeline.DeniedError)):
		mark, color = "x", red
		t.denied++
	case o.IsError:
		mark, color = "!", red
		t.failed++
	}
	fmt.Fprintf(t.out, "\n%s %s\n", t.paint(color, mark), t.paint(bold, printed(title)))
	facts := []string{"not decided on"}
	if d := o.Decision; d != nil {
		facts = []string{verdict(d)}
	}
	if o.Envelope != nil {
		where := "the " + held(o.Envelope)
		if o.Applied {
			where = "a copy of the session"
		}
		facts = append(facts, "ran in "+where, short(o.Ran))
	}
	fmt.Fprintf(t.out, "  %s\n", t.paint(dim, strings.Join(facts, "; ")))
	for _, note := range o.Notes {
		fmt.Fprintf(t.out, "  %s\n", t.paint(dim, printed(note)))
	}
	if mark != "x" {
		t.result(o.Text()) // a denial says what the decision said
	}
	for _, message := range o.Messages {
		t.result(message)
	}
}

// verdict is a decision in words: by what it was made, and why.
func verdict(d *permission.Decision) string {
	word := "allowed"
	if d.Behavior != permission.Allow {
		word = "denied"
	}
	return printed(word + ": " + d.Reason)
}

func (t *timeline) result(text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	left := 0
	if t.lines > 0 && len(lines) > t.lines {
		lines, left = lines[:t.lines], len(lines)-t.lines
	}
	for _, line := range lines {
		fmt.Fprintf(t.out, "  | %s\n", shown(line))
	}
	if left > 0 {
		fmt.Fprintf(t.out, "  %s\n", t.paint(dim, fmt.Sprintf("| ... %s more", tools.Count(left, "line"))))
	}
}

// end sums up.
func (t *timeline) end() {
	fmt.Fprintf(t.out, "\n%s in %s: %d denied, %d failed\n", tools.Count(t.calls, "call"), short(t.took), t.denied, t.failed)
}

// short is a time as people read it.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// shown is text of several lines so that it cannot act on the terminal.
func shown(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for j := range parts {
			parts[j] = printed(parts[j])
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}
