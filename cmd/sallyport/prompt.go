package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/approval"
)

// A terminalPrompter asks on the terminal of this process: the question goes to
// standard error, the answer comes from standard input. It is for a process that
// canAsk, and asks one question after the other.
type terminalPrompter struct{}

var _ permission.Prompter = terminalPrompter{}

// terminalTurn is filled by who asks: a process has one terminal.
var terminalTurn = make(chan struct{}, 1)

// canAsk reports whether a question can be shown and answered.
func canAsk() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
}

// Ask shows the question and waits for the answer. When ctx ends, the question is
// withdrawn. ctx must end with the signals that would end the process, ^C among
// them: the terminal's settings are changed meanwhile.
func (terminalPrompter) Ask(ctx context.Context, p *permission.Prompt) (permission.Answer, error) {
	select {
	case terminalTurn <- struct{}{}:
		defer func() { <-terminalTurn }()
	case <-ctx.Done():
		return permission.Answer{}, context.Cause(ctx)
	}
	b := approval.Bounded(p)
	fmt.Fprintln(os.Stderr)
	showPrompt(os.Stderr, &b)
	a, err := askPrompt(ctx, &b, false)
	if errors.Is(err, errLeft) {
		// Not a no: the terminal may have gone away.
		err = errors.New("nobody answered: the input from the terminal has ended")
	}
	if err != nil {
		return permission.Answer{}, err
	}
	a.By = "terminal"
	return a, nil
}

// What stands before the lines of a text, and before the parts of a line that is
// wider than the terminal.
const (
	bar     = "    | "
	barMore = "    : "
)

// showPrompt shows what is asked. Whatever comes from the agent stands behind a
// bar or after a word of ours, and never at the beginning of a line on the
// terminal: it cannot be taken for what sallyport says.
func showPrompt(f *os.File, p *permission.Prompt) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		columns, rows = 0, 0
	}
	lines := 0
	line := func(before, text string) {
		room := 0
		if columns > 0 {
			room = max(columns-1-max(len(before), len(barMore)), 1)
		}
		for _, part := range wrapped(text, room) {
			fmt.Fprintln(f, before+part)
			before = barMore
			lines++
		}
	}
	line("", promptTitle(p))
	if p.Reason != "" {
		line("  why it is asked: ", printed(p.Reason))
	}
	if by := p.AskedBy(); by != "" {
		line("  asked by ", printed(by))
	}
	if len(p.Parts) > 0 {
		line("  ", "what is known of it:")
	}
	for i := range p.Parts {
		line(bar, printed(p.Parts[i].String()))
	}
	for _, s := range p.Sections {
		if s.Title != "" {
			line("  ", printed(s.Title)+":")
		}
		if s.Text == "" {
			continue
		}
		for text := range strings.SplitSeq(strings.TrimSuffix(s.Text, "\n"), "\n") {
			line(bar, shown(text))
		}
	}
	if p.Rule != "" {
		line("  yes, for this session, would allow: ", printed(p.Rule))
	}
	// What is harmful may have scrolled away.
	if rows > 0 && lines+2 > rows {
		fmt.Fprintf(f, "  these are %d lines, more than the terminal shows at once: read them from the top\n", lines)
	}
}

// wrapped breaks a line into parts of at most so many columns; 0 is no limit. No
// character takes more columns than it is counted for.
func wrapped(line string, columns int) (parts []string) {
	start, at := 0, 0
	for i, r := range line {
		width := 1
		switch {
		case r == '\t':
			width = 8
		case r > unicode.MaxASCII:
			width = 2
		}
		at += width
		if columns > 0 && at > columns && i > start {
			parts = append(parts, line[start:i])
			start, at = i, width
		}
	}
	return append(parts, line[start:])
}

// promptTitle is a question in a line, with the tool in front.
func promptTitle(p *permission.Prompt) string {
	if p.Title == p.Tool || strings.HasPrefix(p.Title, p.Tool+" ") {
		return printed(p.Title)
	}
	return printed(strings.TrimSuffix(p.Tool+": "+p.Title, ": "))
}

// errLeft is that the input ended before the question was answered.
var errLeft = errors.New("the question was left")

// askPrompt asks for the answer to what showPrompt has shown. The error is
// errLeft, or what ended ctx. If wary, a yes must be given twice: the first may be
// meant for another question, that was there a moment before.
func askPrompt(ctx context.Context, p *permission.Prompt, wary bool) (permission.Answer, error) {
	t, err := holdTerminal()
	if err != nil {
		return permission.Answer{}, err
	}
	defer t.restore()
	choices := "[y]es, [n]o (n TEXT tells the model why)"
	if p.Rule != "" {
		choices = "[y]es, yes for this [s]ession, [n]o (n TEXT tells the model why)"
	}
	question := promptTitle(p)
	if parts := wrapped(question, 60); len(parts) > 1 {
		question = parts[0] + "…"
	}
	for {
		// What was typed before was no answer, see ask.
		t.flush()
		line, err := t.readLine(ctx, fmt.Sprintf("Allow %s? %s ", question, choices))
		if err != nil {
			return permission.Answer{}, err
		}
		word, why, _ := strings.Cut(line, " ")
		why = strings.TrimSpace(why)
		var yes permission.Answer
		switch strings.ToLower(word) {
		case "y", "yes":
			yes = permission.Answer{Allow: true}
		case "s", "session":
			yes = permission.Answer{Allow: true, Session: true}
		case "n", "no":
			if why == "" {
				why, err = t.readLine(ctx, "What should the model be told? (Enter: nothing more) ")
				if err != nil && !errors.Is(err, errLeft) {
					return permission.Answer{}, err
				}
			}
			return permission.Answer{Why: why}, nil
		default:
			continue
		}
		switch {
		case why != "" || yes.Session && p.Rule == "":
		case wary:
			wary = false
			fmt.Fprintln(os.Stderr, "This is another question than the one before: if you mean this one, say so again.")
		default:
			return yes, nil
		}
	}
}

// A heldTerminal is standard input while a question is asked: lines are edited
// and shown, and ^C is a signal, however the terminal was left.
type heldTerminal struct {
	fd  int
	old *unix.Termios
}

func holdTerminal() (*heldTerminal, error) {
	fd := int(os.Stdin.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("there is no terminal to ask on: %w", err)
	}
	mode := *old
	// ^C must not throw away what we write: readLine throws away what was typed.
	mode.Lflag |= unix.ICANON | unix.ECHO | unix.ISIG | unix.NOFLSH
	mode.Iflag |= unix.ICRNL
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
		case err != nil:
			fmt.Fprintln(os.Stderr)
			return "", errLeft
		case line[len(line)-1] == '\n':
			return strings.TrimSpace(strings.ToValidUTF8(string(line), "\ufffd")), nil
		}
	}
}
