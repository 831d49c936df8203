package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/adoption"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/wire"
)

// An adopter sends steps to the guest, many at a time. After one has failed it
// sends no more, and only notes what is left.
type adopter struct {
	s      *Session
	box    *box
	env    *wire.Envelope
	layers []*adopted
	did    *Adoption
	err    error
	began  bool   // something was made, though it may not show
	piece  []byte // of a file
	zeros  []byte // as long

	req  adoption.Request
	tags []string // for each step, the path that it makes show; or empty
	size int
}

// Bounds of one request: the guest does it without being stopped.
const (
	mostSteps = 2000
	mostSize  = 2 << 20
)

// add does a step, with the next ones. tag is the path that it changes, where that
// shows, relative to the layer.
func (a *adopter) add(ctx context.Context, step adoption.Step, data []byte, tag string) {
	if tag != "" {
		tag = filepath.Join(a.layers[step.Tree].Dir, tag)
	}
	if a.err != nil {
		if tag != "" {
			a.did.Left = append(a.did.Left, tag)
		}
		return
	}
	size := 300 + len(data) + 2*(len(step.Path)+len(step.From)+len(step.Target))
	if step.Attr != nil {
		for _, x := range step.Attr.Xattrs {
			size += 50 + 2*(len(x.Name)+len(x.Value))
		}
	}
	if len(a.req.Steps) == mostSteps || a.size+size > mostSize {
		a.flush(ctx)
		if a.err != nil {
			a.add(ctx, step, nil, tag)
			return
		}
	}
	step.Data = len(data)
	a.req.Steps = append(a.req.Steps, step)
	a.req.Data = append(a.req.Data, data...)
	a.tags = append(a.tags, tag)
	a.size += size
}

// flush has the guest do what was added. That is not cut short: it is bounded, and
// then it is known how far it came.
func (a *adopter) flush(ctx context.Context) {
	if a.err != nil || len(a.req.Steps) == 0 {
		return
	}
	if err := ctx.Err(); err != nil {
		a.err = a.halfWay(err)
		return
	}
	steps, tags := a.req.Steps, a.tags
	resp, err := a.call(ctx, &a.req)
	a.req = adoption.Request{Steps: steps[:0], Data: a.req.Data[:0]}
	a.tags, a.size = tags[:0], 0
	note := func(tags []string, to *[]string) {
		for _, tag := range tags {
			if tag != "" {
				*to = append(*to, tag)
			}
		}
	}
	for _, step := range steps[:resp.Done] {
		a.began = a.began || step.Do != adoption.Check
	}
	note(tags[:resp.Done], &a.did.Paths)
	note(tags[resp.Done:], &a.did.Left)
	if err != nil {
		a.err = err
	} else if resp.Done < len(steps) {
		step := steps[resp.Done]
		a.err = a.failed(filepath.Join(a.layers[step.Tree].Dir, string(step.Path)), resp)
	}
}

// call has the guest do a request.
func (a *adopter) call(ctx context.Context, req *adoption.Request) (resp adoption.Response, err error) {
	for _, l := range a.layers {
		req.Trees = append(req.Trees, adoption.Tree{Path: []byte(l.Dir), Stage: l.stage})
	}
	input, err := req.Encode()
	if err != nil {
		return resp, err
	}
	got, err := a.box.client.Call(context.WithoutCancel(ctx), &wire.CallRequest{
		Call: a.s.calls.Add(1), Name: adoption.Name, Input: input, Envelope: a.env,
	}, nil)
	if got == nil || got.Data == nil {
		return resp, errors.Join(a.s.over(err), errNoAnswer)
	}
	// Comes from inside, as every answer of the guest.
	if err := json.Unmarshal(got.Data, &resp); err != nil || resp.Done < 0 || resp.Done > len(req.Steps) {
		return adoption.Response{}, fmt.Errorf("the guest's answer: %w", errors.Join(err, errNoAnswer))
	}
	return resp, nil
}

var errNoAnswer = errors.New("it is not known what was written")

// failed is the error of a step.
func (a *adopter) failed(path string, resp adoption.Response) error {
	switch {
	case resp.Overtaken && len(a.did.Paths) == 0:
		return overtaken(path, "it has changed meanwhile")
	case resp.Errno != 0:
		return a.halfWay(fmt.Errorf("%s: %w", changeset.Printable(path), unix.Errno(resp.Errno)))
	}
	return a.halfWay(fmt.Errorf("%s: %s", changeset.Printable(path), changeset.Printable(resp.Error)))
}

func (a *adopter) halfWay(err error) error {
	if len(a.did.Paths) == 0 {
		return fmt.Errorf("taking over what was done; nothing was written: %w", err)
	}
	return fmt.Errorf("taking over what was done; it was stopped half way: %w", err)
}

// fail is for what goes wrong on this side.
func (a *adopter) fail(l *adopted, i *changeset.Item, err error) {
	if a.err != nil {
		return
	}
	if errors.Is(err, changeset.ErrChanged) {
		a.err = overtaken(inLayer(l.LayerEffects, i), "the copy was changed since it was read")
		return
	}
	a.err = a.halfWay(err)
}

// cleanUp removes what was staged, and closes the directories that were opened.
func (a *adopter) cleanUp(ctx context.Context) {
	if errors.Is(a.err, errNoAnswer) {
		return
	}
	wrote := len(a.did.Paths) > 0
	if !wrote {
		a.did.Left, a.did.Bytes = nil, 0
	}
	if !a.began {
		return
	}
	req := adoption.Request{On: true}
	for _, l := range a.layers {
		if len(l.staged) > 0 {
			req.Steps = append(req.Steps, adoption.Step{Do: adoption.Unstage, Tree: l.index})
			if root := l.items[0]; !slices.Contains(l.opened, root) {
				l.opened = append(l.opened, root)
			}
		}
		for _, i := range l.opened {
			step := l.step(adoption.Set, i)
			step.Was = &isDir
			step.Attr = &adoption.Attr{Mode: i.Old.Mode, AnyXattrs: true, Times: !wrote && !i.Old.Moved, Atime: i.Old.Atime, Mtime: i.Old.Mtime}
			req.Steps = append(req.Steps, step)
		}
	}
	if len(req.Steps) == 0 {
		return
	}
	if _, err := a.call(ctx, &req); err != nil {
		a.err = errors.Join(a.err, err)
	}
}
