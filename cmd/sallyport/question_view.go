package main

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/bash"
)

// Colours are of the sixteen that a terminal's user has chosen.
var (
	strong  = lipgloss.NewStyle().Bold(true)
	faint   = lipgloss.NewStyle().Faint(true)
	safe    = lipgloss.NewStyle().Foreground(lipgloss.Green)
	careful = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	harmful = lipgloss.NewStyle().Foreground(lipgloss.Red)
	chosen  = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Cyan)
)

// The least that a question is shown well on; a smaller terminal has plain lines.
const (
	leastColumns = 60
	leastRows    = 16
)

// askedLine begins the choices.
const askedLine = "Allow this?"

// View implements [tea.Model]. Whatever comes from the agent stands behind a line
// of ours, as in showPrompt, and has passed printed: the view knows no escape
// sequence but those of the styles.
func (q *question) View() tea.View {
	var lines []string
	switch {
	case q.columns == 0:
		return tea.NewView("")
	case q.answer != nil:
		lines = q.summary()
	default:
		below := q.below()
		room := max(q.rows-len(below)-1, 1)
		lines = q.visible(room)
		lines = append(lines, below...)
	}
	// The last line is where the cursor is left.
	return tea.NewView(strings.Join(lines, "\n") + "\n")
}

// visible are the lines of the body that there is room for.
func (q *question) visible(room int) []string {
	if len(q.body) <= room {
		q.top = 0
		return append([]string(nil), q.body...)
	}
	room = max(room-1, 1)
	q.top = min(q.top, len(q.body)-room)
	lines := append([]string(nil), q.body[q.top:q.top+room]...)
	more := fmt.Sprintf("lines %d to %d of %d", q.top+1, q.top+room, len(q.body))
	if q.top+room < len(q.body) {
		more += "; there is more below"
	}
	return append(lines, careful.Render(more+": PgUp, PgDn"))
}

// scroll moves the body by a page, or to an end.
func (q *question) scroll(key string) {
	page := max(q.rows-len(q.below())-3, 1)
	switch key {
	case "pgup":
		q.top -= page
	case "pgdown":
		q.top += page
	case "home":
		q.top = 0
	case "end":
		q.top = len(q.body)
	}
	q.top = max(q.top, 0)
}

// below is what is asked.
func (q *question) below() []string {
	lines := []string{""}
	add := func(style lipgloss.Style, before, text string) {
		lines = append(lines, q.wrap(style, before, before, text)...)
	}
	help := "↑ ↓ and Enter, or the letter; Esc goes back; ^C interrupts"
	switch q.stage {
	case explaining:
		lines = append(lines, strong.Render("No. What should the model be told?"))
		// Of a long text the end is shown, where it is typed.
		parts := wrapped(q.why, max(q.columns-6, 1))
		lines = append(lines, "> "+printed(parts[len(parts)-1])+"_")
		help = "Enter sends it; Esc goes back; ^C interrupts"
	case saving:
		lines = append(lines, strong.Render("Always allow it: where should the rule be written?"))
	default:
		lines = append(lines, strong.Render(askedLine))
	}
	if q.stage != explaining {
		for i, c := range q.choices() {
			style, mark := lipgloss.NewStyle(), "  "
			if i == q.at {
				style, mark = chosen, "> "
			}
			add(style, mark+c.key+"  ", printed(c.text))
		}
	}
	if q.note != "" {
		add(careful, "", q.note)
	}
	if !q.heard {
		help = ""
	}
	return append(lines, faint.Render(help))
}

// summary is what is left on the screen of a question that was answered.
func (q *question) summary() []string {
	said, style := "no", harmful
	switch a := q.answer; {
	case a.Save != "":
		said, style = "always: "+printed(q.prompt.Rule), safe
	case a.Session:
		said, style = "yes, for this session: "+printed(q.prompt.Rule), safe
	case a.Allow:
		said, style = "yes", safe
	case a.Why != "":
		said = "no: " + printed(a.Why)
	}
	return append(q.wrap(strong, "", barMore, promptTitle(&q.prompt)), q.wrap(style, "  ", barMore, said)...)
}

// resize makes the body for a terminal of this size.
func (q *question) resize(columns, rows int) {
	q.columns, q.rows = columns, rows
	p := &q.prompt
	b := q.wrap(strong, "", barMore, promptTitle(p))
	if p.Reason != "" {
		b = append(b, q.wrap(lipgloss.NewStyle(), "  it is asked because: ", barMore, printed(p.Reason))...)
	}
	if by := p.AskedBy(); by != "" {
		b = append(b, q.wrap(lipgloss.NewStyle(), "  asked by ", barMore, printed(by))...)
	}
	b = append(b, q.tree()...)
	for _, s := range p.Sections {
		b = append(b, q.section(s)...)
	}
	if p.Rule != "" {
		b = append(b, "")
		b = append(b, q.wrap(lipgloss.NewStyle(), "  yes, for this session, or always, would allow: ", barMore, printed(p.Rule))...)
	}
	q.body = b
}

// tree shows a command part by part, each with what is known of it below: behind
// an arrow, which nothing of the agent's can stand before.
func (q *question) tree() (lines []string) {
	for i := range q.prompt.Parts {
		part := &q.prompt.Parts[i]
		first, rest := "├─ ", "│  "
		if i == len(q.prompt.Parts)-1 {
			first, rest = "└─ ", "   "
		}
		deeper := strings.Repeat("   ", part.Depth)
		if i == 0 {
			lines = append(lines, "")
		}
		if part.Text != "" {
			lines = append(lines, q.wrap(strong, "  "+deeper+first, "  "+deeper+rest+": ", printed(part.Text))...)
			first = rest
		}
		arrow := "→ "
		if known := printed(part.Kind); known != "" && !strings.HasPrefix(part.Note, known) {
			arrow += known + ": "
		}
		lines = append(lines, q.wrap(kindStyle(part), "  "+deeper+first+arrow, "  "+deeper+rest+": ", printed(part.Note))...)
	}
	return lines
}

// kindStyle is the colour of what is known of a part.
func kindStyle(p *permission.PromptPart) lipgloss.Style {
	switch bash.Kind(p.Kind) {
	case bash.Read, bash.Search, bash.List, bash.Neutral:
		if strings.HasPrefix(p.Note, "not known") {
			return harmful
		}
		return safe
	case bash.Write, bash.Inspect:
		return careful
	}
	return harmful
}

// section shows a section, a diff in colours. The command of a tree that is all
// of it is not shown again.
func (q *question) section(s permission.Section) (lines []string) {
	parts := q.prompt.Parts
	if s.Title == "command" && len(parts) == 1 && parts[0].Text == strings.TrimSpace(s.Text) {
		return nil
	}
	lines = append(lines, "")
	if s.Title != "" {
		lines = append(lines, q.wrap(faint, "  ", barMore, printed(s.Title)+":")...)
	}
	if s.Text == "" {
		return lines
	}
	header := false // of a file, in a diff
	for text := range strings.SplitSeq(strings.TrimSuffix(s.Text, "\n"), "\n") {
		style := lipgloss.NewStyle()
		if s.Diff {
			header = strings.HasPrefix(text, "diff ") || header && !strings.HasPrefix(text, "@@")
			style = diffStyle(text, header)
		}
		lines = append(lines, q.wrap(style, bar, barMore, expanded(shown(text)))...)
	}
	return lines
}

// diffStyle is the colour of a line of a diff, as git's.
func diffStyle(line string, header bool) lipgloss.Style {
	switch {
	case header:
		return strong
	case strings.HasPrefix(line, "+"):
		return safe
	case strings.HasPrefix(line, "-"):
		return harmful
	case strings.HasPrefix(line, "@@"):
		return lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	}
	return lipgloss.NewStyle()
}

// expanded is a line whose tabs are blanks.
func expanded(line string) string {
	parts := strings.Split(line, "\t")
	for i := range parts[:len(parts)-1] {
		parts[i] += strings.Repeat(" ", 8-lipgloss.Width(parts[i])%8)
	}
	return strings.Join(parts, "")
}

// wrap is a text in lines that the terminal does not break, the first after one
// text of ours, the others after another.
func (q *question) wrap(style lipgloss.Style, first, rest, text string) (lines []string) {
	room := max(q.columns-1-max(lipgloss.Width(first), lipgloss.Width(rest)), 1)
	for i, part := range wrapped(text, room) {
		before := first
		if i > 0 {
			before = rest
		}
		lines = append(lines, faint.Render(before)+style.Inline(true).Render(part))
	}
	return lines
}
