// Package call is what Edit does in the container.
package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/files"
)

// A Request is what to replace in a file.
type Request struct {
	Path      []byte `json:"path"`
	Resolved  bool   `json:"resolved,omitempty"`
	Workspace string `json:"workspace"` // for messages
	Old       []byte `json:"old"`
	New       []byte `json:"new"`
	All       bool   `json:"all,omitempty"`
	// Expected is the hash of the file as it was last seen; "" when it was not.
	Expected string `json:"expected,omitempty"`
}

// An Output is what became of the file.
type Output struct {
	Path     string `json:"path"` // where it lies, without links
	Created  bool   `json:"created,omitempty"`
	Replaced int    `json:"replaced"` // how many times
	// Snippet is the lines around the first change as they are now, Start the
	// number of the first of them.
	Snippet string `json:"snippet,omitempty"`
	Start   int    `json:"start,omitempty"`
	Size    int64  `json:"size"` // bytes
	Hash    string `json:"hash"` // SHA-256, in hex
	// Emptied says that nothing is left in the file.
	Emptied bool `json:"emptied,omitempty"`
	// Links is how many other names the old file had, which keep what it was.
	Links int `json:"links,omitempty"`
}

// Run replaces a string in a file.
func Run(ctx context.Context, _ *inside.Call, req Request) (Output, error) {
	path := string(req.Path)
	if len(req.Old) > 0 && bytes.Equal(req.Old, req.New) {
		return Output{}, errSame
	}
	t, err := files.Find(path, req.Resolved)
	if err != nil {
		if kind := (*inside.KindError)(nil); errors.As(err, &kind) && kind.Want == "a regular file" {
			return Output{}, fmt.Errorf("%w; Edit changes only those", err)
		}
		return Output{}, err
	}
	defer t.Close()
	if t.Old == nil {
		if len(req.Old) > 0 {
			missing := &inside.PathError{Path: t.Path, Err: unix.ENOENT}
			return Output{}, files.Explain(missing, t.Path, true, req.Workspace)
		}
		return write(ctx, t, "", nil, &change{new: req.New})
	}
	about := func(err error) error { return fmt.Errorf("%s: %w", inside.Quote(t.Path), err) }
	// What is empty has nothing to read, and nothing that could be lost.
	if req.Expected == "" && (len(req.Old) > 0 || t.Old.Stat.Size > 0) {
		return Output{}, t.Unread()
	}
	content, err := t.Content(ctx)
	if err != nil {
		return Output{}, err
	}
	hash := files.Hash(content)
	if hash != req.Expected && (len(content) > 0 || req.Expected != "") {
		return Output{}, about(files.ErrOutdated)
	}
	if err := files.CheckText(content, int64(len(content))); err != nil {
		return Output{}, about(err)
	}
	c := &change{new: req.New}
	if len(req.Old) > 0 {
		c, err = find(content, req.Old, req.New, req.All)
	} else if len(content) > 0 {
		err = errNotEmpty
	}
	if err != nil {
		return Output{}, about(err)
	}
	return write(ctx, t, hash, content, c)
}

// write makes a change and says how the file looks now.
func write(ctx context.Context, t *files.Target, expected string, content []byte, c *change) (Output, error) {
	size := c.size(content)
	if size > files.MostHashed {
		return Output{}, fmt.Errorf("%s: it would have %d bytes then, more than the %d MiB that are edited", inside.Quote(t.Path), size, files.MostHashed>>20)
	}
	view := newView(content, c)
	var sum string
	sum, err := t.Write(ctx, expected, size, func(w io.Writer) error {
		view.begin()
		return c.emit(content, func(p []byte) error {
			view.take(p)
			_, err := w.Write(p)
			return err
		})
	})
	if err != nil {
		return Output{}, err
	}
	snippet, start := view.lines()
	return Output{
		Path: t.Path, Created: t.Old == nil, Replaced: c.count, Snippet: snippet, Start: start, Size: size, Hash: sum,
		Emptied: size == 0 && len(content) > 0, Links: t.Links(),
	}, nil
}
