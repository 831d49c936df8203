// Package call is what Write does in the container.
package call

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/files"
)

// A Request is a file's new content.
type Request struct {
	Path     []byte `json:"path"`
	Resolved bool   `json:"resolved,omitempty"`
	Content  []byte `json:"content"`
	// Expected is the hash of the file as it was last seen; "" when it was not.
	Expected string `json:"expected,omitempty"`
}

// An Output is what was written.
type Output struct {
	Path    string `json:"path"` // where it lies, without links
	Created bool   `json:"created,omitempty"`
	Size    int    `json:"size"` // bytes
	Lines   int    `json:"lines"`
	Hash    string `json:"hash"` // SHA-256, in hex
	// Emptied says that a file with content has none now.
	Emptied bool `json:"emptied,omitempty"`
	// Links is how many other names the old file had, which keep what it was.
	Links int `json:"links,omitempty"`
}

// Run writes a file. One that exists must be as it was last seen; an empty one
// has nothing that could be lost.
func Run(ctx context.Context, _ *inside.Call, req Request) (Output, error) {
	t, err := files.Find(string(req.Path), req.Resolved)
	if err != nil {
		if kind := (*inside.KindError)(nil); errors.As(err, &kind) && kind.Want == "a regular file" {
			return Output{}, fmt.Errorf("%w; Write replaces only those", err)
		}
		return Output{}, err
	}
	defer t.Close()
	expected := req.Expected
	if t.Old != nil && expected == "" {
		if t.Old.Stat.Size > 0 {
			return Output{}, t.Unread()
		}
		expected = files.Hash(nil)
	}
	hash, err := t.Write(ctx, expected, int64(len(req.Content)), func(w io.Writer) error {
		_, err := w.Write(req.Content)
		return err
	})
	if err != nil {
		return Output{}, err
	}
	return Output{
		Path: t.Path, Created: t.Old == nil, Size: len(req.Content), Lines: files.CountLines(req.Content), Hash: hash,
		Emptied: t.Old != nil && t.Old.Stat.Size > 0 && len(req.Content) == 0, Links: t.Links(),
	}, nil
}
