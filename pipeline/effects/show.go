package effects

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/tools"
)

// A View says how much is shown, and in which colours.
type View struct {
	Color bool
	// Paths is how many changed paths the summary lists, Attempts how many attempts
	// of each kind, and Lines how many lines of a diff there are; 0 is no limit.
	Paths, Attempts, Lines int
	// Line is how much is shown of a line, File how large a file's diff is shown,
	// and Total how large all of them, in bytes; 0 is no limit.
	Line        int
	File, Total int64
}

// InPrompt is what a person can be asked to read, and what a question that is kept
// in a file has room for.
func InPrompt() View {
	return View{Paths: 40, Attempts: 10, Lines: 1000, Line: 400, File: 256 << 10, Total: 2 << 20}
}

// OnTerminal is what a person pages through, or a log keeps.
func OnTerminal(color bool) View {
	return View{Color: color, Paths: 1000, Attempts: 100, Lines: 100_000, Line: 16 << 10, File: 4 << 20, Total: 64 << 20}
}

func (v View) of(changes []*changeset.Change, lines int) changeset.DiffOptions {
	return changeset.DiffOptions{
		Changes: changes, Terminal: true, Color: v.Color,
		MaxLines: lines, MaxLine: v.Line, MaxFile: v.File, MaxTotal: v.Total,
	}
}

// How much is shown of the processes that were left running.
const (
	leftShown = 5
	leftLine  = 200 // of the command line of each, in bytes
)

// WriteSummary writes how the call ended, which paths it changed, what it tried
// beyond its copy, and what is not known. Every line begins with a word of ours,
// or with a blank.
func (p *Preview) WriteSummary(ctx context.Context, w io.Writer, v View) error {
	s := &summary{w: w, v: v}
	s.line("", "%s", p.ending())
	if !p.Complete {
		s.line(yellow, "not complete: %s", changeset.Printable(p.Why))
	}
	for _, l := range p.shown() {
		if l.Name != "workspace" {
			s.line("", "in %s:", changeset.Printable(l.Dir))
		}
		if s.err == nil {
			s.err = l.Set.WriteStat(ctx, w, v.of(l.Set.Changes, v.Paths))
		}
	}
	if n := p.Changes.Box; n > 0 {
		s.line("", "in its own home and /tmp: %s changed", tools.Count(n, "path"))
	}
	for _, t := range outsideLines(p.Outside) {
		s.item(red, "tried outside", t)
	}
	s.rest("attempts outside")
	for _, t := range networkLines(p.Network) {
		s.item(red, "wanted the network", t)
	}
	s.rest("attempts to reach somebody")
	if p.Dropped > 0 {
		s.line(red, "tried more: %s not kept", tools.Count(p.Dropped, "attempt"))
	}
	if n := p.Processes.Running; n > 0 {
		s.line(yellow, "left running: %s", tools.Count(n, "process"))
		for _, command := range p.Processes.Left[:min(len(p.Processes.Left), leftShown)] {
			s.line(yellow, "  %s", changeset.Printable(command[:min(len(command), leftLine)]))
		}
	}
	for _, limit := range p.Limits {
		s.line(yellow, "limit hit: %s", changeset.Printable(limit))
	}
	if p.None() && p.Complete {
		s.line(green, "nothing changed, nothing tried")
	}
	return s.err
}

// ending is how it ended, in words.
func (p *Preview) ending() string {
	text := "ran in a copy of the session"
	switch {
	case p.Exit == nil && !p.Complete:
		text = "in a copy of the session"
	case p.Exit == nil:
	case p.Exit.Signal != "":
		text += ": ended by " + p.Exit.Signal
	default:
		text += fmt.Sprintf(": exit %d", p.Exit.Code)
	}
	if p.Time > 0 {
		text += fmt.Sprintf(", %v", p.Time.Round(100*time.Microsecond))
	}
	if n := p.Processes.Started; n > 0 {
		text += ", " + tools.Count(n, "process") + " started"
	}
	return text
}

// WriteDiff writes what was changed in files, line by line where they are text.
func (p *Preview) WriteDiff(ctx context.Context, w io.Writer, v View) error {
	for _, l := range p.shown() {
		if l.Name != "workspace" {
			if _, err := fmt.Fprintf(w, "in %s:\n", changeset.Printable(l.Dir)); err != nil {
				return err
			}
		}
		if err := l.Set.WritePatch(ctx, w, v.of(l.Set.Changes, v.Lines)); err != nil {
			return err
		}
	}
	return nil
}

// Sections are what a prompt shows: the summary, and the diff if there is one. What
// cannot be read is said in them.
func (p *Preview) Sections(ctx context.Context) []permission.Section {
	v := InPrompt()
	text := func(write func(context.Context, io.Writer, View) error) string {
		var b bytes.Buffer
		if err := write(ctx, &b, v); err != nil {
			fmt.Fprintf(&b, "[not shown: %s]\n", changeset.Printable(err.Error()))
		}
		return b.String()
	}
	sections := []permission.Section{{Title: "what it did", Text: text(p.WriteSummary)}}
	if diff := text(p.WriteDiff); diff != "" {
		sections = append(sections, permission.Section{Title: "diff", Text: diff, Diff: true})
	}
	return sections
}

// Colours, as those of diffs.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

// A summary is written line by line.
type summary struct {
	w   io.Writer
	v   View
	err error

	listed int // of items of the kind that is being written
}

func (s *summary) line(color, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.v.Color && color != "" {
		text = "\x1b[" + color + "m" + text + "\x1b[m"
	}
	if s.err == nil {
		_, s.err = fmt.Fprintln(s.w, text)
	}
}

// item writes one of a list, as long as there is room for it.
func (s *summary) item(color, what, text string) {
	if s.listed++; s.v.Attempts == 0 || s.listed <= s.v.Attempts {
		s.line(color, "%s: %s", what, text)
	}
}

// rest ends a list, and says how much of it was left out.
func (s *summary) rest(what string) {
	if more := s.listed - s.v.Attempts; s.v.Attempts > 0 && more > 0 {
		s.line(red, "not shown: %d more %s", more, what)
	}
	s.listed = 0
}

// outsideLines are attempts in words, each once. Those that matter less come last.
func outsideLines(attempts []Attempt) []string {
	return counted(attempts, func(a Attempt) bool { return a.Opportunistic }, func(a Attempt) string {
		path := a.Path
		if path == "" {
			path = "it is not known what"
		}
		text := a.Op + " " + changeset.Printable(path) + by(a.Program)
		if a.Opportunistic {
			text += ", beside its work"
		}
		return text
	})
}

func networkLines(dials []Dial) []string {
	return counted(dials, func(Dial) bool { return false }, func(d Dial) string {
		text := changeset.Printable(d.Host)
		if d.Port != 0 {
			text += fmt.Sprintf(" port %d", d.Port)
		}
		return text + by(d.Program)
	})
}

func by(program string) string {
	if program == "" {
		return ""
	}
	return ", by " + changeset.Printable(program)
}

// counted are a list in words, equal ones once and with their number.
func counted[T any](list []T, last func(T) bool, words func(T) string) []string {
	times := make(map[string]int)
	var first, end []string
	for _, x := range list {
		text := words(x)
		if times[text]++; times[text] > 1 {
			continue
		}
		if last(x) {
			end = append(end, text)
		} else {
			first = append(first, text)
		}
	}
	lines := append(first, end...)
	for i, text := range lines {
		if n := times[text]; n > 1 {
			lines[i] = fmt.Sprintf("%s (%d times)", text, n)
		}
	}
	return lines
}
