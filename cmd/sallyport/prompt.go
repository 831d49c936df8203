package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/permission"
)

// A terminalPrompter asks on the terminal of this process: the question goes to
// standard error, the answer comes from standard input. It asks one question
// after the other.
type terminalPrompter struct {
	turn chan struct{} // who has put something into it asks
}

var _ permission.Prompter = (*terminalPrompter)(nil)

// newTerminalPrompter returns nil where there is no terminal to ask on.
func newTerminalPrompter() *terminalPrompter {
	if !canAsk() {
		return nil
	}
	return &terminalPrompter{turn: make(chan struct{}, 1)}
}

// canAsk reports whether a question can be shown and answered.
func canAsk() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
}

// Ask shows the question and waits for the answer. ^C and the end of the input
// are a no; when ctx ends, the question is withdrawn. It should end with the
// signals that end the process: the terminal's settings are changed meanwhile.
func (t *terminalPrompter) Ask(ctx context.Context, p *permission.Prompt) (permission.Answer, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return permission.Answer{}, context.Cause(ctx)
	}
	fmt.Fprintln(os.Stderr)
	showPrompt(os.Stderr, p)
	a, err := askPrompt(ctx, p)
	if errors.Is(err, errLeft) {
		a, err = permission.Answer{}, nil
	}
	a.By = "terminal"
	return a, err
}

// showPrompt shows what is asked. Whatever comes from the agent stands behind a
// bar: it cannot be taken for what sallyport says.
func showPrompt(w io.Writer, p *permission.Prompt) {
	fmt.Fprintln(w, promptTitle(p))
	if p.Reason != "" {
		fmt.Fprintln(w, "  why it is asked: "+printed(p.Reason))
	}
	for _, s := range p.Sections {
		if s.Title != "" {
			fmt.Fprintf(w, "  %s:\n", printed(s.Title))
		}
		if s.Text == "" {
			continue
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(s.Text, "\n"), "\n") {
			fmt.Fprintln(w, "    | "+printedLine(line))
		}
	}
	if p.Rule != "" {
		fmt.Fprintln(w, "  yes, for this session, would allow: "+printed(p.Rule))
	}
}

// promptTitle is a question in a line.
func promptTitle(p *permission.Prompt) string {
	s := p.Tool
	if p.Title != "" && p.Title != p.Tool {
		s += ": " + p.Title
	}
	return printed(s)
}

// printedLine is a line of text as it is shown. Tabs do no harm.
func printedLine(s string) string {
	parts := strings.Split(s, "\t")
	for i, part := range parts {
		parts[i] = printed(part)
	}
	return strings.Join(parts, "\t")
}

// errLeft is that a question was left by ^C or the end of the input.
var errLeft = errors.New("the question was left")

// askPrompt asks for the answer to what showPrompt has shown. The error is
// errLeft, or what ended ctx.
func askPrompt(ctx context.Context, p *permission.Prompt) (a permission.Answer, err error) {
	t, err := holdTerminal()
	if err != nil {
		return a, err
	}
	defer t.restore()
	choices := "[y]es, [n]o (n TEXT tells the model why)"
	if p.Rule != "" {
		choices = "[y]es, yes for this [s]ession, [n]o (n TEXT tells the model why)"
	}
	question := promptTitle(p)
	if r := []rune(question); len(r) > 60 {
		question = string(r[:59]) + "…"
	}
	for {
		// What was typed before was no answer, see ask.
		t.flush()
		line, err := t.readLine(ctx, fmt.Sprintf("Allow %s? %s ", question, choices))
		if err != nil {
			return a, err
		}
		word, why, _ := strings.Cut(line, " ")
		why = strings.TrimSpace(why)
		switch strings.ToLower(word) {
		case "y", "yes":
			if why == "" {
				return permission.Answer{Allow: true}, nil
			}
		case "s", "session":
			if why == "" && p.Rule != "" {
				return permission.Answer{Allow: true, Session: true}, nil
			}
		case "n", "no":
			if why == "" {
				why, err = t.readLine(ctx, "What should the model be told? (Enter: nothing more) ")
				if err != nil && !errors.Is(err, errLeft) {
					return a, err
				}
			}
			return permission.Answer{Why: why}, nil
		}
	}
}

// A heldTerminal is standard input while a question is asked: ^C ends the line
// instead of the process.
type heldTerminal struct {
	fd  int
	old *unix.Termios
}

const ctrlC = 3

func holdTerminal() (*heldTerminal, error) {
	fd := int(os.Stdin.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("there is no terminal to ask on: %w", err)
	}
	mode := *old
	mode.Lflag |= unix.ICANON | unix.ECHO | unix.ISIG
	mode.Iflag |= unix.ICRNL
	mode.Cc[unix.VINTR] = 0 // none
	mode.Cc[unix.VEOL] = ctrlC
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &mode); err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	return &heldTerminal{fd, old}, nil
}

func (t *heldTerminal) flush() { unix.IoctlSetInt(t.fd, unix.TCFLSH, unix.TCIFLUSH) }

func (t *heldTerminal) restore() { unix.IoctlSetTermios(t.fd, unix.TCSETS, t.old) }

// readLine asks and reads a line, without the spaces around it. When ctx ends,
// what was typed of it is thrown away: it is not meant for whoever reads next.
func (t *heldTerminal) readLine(ctx context.Context, question string) (string, error) {
	in, stop, err := input(os.Stdin)
	if err != nil {
		return "", err
	}
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	fmt.Fprint(os.Stderr, question)
	var line []byte
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		line = append(line, buf[:n]...)
		switch {
		case ctx.Err() != nil:
			t.flush()
			fmt.Fprintln(os.Stderr)
			return "", context.Cause(ctx)
		case err != nil, line[len(line)-1] == ctrlC:
			fmt.Fprintln(os.Stderr)
			return "", errLeft
		case line[len(line)-1] == '\n':
			return strings.TrimSpace(strings.ToValidUTF8(string(line), "\ufffd")), nil
		}
	}
}
