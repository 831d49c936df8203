package sandbox

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// A Store is the directory of all sessions of one user. There is no daemon:
// each session is a directory in it, and whoever holds its lock is its owner.
type Store struct {
	dir   string       // absolute
	swept atomic.Int64 // when a start has swept it last, in nanoseconds since 1970
}

// OpenStore opens the store in a directory, which it makes with mode 0700. An
// empty path is the user's: $XDG_STATE_HOME/sallyport, by default
// ~/.local/state/sallyport.
func OpenStore(dir string) (*Store, error) {
	if dir == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if !filepath.IsAbs(state) {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("finding the state directory: %w; set XDG_STATE_HOME", err)
			}
			state = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(state, "sallyport")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{dir, filepath.Join(dir, "sessions"), filepath.Join(dir, "empty")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("the state directory: %w; set XDG_STATE_HOME to a directory that you can write", err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, fmt.Errorf("the state directory %s: %w", dir, err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return nil, fmt.Errorf("the state directory %s must be yours alone: chown it to you and chmod 700 it", dir)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("the state directory: %w", err)
	}
	return &Store{dir: dir}, nil
}

// Dir returns the store's directory.
func (st *Store) Dir() string { return st.dir }

func (st *Store) images() string { return filepath.Join(st.dir, "images") }

// empty is a directory in which nothing is.
func (st *Store) empty() string { return filepath.Join(st.dir, "empty") }

func (st *Store) sessions() string { return filepath.Join(st.dir, "sessions") }

// Errors that callers of a store branch on.
var (
	ErrNoSession = errors.New("no such session")
	ErrExists    = errors.New("the session exists")
)

// A BusyError says that a session has another owner.
type BusyError struct {
	Session string
	Owner   Owner
}

func (e *BusyError) Error() string {
	who := "another process"
	if e.Owner.PID != 0 {
		who = fmt.Sprintf("process %d (%s), since %s", e.Owner.PID, e.Owner.Command, e.Owner.Since.Format(time.DateTime))
	}
	return fmt.Sprintf("the session %s is in use by %s; wait for it, or take another with --session NAME", e.Session, who)
}

// An Owner is the process that holds a session.
type Owner struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// Settings are what a session was created with. They do not change, but that
// more may be denied: see [Stored.Tighten].
type Settings struct {
	ID        string        `json:"id"` // unique, for ever
	Name      string        `json:"name"`
	Created   time.Time     `json:"created"`
	Workspace string        `json:"workspace"`
	Mode      WorkspaceMode `json:"mode"`
	Image     string        `json:"image"`
	Driver    string        `json:"driver"`
	Expose    []Exposed     `json:"expose,omitempty"`
	// Denied are absolute paths in the workspace that the session cannot see,
	// existing or not.
	Denied []string `json:"denied,omitempty"`
	// ReadOnly are absolute paths in the workspace that it cannot change.
	ReadOnly []string `json:"read_only,omitempty"`
	// Absent are absolute paths in a direct workspace that must not appear: what
	// a call makes there is moved out of the workspace before its result is
	// returned. Those that the user has made before a start are read-only then,
	// and a path of ReadOnly that the user has removed must not appear.
	Absent []string `json:"absent,omitempty"`
}

// exposedDirs are the directories that the session sees beside its workspace.
func (s *Settings) exposedDirs() []Expose {
	var dirs []Expose
	for _, e := range s.Expose {
		dirs = append(dirs, e.Dirs...)
	}
	return dirs
}

// CheckName reports what is wrong with a session's name, which becomes that of
// a directory.
func CheckName(name string) error {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	if name == "" || len(name) > 64 || strings.Trim(name, allowed) != "" || name[0] == '.' || name[0] == '-' {
		return fmt.Errorf("%q is no name for a session: use up to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit", name)
	}
	return nil
}

// Create makes a session and returns it, held. The ID, the name's uniqueness
// and the time are the store's to give.
func (st *Store) Create(s Settings) (*Stored, error) {
	if err := CheckName(s.Name); err != nil {
		return nil, err
	}
	if within(s.Workspace, st.dir) || within(st.dir, s.Workspace) {
		return nil, fmt.Errorf("the workspace %s and the state directory %s lie in one another; set XDG_STATE_HOME elsewhere", s.Workspace, st.dir)
	}
	if err := st.checkExposes(&s); err != nil {
		return nil, err
	}
	s.ID = strings.ToLower(rand.Text()[:16])
	s.Created = time.Now().UTC().Truncate(time.Millisecond)

	// Complete under another name first: nothing half-made is ever found.
	tmp := filepath.Join(st.sessions(), ".new-"+s.ID)
	dir := filepath.Join(st.sessions(), s.Name)
	defer os.RemoveAll(tmp)
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return nil, fmt.Errorf("creating the session: %w", err)
	}
	data, err := s.encoded()
	if err != nil {
		return nil, err
	}
	// Not synced: a session that a crash of the machine leaves half-made is none.
	if err := os.WriteFile(filepath.Join(tmp, settingsFile), data, 0o600); err != nil {
		return nil, fmt.Errorf("creating the session: %w", err)
	}
	stored, err := hold(tmp, s.Name)
	if err != nil {
		return nil, err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, dir, unix.RENAME_NOREPLACE); err != nil {
		stored.Close()
		if errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("%s: %w", s.Name, ErrExists)
		}
		return nil, fmt.Errorf("creating the session: %w", err)
	}
	stored.dir, stored.store, stored.Settings = dir, st, s
	return stored, nil
}

// Open returns a session, held. The error is [ErrNoSession] when there is none
// of that name, and a [*BusyError] when it has another owner.
func (st *Store) Open(name string) (*Stored, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	dir := filepath.Join(st.sessions(), name)
	for {
		stored, err := hold(dir, name)
		if err != nil {
			return nil, err
		}
		// Between finding the lock and taking it, the session may have been
		// removed, and made again.
		if !stored.lockIsAt(dir) {
			stored.Close()
			continue
		}
		stored.dir, stored.store = dir, st
		if stored.Settings, err = readSettings(dir); err != nil {
			stored.Close()
			return nil, fmt.Errorf("the session %s: %w", name, err)
		}
		return stored, nil
	}
}

// Look returns a session without holding it, to read what is there: another
// process may be changing it.
func (st *Store) Look(name string) (*Stored, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	dir := filepath.Join(st.sessions(), name)
	settings, err := readSettings(dir)
	if err != nil {
		return nil, fmt.Errorf("the session %s: %w", name, err)
	}
	return &Stored{Settings: settings, store: st, dir: dir}, nil
}

// List returns the settings of all sessions, the newest first. Directories that
// are no sessions are left out.
func (st *Store) List() ([]*Stored, error) {
	entries, err := os.ReadDir(st.sessions())
	if err != nil {
		return nil, fmt.Errorf("listing the sessions: %w", err)
	}
	var list []*Stored
	for _, e := range entries {
		if stored, err := st.Look(e.Name()); err == nil {
			list = append(list, stored)
		}
	}
	slices.SortFunc(list, func(a, b *Stored) int { return b.Created.Compare(a.Created) })
	return list, nil
}

// Sweep removes what processes that died have left in the store: sessions that
// were being made or removed. It is cheap where there is nothing.
func (st *Store) Sweep() error {
	d, err := beneath.Open(st.sessions())
	if err != nil {
		return err
	}
	defer d.Close()
	entries, err := os.ReadDir(st.sessions())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			continue
		}
		// One that is being made may not have its lock yet.
		if info, err := e.Info(); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, held := lockOf(filepath.Join(st.sessions(), e.Name()))
		if held {
			continue // being made or removed just now
		}
		err := d.RemoveAll(e.Name())
		if lock != nil {
			lock.Close()
		}
		if err != nil {
			return fmt.Errorf("removing what a dead process left: %w", err)
		}
	}
	return nil
}

// sweepPause is how long starts of one process go without sweeping again.
const sweepPause = time.Minute

// sweepDue reports whether a start is to sweep, and takes it that it does.
func (st *Store) sweepDue(now time.Time) bool {
	last := st.swept.Load()
	return now.Sub(time.Unix(0, last)) >= sweepPause && st.swept.CompareAndSwap(last, now.UnixNano())
}

// lockOf takes the lock of a directory that may be a session's, unless another
// process holds it. It makes none: a session that is just being removed would
// get a file that nobody removes.
func lockOf(dir string) (lock *os.File, held bool) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		return nil, false
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, wholeFile()); err != nil {
		f.Close()
		return nil, true
	}
	return f, false
}

func readSettings(dir string) (Settings, error) {
	var s Settings
	data, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, ErrNoSession
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("session.json: %w", err)
	}
	if err := s.check(filepath.Base(dir)); err != nil {
		return s, fmt.Errorf("session.json: %w", err)
	}
	return s, nil
}

func (s *Settings) encoded() ([]byte, error) {
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}

const settingsFile = "session.json"

// Tighten adds to the paths that a session which is held, and not live, cannot
// see and cannot change. What the session has made itself cannot be hidden from
// it: that is an error, and nothing is changed.
func (s *Stored) Tighten(denied, readOnly []string) error {
	more := s.Settings
	more.Denied, more.ReadOnly = union(s.Denied, denied), union(s.ReadOnly, readOnly)
	if len(more.Denied) == len(s.Denied) && len(more.ReadOnly) == len(s.ReadOnly) {
		return nil
	}
	if s.Mode == Direct && len(more.Denied) > 0 {
		return errors.New("denied paths need --workspace cow: in the real directory nothing can be hidden")
	}
	if len(more.Denied) > len(s.Denied) {
		if err := s.notMade(more.Denied[len(s.Denied):]); err != nil {
			return err
		}
	}
	data, err := more.encoded()
	if err == nil {
		err = renameio.WriteFile(filepath.Join(s.dir, settingsFile), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("denying more to the session %s: %w", s.Name, err)
	}
	s.Settings = more
	return nil
}

// notMade reports which of the paths the session has in its own layer.
func (s *Stored) notMade(paths []string) error {
	upper, err := beneath.Open(s.path(upperDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it never ran
	}
	if err != nil {
		return err
	}
	defer upper.Close()
	for _, path := range paths {
		rel, ok := strings.CutPrefix(path, s.Workspace+"/")
		if !ok || !beneath.Valid(rel) {
			return fmt.Errorf("%s is not in the workspace", path)
		}
		if _, err := upper.Lstat(rel); err == nil {
			return fmt.Errorf("the session %s has changed %s, which cannot be hidden from it now; take another session with --session NAME or --new", s.Name, rel)
		}
	}
	own, err := beneath.Open(s.dir)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := own.Mkdir(policyDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// union adds to a list what it does not have.
func union(list, more []string) []string {
	list = slices.Clip(list)
	for _, item := range more {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// A Stored is a session as it lies on disk: its layers, settings and record.
// When it is held, its methods may change it.
type Stored struct {
	Settings

	store *Store
	dir   string
	lock  *os.File // nil when it is only looked at
}

// Dir returns the session's directory.
func (s *Stored) Dir() string { return s.dir }

// path is a path in the session's directory.
func (s *Stored) path(rel string) string { return filepath.Join(s.dir, rel) }

// hold takes the lock of a session's directory.
func hold(dir, name string) (*Stored, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrNoSession)
	}
	if err != nil {
		return nil, fmt.Errorf("the lock of session %s: %w", name, err)
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, wholeFile()); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EACCES) {
			return nil, &BusyError{Session: name, Owner: readOwner(f)}
		}
		return nil, fmt.Errorf("the lock of session %s: %w", name, err)
	}
	command := strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " ")
	owner, err := json.Marshal(Owner{PID: os.Getpid(), Command: shortened(command), Since: time.Now().UTC()})
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt(owner, 0)
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("the lock of session %s: %w", name, err)
	}
	return &Stored{lock: f}, nil
}

// wholeFile is an exclusive lock. It belongs to the open file: the kernel gives
// it back when the process ends, however it ends, and unlike flock(2) it can be
// asked for without being taken.
func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }

func readOwner(f *os.File) Owner {
	var owner Owner
	buf := make([]byte, 4096)
	n, _ := f.ReadAt(buf, 0)
	json.Unmarshal(bytes.TrimSpace(buf[:n]), &owner)
	owner.Command = shortened(owner.Command)
	return owner
}

// shortened is a command line as it is shown.
func shortened(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most-1]) + "…"
	}
	return changeset.Printable(s)
}

// Owner returns the process that holds the session, if one does.
func (s *Stored) Owner() (Owner, bool) {
	f, err := os.Open(s.path("lock"))
	if err != nil {
		return Owner{}, false
	}
	defer f.Close()
	held := wholeFile()
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, held); err != nil || held.Type == unix.F_UNLCK {
		return Owner{}, false
	}
	return readOwner(f), true
}

func (s *Stored) lockIsAt(dir string) bool {
	held, err := s.lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(filepath.Join(dir, "lock"))
	return err == nil && os.SameFile(held, there)
}

// Close lets go of the session.
func (s *Stored) Close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Remove removes the session, which must be held, and lets go of it. What is
// in its layers is lost; its record is kept in the store's directory "audit".
func (s *Stored) Remove() error {
	defer s.Close()
	if s.lock == nil {
		return errors.New("removing a session that is not held")
	}
	if err := s.keepRecord(); err != nil {
		return fmt.Errorf("keeping the record of session %s: %w", s.Name, err)
	}
	// Out of sight at once; what a crash leaves is swept.
	gone := filepath.Join(s.store.sessions(), ".gone-"+s.ID)
	if err := os.Rename(s.dir, gone); err != nil {
		return fmt.Errorf("removing the session %s: %w", s.Name, err)
	}
	d, err := beneath.Open(s.store.sessions())
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.RemoveAll(filepath.Base(gone)); err != nil {
		return fmt.Errorf("removing the session %s: %w", s.Name, err)
	}
	return nil
}

// RecordFile is the name of a session's record in its directory.
const RecordFile = "audit.jsonl"

// RecordDir is the directory in which the records of removed sessions are kept.
func (st *Store) RecordDir() string { return filepath.Join(st.dir, "audit") }

func (s *Stored) keepRecord() error {
	if err := os.MkdirAll(s.store.RecordDir(), 0o700); err != nil {
		return err
	}
	err := os.Rename(s.path(RecordFile), filepath.Join(s.store.RecordDir(), s.Name+"-"+s.ID+".jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
