package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/adoption"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// An adopted is a layer of a fork that is brought into the session.
type adopted struct {
	*LayerEffects
	index int
	items []*changeset.Item // the first is the layer's own directory
	// above are directories that something is changed below; into, in which names
	// change.
	above, into map[string]bool
	staged      map[*changeset.Item]int // number in the stage
	stage       string
	opened      []*changeset.Item
}

func newAdopted(index int, effects *LayerEffects) *adopted {
	items, _ := effects.Set.Items() // they are all: see Adoptable
	l := &adopted{
		LayerEffects: effects, index: index, items: items,
		above: make(map[string]bool), into: make(map[string]bool), staged: make(map[*changeset.Item]int),
		stage: changeset.TempPrefix + strings.ToLower(rand.Text()),
	}
	for _, i := range l.items {
		if !i.Changed() || i.Path == "." {
			continue
		}
		inPlace := i.Old != nil && i.Same && i.Link == ""
		if i.Type != "" && i.Type != changeset.Dir && !inPlace {
			l.staged[i] = len(l.staged) + 1
		}
		if !inPlace {
			l.into[path.Dir(i.Path)] = true
		}
		for dir := path.Dir(i.Path); !l.above[dir]; dir = path.Dir(dir) {
			l.above[dir] = true
			if dir == "." {
				break
			}
		}
	}
	if len(l.staged) > 0 {
		l.into["."], l.above["."] = true, true
	}
	return l
}

func (l *adopted) step(do adoption.Do, i *changeset.Item) adoption.Step {
	return adoption.Step{Do: do, Tree: l.index, Path: []byte(i.Path), N: l.staged[i]}
}

// was is what the session must have, of a directory perhaps no more than that it
// is one.
func was(i *changeset.Item) *adoption.Was {
	o := i.Old
	if o == nil {
		return nil
	}
	w := &adoption.Was{Mode: o.Bits, Size: o.Size, Mtime: o.Mtime, Ctime: o.Ctime, Kind: o.Loose}
	if o.Links > 1 && o.Type != changeset.Dir {
		w.Ctime = 0 // it changes when another of its names goes
	}
	return w
}

// isDir is what a directory must be that was looked at before it was changed.
var isDir = adoption.Was{Mode: unix.S_IFDIR, Kind: true}

func attr(i *changeset.Item) *adoption.Attr {
	a := &adoption.Attr{Mode: i.Mode, Size: i.Size, Times: true, Atime: i.Atime, Mtime: i.Mtime}
	for _, x := range i.Xattrs {
		a.Xattrs = append(a.Xattrs, adoption.Xattr{Name: []byte(x.Name), Value: []byte(x.Value)})
	}
	return a
}

// check looks at everything that is replaced, and at the directories above.
func (a *adopter) check(ctx context.Context, l *adopted) {
	for _, i := range l.items {
		if !i.Changed() && !l.above[i.Path] {
			continue
		}
		step := l.step(adoption.Check, i)
		step.Was = was(i)
		a.add(ctx, step, nil, "")
	}
}

// closed reports whether a directory that the session has must be opened, so that
// something in it can be changed.
func (l *adopted) closed(i *changeset.Item) bool {
	return i.Old != nil && i.Old.Type == changeset.Dir && i.Old.Mode&0o700 != 0o700 && (i.Type != changeset.Dir || l.above[i.Path])
}

func (a *adopter) open(ctx context.Context, l *adopted, i *changeset.Item) {
	step := l.step(adoption.Open, i)
	step.Was = &adoption.Was{Mode: i.Old.Bits, Kind: true}
	l.opened = append(l.opened, i)
	a.add(ctx, step, nil, "")
}

// stage makes all that is new, where it does not show.
func (a *adopter) stage(ctx context.Context, l *adopted) {
	if len(l.staged) == 0 {
		return
	}
	if l.closed(l.items[0]) {
		a.open(ctx, l, l.items[0])
	}
	a.add(ctx, adoption.Step{Do: adoption.Stage, Tree: l.index}, nil, "")
	for _, i := range l.items {
		if l.staged[i] == 0 || i.Link != "" {
			continue
		}
		if a.err != nil {
			return
		}
		switch i.Type {
		case changeset.File:
			a.content(ctx, l, i)
		case changeset.Symlink:
			step := l.step(adoption.Symlink, i)
			step.Target, step.Attr = []byte(i.Target), attr(i)
			a.add(ctx, step, nil, "")
		case changeset.FIFO, changeset.Socket:
			step := l.step(adoption.FIFO, i)
			if i.Type == changeset.Socket {
				step.Do = adoption.Socket
			}
			step.Attr = attr(i)
			a.add(ctx, step, nil, "")
		}
	}
}

// content sends what a file has, without what is only zeros, which becomes a hole.
func (a *adopter) content(ctx context.Context, l *adopted, i *changeset.Item) {
	r, err := i.Open()
	if err != nil {
		a.fail(l, i, err)
		return
	}
	defer r.Close()
	step := l.step(adoption.Write, i)
	step.New = true
	var held []byte // of step, which has not been sent
	if a.piece == nil {
		a.piece, a.zeros = make([]byte, adoptedPiece), make([]byte, adoptedPiece)
	}
	for {
		at := r.SkipHole()
		n, err := io.ReadFull(r, a.piece)
		if piece := a.piece[:n]; !bytes.Equal(piece, a.zeros[:n]) {
			if len(held) > 0 {
				a.add(ctx, step, held, "")
				step.New = false
			}
			step.At, held = at, append(held[:0], piece...)
			a.did.Bytes += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			a.fail(l, i, err)
			return
		}
	}
	step.Attr = attr(i)
	a.add(ctx, step, held, "")
}

// adoptedPiece is how much of a file is sent at once, in bytes.
const adoptedPiece = 1 << 20

// commit makes what shows.
func (a *adopter) commit(ctx context.Context, l *adopted) {
	for _, i := range l.items {
		if l.closed(i) && !slices.Contains(l.opened, i) {
			a.open(ctx, l, i)
		}
	}
	removed := make(map[*changeset.Item]bool)
	for at, i := range l.items {
		if i.Type == "" || !i.Changed() || i.Path == "." {
			continue
		}
		there := was(i)
		if i.Old != nil && (i.Old.Type == changeset.Dir) != (i.Type == changeset.Dir) {
			end := at + 1
			for end < len(l.items) && strings.HasPrefix(l.items[end].Path, i.Path+"/") && l.items[end].Type == "" {
				end++
			}
			for _, gone := range slices.Backward(l.items[at:end]) {
				a.remove(ctx, l, gone)
				removed[gone] = true
			}
			there = nil
		}
		a.put(ctx, l, i, there)
	}
	for _, i := range slices.Backward(l.items) {
		if i.Type == "" && !removed[i] {
			a.remove(ctx, l, i)
		}
	}
}

// put puts a thing in the place of what is there.
func (a *adopter) put(ctx context.Context, l *adopted, i *changeset.Item, there *adoption.Was) {
	switch {
	case i.Type == changeset.Dir:
		if there == nil {
			a.add(ctx, l.step(adoption.Mkdir, i), nil, i.Path)
		}
		return // its attributes come last: what is made in it changes them
	case l.staged[i] == 0:
		step := l.step(adoption.Set, i)
		step.Was, step.Attr = there, attr(i)
		a.add(ctx, step, nil, i.Path)
		return
	case i.Link != "":
		step := l.step(adoption.Link, i)
		step.From = []byte(i.Link)
		a.add(ctx, step, nil, "")
	}
	step := l.step(adoption.Place, i)
	step.Was = there
	a.add(ctx, step, nil, i.Path)
}

func (a *adopter) remove(ctx context.Context, l *adopted, i *changeset.Item) {
	step := l.step(adoption.Remove, i)
	step.Was = was(i)
	if i.Old.Type == changeset.Dir {
		step.Was = &isDir // what was in it is gone by now
	}
	tag := i.Path
	if i.Type != "" {
		tag = "" // something else comes there
	}
	a.add(ctx, step, nil, tag)
}

// finish removes the stage and gives directories their attributes.
func (a *adopter) finish(ctx context.Context, l *adopted) {
	if len(l.staged) > 0 {
		a.add(ctx, adoption.Step{Do: adoption.Unstage, Tree: l.index}, nil, "")
	}
	for _, i := range slices.Backward(l.items) {
		if i.Type != changeset.Dir || !i.Changed() && !l.into[i.Path] && !slices.Contains(l.opened, i) {
			continue
		}
		step := l.step(adoption.Set, i)
		step.Was, step.Attr = &isDir, attr(i)
		step.Attr.Times = i.Old == nil || !i.Old.Moved
		if i.Path == "." {
			// The directory of a fork may be older than the fork.
			step.Attr.Mtime = max(i.Mtime, i.Old.Mtime)
		}
		tag := ""
		if i.Old != nil && i.Old.Type == changeset.Dir && !i.Old.Loose {
			tag = i.Path
		}
		a.add(ctx, step, nil, tag)
	}
}
