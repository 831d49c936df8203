package changeset

import (
	"context"
	"fmt"
	"path"
	"slices"
)

// changedMeanwhile is why an item is overtaken whose path is not as it was.
const changedMeanwhile = "it has changed meanwhile"

// Recheck compares what the view has now, at the path of each item that is to be
// made again, with what it had when the set was read. It returns the first path
// that is overtaken, and why; none is "". Quiet says that nothing was written in
// the view's topmost layer since the upper's first writer began.
func (s *Set) Recheck(ctx context.Context, quiet bool) (name, why string, err error) {
	view, done, err := s.layers.Lower.sameMount()
	if err != nil {
		return "", "", err
	}
	defer done()
	c := rechecker{view: view}
	defer c.leave()
	for _, i := range s.items {
		if err := ctx.Err(); err != nil {
			return "", "", err
		}
		if !i.Changed() && !(i.Type == Dir && i.Old.Loose) {
			continue
		}
		why := i.Overtaken
		if o := i.Old; why == "" && o != nil && o.Top && !o.Loose && !quiet && !s.now.before(o.Ctime) {
			// It may have been changed again in the same tick of the clock.
			why = changedMeanwhile
		}
		if why == "" {
			if why, err = c.check(i); isGone(err) {
				why, err = changedMeanwhile, nil
			}
		}
		if err != nil {
			return "", "", fmt.Errorf("looking at %q again: %w", i.Path, err)
		}
		if why != "" {
			return i.Path, why, nil
		}
	}
	return "", "", nil
}

// A rechecker keeps the directory that was looked at last.
type rechecker struct {
	view View
	name string
	dir  *viewDir // nil if the view has none of that name
	at   bool
}

func (c *rechecker) leave() {
	if c.dir != nil {
		c.dir.close()
	}
	c.dir, c.at = nil, false
}

func (c *rechecker) enter(name string) error {
	if c.at && c.name == name {
		return nil
	}
	c.leave()
	e, err := c.view.find(name, nil)
	if err == nil && e.isDir() {
		c.dir, err = c.view.open(name, e.layers)
	}
	c.name, c.at = name, err == nil
	return err
}

// check says why an item is overtaken.
func (c *rechecker) check(i *Item) (why string, err error) {
	var e entry
	if i.Path == "." {
		if e, err = c.view.root(); err != nil {
			return "", err
		}
	} else {
		if err := c.enter(path.Dir(i.Path)); err != nil {
			return "", err
		}
		if c.dir != nil {
			if e, err = c.dir.child(path.Base(i.Path)); err != nil {
				return "", err
			}
		}
	}
	if !e.exists() || i.Old == nil {
		if e.exists() != (i.Old != nil) {
			return changedMeanwhile, nil
		}
		return "", nil
	}
	o := i.Old
	if o.Loose {
		o.Moved = o.Moved || stampOf(&e.st) != o.stamps[0]
		if typeOf(&e.st) != Dir {
			return changedMeanwhile, nil
		}
		return "", nil
	}
	layers := e.layers
	if o.Type != Dir {
		layers = layers[:1]
	}
	if !slices.Equal(layers, o.layers) {
		return changedMeanwhile, nil
	}
	for k, layer := range layers {
		st := e.st
		if k > 0 {
			if st, err = c.view.Layers[layer].Dir.Lstat(i.Path); err != nil {
				return "", err
			}
		}
		if stampOf(&st) != o.stamps[k] {
			return changedMeanwhile, nil
		}
	}
	return "", nil
}
