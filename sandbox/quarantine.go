package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// quarantine moves what appeared in a direct workspace where nothing may be to
// the session's directory "quarantine", and returns the paths. Between the
// moment something appears and this one it is there, for other programs of the
// machine to see.
func (s *Session) quarantine() ([]string, error) {
	if s.Mode != Direct || len(s.Absent) == 0 {
		return nil, nil
	}
	base, err := beneath.Open(s.Workspace)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	var moved []string
	for _, path := range s.Absent {
		rel := strings.TrimPrefix(path, s.Workspace+"/")
		if _, err := base.Lstat(rel); err != nil {
			continue // not there, or a link leads there and does not count
		}
		if err := s.moveOut(base, rel); err != nil {
			return moved, fmt.Errorf("moving %s, which appeared, out of the workspace: %w", path, err)
		}
		moved = append(moved, path)
	}
	return moved, nil
}

func (s *Session) moveOut(base *beneath.Dir, rel string) error {
	dir, err := beneath.Open(s.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := fmt.Sprintf("quarantine/%d/%s", time.Now().UnixNano(), strings.ReplaceAll(rel, "/", "%"))
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
