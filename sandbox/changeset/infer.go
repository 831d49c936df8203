package changeset

import (
	"errors"
	"path"
	"slices"
)

// An overlay tells neither of renames nor of links: both are inferred from what
// is the same.

// A linkName is one of several names that a file has in the upper.
type linkName struct {
	change *Change // Kind is empty if the name is as in the view
	old    uint64  // inode that the view has there; 0: none
}

// findLinks makes all names of a file but one links to that one: to a name that
// did not change, if there is such, else to the first.
func (r *reader) findLinks() {
	for _, names := range r.linked {
		slices.SortFunc(names, func(a, b linkName) int {
			switch same := a.change.Kind == ""; {
			case same == (b.change.Kind == ""):
				return comparePaths(a.change.Path, b.change.Path)
			case same:
				return -1
			}
			return 1
		})
		first := names[0]
		for _, n := range names[1:] {
			c := n.change
			if c.Kind == "" {
				if n.old == first.old {
					continue // they were linked before
				}
				c.Protected = r.opts.Protected(c.Path)
				r.set.Changes = append(r.set.Changes, c)
			}
			c.Kind, c.From, c.first = Link, first.change.Path, first.change
		}
	}
}

// A goneFile is a file of the view that the upper deletes, alone or with a
// directory.
type goneFile struct {
	name   string
	old    stamp
	change *Change
	taken  bool // by a rename
}

// maxRenameSize is the size in bytes above which a file is not compared with
// others to find renames.
const maxRenameSize = 256 << 20

// findRenames pairs each added file with a deleted one of the same content, of
// the same base name if there is one. A file in a deleted directory can be
// paired too; the deletion of the directory stays a change of its own.
func (r *reader) findRenames() error {
	bySize := make(map[int64][]*goneFile)
	slices.SortFunc(r.gone, func(a, b goneFile) int { return comparePaths(a.name, b.name) })
	for i := range r.gone {
		g := &r.gone[i]
		bySize[g.old.Size] = append(bySize[g.old.Size], g)
	}
	type key struct {
		sum  [32]byte
		base string // empty: any
	}
	gone := make(map[key][]*goneFile)
	var added []*Change
	for _, c := range r.set.Changes {
		if c.Kind != Added || c.Type != File || c.Refused != "" || c.Size == 0 || c.Size > maxRenameSize {
			continue
		}
		candidates, ok := bySize[c.Size]
		if !ok {
			continue
		}
		if _, err := c.hash(r.ctx); isGone(err) || errors.Is(err, ErrChanged) {
			continue
		} else if err != nil {
			return err
		}
		added = append(added, c)
		bySize[c.Size] = nil // hashed only once
		for _, g := range candidates {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			sum, err := r.hashOld(g)
			if err != nil {
				continue // it cannot be read, or the user has changed it: no rename
			}
			for _, k := range []key{{sum, path.Base(g.name)}, {sum, ""}} {
				gone[k] = append(gone[k], g)
			}
		}
	}
	for _, sameBase := range []bool{true, false} {
		for _, c := range added {
			if c.Kind == Renamed {
				continue
			}
			k := key{sum: *c.sum}
			if sameBase {
				k.base = path.Base(c.Path)
			}
			for len(gone[k]) > 0 && gone[k][0].taken {
				gone[k] = gone[k][1:]
			}
			if len(gone[k]) > 0 {
				r.rename(c, gone[k][0])
			}
		}
	}
	r.set.Changes = slices.DeleteFunc(r.set.Changes, func(c *Change) bool { return c.Kind == "" })
	return nil
}

func (r *reader) rename(c *Change, g *goneFile) {
	g.taken = true
	c.Kind, c.From = Renamed, g.name
	c.OldType, c.OldMode, c.OldSize, c.old = File, g.old.Mode&0o7777, g.old.Size, g.old
	c.Protected = c.Protected || r.opts.Protected(g.name)
	if c.fromDir = g.change.Path != g.name; !c.fromDir {
		c.fromHow = g.change.how
		g.change.Kind = "" // this one says it
	}
}
