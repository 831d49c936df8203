package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/pipeline/effects"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// A Previewed is a command of the user's that was run in a throwaway copy of the
// session, whose effects can be shown until Close.
type Previewed struct {
	*effects.Preview
	preview
	cmd  sandbox.Command
	exit *sandbox.Exit
	of   *Session
}

// errFlood is why a command is ended that prints without end.
var errFlood = fmt.Errorf("output: %d MiB", effects.Flood>>20)

// Preview runs a command in a throwaway copy of the session, on record. The error
// is as of [Session.Exec]; what was seen comes with it where the command has run.
func (s *Session) Preview(ctx context.Context, cmd sandbox.Command) (_ *Previewed, err error) {
	copied, err := s.Session.Fork(ctx, sandbox.ForkOptions{})
	if err != nil {
		return nil, err
	}
	fork := &forked{copied}
	p := &Previewed{cmd: cmd, of: s, preview: preview{throwaway: fork, box: &box{}}}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stdout := effects.Capture{Then: cmd.Stdout, Flooded: func() { stop(errFlood) }}
	stderr := effects.Capture{Then: cmd.Stderr, Flooded: stdout.Flooded}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	p.exit, err = fork.Exec(running, cmd)
	p.took = time.Since(start)
	flooded := errors.Is(context.Cause(running), errFlood) && ctx.Err() == nil
	if err != nil && !flooded && !errors.Is(err, sandbox.ErrTime) {
		return nil, errors.Join(err, p.Close())
	}
	if p.exit != nil {
		p.box.attempts, p.box.dropped, p.box.background = p.exit.Attempts, p.exit.AttemptsDropped, p.exit.Background
	}
	var unread error
	if p.effects, unread = fork.effects(ctx); unread != nil {
		p.partial = "what it changed cannot be read: " + unread.Error()
	}
	limits := []string{}
	switch {
	case flooded:
		limits, err = append(limits, errFlood.Error()), nil
		p.partial = "it was ended: it printed too much"
	case err != nil:
		limits = append(limits, fmt.Sprintf("time: %v", cmd.Envelope.Time))
		p.partial = fmt.Sprintf("it did not end within %v", cmd.Envelope.Time)
	case unread != nil:
	case stdout.Cut || stderr.Cut:
		p.partial = "its output is cut: it was too long"
	default:
		p.partial = lacking(p.effects, p.box.background, p.box.attempts)
	}
	p.Preview = p.data()
	p.Limits = append(limits, p.Limits...)
	p.Output = effects.Output{
		Stdout: stdout.String(), Stdout64: stdout.NotText(), Stderr: stderr.String(), Stderr64: stderr.NotText(),
		Cut: stdout.Cut || stderr.Cut,
	}
	if p.exit != nil {
		p.Exit = &effects.Exit{Code: p.exit.Code}
		if p.exit.Signal != 0 {
			p.Exit.Signal = unix.SignalName(p.exit.Signal)
		}
	}
	if err := p.put(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, err
}

// put puts on record what was seen.
func (p *Previewed) put(ctx context.Context) error {
	r := audit.Record{Kind: audit.KindEvent, Event: "preview", Tool: "exec", Detail: p.detail(ctx)}
	if err := r.SetInput(execInput{p.cmd.Args, p.cmd.Dir, p.cmd.Env}); err != nil {
		return err
	}
	return p.of.log.Write(r, false)
}

// Close throws the copy away.
func (p *Previewed) Close() error {
	var errs []error
	if p.effects != nil {
		errs = append(errs, p.effects.Close())
		p.effects = nil
	}
	if p.throwaway != nil {
		errs = append(errs, p.throwaway.close())
		p.throwaway = nil
	}
	return errors.Join(errs...)
}

// ErrNotAlone is wrapped by the error for a preview whose changes cannot leave
// without others that the session has not let out.
var ErrNotAlone = errors.New("the session has changed it before, which was not applied: apply or discard that first")

// Apply makes what was seen what the session and its workspace have: it is taken
// over into the session as it is, without running anything again, and the changes
// that it made, no others, leave as in [Stored.Apply]; so what is protected does
// not. The session has ended then, and the preview is closed.
//
// Nothing is done if the preview is not complete, or if the session has changed
// the same paths before (ErrNotAlone). What the report says was not applied stays
// in the session.
func (p *Previewed) Apply(ctx context.Context) (report *changeset.Report, err error) {
	s := p.of
	if !p.Complete {
		return nil, errors.New("the preview is not complete: " + p.Why)
	}
	wanted := p.Changes.Workspace
	before, err := s.Changes(ctx)
	if err != nil {
		return nil, err
	}
	err = alone(wanted, before.Set.Changes)
	kept := keysOf(before.Set.Changes)
	if err := errors.Join(err, before.Close()); err != nil {
		return nil, err
	}
	err = s.onRecord(ctx, "exec", s.byUser("the result that the user was shown"), execInput{p.cmd.Args, p.cmd.Dir, p.cmd.Env}, p.cmd.Envelope, func(rec *audit.Record) error {
		rec.Result.Applied = true
		if p.exit != nil && p.exit.Signal == 0 {
			rec.Result.Exit = &p.exit.Code
		}
		return s.adopt(ctx, p.effects)
	})
	// What was wanted is needed no more than by name.
	if err := errors.Join(err, p.Close()); err != nil {
		return nil, err
	}
	stored, err := s.End()
	if err != nil {
		return nil, err
	}
	now, err := stored.Changes(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, now.Close()) }()
	var paths []string
	shown := keysOf(wanted)
	for _, c := range now.Set.Changes {
		switch key := keyOf(c); {
		case kept[key]:
		case !shown[key]:
			return nil, fmt.Errorf("the session has another change of %s now than the preview showed, so nothing leaves it: look at it with sallyport diff", changeset.Printable(c.Path))
		default:
			paths = append(paths, c.Path)
		}
	}
	if len(paths) == 0 {
		return &changeset.Report{}, nil
	}
	return stored.Apply(ctx, now, sandbox.ApplyOptions{Paths: paths, Exact: true})
}

// A changeKey is by what the same change is known in two sets.
type changeKey struct {
	path, from string
	kind       changeset.Kind
	typ        changeset.Type
	mode       uint32
	size       int64
}

func keyOf(c *changeset.Change) changeKey {
	return changeKey{c.Path, c.From, c.Kind, c.Type, c.Mode, c.Size}
}

func keysOf(changes []*changeset.Change) map[changeKey]bool {
	keys := make(map[changeKey]bool, len(changes))
	for _, c := range changes {
		keys[keyOf(c)] = true
	}
	return keys
}

// alone returns an error if one of the changes has to do with one of the others:
// both are about one path, or one is about a directory that the other's is in.
func alone(changes, others []*changeset.Change) error {
	about, above := make(map[string]bool), make(map[string]bool)
	for _, c := range others {
		for _, name := range names(c) {
			about[name] = true
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				above[dir] = true
			}
		}
	}
	for _, c := range changes {
		for _, name := range names(c) {
			taken := about[name] || above[name]
			for dir := path.Dir(name); dir != "." && !taken; dir = path.Dir(dir) {
				taken = about[dir]
			}
			if taken {
				return fmt.Errorf("%s: %w", changeset.Printable(name), ErrNotAlone)
			}
		}
	}
	return nil
}

// names are the paths that a change is about.
func names(c *changeset.Change) []string {
	if c.From == "" {
		return []string{c.Path}
	}
	return []string{c.Path, c.From}
}

// Ended is how the command ended; nil if it did not by itself.
func (p *Previewed) Ended() *sandbox.Exit { return p.exit }
