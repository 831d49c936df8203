package changeset

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Kind says what happened to a path.
type Kind string

const (
	Added    Kind = "added"
	Modified Kind = "modified" // other content, target or type; perhaps another mode too
	Deleted  Kind = "deleted"  // of a directory: with all below it
	Renamed  Kind = "renamed"  // from Change.From, with the same content
	Mode     Kind = "mode"     // only permissions or owner
	Link     Kind = "link"     // became another name (hard link) of Change.From
)

// Type is the type of a file.
type Type string

const (
	File    Type = "file"
	Dir     Type = "dir"
	Symlink Type = "symlink"
	FIFO    Type = "fifo"
	Socket  Type = "socket"
	Device  Type = "device"

	whiteout Type = "whiteout" // overlayfs: the name does not exist
)

func typeOf(st *unix.Stat_t) Type {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Symlink
	case unix.S_IFIFO:
		return FIFO
	case unix.S_IFSOCK:
		return Socket
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			return whiteout
		}
	}
	return Device
}

// Base says whether what a change was made on is known to be what is there now.
type Base string

const (
	// BaseAbsent: nothing was there, and nothing is.
	BaseAbsent Base = "absent"
	// BaseProved: what was there is there, unchanged.
	BaseProved Base = "proved"
	// BaseConflict: it is not known what the session saw, or that it is still
	// there. Change.Conflict says why.
	BaseConflict Base = "conflict"
)

// A Change is what a session did to one path of its workspace. Nothing in it
// was checked for anything but being true: names, targets and contents are the
// agent's.
type Change struct {
	// Path is relative to the workspace, in bytes as the kernel has them.
	Path string
	Kind Kind
	// Type is what the path is now or, if deleted, was.
	Type Type
	// OldType is what the path (if renamed, From) was before; empty if nothing.
	OldType Type
	// From is the old path of what was renamed, or the other name of a link.
	From string

	Mode, OldMode uint32 // permission bits, with setuid, setgid and sticky
	Size, OldSize int64  // bytes, of files
	// Target is where a symbolic link points to.
	Target, OldTarget string
	// Outside says that Target does not exist in the workspace: it is absolute,
	// leads out, dangles, or passes through another link.
	Outside bool
	// Owner is the owner that the session gave to what existed; nil if it is
	// the same as before.
	Owner *Owner
	// Binary says that the old or the new content is not text.
	Binary bool
	// Below counts what was in a directory that is deleted or replaced.
	Below int

	// Protected says that the path, the path it was renamed from or one in a
	// directory that it removes is protected: it leaves only if named.
	Protected bool
	// Refused says why the change can never leave; empty if it can.
	Refused string
	// Base, and why if it is BaseConflict.
	Base     Base
	Conflict string

	set      *Set
	how      how
	new      stamp     // of the upper's entry
	old      stamp     // of what the view had at Path or, if renamed, From
	sum      *[32]byte // SHA-256 of the new content, once known
	base     *known    // of Path; nil if nothing is known
	fromBase *known    // of From, if renamed
	first    *Change   // the file that a link is another name of; Kind is empty if it did not change
	fromDir  bool      // renamed, and another change deletes a directory that From is in
	fromHow  how       // renamed, and the upper hides From by that
	moving   bool      // what is in the directory changed while it was read
	denied   string    // why not even the session itself may be given it; empty if it may
}

// An Owner is a user and a group.
type Owner struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// how says by what an upper makes the change.
type how int

const (
	byEntry    how = iota // the upper has a file, link or directory there
	byWhiteout            // the upper has a whiteout there
	byOpaque              // the upper has nothing there, below an opaque directory
)

// A stamp identifies a state of a file: while it is equal, the file is the same
// and was not changed, provided that the stamp was taken a tick after the last
// change.
type stamp struct {
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime"` // nanoseconds
	Ctime int64  `json:"ctime"`
	Mode  uint32 `json:"mode"` // with the type
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano(), st.Mode}
}

// moved reports whether s is t after it was renamed, which changes the ctime.
func (s stamp) moved(t stamp) bool {
	s.Ctime = t.Ctime
	return s == t
}

// content leaves out of a stamp what changes without the content.
func (s stamp) content() stamp {
	s.Ctime = 0
	s.Mode &= unix.S_IFMT
	return s
}

// MarshalJSON encodes the change. Fields without meaning for it are left out.
// Strings that are not UTF-8 have their bytes in base64 besides.
func (c *Change) MarshalJSON() ([]byte, error) {
	out := struct {
		Path         string `json:"path"`
		PathBase64   string `json:"path_base64,omitempty"`
		Kind         Kind   `json:"kind"`
		Type         Type   `json:"type"`
		OldType      Type   `json:"old_type,omitempty"`
		From         string `json:"from,omitempty"`
		FromBase64   string `json:"from_base64,omitempty"`
		Mode         string `json:"mode,omitempty"`
		OldMode      string `json:"old_mode,omitempty"`
		Size         *int64 `json:"size,omitempty"`
		OldSize      *int64 `json:"old_size,omitempty"`
		Target       string `json:"target,omitempty"`
		TargetBase64 string `json:"target_base64,omitempty"`
		OldTarget    string `json:"old_target,omitempty"`
		Outside      bool   `json:"outside,omitempty"`
		Owner        *Owner `json:"owner,omitempty"`
		Binary       bool   `json:"binary,omitempty"`
		Below        int    `json:"below,omitempty"`
		Protected    bool   `json:"protected,omitempty"`
		Refused      string `json:"refused,omitempty"`
		Base         Base   `json:"base"`
		Conflict     string `json:"conflict,omitempty"`
	}{
		Path: c.Path, Kind: c.Kind, Type: c.Type, OldType: c.OldType, From: c.From,
		Target: c.Target, OldTarget: c.OldTarget, Outside: c.Outside, Owner: c.Owner,
		Binary: c.Binary, Below: c.Below, Protected: c.Protected, Refused: c.Refused,
		Base: c.Base, Conflict: c.Conflict,
	}
	out.PathBase64 = notUTF8(c.Path)
	out.FromBase64 = notUTF8(c.From)
	out.TargetBase64 = notUTF8(c.Target)
	if c.Kind != Deleted {
		out.Mode = octal(c.Mode)
		if c.Type == File {
			out.Size = &c.Size
		}
	}
	if c.OldType != "" {
		out.OldMode = octal(c.OldMode)
		if c.OldType == File {
			out.OldSize = &c.OldSize
		}
	}
	return json.Marshal(out)
}

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

func notUTF8(s string) string {
	if utf8.ValidString(s) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(s))
}

// comparePaths orders paths component by component, so that a directory is
// followed by what is in it.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		case a[i] < b[i]:
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

// within reports whether name is dir or below it.
func within(name, dir string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir) && name[len(dir)] == '/'
}
