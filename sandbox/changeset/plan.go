package changeset

import (
	"slices"
)

// plan turns the changes that are to be applied into groups of operations, and
// reports those that are not.
func (a *applier) plan() ([]*group, error) {
	var groups []*group
	changes := a.set.Changes
	for i := 0; i < len(changes); i++ {
		c := changes[i]
		if !c.makesDir() {
			g, err := a.planOne(c)
			if err != nil {
				return nil, err
			}
			groups = append(groups, g...)
			continue
		}
		there, err := a.isDir(c.Path)
		if err != nil {
			return nil, err
		}
		if there {
			groups = append(groups, a.planThere(c)...)
			continue
		}
		end := i + 1
		for end < len(changes) && within(changes[end].Path, c.Path) {
			end++
		}
		g, err := a.planTree(changes[i:end])
		if err != nil {
			return nil, err
		}
		groups = append(groups, g...)
		i = end - 1
	}
	slices.SortStableFunc(groups, func(x, y *group) int { return x.ops[0].rank() - y.ops[0].rank() })
	return groups, nil
}

// makesDir reports whether a change makes a directory where there was none.
func (c *Change) makesDir() bool {
	return c.Type == Dir && (c.Kind == Added || c.Kind == Modified)
}

// wanted reports whether a change is to be applied. One that is selected but may
// not leave is reported.
func (a *applier) wanted(c *Change) bool {
	selected, named := a.selects(c)
	switch {
	case !selected:
		return false
	case c.Refused != "":
		a.refuse(c, c.Refused)
		return false
	case c.Protected && !named:
		a.refuse(c, "protected: it leaves only if it is named")
		return false
	}
	return true
}

// selectedBy reports whether paths name a change, and whether they name every
// path that it changes, other than by naming the root.
func (c *Change) selectedBy(paths []string) (selected, named bool) {
	covers := func(name string) (covered, named bool) {
		for _, p := range paths {
			if within(name, p) {
				covered, named = true, named || p != "."
			}
		}
		return covered, named
	}
	selected, named = covers(c.Path)
	if c.Kind == Renamed && !c.fromDir {
		s, n := covers(c.From)
		selected, named = selected || s, named && n
	}
	return selected, named
}

func (a *applier) selects(c *Change) (selected, named bool) {
	switch {
	case a.exact != nil:
		return a.exact[c.Path], false
	case a.opts.Paths == nil:
		return true, false
	}
	return c.selectedBy(a.opts.Paths)
}

// planOne plans a change that makes no directory.
func (a *applier) planOne(c *Change) ([]*group, error) {
	if !a.wanted(c) {
		return nil, nil
	}
	g := &group{changes: []*Change{c}}
	switch c.Kind {
	case Deleted:
		if _, err := a.dir.Lstat(c.Path); isGone(err) {
			a.report.Applied = append(a.report.Applied, c.Path) // the user did the same
			return nil, nil
		}
		g.ops = append(g.ops, a.remove(c, c.Path, c.base))
	case Mode:
		g.ops = append(g.ops, &operation{
			step:   step{Kind: stepMeta, Path: []byte(c.Path), Meta: &meta{OldMode: c.OldMode, Mode: c.Mode}},
			change: c, known: c.base,
		})
	default:
		g.ops = append(g.ops, a.put(c, node{change: c}))
		g.ops = append(g.ops, a.removeFrom(c)...)
	}
	return []*group{g}, nil
}

// planThere plans a new directory where the target has one already.
func (a *applier) planThere(c *Change) []*group {
	if !a.wanted(c) {
		return nil
	}
	st, err := a.dir.Lstat(c.Path)
	switch {
	case err != nil:
		a.problem(c, err)
	case st.Mode&0o3777 == c.Mode:
		a.report.Applied = append(a.report.Applied, c.Path)
	case !a.opts.Force:
		a.problem(c, conflict("made since in the workspace"))
	default:
		return []*group{{
			ops: []*operation{{
				step:   step{Kind: stepMeta, Path: []byte(c.Path), Meta: &meta{OldMode: st.Mode & 0o7777, Mode: c.Mode}},
				change: c,
			}},
			changes: []*Change{c},
		}}
	}
	return nil
}

// planTree plans a new directory, the first of the changes, with what goes into
// it. The whole is made beside its place and put there at once. If only
// something in it is selected, the directories on the way are made too.
func (a *applier) planTree(changes []*Change) ([]*group, error) {
	root := changes[0]
	chosen := make([]bool, len(changes))
	need := make(map[string]bool) // directories that something is put into
	for i, c := range changes {
		chosen[i] = a.wanted(c)
		if chosen[i] {
			for dir := parentOf(c.Path); within(dir, root.Path); dir = parentOf(dir) {
				need[dir] = true
			}
		}
	}
	g := &group{}
	op := a.put(root)
	blocked := "" // a directory that will not be made
	for i, c := range changes {
		isDir := c.Type == Dir
		switch {
		case blocked != "" && within(c.Path, blocked):
			if chosen[i] {
				a.refuse(c, "its directory is not applied")
			}
			continue
		case chosen[i]:
			g.changes = append(g.changes, c)
			op.nodes = append(op.nodes, node{change: c})
		case isDir && need[c.Path]:
			if c.Refused == "" && !a.selected(c) {
				op.nodes = append(op.nodes, node{change: c, implicit: true})
				continue
			}
			blocked = c.Path
		}
	}
	if len(op.nodes) == 0 {
		return nil, nil
	}
	g.ops = append(g.ops, op)
	for _, c := range g.changes {
		g.ops = append(g.ops, a.removeFrom(c)...)
	}
	return []*group{g}, nil
}

func (a *applier) selected(c *Change) bool {
	selected, _ := a.selects(c)
	return selected
}

func parentOf(name string) string {
	dir, _ := splitPath(name)
	return dir
}

func (a *applier) put(c *Change, nodes ...node) *operation {
	return &operation{
		step:   step{Kind: stepPut, Path: []byte(c.Path), Temp: tempName()},
		change: c, nodes: nodes, known: c.base, whole: true,
	}
}

func (a *applier) remove(c *Change, name string, k *known) *operation {
	return &operation{
		step:   step{Kind: stepRemove, Path: []byte(name), Temp: tempName()},
		change: c, known: k, whole: true,
	}
}

// removeFrom removes what was renamed from its old place, if it is there.
func (a *applier) removeFrom(c *Change) []*operation {
	if c.Kind != Renamed || c.fromDir {
		return nil
	}
	if _, err := a.dir.Lstat(c.From); isGone(err) && a.opts.Force {
		return nil
	}
	return []*operation{a.remove(c, c.From, c.fromBase)}
}
