package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// Changes are what a session did to its workspace, and how much it left in its
// box. They are read from layers that stay open until Close.
type Changes struct {
	*changeset.Set
	layers *openLayers
}

// Close lets go of the layers. The set cannot show contents, or be applied,
// any more.
func (c *Changes) Close() error {
	if c.layers == nil {
		return nil
	}
	return c.layers.close()
}

// openLayers are the layers of a workspace, open to be read from outside.
type openLayers struct {
	changeset.Layers
	base *beneath.Dir // the workspace itself
	open []io.Closer
}

func (l *openLayers) dir(path string) (*beneath.Dir, error) {
	d, err := beneath.OpenReal(path)
	if err != nil {
		return nil, err
	}
	l.open = append(l.open, d)
	return d, nil
}

// bases opens what is known of what the changes were made on.
func (l *openLayers) bases(s *Stored) (*changeset.Bases, error) {
	dir, err := l.dir(s.dir)
	if err != nil {
		return nil, err
	}
	b, err := changeset.OpenBases(dir)
	if err != nil {
		return nil, err
	}
	l.open = append(l.open, b)
	return b, nil
}

func (l *openLayers) close() error {
	var errs []error
	for _, c := range slices.Backward(l.open) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// openLayers opens the layers of a workspace: upper, and below it those of the
// sessions that this one is a fork of, the nearest first.
func (s *Stored) openLayers(upper string, between ...string) (_ *openLayers, err error) {
	if s.Mode != Cow {
		return nil, fmt.Errorf("the session %s works on %s directly: what it changed is there already", s.Name, s.Workspace)
	}
	l := &openLayers{}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.Upper, err = l.dir(upper); err != nil {
		return nil, fmt.Errorf("the layer of session %s: %w", s.Name, err)
	}
	l.Lower.UserXattr = os.Geteuid() != 0
	add := func(path string, policy bool) (*beneath.Dir, error) {
		d, err := l.dir(path)
		if err == nil {
			l.Lower.Layers = append(l.Lower.Layers, changeset.Layer{Dir: d, Policy: policy})
		}
		return d, err
	}
	for _, path := range between {
		if _, err := add(path, false); err != nil {
			return nil, err
		}
	}
	if len(s.Denied) > 0 {
		if _, err := add(s.path(policyDir), true); err != nil {
			return nil, err
		}
	}
	if l.base, err = add(s.Workspace, false); err != nil {
		return nil, fmt.Errorf("the workspace of session %s: %w", s.Name, err)
	}
	return l, nil
}

const (
	upperDir  = "layers/workspace/upper"
	policyDir = "layers/policy"
)

// Protected says which paths of the workspace leave only if they are named. The
// path is relative to the workspace.
type Protected func(path string) bool

// Changes reads what the session did to its workspace. It may be called while
// the session is live, here or elsewhere; then it may be outdated at once. An
// Apply that was cut short is finished first, if the session is held.
func (s *Stored) Changes(ctx context.Context, protected Protected) (*Changes, error) {
	if _, err := os.Stat(s.path(upperDir)); errors.Is(err, fs.ErrNotExist) && s.Mode == Cow {
		return &Changes{Set: &changeset.Set{}, layers: &openLayers{}}, nil // never started
	}
	if s.lock != nil {
		if err := s.recoverApply(ctx); err != nil {
			return nil, err
		}
	}
	l, err := s.openLayers(s.path(upperDir))
	if err != nil {
		return nil, err
	}
	bases, err := l.bases(s)
	if err != nil {
		l.close()
		return nil, err
	}
	set, err := changeset.Read(ctx, l.Layers, changeset.Options{Bases: bases, Protected: protected, Refuse: s.refuse})
	if err != nil {
		l.close()
		return nil, err
	}
	return &Changes{Set: set, layers: l}, nil
}

// ApplyOptions say which changes leave, and how.
type ApplyOptions struct {
	// Paths are relative to the workspace; nil is all. A path names itself and
	// all below it; what is named may be protected, unless it is named by ".".
	Paths []string
	// Exact makes a path name the change of that very path, and none below it; what
	// is protected stays.
	Exact bool
	// Force applies what is in conflict too: what the workspace has there now is
	// replaced.
	Force bool
	// Atomic applies all or nothing.
	Atomic bool
}

// Apply carries out the changes of a set in the workspace itself, and takes what
// was applied out of the session's layer. The session must be held and not
// live. The set must be one that was read since.
func (s *Stored) Apply(ctx context.Context, c *Changes, o ApplyOptions) (*changeset.Report, error) {
	if s.lock == nil {
		return nil, errors.New("applying a session that is not held")
	}
	if c.layers.base == nil {
		return &changeset.Report{}, nil // never started
	}
	journal, err := beneath.Open(s.dir)
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	report, err := changeset.Apply(ctx, c.Set, c.layers.base, changeset.ApplyOptions{
		Paths: o.Paths, Exact: o.Exact, Force: o.Force, Atomic: o.Atomic, Journal: journal,
	})
	if len(report.Applied) > 0 {
		err = errors.Join(err, changeset.Drop(ctx, c.Set, report.Applied))
	}
	return report, err
}

// Discard takes changes out of the session's layer: all below the paths, or all
// when there are none. The session must be held and not live.
func (s *Stored) Discard(ctx context.Context, paths []string) error {
	if s.lock == nil {
		return errors.New("discarding from a session that is not held")
	}
	c, err := s.Changes(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	if len(paths) == 0 {
		paths = []string{"."}
	}
	return changeset.Drop(ctx, c.Set, c.Select(paths...))
}

// recoverApply finishes or undoes what an Apply left that was cut short.
func (s *Stored) recoverApply(ctx context.Context) error {
	if s.Mode != Cow {
		return nil
	}
	if _, err := os.Stat(s.path(upperDir)); errors.Is(err, fs.ErrNotExist) {
		return nil // never started
	}
	l, err := s.openLayers(s.path(upperDir))
	if err != nil {
		return err
	}
	defer l.close()
	bases, err := l.bases(s)
	if err != nil {
		return err
	}
	dir, err := l.dir(s.dir)
	if err != nil {
		return err
	}
	_, err = changeset.Recover(ctx, dir, l.base, bases)
	return err
}

// Relative returns a path of the workspace as change sets name it. It may be
// absolute, or relative to dir.
func (s *Settings) Relative(path, dir string) (string, error) {
	abs := path
	if !strings.HasPrefix(path, "/") {
		abs = dir + "/" + path
	}
	abs = filepath.Clean(abs)
	if abs == s.Workspace {
		return ".", nil
	}
	rel, ok := strings.CutPrefix(abs, s.Workspace+"/")
	if !ok {
		return "", fmt.Errorf("%s is not in the workspace %s", path, s.Workspace)
	}
	return rel, nil
}
