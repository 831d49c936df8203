package changeset

import (
	"path"

	"github.com/sallyport/sallyport/internal/beneath"
)

// uncover gives the entries of a directory records of their own, when it is about
// to cover them no longer: because its opaque mark is taken off, or because it
// was new and the workspace has it now. It is on disk when uncover returns, so
// that no entry made after is taken for one that the session made later.
func (b *Bases) uncover(dir string, up *beneath.Dir, low *viewDir, e entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.root.known(dir)
	if k == nil || !k.Covers || k.at != dir {
		return nil
	}
	st, err := up.Lstat(".")
	if err != nil {
		return err
	}
	own := record{State: BaseConflict, Ino: e.st.Ino, Mode: e.st.Mode, Until: k.Until}
	if st.Mode == e.st.Mode || k.State == BaseProved && k.Ino == e.st.Ino && k.Mode == e.st.Mode {
		own.State = BaseProved
	}
	b.set(dir, own)
	names, err := low.names()
	if err != nil {
		return err
	}
	for base, err := range up.Entries() {
		if err != nil {
			return err
		}
		names = append(names, base)
	}
	for _, base := range names {
		child, err := low.child(base)
		if err != nil && !isGone(err) {
			return err
		}
		name := path.Join(dir, base)
		r := record{State: BaseConflict, Until: k.Until, Covers: true}
		old := child.exists() && k.Until.before(b.untouched(name, child.st.Ino, child.st.Ctim.Nano()))
		switch {
		case !child.exists():
			r.State = BaseAbsent
		case k.State != BaseProved || k.Ino != e.st.Ino:
		case child.isDir() || old:
			r.State, r.Ino, r.Ctime, r.Mode = BaseProved, child.st.Ino, child.st.Ctim.Nano(), child.st.Mode
			if !old {
				r.Mode = 0
			}
		}
		b.set(name, r)
	}
	if err := b.write(); err != nil {
		return err
	}
	return b.file.Sync()
}

// like notes that a directory of the upper was made like that of the view.
func (b *Bases) like(name string, e entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.root.known(name)
	if k == nil || k.at != name || k.Covers {
		return nil
	}
	k.State, k.Ino, k.Mode = BaseProved, e.st.Ino, e.st.Mode
	b.set(name, k.record)
	return b.write()
}

// dropped removes the records of entries that were taken out of the upper.
func (b *Bases) dropped(names []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		b.forget(name)
	}
	return b.write()
}
