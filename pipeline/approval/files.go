package approval

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

const (
	askSuffix    = ".ask"
	answerSuffix = ".answer"
	newPrefix    = ".new-" // of files that are not complete yet
)

// Bounds, in bytes unless they say otherwise. In JSON a byte can become six.
const (
	mostText     = 1 << 20  // of all sections
	mostLine     = 16 << 10 // of any other text of a question
	mostSections = 64       // sections
	mostParts    = 200      // parts of a command
	mostPart     = 1 << 10  // of each text of a part, and of an agent's name
	mostDepth    = 8
	mostAgents   = 32 // sub-agents that a question came up through
	mostAsk      = 12 << 20
	mostWhy      = 4 << 10
	mostAnswer   = 64 << 10
	mostNames    = 4096 // names in the directory
)

// letters are those that are not taken for one another.
const letters = "abcdefghjkmnpqrstuvwxyz23456789"

const idLength = 6

func newID() string {
	id := make([]byte, 0, idLength)
	var b [1]byte
	for len(id) < idLength {
		rand.Read(b[:])
		if i := int(b[0]) & 31; i < len(letters) {
			id = append(id, letters[i])
		}
	}
	return string(id)
}

func validID(s string) bool { return len(s) == idLength && strings.Trim(s, letters) == "" }

// openQueue opens the directory of questions of a session, or makes it.
func openQueue(session string, create bool) (*beneath.Dir, error) {
	s, err := beneath.Open(session)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if create {
		if err := s.Mkdir(Dir, 0o700); err != nil && !os.IsExist(err) {
			return nil, err
		}
	}
	d, err := s.OpenDir(Dir)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.Fd(), &st); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s: %w", d.Name(), err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		name := d.Name()
		d.Close()
		return nil, fmt.Errorf("the directory %s must be yours alone: chown it to you and chmod 700 it", name)
	}
	return d, nil
}

// appear makes a file that is complete as soon as it is there, and only if there
// is none of its name: the error is then fs.ErrExist. prepare gets it before
// others see it; nil does nothing.
func appear(dir *beneath.Dir, name string, data []byte, prepare func(*os.File) error) (*os.File, error) {
	tmp := newPrefix + rand.Text()
	f, err := dir.OpenFile(tmp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if prepare != nil {
		err = prepare(f)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = dir.Rename(tmp, dir, name, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		dir.Remove(tmp)
		f.Close()
		return nil, err
	}
	return f, nil
}

// lock takes the lock of a file. It belongs to the open file: the kernel gives
// it back when the process ends, however it ends, and whether it is held can be
// asked without taking it.
func lock(f *os.File) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}

// isHeld reports whether another open file has the lock. What cannot be found
// out is taken for held: nothing is removed then.
func isHeld(f *os.File) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l)
	return err != nil || l.Type != unix.F_UNLCK
}

func readBounded(dir *beneath.Dir, name string, most int) ([]byte, error) {
	f, err := dir.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most)
}

func readAll(f *os.File, most int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s is larger than %d bytes", f.Name(), most)
	}
	return data, err
}

// question is a question's file.
type question struct {
	ID       string                  `json:"id"`
	Call     string                  `json:"call,omitempty"`
	Session  string                  `json:"session,omitempty"`
	Tool     string                  `json:"tool"`
	Title    string                  `json:"title,omitempty"`
	Reason   string                  `json:"reason,omitempty"`
	Parts    []permission.PromptPart `json:"parts,omitempty"`
	Sections []permission.Section    `json:"sections,omitempty"`
	Agents   []string                `json:"agents,omitempty"`
	Rule     string                  `json:"rule,omitempty"`
	CanSave  bool                    `json:"can_save,omitempty"`
	Asked    time.Time               `json:"asked"`
	Expires  time.Time               `json:"expires"`
	PID      int                     `json:"pid"`
}

// Bounded is a prompt that can be written, read again and shown: text, and not
// too much of it. What is cut says so.
func Bounded(p *permission.Prompt) permission.Prompt {
	b := permission.Prompt{
		ID: short(p.ID, mostLine), Session: short(p.Session, mostLine), Tool: short(p.Tool, mostLine),
		Title: short(p.Title, mostLine), Reason: short(p.Reason, mostLine),
	}
	// What is allowed is what is shown: a rule is whole, or not offered.
	if len(p.Rule) <= mostLine && utf8.ValidString(p.Rule) {
		b.Rule, b.CanSave = p.Rule, p.CanSave && p.Rule != ""
	}
	for i, part := range p.Parts {
		if i == mostParts-1 && len(p.Parts) > mostParts {
			b.Parts = append(b.Parts, permission.PromptPart{Kind: "unknown", Note: fmt.Sprintf("%d more parts are not shown: it is too much", len(p.Parts)-i)})
			break
		}
		b.Parts = append(b.Parts, permission.PromptPart{
			Text: short(part.Text, mostPart), Kind: short(part.Kind, mostPart), Note: short(part.Note, mostPart), Depth: min(max(part.Depth, 0), mostDepth),
		})
	}
	for i, name := range p.Agents {
		if i == mostAgents-1 && len(p.Agents) > mostAgents {
			b.Agents = append(b.Agents, fmt.Sprintf("%d more", len(p.Agents)-i))
			break
		}
		b.Agents = append(b.Agents, short(name, mostPart))
	}
	room := mostText
	for i, s := range p.Sections {
		if i == mostSections-1 && len(p.Sections) > mostSections || room == 0 {
			b.Sections = append(b.Sections, permission.Section{Title: fmt.Sprintf("%d more sections are not shown: it is too much", len(p.Sections)-i)})
			break
		}
		s = permission.Section{Title: short(s.Title, mostLine), Text: short(s.Text, room), Diff: s.Diff}
		room -= min(room, len(s.Text))
		b.Sections = append(b.Sections, s)
	}
	return b
}

// short is a text in at most so many bytes and a few words that say so.
func short(s string, most int) string {
	if !utf8.ValidString(s) {
		lines := strings.Split(s, "\n")
		for i, line := range lines {
			if !utf8.ValidString(line) {
				lines[i] = changeset.Printable(line)
			}
		}
		s = strings.Join(lines, "\n")
	}
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return fmt.Sprintf("%s\n[%d more bytes are not shown: it is too much]", s[:n], len(s)-n)
}

func encode(w *Waiting) ([]byte, error) {
	p := &w.Prompt
	data, err := json.Marshal(question{
		ID: w.ID, Call: p.ID, Session: p.Session, Tool: p.Tool, Title: p.Title, Reason: p.Reason,
		Parts: p.Parts, Sections: p.Sections, Agents: p.Agents, Rule: p.Rule, CanSave: p.CanSave, Asked: w.Asked, Expires: w.Expires, PID: w.PID,
	})
	if err == nil && len(data) > mostAsk {
		err = errors.New("it is too large")
	}
	return data, err
}

// decode reads the question of an ID.
func decode(f *os.File, id string) (*Waiting, error) {
	data, err := readAll(f, mostAsk)
	if err != nil {
		return nil, err
	}
	var q question
	if err := json.Unmarshal(data, &q); err != nil {
		return nil, err
	}
	if q.ID != id || q.PID <= 0 || q.Asked.IsZero() || q.Expires.Before(q.Asked) ||
		len(q.Sections) > mostSections || len(q.Parts) > mostParts || len(q.Agents) > mostAgents ||
		slices.ContainsFunc(q.Parts, func(p permission.PromptPart) bool { return p.Depth < 0 || p.Depth > mostDepth }) {
		return nil, fmt.Errorf("%s is no question", f.Name())
	}
	return &Waiting{ID: id, Asked: q.Asked, Expires: q.Expires, PID: q.PID, Prompt: permission.Prompt{
		ID: q.Call, Session: q.Session, Tool: q.Tool, Title: q.Title, Reason: q.Reason, Rule: q.Rule, CanSave: q.CanSave,
		Parts: q.Parts, Sections: q.Sections, Agents: q.Agents,
	}}, nil
}

// answer is an answer's file.
type answer struct {
	Allow   *bool             `json:"allow"` // always there
	Session bool              `json:"session,omitempty"`
	Save    permission.Source `json:"save,omitempty"`
	Why     string            `json:"why,omitempty"`
}

// by is how a queue's questions are answered: [permission.Answer].By.
const by = "approve"

// check reports what is wrong with an answer to a prompt.
func check(a *permission.Answer, p *permission.Prompt) error {
	switch {
	case a.Session && !a.Allow:
		return errors.New("a refusal is not for the session: it says no to this call alone")
	case a.Session && p.Rule == "":
		return errors.New("nothing can be allowed for the rest of the session here: say yes to this call alone")
	case a.Save != "" && !a.Allow:
		return errors.New("a refusal is not saved: it says no to this call alone")
	case a.Save != "" && (p.Rule == "" || !p.CanSave):
		return errors.New("no rule can be saved here: say yes to this call alone")
	case a.Save != "" && a.Save != permission.FromLocal && a.Save != permission.FromUser:
		return fmt.Errorf("a rule is saved to the settings %s or %s, not %q", string(permission.FromLocal), string(permission.FromUser), string(a.Save))
	case len(a.Why) > mostWhy:
		return fmt.Errorf("what is told to the model has %d bytes: use at most %d", len(a.Why), mostWhy)
	case !utf8.ValidString(a.Why):
		return errors.New("what is told to the model must be text in UTF-8")
	}
	return nil
}

func encodeAnswer(a *permission.Answer, p *permission.Prompt) ([]byte, error) {
	if err := check(a, p); err != nil {
		return nil, err
	}
	return json.Marshal(answer{Allow: &a.Allow, Session: a.Session, Save: a.Save, Why: a.Why})
}

func decodeAnswer(data []byte, p *permission.Prompt) (permission.Answer, error) {
	var got answer
	if err := json.Unmarshal(data, &got); err != nil {
		return permission.Answer{}, err
	}
	if got.Allow == nil {
		return permission.Answer{}, errors.New("it says neither yes nor no")
	}
	a := permission.Answer{Allow: *got.Allow, Session: got.Session, Save: got.Save, Why: got.Why, By: by}
	return a, check(&a, p)
}
