package main

import (
	"strings"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/sallyport/sallyport/permission"
)

// A question is a prompt on a terminal that can show it well: what is known above,
// the choices below. It draws itself in question_view.go, and question_term.go
// runs it.
type question struct {
	prompt   permission.Prompt // bounded
	userFile string            // where FromUser is saved
	// wary wants a yes twice: the first may be meant for another question, that was
	// there a moment before.
	wary bool

	columns, rows int
	body          []string // the lines above the choices, for these columns
	top           int      // the first of them that is shown

	heard bool // its keys are: before, what is typed is thrown away
	stage stage
	at    int    // of the choices; -1: none yet, and Enter does nothing
	why   string // what is typed for the model
	note  string // what there is to say to the last key

	answer *permission.Answer // nil until it is given
	left   bool               // the input has ended
}

// A stage is what is asked for.
type stage int

const (
	choosing   stage = iota // yes or no
	saving                  // where the rule is written
	explaining              // what the model is told
)

// A choice is one of several answers, by its letter.
type choice struct {
	key, text string
	chosen    func(*question) // what it does
}

// mostTyped is how much can be typed for the model, in bytes.
const mostTyped = 4 << 10

func newQuestion(p *permission.Prompt, userFile string, wary bool) *question {
	return &question{prompt: *p, userFile: userFile, wary: wary, at: -1}
}

// What the question is told of its keys.
type (
	keysHeard  struct{} // what is typed from now on is an answer
	inputEnded struct{} // nothing more can be typed
)

func (q *question) Init() tea.Cmd { return nil }

func (q *question) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		q.resize(msg.Width, msg.Height)
	case tea.PasteMsg:
		// What is pasted answers nothing.
		if q.stage == explaining {
			q.typed(msg.Content)
		}
	case tea.KeyPressMsg:
		q.key(msg)
	case keysHeard:
		q.heard = true
	case inputEnded:
		q.left = true
	}
	if q.left || q.answer != nil {
		return q, tea.Quit
	}
	return q, nil
}

func (q *question) key(msg tea.KeyPressMsg) {
	name := msg.String()
	switch name {
	case "ctrl+d":
		q.left = q.stage != explaining || q.why == ""
		return
	case "pgup", "pgdown", "home", "end":
		q.scroll(name)
		return
	case "esc":
		q.back()
		return
	}
	if q.stage == explaining {
		q.edit(name, msg.Text)
		return
	}
	choices := q.choices()
	switch name {
	case "up":
		q.at = max(q.at, 1) - 1
	case "down", "tab":
		q.at = min(q.at+1, len(choices)-1)
	case "enter":
		if q.at >= 0 {
			choices[q.at].chosen(q)
		}
	default:
		for i, c := range choices {
			if strings.ToLower(msg.Text) == c.key {
				q.at = i
				c.chosen(q)
				return
			}
		}
	}
}

// back leaves what was begun. It answers nothing: "no" is then the choice that
// Enter takes.
func (q *question) back() {
	q.stage, q.note, q.why = choosing, "", ""
	for i, c := range q.choices() {
		if c.key == "n" {
			q.at = i
		}
	}
}

// edit is a key while it is typed what the model is told.
func (q *question) edit(name, text string) {
	switch name {
	case "enter":
		q.answer = &permission.Answer{Why: strings.TrimSpace(q.why)}
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(q.why)
		q.why = q.why[:len(q.why)-n]
	case "ctrl+u":
		q.why = ""
	default:
		q.typed(text)
	}
}

// typed adds to what the model is told: a line of text.
func (q *question) typed(text string) {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	for _, r := range text {
		if len(q.why)+utf8.RuneLen(r) > mostTyped {
			q.note = "That is all the room there is."
			return
		}
		q.why += string(r)
	}
}

// choices are those of the stage.
func (q *question) choices() []choice {
	if q.stage == saving {
		save := func(to permission.Source) func(*question) {
			return func(q *question) { q.yes(permission.Answer{Allow: true, Save: to}) }
		}
		return []choice{
			{"l", "in this workspace: " + localFile, save(permission.FromLocal)},
			{"u", "in all workspaces: " + q.userFile, save(permission.FromUser)},
		}
	}
	choices := []choice{{"y", "yes", func(q *question) { q.yes(permission.Answer{Allow: true}) }}}
	if q.prompt.Rule != "" {
		choices = append(choices, choice{"s", "yes, for this session", func(q *question) { q.yes(permission.Answer{Allow: true, Session: true}) }})
	}
	if q.prompt.CanSave {
		choices = append(choices, choice{"a", "always", func(q *question) { q.stage, q.at, q.note = saving, -1, "" }})
	}
	return append(choices,
		choice{"n", "no", func(q *question) { q.answer = &permission.Answer{} }},
		choice{"w", "no, and say why", func(q *question) { q.stage, q.note = explaining, "" }},
	)
}

// yes gives an answer, unless it must be given again.
func (q *question) yes(a permission.Answer) {
	if q.wary {
		q.wary = false
		q.note = "This is another question: if you mean it, say so again."
		return
	}
	q.answer = &a
}
