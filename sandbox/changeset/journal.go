package changeset

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// journalFile is the file's name in the session's directory. It is there while
// changes are applied, and says what has to be put right if that was cut short.
//
// It is a list of JSON lines: a header, then for each step what is about to be
// made, before it is made, so that nothing can be left that is not named. It is
// believed only as far as what it says is found: a path is opened below the
// target, a temporary name has our form, and what is moved or removed has the
// inode that is written down.
const journalFile = "apply.journal"

const (
	journalVersion = 1
	maxJournalSize = 1 << 30
	maxJournalLine = 32 << 10
)

// note is one line of the journal; one of its fields is set.
type note struct {
	Header *header    `json:"header,omitempty"`
	Step   *step      `json:"step,omitempty"`
	Staged *stagedFor `json:"staged,omitempty"`
	// Done says that all steps so far are carried out and verified: what is left
	// is to remove what they replaced.
	Done bool `json:"done,omitempty"`
}

type header struct {
	Version int    `json:"version"`
	Target  uint64 `json:"target"` // inode of the target
}

type stepKind string

const (
	stepPut    stepKind = "put"    // a file, link or tree takes its place
	stepRemove stepKind = "remove" // what is there goes
	stepMeta   stepKind = "meta"   // permissions and owner change
)

// A step is one thing done to one path of the target.
type step struct {
	Kind stepKind `json:"kind"`
	Path []byte   `json:"path"`
	// Temp is the name beside Path where the new is made and the old is put.
	Temp string `json:"temp,omitempty"`
	// Before is what was at Path; nil if nothing.
	Before *stamp `json:"before,omitempty"`
	Meta   *meta  `json:"meta,omitempty"`
}

type meta struct {
	OldMode  uint32 `json:"old_mode"`
	Mode     uint32 `json:"mode"`
	OldOwner *Owner `json:"old_owner,omitempty"` // nil: the owner stays
	Owner    *Owner `json:"owner,omitempty"`
}

// stagedFor says that the new of a step is whole, at Temp.
type stagedFor struct {
	Step  int   `json:"step"`
	Stamp stamp `json:"stamp"`
	Until int64 `json:"until"` // nothing in it was written later, in nanoseconds
}

// tempName makes a name for a step.
func tempName() string { return TempPrefix + rand.Text() }

// isTempName reports whether tempName can have made the name.
func isTempName(name string) bool {
	random, ok := strings.CutPrefix(name, TempPrefix)
	return ok && len(random) == len(rand.Text()) && strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

func (s *step) valid() bool {
	name := string(s.Path)
	if name == "." || !beneath.Valid(name) {
		return false
	}
	switch s.Kind {
	case stepPut, stepRemove:
		return isTempName(s.Temp) && s.Meta == nil
	case stepMeta:
		return s.Temp == "" && s.Meta != nil && s.Before != nil
	}
	return false
}

// A journal is an open journal.
type journal struct {
	dir  *beneath.Dir
	file *os.File
	size int64
	head int64 // size of the header
}

// newJournal makes the journal for a target. There must be none.
func newJournal(dir, target *beneath.Dir) (*journal, error) {
	st, err := target.Lstat(".")
	if err != nil {
		return nil, err
	}
	f, err := dir.OpenFile(journalFile, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{dir: dir, file: f}
	if err := j.write(note{Header: &header{journalVersion, st.Ino}}); err != nil {
		f.Close()
		return nil, errors.Join(err, dir.Remove(journalFile))
	}
	j.head = j.size
	return j, nil
}

func (j *journal) write(n note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	w, err := j.file.WriteAt(append(text, '\n'), j.size)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	j.size += int64(w)
	return nil
}

func (j *journal) sync() error { return j.file.Sync() }

// reset forgets all steps: nothing is left of them.
func (j *journal) reset() error {
	j.size = j.head
	return j.file.Truncate(j.head)
}

// remove removes the journal: nothing is left to put right.
func (j *journal) remove() error { return j.dir.Remove(journalFile) }

// A history is what a journal tells.
type history struct {
	target uint64
	steps  []pastStep
	done   bool
}

type pastStep struct {
	step
	staged *stagedFor
}

// readJournal reads a journal as far as it is whole. What comes after was not
// on disk when the machine stopped, nor was what it announced.
func readJournal(r io.Reader) (history, error) {
	var h history
	in := bufio.NewReaderSize(io.LimitReader(r, maxJournalSize), maxJournalLine)
	for first := true; ; first = false {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
			return h, nil
		}
		if err != nil {
			return h, fmt.Errorf("reading the journal: %w", err)
		}
		var n note
		if json.Unmarshal(text, &n) != nil {
			return h, nil
		}
		if first {
			if n.Header == nil || n.Header.Version != journalVersion {
				return h, errors.New("reading the journal: not a journal of this version")
			}
			h.target = n.Header.Target
			continue
		}
		if !h.add(n) {
			return h, nil
		}
	}
}

// add takes a line, and reports whether it is one.
func (h *history) add(n note) bool {
	switch {
	case h.done:
	case n.Step != nil && n.Step.valid():
		h.steps = append(h.steps, pastStep{step: *n.Step})
		return true
	case n.Staged != nil && n.Staged.Step >= 0 && n.Staged.Step < len(h.steps):
		h.steps[n.Staged.Step].staged = n.Staged
		return true
	case n.Done:
		h.done = true
		return true
	}
	return false
}

// openJournal reads the journal in a session's directory; false if there is none.
func openJournal(dir *beneath.Dir) (history, bool, error) {
	f, err := dir.OpenRegular(journalFile)
	if errors.Is(err, fs.ErrNotExist) {
		return history{}, false, nil
	}
	if err != nil {
		return history{}, false, err
	}
	defer f.Close()
	h, err := readJournal(f)
	return h, true, err
}
