package changeset

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A record is what is known of the base of one entry of an upper: what the view
// had there when the session first changed it, and whether the session saw just
// that. See [Bases].
type record struct {
	State Base   `json:"base"`
	Ino   uint64 `json:"ino,omitempty"` // no device: its number changes when the machine is started again
	Ctime int64  `json:"ctime,omitempty"`
	Mode  uint32 `json:"mode,omitempty"` // with the type
	// Until is a moment from before the session did it: what was changed later,
	// the session may not have seen.
	Until Time `json:"until,omitzero"`
	// Covers says that the entry hides whatever the view has below it: it is no
	// directory, or an opaque one, or the view has no directory there. Entries
	// below it have no record of their own.
	Covers bool `json:"covers,omitempty"`
}

// judge makes the record of a new entry of the upper. What the view has there
// now is what the session saw if it has not changed since, which is before the
// session can have made the entry, and if the name has stood for it since the
// session's view was last known to be fresh, which placed says.
func judge(e entry, placed, covers bool, since, fresh Time) record {
	until := earlier(since, fresh)
	if !e.exists() {
		return record{State: BaseAbsent, Until: until, Covers: true}
	}
	r := record{
		State: BaseProved, Ino: e.st.Ino, Ctime: e.st.Ctim.Nano(), Mode: e.st.Mode,
		Until: until, Covers: covers || !e.isDir(),
	}
	changed := !since.before(r.Ctime)
	switch {
	case !placed:
		r.State = BaseConflict
	case changed && e.isDir() && covers:
		// What is in a directory that was removed or made opaque is looked at
		// when the change is applied, since it may take long. Only its mode is
		// not known.
		r.Mode = 0
	case changed:
		r.State = BaseConflict
	}
	return r
}

// placed reports whether name has stood for the same file in every layer that
// makes up e since the given time. Renaming a file or directory changes its own
// ctime and its parent's, so one old of the two is enough; which spares the
// neighbours of what the user saves.
func placed(d *viewDir, name string, e entry, since Time) (bool, error) {
	for i, layer := range d.layers {
		// What is in a policy layer the user never made or moved.
		if !slices.Contains(e.layers, layer) || d.view.Layers[layer].Policy {
			continue
		}
		child, err := d.dirs[i].Lstat(name)
		if err != nil {
			return false, err
		}
		if since.before(child.Ctim.Nano()) {
			continue
		}
		parent, err := d.dirs[i].Lstat(".")
		if err != nil {
			return false, err
		}
		if !since.before(parent.Ctim.Nano()) {
			return false, nil
		}
	}
	return true, nil
}

// A known base is the record that speaks for a path: its own, or that of the
// entry above it that covers it.
type known struct {
	record
	at string // whose record it is
}

// A look compares what a view has now with the records.
type look struct {
	ctx  context.Context
	view View
	asOf func(name string, ino uint64, ctime int64) int64 // see Bases.asOf
}

// confirm says why what the view has at name now is not known to be what the
// session changed; empty if it is. whole says that the change removes what is
// below the name too.
func (l look) confirm(name string, k *known, whole bool) (string, error) {
	e, err := l.view.find(name, nil)
	if err != nil {
		return "", err
	}
	if !e.exists() {
		if k != nil && k.at == name && k.State != BaseAbsent {
			return "deleted since in the workspace", nil
		}
		return "", nil
	}
	switch {
	case k == nil:
		return "it is not known what the session saw", nil
	case k.State == BaseConflict:
		return "changed in the workspace while the session was at work on it", nil
	case k.State == BaseAbsent:
		return "made since in the workspace", nil
	}
	if k.at != name {
		above, err := l.view.find(k.at, nil)
		if err != nil {
			return "", err
		}
		if !above.exists() || above.st.Ino != k.Ino {
			return "its directory was replaced since in the workspace", nil
		}
	} else if e.st.Ino != k.Ino {
		return "replaced since in the workspace", nil
	}
	same := false
	switch {
	case e.isDir() && whole:
		if l.old(name, &e.st, k.Until) {
			same, err = l.unchangedIn(name, e.layers, name, k.Until)
		}
	case k.at != name:
		same = l.old(name, &e.st, k.Until)
	case e.isDir():
		same = e.st.Mode == k.Mode
	default:
		same = l.asOf(name, e.st.Ino, e.st.Ctim.Nano()) == k.Ctime
	}
	if err != nil || same {
		return "", err
	}
	return "changed since in the workspace", nil
}

// old reports whether a file is as it was at the given time.
func (l look) old(name string, st *unix.Stat_t, since Time) bool {
	ctime := st.Ctim.Nano()
	return since.before(ctime) || since.before(l.asOf(name, st.Ino, ctime))
}

// unchangedIn reports whether all below a directory is as it was at the given
// time, the directory itself aside. It may have been moved: as is its path.
func (l look) unchangedIn(dir string, layers []int, as string, since Time) (bool, error) {
	boot, err := bootTime()
	if err != nil || setBack(since, Time{Boot: boot}) {
		return false, err
	}
	err = l.view.walk(l.ctx, dir, layers, func(name string, e entry) error {
		if !l.old(as+strings.TrimPrefix(name, dir), &e.st, since) {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return false, nil
	}
	return err == nil, err
}

var errStop = errors.New("stop")

// isGone reports that a file vanished or changed its type under our hands, as
// the files of a running session may.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
