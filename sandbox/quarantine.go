package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// names are the paths of a direct workspace that this run of a session must not
// change: those that were there when it started are read-only, the others must
// not appear. In a cow workspace, what leaves is judged at the exit.
type names struct {
	readOnly []string
	stamps   []fileID // of readOnly, by which it is seen that one was replaced

	mu     sync.Mutex
	absent []string
	moved  []string // into the quarantine, during this run
}

// A fileID is what a file is, whatever its name.
type fileID struct{ dev, ino uint64 }

// errReplaced ends a direct session one of whose read-only paths was replaced by
// another program: the kernel lets go of the mount that held it.
var errReplaced = errors.New("it was replaced by another program, and is not protected any more; the next command protects it again")

// absentFile lists, while a direct session is live, what must not appear. One
// that is found at a start is of a session that nobody closed.
const absentFile = "absent.json"

// guardNames finds out which names are which. What a run that was not closed let
// appear is moved out first; what is there then, the user has made.
func (s *Session) guardNames() error {
	if s.Mode != Direct {
		s.names.readOnly = s.ReadOnly
		return nil
	}
	own, err := beneath.Open(s.dir)
	if err != nil {
		return err
	}
	defer own.Close()
	f, err := own.OpenRegular(absentFile)
	if err == nil {
		err = errors.Join(json.NewDecoder(f).Decode(&s.names.absent), f.Close())
	}
	if err == nil {
		_, err = s.quarantine()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("moving out what the last run let appear: %w", err)
	}
	base, err := beneath.OpenReal(s.Workspace)
	if err != nil {
		return fmt.Errorf("the workspace: %w", err)
	}
	defer base.Close()
	s.names.readOnly, s.names.stamps, s.names.absent = nil, nil, nil
	for _, path := range slices.Concat(s.ReadOnly, s.Absent) {
		st, err := base.Lstat(strings.TrimPrefix(path, s.Workspace+"/"))
		switch {
		case errors.Is(err, fs.ErrNotExist): // not where something of the user's is in the way
			s.names.absent = append(s.names.absent, path)
		case err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK:
			s.names.readOnly = append(s.names.readOnly, path)
			s.names.stamps = append(s.names.stamps, fileID{st.Dev, st.Ino})
		}
	}
	if len(s.names.absent) == 0 {
		return nil
	}
	data, err := json.Marshal(s.names.absent)
	if err != nil {
		return err
	}
	return renameio.WriteFile(s.path(absentFile), data, 0o600)
}

// releaseNames ends the guard, when nothing of the session runs any more.
func (s *Session) releaseNames() error {
	if s.Mode != Direct {
		return nil
	}
	if _, err := s.quarantine(); err != nil {
		return err
	}
	own, err := beneath.Open(s.dir)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := own.Remove(absentFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Quarantined are the paths that have been moved out of a direct workspace since
// the session was started, after its end too.
func (s *Session) Quarantined() []string {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	return slices.Clone(s.names.moved)
}

// quarantine moves what appeared in a direct workspace where nothing may be to
// the session's directory "quarantine", and returns the paths. Between the
// moment something appears and this one it is there, for other programs of the
// machine to see.
func (s *Session) quarantine() (moved []string, err error) {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	if len(s.names.absent)+len(s.names.stamps) == 0 {
		return nil, nil
	}
	base, err := beneath.OpenReal(s.Workspace)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	for i, id := range s.names.stamps {
		path := s.names.readOnly[i]
		st, err := base.Lstat(strings.TrimPrefix(path, s.Workspace+"/"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("looking after %s: %w", path, err)
		}
		if (fileID{st.Dev, st.Ino}) != id {
			s.names.stamps = nil // said once
			replaced := fmt.Errorf("%s: %w", path, errReplaced)
			go s.stop(replaced)
			return nil, replaced
		}
	}
	defer func() { s.names.moved = append(s.names.moved, moved...) }()
	for _, path := range s.names.absent {
		rel := strings.TrimPrefix(path, s.Workspace+"/")
		if rel = appeared(base, rel); rel == "" {
			continue
		}
		path = s.Workspace + "/" + rel
		if err := s.moveOut(base, rel); err != nil {
			return moved, fmt.Errorf("moving %s, which appeared, out of the workspace: %w", path, err)
		}
		moved = append(moved, path)
	}
	return moved, nil
}

// appeared returns what has made a name appear: the name, if it is there, or what
// is on the way to it and no directory. That was not there before either, and
// can lead to such a name elsewhere: a link .git to a directory with hooks.
func appeared(base *beneath.Dir, rel string) string {
	for i := range len(rel) {
		if rel[i] != '/' {
			continue
		}
		st, err := base.Lstat(rel[:i])
		if err != nil {
			return ""
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return rel[:i]
		}
	}
	if _, err := base.Lstat(rel); err != nil {
		return ""
	}
	return rel
}

func (s *Session) moveOut(base *beneath.Dir, rel string) error {
	dir, err := beneath.Open(s.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := fmt.Sprintf(QuarantineDir+"/%d/%s", time.Now().UnixNano(), strings.ReplaceAll(rel, "/", "%"))
	parent := name[:strings.LastIndexByte(name, '/')]
	if err := dir.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	err = base.Rename(rel, dir, name, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	left := int64(mostQuarantined)
	err = copyOut(base, rel, dir, name, &left)
	return errors.Join(err, base.RemoveAll(rel))
}

// QuarantineDir is where in a session's directory quarantined files are.
const QuarantineDir = "quarantine"

// QuarantineCount is how many paths a session has in quarantine. They are the
// only copies.
func (s *Stored) QuarantineCount() (n int, err error) {
	own, err := beneath.Open(s.dir)
	if err != nil {
		return 0, err
	}
	defer own.Close()
	moves, err := own.OpenDir(QuarantineDir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer moves.Close()
	for name, err := range moves.Entries() {
		if err != nil {
			return n, err
		}
		move, err := moves.OpenDir(name)
		if err != nil {
			return n, err
		}
		for range move.Entries() {
			n++
		}
		move.Close()
	}
	return n, nil
}

// mostQuarantined is how much is kept of what has to be copied to another file
// system, in bytes. What is more is removed.
const mostQuarantined = 16 << 20

// copyOut copies files and directories; what is neither has nothing to keep.
func copyOut(from *beneath.Dir, name string, to *beneath.Dir, as string, left *int64) error {
	st, err := from.Lstat(name)
	if err != nil || *left <= 0 {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err := to.Mkdir(as, 0o700); err != nil {
			return err
		}
		dir, err := from.OpenDir(name)
		if err != nil {
			return err
		}
		defer dir.Close()
		for entry, err := range dir.Entries() {
			if err != nil {
				return err
			}
			if err := copyOut(dir, entry, to, as+"/"+entry, left); err != nil {
				return err
			}
		}
	case unix.S_IFREG:
		in, err := from.OpenRegular(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := to.OpenFile(as, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		n, err := io.Copy(out, io.LimitReader(in, *left))
		*left -= n
		return errors.Join(err, out.Close())
	}
	return nil
}
