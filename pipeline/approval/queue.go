// Package approval lets a person in another terminal answer what a call waits
// for: a [Queue] writes the question into the session's directory, [List] and
// [AnswerTo] are for whoever answers.
//
// A question is two files in the directory "approvals" of its session: ID.ask,
// which the asker locks for as long as it waits, and ID.answer, which whoever is
// first makes. Nobody waits for anybody else's lock, so a process that was
// stopped or killed at any point holds up no other:
//
//   - The answer's file decides. It appears complete, and only if there is none.
//     An asker that gives up makes it too, empty: then no answer can come any
//     more, and if it could not be made, there is an answer, which counts.
//   - An asker that gave up empties its question before it removes both files.
//     One that was answered does not. Whoever comes too late, with a question
//     that it had found before, sees by that that the answer was not taken.
//   - A question without a lock is of an asker that died. It is not listed, and
//     removed by whoever comes across it.
//
// The directory is the user's alone, and no session can see it. Another process
// of the user can answer by it, as by sallyport approve: that is the user's word.
// A question that such a process made up asks for nobody: a yes to it allows
// nothing. What is read is bounded and checked all the same, and no link is
// followed: a crash can leave anything.
package approval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/permission"
)

// Dir is the name of the directory of questions in that of a session.
const Dir = "approvals"

// DefaultWithin is how long a question waits, unless its queue says otherwise.
const DefaultWithin = 5 * time.Minute

// pause is how often an asker looks for its answer.
const pause = 100 * time.Millisecond

// A Queue asks by files in a session's directory. It is a [permission.Prompter]
// whose questions wait beside each other; its fields must not change meanwhile.
type Queue struct {
	// Session is the session's directory.
	Session string
	// Within is how long a question waits for its answer; 0 is DefaultWithin.
	Within time.Duration
	// Asked is told of every question once it can be answered; nil tells nobody.
	// It is called by Ask, which goes on when it returns.
	Asked func(Waiting)
}

var _ permission.Prompter = (*Queue)(nil)

// A Waiting is a question that waits for its answer.
type Waiting struct {
	// ID names the question among all that wait: a few letters and digits that
	// are not taken for one another.
	ID string
	// Prompt is what is asked. What was too long in it was cut, and says so.
	Prompt  permission.Prompt
	Asked   time.Time
	Expires time.Time // nobody can answer it any more
	PID     int       // of the process that asks
}

// Ask asks, and waits until the question is answered, its time is up or ctx
// ends. An answer that came at the same moment counts. The error's text says to
// the model what a person could have done.
func (q *Queue) Ask(ctx context.Context, p *permission.Prompt) (permission.Answer, error) {
	if err := ctx.Err(); err != nil {
		return permission.Answer{}, err
	}
	dir, err := openQueue(q.Session, true)
	if err != nil {
		return permission.Answer{}, fmt.Errorf("nobody could be asked: %w", err)
	}
	defer dir.Close()
	within := q.Within
	if within <= 0 {
		within = DefaultWithin
	}
	o, err := put(dir, p, within)
	if err != nil {
		return permission.Answer{}, fmt.Errorf("nobody could be asked: writing the question: %w", err)
	}
	defer o.close()
	if q.Asked != nil {
		q.Asked(o.Waiting)
	}
	why := o.wait(ctx, within)
	if why != nil {
		if answered := o.withdraw(); !answered {
			return permission.Answer{}, why
		}
	}
	return o.take()
}

// An open question is one's own.
type open struct {
	Waiting
	dir  *beneath.Dir
	file *os.File // the question's, locked
}

// put writes a question.
func put(dir *beneath.Dir, p *permission.Prompt, within time.Duration) (*open, error) {
	sweep(dir)
	for {
		now := time.Now().Round(0) // wall clock: other processes read it
		w := Waiting{ID: newID(), Prompt: Bounded(p), Asked: now, Expires: now.Add(within), PID: os.Getpid()}
		data, err := encode(&w)
		if err != nil {
			return nil, err
		}
		// It has its lock before it has its name: whoever finds it finds it locked.
		f, err := appear(dir, w.ID+askSuffix, data, lock)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &open{Waiting: w, dir: dir, file: f}, nil
	}
}

// wait returns nil when there is an answer, and otherwise why there is none.
func (o *open) wait(ctx context.Context, within time.Duration) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	limit := time.NewTimer(within)
	defer limit.Stop()
	expired := fmt.Errorf("nobody answered within %v: a person can answer with sallyport approve in another terminal, or allow it beforehand with --allow", within)
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the question was withdrawn: %w", context.Cause(ctx))
		case <-limit.C:
			return expired
		case <-tick.C:
		}
		if _, err := o.dir.Lstat(o.ID + answerSuffix); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// While the machine sleeps, the timer stands still.
		if time.Now().After(o.Expires) {
			return expired
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(o.file.Fd()), &st); err != nil || st.Nlink == 0 {
			return errors.New("the question was removed before anybody answered it; a person can answer with sallyport approve in another terminal, or allow it beforehand with --allow")
		}
	}
}

// withdraw makes it impossible to answer. It returns true when there is an
// answer already.
func (o *open) withdraw() bool {
	f, err := o.dir.OpenFile(o.ID+answerSuffix, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return true
	}
	if err == nil {
		f.Close()
	}
	o.file.Truncate(0)
	return false
}

// take reads the answer.
func (o *open) take() (permission.Answer, error) {
	data, err := readBounded(o.dir, o.ID+answerSuffix, mostAnswer)
	if err == nil {
		var a permission.Answer
		if a, err = decodeAnswer(data, &o.Prompt); err == nil {
			return a, nil
		}
	}
	return permission.Answer{}, fmt.Errorf("the answer cannot be read, and is taken for none: %w", err)
}

// close removes the question and its answer, and lets go of the lock last: a
// question that has a name and no lock is of a dead asker.
func (o *open) close() {
	o.dir.Remove(o.ID + askSuffix)
	o.dir.Remove(o.ID + answerSuffix)
	o.file.Close()
}
