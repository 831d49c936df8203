package changeset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// Bases knows what the changes of a session's upper were made on.
//
// The workspace is the user's, who may edit it at any time, and an overlay does
// not tell what a file was when the session first wrote to it; worse, it goes on
// showing a file that the user has replaced until its cache is dropped. So a
// record is made of each new entry of the upper at the end of the call that made
// it ([Bases.Scan]): which file the view has there, provided that it was last
// changed before that call began and took its name before the view was last
// fresh. Then it is what the session saw. What cannot be shown to be is a
// conflict, and stays one until it is dropped from the upper.
//
// The records outlive the process, in an append-only file. It is a list of
// states, each sound by itself: whatever end of it is lost, what is left is
// an earlier state, with an earlier time for all that it has no record of. So
// the file is read as far as it can be read, and the rest is cut off.
//
// A Bases may be used by several goroutines.
type Bases struct {
	mu   sync.Mutex
	dir  *beneath.Dir
	file *os.File
	size int64 // of what is written and whole
	base int64 // size of the file when it was last rewritten

	root    *scanNode
	times   Times // Call: before any entry that has no record was made
	behind  bool  // there may be entries without a record
	touched map[string]touched
	pending bytes.Buffer // lines to write
}

// A scanNode is an entry of the upper as last scanned.
type scanNode struct {
	record
	// What follows is of a directory that covers nothing.
	kids    map[string]*scanNode
	stamp   stamp
	settled bool // had been unchanged for a while when it was last read
}

// touched says that an apply that was undone gave a file a new ctime by moving it
// away and back: it is to be taken for the old one.
type touched struct {
	Ino uint64 `json:"ino"`
	Old int64  `json:"old"`
	New int64  `json:"new"`
}

// basesFile is the file's name in the session's directory.
const basesFile = "bases"

const (
	basesVersion  = 1
	maxBasesSize  = 1 << 30
	rewriteAbove  = 1 << 20 // bytes; and if it is several times what was needed
	maxRecordLine = 16 << 10
)

// line is one line of the file; one of its fields is set.
type line struct {
	Version int      `json:"version,omitempty"`
	Times   *Times   `json:"times,omitempty"`
	Path    []byte   `json:"path,omitempty"`
	Touched *touched `json:"touched,omitempty"` // Path
	Record  *record  `json:"record,omitempty"`  // of Path; without: Path and what is below it have no entry
}

// Times are the moments that a call's changes are judged by.
type Times struct {
	// Call is from before the call began, taken while nothing of the session ran:
	// no other call, and no process left behind by one.
	Call Time `json:"call,omitzero"`
	// Fresh is when the session's view was last known to show the workspace as it
	// was: when it was mounted, or remounted with no process in it.
	Fresh Time `json:"fresh,omitzero"`
}

// OpenBases opens the records in a session's directory, which may be new. Before
// the session runs, Scan is to be called: the last process of the session may
// have died in a call.
func OpenBases(dir *beneath.Dir) (*Bases, error) {
	f, err := dir.OpenFile(basesFile, unix.O_RDWR|unix.O_CREAT, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the base records: %w", err)
	}
	b := &Bases{dir: dir, file: f, root: new(scanNode), behind: true, touched: make(map[string]touched)}
	if err := b.load(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("reading the base records: %w", err)
	}
	return b, nil
}

// Close releases the file.
func (b *Bases) Close() error { return b.file.Close() }

// Begin notes, on disk, that calls are about to start that may write. It is
// called while nothing of the session runs; a call that starts beside others
// needs none. After a call whose end was not scanned its times stand.
func (b *Bases) Begin(t Times) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.behind {
		return nil
	}
	b.times, b.behind = t, true
	b.note(line{Times: &t})
	return b.write()
}

// load reads the file, as far as it is whole.
func (b *Bases) load(r io.Reader) error {
	in := bufio.NewReaderSize(io.LimitReader(r, maxBasesSize), maxRecordLine)
	for first := true; ; first = false {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		if err != nil {
			return err
		}
		var l line
		if json.Unmarshal(text, &l) != nil || first != (l.Version != 0) || !b.replay(l) {
			break
		}
		b.size += int64(len(text))
	}
	if b.size == 0 {
		b.note(line{Version: basesVersion})
		return b.write()
	}
	return nil
}

// replay takes a line of the file, and reports whether it is one.
func (b *Bases) replay(l line) bool {
	switch {
	case l.Version != 0:
		return l.Version == basesVersion
	case l.Times != nil:
		b.times = *l.Times
		return true
	case len(l.Path) == 0 || string(l.Path) == "." || !beneath.Valid(string(l.Path)):
		return false
	case l.Touched != nil:
		b.touched[string(l.Path)] = *l.Touched
		return true
	case l.Record == nil:
		b.root.remove(string(l.Path))
		return true
	}
	switch l.Record.State {
	case BaseAbsent, BaseProved, BaseConflict:
		return b.root.put(string(l.Path), *l.Record)
	}
	return false
}

// set records an entry, in memory and for the next write.
func (b *Bases) set(name string, r record) {
	b.root.put(name, r)
	b.note(line{Path: []byte(name), Record: &r})
}

// forget removes the records of an entry and of all below it.
func (b *Bases) forget(name string) {
	if b.root.remove(name) {
		b.note(line{Path: []byte(name)})
	}
}

func (b *Bases) note(l line) {
	text, err := json.Marshal(l)
	if err != nil {
		return // no value of a line fails to encode
	}
	b.pending.Write(text)
	b.pending.WriteByte('\n')
}

// write appends what was noted. If that fails, the next write goes over what was
// left of it.
func (b *Bases) write() error {
	if b.pending.Len() == 0 {
		return nil
	}
	if b.size+int64(b.pending.Len()) > rewriteAbove+4*b.base {
		return b.rewrite()
	}
	n, err := b.file.WriteAt(b.pending.Bytes(), b.size)
	if err != nil {
		return fmt.Errorf("writing the base records: %w", err)
	}
	b.size += int64(n)
	b.pending.Reset()
	return nil
}

// rewrite replaces the file by one that holds the present state and no more.
func (b *Bases) rewrite() error {
	b.pending.Reset()
	b.note(line{Version: basesVersion})
	err := b.root.each("", func(name string, r record) error {
		b.note(line{Path: []byte(name), Record: &r})
		return nil
	})
	if err != nil {
		return err
	}
	for name, t := range b.touched {
		if b.root.known(name) == nil {
			delete(b.touched, name)
			continue
		}
		b.note(line{Path: []byte(name), Touched: &t})
	}
	b.note(line{Times: &b.times})
	const temp = basesFile + ".new"
	f, err := b.dir.OpenFile(temp, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("rewriting the base records: %w", err)
	}
	n, err := f.Write(b.pending.Bytes())
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = b.dir.Rename(temp, b.dir, basesFile, 0)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("rewriting the base records: %w", err)
	}
	b.file.Close()
	b.file, b.size, b.base = f, int64(n), int64(n)
	b.pending = bytes.Buffer{}
	return nil
}

// touch notes that a file that was moved away and back has a new ctime.
func (b *Bases) touch(name string, old stamp, ctime int64) error {
	if old.Ctime == ctime {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := touched{old.Ino, b.untouched(name, old.Ino, old.Ctime), ctime}
	b.touched[name] = t
	b.note(line{Path: []byte(name), Touched: &t})
	return b.write()
}

// asOf returns the ctime that a file would have if no apply had touched it.
func (b *Bases) asOf(name string, ino uint64, ctime int64) int64 {
	if b == nil {
		return ctime
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.untouched(name, ino, ctime)
}

func (b *Bases) untouched(name string, ino uint64, ctime int64) int64 {
	if t, ok := b.touched[name]; ok && t.Ino == ino && t.New == ctime {
		return t.Old
	}
	return ctime
}

// known returns the base of a path, nil if nothing is known of it.
func (b *Bases) known(name string) *known {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.root.known(name)
}

func (n *scanNode) known(name string) *known {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		start := strings.LastIndexByte(name[:i], '/') + 1
		if n = n.kids[name[start:i]]; n == nil {
			return nil
		}
		if n.Covers {
			return &known{n.record, name[:i]}
		}
	}
	return &known{n.record, name}
}

// put sets the record of a path whose parents have one and cover nothing.
func (n *scanNode) put(name string, r record) bool {
	dir, base := path.Split(name)
	n = n.find(strings.TrimSuffix(dir, "/"))
	if n == nil || n.Covers {
		return false
	}
	kid := n.kids[base]
	if kid == nil {
		kid = new(scanNode)
		if n.kids == nil {
			n.kids = make(map[string]*scanNode)
		}
		n.kids[base] = kid
	}
	kid.record = r
	if r.Covers {
		kid.kids, kid.settled = nil, false
	}
	return true
}

// remove removes a path and all below it, and reports whether there was any.
func (n *scanNode) remove(name string) bool {
	dir, base := path.Split(name)
	n = n.find(strings.TrimSuffix(dir, "/"))
	if n == nil || n.kids[base] == nil {
		return false
	}
	delete(n.kids, base)
	return true
}

func (n *scanNode) find(name string) *scanNode {
	if name == "" || name == "." {
		return n
	}
	for part := range strings.SplitSeq(name, "/") {
		if n = n.kids[part]; n == nil {
			return nil
		}
	}
	return n
}

// each calls f for all below n, parents first.
func (n *scanNode) each(dir string, f func(string, record) error) error {
	for base, kid := range n.kids {
		name := path.Join(dir, base)
		if err := f(name, kid.record); err != nil {
			return err
		}
		if err := kid.each(name, f); err != nil {
			return err
		}
	}
	return nil
}
