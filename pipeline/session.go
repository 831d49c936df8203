package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/version"
	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// Options say which session is opened, and what it is created with if it does
// not exist.
type Options struct {
	Store *sandbox.Store
	// Name of the session. Empty is the workspace's own ([SessionName]).
	Name string
	// Workspace is a directory; empty is the current one. A session that exists
	// has its own, which this must not contradict.
	Workspace string
	Mode      sandbox.WorkspaceMode // default Cow
	Expose    []sandbox.Exposed
	// ExposeNew is exposed as well if the session is created; one that exists keeps
	// what it shows.
	ExposeNew []sandbox.Exposed
	Denied    []string // absolute paths in the workspace that the session cannot see
	ReadOnly  []string // absolute paths in it that the session cannot change, beside the protected ones
	// Rules deny more: what those that deny files are about in the workspace is
	// added to Denied and ReadOnly. A session that exists is held to them too.
	Rules  []permission.Rule
	Limits sandbox.Limits
	Driver sandbox.Driver
	// Env is the host's environment; nil is this process's.
	Env []string
	// Principal is who asks; nil is the user of this process.
	Principal *audit.Principal
	// New makes it an error if the session exists, and Existing if it does not:
	// then Name must be given.
	New, Existing bool
}

// Image is the image of every session so far.
const Image = "host"

// SessionName is the name of the session that a workspace has unless another is
// asked for.
func SessionName(workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	base := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, filepath.Base(workspace))
	base = strings.TrimLeft(base[:min(len(base), 40)], ".-")
	if base == "" {
		base = "workspace"
	}
	return base + "-" + hex.EncodeToString(sum[:3])
}

// Self is the user of this process.
func Self() *audit.Principal {
	p := &audit.Principal{UID: os.Geteuid(), User: fmt.Sprint(os.Geteuid()), Client: "sallyport", Version: version.Version}
	if u, err := user.Current(); err == nil {
		p.User = u.Username
	}
	return p
}

// A Stored is a session that is held but not live, whose changes go on record.
type Stored struct {
	*sandbox.Stored
	log *audit.Log
	// Created says that the session did not exist before.
	Created bool
}

// Hold opens a session, or creates it. The error wraps [sandbox.ErrNoSession]
// when there is none and it must exist, and a [*sandbox.BusyError] when it has
// another owner.
func Hold(o Options) (*Stored, error) {
	s, created, err := hold(o)
	if err != nil {
		return nil, err
	}
	principal := o.Principal
	if principal == nil {
		principal = Self()
	}
	log, err := audit.Open(filepath.Join(s.Dir(), sandbox.RecordFile), audit.Record{
		Session: s.ID, Name: s.Name, Principal: principal, Version: version.Version,
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return &Stored{Stored: s, log: log, Created: created}, nil
}

func hold(o Options) (s *sandbox.Stored, created bool, err error) {
	if o.Existing {
		s, err = o.Store.Open(o.Name)
		return s, false, err
	}
	// A session that exists and is named needs no workspace.
	if o.Name != "" && o.Workspace == "" && !o.New {
		s, err := o.Store.Open(o.Name)
		if err == nil {
			err = errors.Join(o.fits(s, s.Workspace), o.deny(s.Workspace))
			if err == nil {
				err = s.Tighten(o.Denied, o.ReadOnly)
			}
			if err != nil {
				s.Close()
			}
		}
		if err == nil || !errors.Is(err, sandbox.ErrNoSession) {
			return s, false, err
		}
	}
	workspace, err := sandbox.ResolveWorkspace(o.Workspace)
	if err != nil {
		return nil, false, err
	}
	if o.Name == "" {
		o.Name = SessionName(workspace)
	}
	if err := o.deny(workspace); err != nil {
		return nil, false, err
	}
	for {
		if !o.New {
			s, err := o.Store.Open(o.Name)
			if err == nil {
				if err = o.fits(s, workspace); err == nil {
					err = s.Tighten(o.Denied, o.ReadOnly)
				}
				if err != nil {
					s.Close()
				}
				return s, false, err
			}
			if !errors.Is(err, sandbox.ErrNoSession) {
				return nil, false, err
			}
		}
		s, err := o.create(workspace)
		if errors.Is(err, sandbox.ErrExists) && !o.New {
			continue // another process was faster
		}
		return s, true, err
	}
}

// fits reports whether a session is what was asked for.
func (o *Options) fits(s *sandbox.Stored, workspace string) error {
	switch {
	case s.Workspace != workspace:
		return fmt.Errorf("the session %s is of the workspace %s, not %s; take another name", s.Name, s.Workspace, workspace)
	case o.Mode != "" && o.Mode != s.Mode:
		return fmt.Errorf("the session %s was created with --workspace %s; take another name with --session, or remove it with: sallyport sessions rm %s", s.Name, s.Mode, s.Name)
	case len(o.Expose) > 0 && !reflect.DeepEqual(o.Expose, s.Expose[:len(s.Expose)-fromFiles(s.Expose)]):
		return fmt.Errorf("the session %s was created with other --expose; take another name with --session, or remove it with: sallyport sessions rm %s", s.Name, s.Name)
	}
	return nil
}

// fromFiles counts those at the end of a list that settings ask for.
func fromFiles(list []sandbox.Exposed) (n int) {
	for n < len(list) && list[len(list)-1-n].Origin != "" {
		n++
	}
	return n
}

// deny adds what the rules deny in a workspace to the denied paths.
func (o *Options) deny(workspace string) error {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // no rule about it denies anything in the workspace
	}
	read, write, err := permission.DeniedPaths(context.Background(), workspace, home, o.Rules)
	if err != nil {
		return err
	}
	o.Denied, o.ReadOnly = slices.Concat(o.Denied, read), slices.Concat(o.ReadOnly, write)
	return nil
}

func (o *Options) create(workspace string) (*sandbox.Stored, error) {
	settings := sandbox.Settings{
		Name: o.Name, Workspace: workspace, Mode: o.Mode, Image: Image, Driver: o.Driver.Name(),
		Expose: slices.Concat(o.Expose, o.ExposeNew), Denied: o.Denied,
		ReadOnly: append(permission.ProtectedIn(workspace), o.ReadOnly...),
	}
	switch settings.Mode {
	case "":
		settings.Mode = sandbox.Cow
	case sandbox.Direct:
		if len(o.Denied) > 0 {
			return nil, errors.New("denied paths need --workspace cow: in the real directory nothing can be hidden")
		}
		if links := permission.ProtectedLinks(workspace); len(links) > 0 {
			return nil, fmt.Errorf("%s is a link, which cannot be protected in the real directory; use --workspace cow", links[0])
		}
		settings.Absent = permission.ProtectedMissing(workspace)
	case sandbox.Cow:
	default:
		return nil, fmt.Errorf("no workspace mode %q: use cow or direct", settings.Mode)
	}
	return o.Store.Create(settings)
}

// Changes reads what the session did to its workspace.
func (s *Stored) Changes(ctx context.Context) (*sandbox.Changes, error) {
	return s.Stored.Changes(ctx, Protected(s.Workspace))
}

// Protected tells which paths of a workspace leave only if they are named.
func Protected(workspace string) sandbox.Protected { return permission.ProtectedBy(workspace) }

// Apply carries out changes in the workspace, on record: what is to be applied
// before, and what was after.
func (s *Stored) Apply(ctx context.Context, c *sandbox.Changes, o sandbox.ApplyOptions) (*changeset.Report, error) {
	return recordApply(ctx, s.log, c, o, s.Stored.Apply)
}

func recordApply(
	ctx context.Context, log *audit.Log, c *sandbox.Changes, o sandbox.ApplyOptions,
	apply func(context.Context, *sandbox.Changes, sandbox.ApplyOptions) (*changeset.Report, error),
) (*changeset.Report, error) {
	digest, err := c.Digest(ctx, o.Paths...)
	if err != nil {
		return nil, err
	}
	detail := map[string]any{"change_set": digest, "paths": o.Paths, "force": o.Force, "atomic": o.Atomic}
	if err := log.Write(audit.Record{Kind: audit.KindEvent, Event: "apply", Detail: detail}, true); err != nil {
		return nil, err
	}
	report, err := apply(ctx, c, o)
	detail = map[string]any{"change_set": digest}
	if report != nil {
		detail["report"] = report
	}
	if err != nil {
		detail["error"] = err.Error()
	}
	return report, errors.Join(err, log.Write(audit.Record{Kind: audit.KindEvent, Event: "applied", Detail: detail}, true))
}

// Discard takes changes out of the session, on record.
func (s *Stored) Discard(ctx context.Context, paths []string) error {
	return recordDiscard(ctx, s.log, paths, s.Stored.Discard)
}

func recordDiscard(ctx context.Context, log *audit.Log, paths []string, discard func(context.Context, []string) error) error {
	detail := map[string]any{"paths": paths}
	if err := log.Write(audit.Record{Kind: audit.KindEvent, Event: "discard", Detail: detail}, true); err != nil {
		return err
	}
	err := discard(ctx, paths)
	detail = map[string]any{"paths": paths}
	if err != nil {
		detail["error"] = err.Error()
	}
	return errors.Join(err, log.Write(audit.Record{Kind: audit.KindEvent, Event: "discarded", Detail: detail}, true))
}

// Close lets go of the session.
func (s *Stored) Close() error { return errors.Join(s.log.Close(), s.Stored.Close()) }

// Remove removes the session; its record is kept.
func (s *Stored) Remove() error {
	err := s.log.Write(audit.Record{Kind: audit.KindClose, Event: "remove"}, true)
	return errors.Join(err, s.log.Close(), s.Stored.Remove())
}

// A Session is live, and all that happens in it goes on record.
type Session struct {
	*sandbox.Session
	stored *Stored
	log    *audit.Log
	ended  bool
}

// Open opens a session, or creates it, and makes it live.
func Open(ctx context.Context, o Options) (*Session, error) {
	s, err := Hold(o)
	if err != nil {
		return nil, err
	}
	live, err := s.Start(ctx, o)
	if err != nil {
		if s.Created {
			err = errors.Join(err, s.Remove())
		} else {
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	return live, nil
}

// Start makes a held session live. The session takes the other over: closing it
// closes both.
func (s *Stored) Start(ctx context.Context, o Options) (*Session, error) {
	env := o.Env
	if env == nil {
		env = os.Environ()
	}
	live, err := s.Stored.Start(ctx, sandbox.StartOptions{Driver: o.Driver, Limits: o.Limits, Env: env})
	if err != nil {
		return nil, err
	}
	err = s.log.Write(audit.Record{
		Kind: audit.KindOpen, Image: Image, Mechanisms: live.Mechanisms(),
		Detail: map[string]any{
			"workspace": s.Workspace, "mode": s.Mode, "driver": s.Driver, "expose": s.Expose,
			"denied": s.Denied, "read_only": s.ReadOnly, "limits": o.Limits,
		},
	}, false)
	if err != nil {
		return nil, errors.Join(err, live.Close())
	}
	return &Session{Session: live, stored: s, log: s.log}, nil
}

// Stored returns the session as it lies on disk.
func (s *Session) Stored() *Stored { return s.stored }

// Apply is [Stored.Apply] for a live session in which nothing runs.
func (s *Session) Apply(ctx context.Context, c *sandbox.Changes, o sandbox.ApplyOptions) (*changeset.Report, error) {
	return recordApply(ctx, s.log, c, o, s.Session.Apply)
}

// Discard is [Stored.Discard] for a live session in which nothing runs.
func (s *Session) Discard(ctx context.Context, paths []string) error {
	return recordDiscard(ctx, s.log, paths, s.Session.Discard)
}

// Changes reads what the session did to its workspace.
func (s *Session) Changes(ctx context.Context) (*sandbox.Changes, error) {
	return s.Session.Changes(ctx, Protected(s.Workspace))
}

// End ends every process of the session and lets go of nothing else, so that
// its changes can be applied. It may be called again.
func (s *Session) End() (*Stored, error) {
	if s.ended {
		return s.stored, nil
	}
	s.ended = true
	err := s.Session.Close()
	rec := audit.Record{Kind: audit.KindClose}
	if moved := s.Session.Quarantined(); len(moved) > 0 {
		rec.Detail = map[string]any{"quarantined": moved}
	}
	return s.stored, errors.Join(err, s.log.Write(rec, false))
}

// Close ends every process of the session and lets go of it.
func (s *Session) Close() error {
	stored, err := s.End()
	return errors.Join(err, stored.Close())
}
