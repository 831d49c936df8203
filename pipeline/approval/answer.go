package approval

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/permission"
)

// Errors that those who answer branch on.
var (
	// ErrGone is that no such question waits: it was answered, nobody did in
	// time, or its asker has ended.
	ErrGone = errors.New("no such question waits: it was answered, its time was up, or its asker has ended")
	// ErrAnswered is that another was faster.
	ErrAnswered = errors.New("it was answered already")
)

// List returns the questions that wait in a session's directory, the oldest
// first. What askers that died have left is removed.
func List(session string) ([]Waiting, error) {
	dir, err := openQueue(session, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var list []Waiting
	for _, id := range sweep(dir) {
		if w, f, err := find(dir, id); err == nil {
			f.Close()
			list = append(list, *w)
		}
	}
	slices.SortFunc(list, func(a, b Waiting) int {
		if c := a.Asked.Compare(b.Asked); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// Find returns a question of a session's directory that waits. The error is
// [ErrGone] when it does not, and [ErrAnswered] when its asker is about to take
// an answer.
func Find(session, id string) (*Waiting, error) {
	dir, err := openQueue(session, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	w, f, err := find(dir, id)
	if err != nil {
		return nil, err
	}
	f.Close()
	return w, nil
}

// AnswerTo answers a question in a session's directory. When it returns nil, the
// asker takes this answer, unless it is killed before. The error is [ErrGone]
// when the question does not wait, and [ErrAnswered] when it has an answer.
func AnswerTo(session, id string, a permission.Answer) error {
	dir, err := openQueue(session, false)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrGone
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	w, f, err := find(dir, id)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := encodeAnswer(&a, &w.Prompt)
	if err != nil {
		return err
	}
	mine, err := appear(dir, id+answerSuffix, data, nil)
	if errors.Is(err, fs.ErrExist) {
		return taken(dir, id)
	}
	if err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	mine.Close()
	if state(f) == over {
		dir.Remove(id + answerSuffix)
		return ErrGone
	}
	return nil
}

// find opens a question that waits.
func find(dir *beneath.Dir, id string) (*Waiting, *os.File, error) {
	if !validID(id) {
		return nil, nil, ErrGone
	}
	f, err := dir.OpenRegular(id + askSuffix)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, beneath.ErrNotRegular) {
		return nil, nil, ErrGone
	}
	if err != nil {
		return nil, nil, err
	}
	w, err := decode(f, id)
	switch {
	case err != nil, state(f) != waits, time.Now().After(w.Expires):
		err = ErrGone
	default:
		if _, e := dir.Lstat(id + answerSuffix); !errors.Is(e, fs.ErrNotExist) {
			err = taken(dir, id)
		}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return w, f, nil
}

// taken says why a question that has the file of an answer cannot be answered.
func taken(dir *beneath.Dir, id string) error {
	if data, err := readBounded(dir, id+answerSuffix, mostAnswer); err != nil || len(data) == 0 {
		return ErrGone // its asker gave up
	}
	return ErrAnswered
}

// What a question that was opened has come to.
type fate int

const (
	waits fate = iota
	done       // its asker took an answer
	over       // its asker gave up or died
)

// state says what a question has come to. The order matters: an asker that took
// an answer removes the name before it lets go of the lock.
func state(f *os.File) fate {
	held := isHeld(f)
	var st unix.Stat_t
	switch err := unix.Fstat(int(f.Fd()), &st); {
	case err != nil || st.Size == 0:
		return over
	case st.Nlink == 0:
		return done
	case !held:
		return over
	}
	return waits
}

// sweep removes what dead processes have left, and returns the questions that
// may wait.
func sweep(dir *beneath.Dir) (ids []string) {
	names := make(map[string]bool)
	for name, err := range dir.Entries() {
		if err != nil || len(names) == mostNames {
			break
		}
		names[name] = true
	}
	for name := range names {
		switch id, isAsk := strings.CutSuffix(name, askSuffix); {
		case strings.HasPrefix(name, newPrefix):
			// It may be just being written.
			if st, err := dir.Lstat(name); err == nil && time.Since(time.Unix(st.Mtim.Unix())) > time.Minute {
				dir.Remove(name)
			}
		case isAsk && validID(id):
			if isLeft(dir, name) {
				dir.Remove(name)
				dir.Remove(id + answerSuffix)
			} else {
				ids = append(ids, id)
			}
		default:
			// Where there is no question any more, nobody takes an answer.
			id, isAnswer := strings.CutSuffix(name, answerSuffix)
			if isAnswer && validID(id) && !names[id+askSuffix] {
				if _, err := dir.Lstat(id + askSuffix); errors.Is(err, fs.ErrNotExist) {
					dir.Remove(name)
				}
			}
		}
	}
	return ids
}

// isLeft reports whether a question is of an asker that died, and empties it, so
// that whoever is answering it sees that nobody takes the answer.
func isLeft(dir *beneath.Dir, name string) bool {
	f, err := dir.OpenRegular(name)
	if err != nil {
		return errors.Is(err, beneath.ErrNotRegular) // no asker makes such
	}
	defer f.Close()
	if isHeld(f) {
		return false
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Nlink == 0 {
		return false // its asker has just ended in order
	}
	if w, err := dir.OpenFile(name, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
		w.Truncate(0)
		w.Close()
	}
	return true
}
