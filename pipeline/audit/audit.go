// Package audit is the record of what was decided, and what came of it.
//
// A record is one line of JSON in an append-only file. Each names the SHA-256
// of the line before it, so that a line which is changed, removed or moved
// breaks the chain from there on ([Verify]). The end of a file can be cut off
// without a trace in the file itself: whoever needs to notice keeps the newest
// hash elsewhere, and a file whose last record does not close the session says
// that something is missing, or still to come.
//
// A decision is written before the call that it allows runs, and when that call
// can change something it is on disk before the call runs. When the record
// cannot be written, the call does not run.
package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// A Kind says what a record is about.
type Kind string

const (
	KindOpen     Kind = "open"     // the session became live
	KindClose    Kind = "close"    // and ended
	KindDecision Kind = "decision" // a call may run, or not; its result follows
	KindResult   Kind = "result"   // a call ended
	KindEvent    Kind = "event"    // anything else that changed the session or left it
)

// A Record is one line of the record. The fields that do not apply are left out.
type Record struct {
	Seq  uint64    `json:"seq"`  // from 1
	Prev string    `json:"prev"` // SHA-256 of the line before, in hex; "" for the first
	Time time.Time `json:"time"` // UTC
	Kind Kind      `json:"kind"`

	Session   string     `json:"session"` // its ID
	Name      string     `json:"name"`    // its name
	Call      string     `json:"call,omitempty"`
	Parent    string     `json:"parent,omitempty"` // the call that this one belongs to
	Use       string     `json:"use,omitempty"`    // what the model calls it
	Principal *Principal `json:"principal,omitempty"`

	Tool string `json:"tool,omitempty"`
	// Input is what the tool was called with. What looks secret in it is
	// replaced and counted; InputHash is of all of it as it was.
	Input     json.RawMessage `json:"input,omitempty"`
	InputHash string          `json:"input_hash,omitempty"` // SHA-256, hex
	Secrets   int             `json:"secrets,omitempty"`
	// Sent is what the model sent, where a hook has changed it.
	Sent     json.RawMessage `json:"sent,omitempty"`
	SentHash string          `json:"sent_hash,omitempty"`

	Decision *Decision `json:"decision,omitempty"`
	Envelope *Envelope `json:"envelope,omitempty"`
	// Mechanisms says by what each part of the envelope and of the session's
	// isolation is held.
	Mechanisms map[string]string `json:"mechanisms,omitempty"`
	Image      string            `json:"image,omitempty"`
	Version    string            `json:"version,omitempty"` // of sallyport

	Event  string         `json:"event,omitempty"` // what an event is: "apply", "discard" ...
	Detail map[string]any `json:"detail,omitempty"`
	Result *Result        `json:"result,omitempty"`
}

// A Principal is who asked.
type Principal struct {
	User    string `json:"user"` // of the system
	UID     int    `json:"uid"`
	Client  string `json:"client,omitempty"` // the program that asked, and its version
	Version string `json:"client_version,omitempty"`
	Agent   string `json:"agent,omitempty"` // which agent of the client
}

// A Decision is what was answered and every answer on the way.
type Decision struct {
	Behavior string `json:"behavior"` // allow, deny, ask
	Reason   string `json:"reason"`
	Chain    []Step `json:"chain,omitempty"`
	// Denials is, of a denial, how many there were in a row, with this one.
	Denials int `json:"denials,omitempty"`
}

// A Step is one layer's answer.
type Step struct {
	Layer  string `json:"layer"`
	Source string `json:"source,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Answer string `json:"answer"`
}

// An Envelope is what the kernel holds a call to.
type Envelope struct {
	Box      string   `json:"box"`                // hand or eye; fork: it has run there before it was decided on
	Writable []string `json:"writable,omitempty"` // with Narrow: nothing else
	Narrow   bool     `json:"narrow,omitempty"`
	Network  string   `json:"network"` // none
	Time     string   `json:"time,omitempty"`
}

// A Result is what came of a call.
type Result struct {
	Exit       *int          `json:"exit,omitempty"`
	Signal     string        `json:"signal,omitempty"`
	Error      string        `json:"error,omitempty"`
	Stdout     int64         `json:"stdout"` // bytes
	Stderr     int64         `json:"stderr"` // bytes
	Duration   time.Duration `json:"duration_ns"`
	Background int           `json:"background,omitempty"` // processes left running
	// Applied says that the call did not run again after it was decided on: what it
	// had done in a fork before was applied to the session.
	Applied bool `json:"applied,omitempty"`
	// ChangeSet is the digest of what the session had changed when it was
	// recorded, and Paths the first of the paths.
	ChangeSet string   `json:"change_set,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	More      int      `json:"more_paths,omitempty"`
}

// A Log writes a record. It may be used by several goroutines at once.
type Log struct {
	mu     sync.Mutex
	f      *os.File
	seq    uint64
	prev   string
	base   Record // what every record has in common
	failed error  // once a write failed nothing more is written: a line may be torn

	sync sync.Mutex
	done uint64 // the last record that is known to be on disk; guarded by sync
}

// Open opens the record of a session for appending, and makes it if there is
// none. base holds what all records have in common: Session, Name, Principal,
// Version. A last line that a crash has torn is cut off; what was recorded
// before is not looked at.
func Open(path string, base Record) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	l := &Log{f: f, base: base}
	if err := l.resume(); err != nil {
		f.Close()
		return nil, fmt.Errorf("opening the record %s: %w", path, err)
	}
	return l, nil
}

// resume finds the end of the chain.
func (l *Log) resume() error {
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	last, end, err := lastLine(l.f, info.Size())
	if err != nil {
		return err
	}
	if end != info.Size() {
		if err := l.f.Truncate(end); err != nil {
			return err
		}
	}
	if last == nil {
		return nil
	}
	var r Record
	if err := json.Unmarshal(last, &r); err != nil {
		return fmt.Errorf("its last line is no record: %w", err)
	}
	l.seq, l.prev = r.Seq, hash(last)
	return nil
}

// lastLine returns the last complete line of a file, without its newline, and
// where it ends. It reads backwards, since a record may be long.
func lastLine(f io.ReaderAt, size int64) (line []byte, end int64, err error) {
	var tail []byte
	for at := size; ; {
		n := min(at, 4096)
		at -= n
		buf := make([]byte, n)
		if _, err := f.ReadAt(buf, at); err != nil {
			return nil, 0, err
		}
		tail = append(buf, tail...)
		if i := bytes.LastIndexByte(tail, '\n'); i >= 0 {
			if j := bytes.LastIndexByte(tail[:i], '\n'); j >= 0 || at == 0 {
				return tail[j+1 : i], at + int64(i) + 1, nil
			}
		} else if at == 0 {
			return nil, 0, nil // one torn line, or none
		}
	}
}

func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// Write appends a record, completing it by its number, its time and what all
// have in common. It returns when the record will survive the end of this
// process; with durable, when it will survive that of the machine.
func (l *Log) Write(r Record, durable bool) error {
	seq, err := l.write(r)
	if err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	if !durable {
		return nil
	}
	if err := l.flush(seq); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	return nil
}

func (l *Log) write(r Record) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return 0, l.failed
	}
	r.Session, r.Name, r.Version = l.base.Session, l.base.Name, l.base.Version
	if r.Principal == nil {
		r.Principal = l.base.Principal
	}
	r.Seq, r.Prev = l.seq+1, l.prev
	r.Time = time.Now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	if _, err := l.f.Write(append(line, '\n')); err != nil {
		l.failed = err
		return 0, err
	}
	l.seq, l.prev = r.Seq, hash(line)
	return r.Seq, nil
}

// flush returns when record seq is on disk. One wait for the disk serves all
// records that were written before it began.
func (l *Log) flush(seq uint64) error {
	l.sync.Lock()
	defer l.sync.Unlock()
	if l.done >= seq {
		return nil
	}
	l.mu.Lock()
	written := l.seq
	l.mu.Unlock()
	if err := fdatasync(l.f); err != nil {
		l.mu.Lock()
		l.failed = err
		l.mu.Unlock()
		return err
	}
	l.done = written
	return nil
}

// Head returns the number and the hash of the newest record, to be kept where
// whoever could change the file cannot.
func (l *Log) Head() (seq uint64, hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq, l.prev
}

// Close closes the file. It writes nothing.
func (l *Log) Close() error { return l.f.Close() }

// A Report is what Verify found.
type Report struct {
	Records int    `json:"records"`
	Head    string `json:"head"` // hash of the newest record
	// Open says that the session became live and no record closes it: it is live,
	// its process died, or the end is missing.
	Open bool `json:"open"`
}

// A BrokenError says where a chain is broken.
type BrokenError struct {
	Line int // from 1
	Why  string
}

func (e *BrokenError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// maxLine is the longest line that is read, in bytes.
const maxLine = 16 << 20

// Read calls f for each record of a file, in order, and checks the chain on the
// way. An error of f ends it. The error is a [*BrokenError] when the chain is.
func Read(r io.Reader, f func(*Record) error) (*Report, error) {
	report := &Report{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	lines.Split(completeLines)
	for lines.Scan() {
		report.Records++
		broken := func(format string, args ...any) error {
			return &BrokenError{report.Records, fmt.Sprintf(format, args...)}
		}
		var rec Record
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			return report, broken("it is no record: %v", err)
		}
		if rec.Seq != uint64(report.Records) {
			return report, broken("it says that it is record %d", rec.Seq)
		}
		if rec.Prev != report.Head {
			return report, broken("the record before it is not the one that it followed")
		}
		report.Head = hash(lines.Bytes())
		switch rec.Kind {
		case KindOpen, KindDecision:
			report.Open = true
		case KindClose:
			report.Open = false
		}
		if err := f(&rec); err != nil {
			return report, err
		}
	}
	if err := lines.Err(); err != nil {
		return report, &BrokenError{report.Records + 1, err.Error()}
	}
	return report, nil
}

// completeLines splits at newlines. What follows the last one is not a record:
// it is one that is being written, or that a crash has torn.
func completeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// ReadFile is [Read] of a file. A file that does not exist has no records.
func ReadFile(path string, f func(*Record) error) (*Report, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Report{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Read(file, f)
}
