package changeset

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// WriteStat writes a line for each change and one for all, in the manner of git
// diff --stat.
func (s *Set) WriteStat(ctx context.Context, w io.Writer, o DiffOptions) error {
	o = o.of(s)
	p := &patcher{ctx: ctx, set: s, o: o}
	type row struct {
		name, what   string
		added, taken int
	}
	var rows []row
	width, most, added, taken := 0, 0, 0, 0
	for _, c := range o.Changes {
		if o.Terminal && o.MaxLines > 0 && len(rows) == o.MaxLines {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		r := row{name: statName(c)}
		var err error
		if r.added, r.taken, r.what, err = p.count(c); err != nil {
			return fmt.Errorf("showing the change of %q: %w", c.Path, err)
		}
		width = max(width, min(len(r.name), 60))
		most = max(most, r.added+r.taken)
		added, taken = added+r.added, taken+r.taken
		rows = append(rows, r)
	}
	for _, r := range rows {
		counts := r.what
		if counts == "" || r.added+r.taken > 0 {
			plus, minus := bars(r.added, r.taken, most)
			counts = fmt.Sprintf("%4d %s%s %s", r.added+r.taken, paint(o, green, plus), paint(o, red, minus), r.what)
		}
		if _, err := fmt.Fprintf(w, " %-*s | %s\n", width, o.cut(r.name), strings.TrimRight(counts, " ")); err != nil {
			return err
		}
	}
	all := plural(len(o.Changes), "path", "changed")
	if more := len(o.Changes) - len(rows); more > 0 {
		all += fmt.Sprintf(", %d of them not shown; of the others", more)
	}
	_, err := fmt.Fprintf(w, " %s, %s(+), %s(-)\n", all, plural(added, "insertion", ""), plural(taken, "deletion", ""))
	return err
}

func paint(o DiffOptions, color, s string) string {
	if !o.Color || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[m"
}

func plural(n int, noun, then string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "y"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", n, noun, then))
}

// bars draws counts, scaled so that the largest change fits.
func bars(added, taken, most int) (plus, minus string) {
	const width = 40
	scale := func(n int) int {
		if most <= width || n == 0 {
			return n
		}
		return max(1, n*width/most)
	}
	return strings.Repeat("+", scale(added)), strings.Repeat("-", scale(taken))
}

// statName names a change: its path, and where it came from.
func statName(c *Change) string {
	name := Printable(c.Path)
	if c.Type == Dir {
		name += "/"
	}
	if c.Kind == Renamed {
		name = Printable(c.From) + " => " + name
	}
	return name
}

// count counts the lines of a change, and says what is not lines.
func (p *patcher) count(c *Change) (added, taken int, what string, err error) {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case c.Refused != "":
		note("refused: %s", Printable(c.Refused))
	case c.Kind == Deleted && c.Type == Dir:
		note("directory removed, with %s", plural(c.Below, "entry", ""))
	case c.Kind == Added && c.Type == Dir:
		note("new directory")
	case c.Kind == Link:
		note("another name of %s", Printable(c.From))
	case c.Type == Symlink && c.Kind != Deleted:
		note("link to %s", Printable(c.Target))
		if c.Outside {
			note("which leads out of the workspace, or nowhere")
		}
	case c.Kind == Deleted:
		note("removed")
	case c.Kind == Added:
		note("new")
	}
	if c.OldType != "" && c.Kind != Deleted && c.OldMode != c.Mode && c.OldType == c.Type && c.Type != Symlink {
		note("mode %04o, was %04o", c.Mode, c.OldMode)
	}
	if c.OldType != "" && c.Kind != Deleted && c.OldType != c.Type {
		note("was a %s", c.OldType)
	}
	if c.Kind == Modified && c.Type == File && c.Size == 0 && c.OldSize > 0 {
		note("now empty")
	}
	if c.Protected {
		note("protected: name it to apply it")
	}
	if c.Base == BaseConflict {
		note("conflict: %s", Printable(c.Conflict))
	}
	if c.Refused == "" && (c.Kind == Added || c.Kind == Modified || c.Kind == Deleted) && (c.Type == File || c.OldType == File) {
		from, to := side{}, side{}
		if c.OldType == File {
			from = side{File, c.Path, c.OldMode, c.OldSize, c.OpenOld}
		}
		if c.Kind != Deleted && c.Type == File {
			to = side{File, c.Path, c.Mode, c.Size, c.Open}
		}
		var k kind
		added, taken, k, err = p.countLines(from, to)
		if err != nil {
			return 0, 0, "", err
		}
		if k != isText {
			switch c.Kind {
			case Added:
				note("%d bytes", to.size)
			case Deleted:
				note("%d bytes before", from.size)
			default:
				note("%d bytes, were %d", to.size, from.size)
			}
		}
	}
	return added, taken, strings.Join(notes, ", "), nil
}

func (p *patcher) countLines(from, to side) (added, taken int, k kind, err error) {
	old, new, k, err := p.contents(from, to)
	if err != nil || k != isText {
		return 0, 0, k, err
	}
	unified, err := udiff.ToUnifiedDiff("", "", old, udiff.Lines(old, new), 0)
	if err != nil {
		return 0, 0, k, err
	}
	for _, h := range unified.Hunks {
		for _, line := range h.Lines {
			switch line.Kind {
			case udiff.Insert:
				added++
			case udiff.Delete:
				taken++
			}
		}
	}
	return added, taken, isText, nil
}
