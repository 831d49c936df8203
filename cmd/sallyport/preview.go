package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/pipeline/effects"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// previewTime is how long a command may take in a preview unless it is said.
const previewTime = 10 * time.Minute

func previewCommand() *cli.Command {
	return &cli.Command{
		Name:      "preview",
		Usage:     "run a command in a throwaway copy, and show what it would change",
		ArgsUsage: "-- COMMAND [ARG...]",
		Description: "Runs a command of yours in a copy of a session that is thrown away: the one that --session names, or a\n" +
			"fresh one of this directory. Shown are its output, and then what it changed, as a summary and a diff (paged\n" +
			"on a terminal), what it tried to change elsewhere, and whom it wanted to reach: there is no network.\n\n" +
			"With --apply, what was seen is carried out in the real directory, byte for byte and nothing else, and without\n" +
			"running the command again. As with sallyport apply, protected paths stay behind, and what you have changed\n" +
			"meanwhile is never overwritten.\n\n" +
			"A preview is not complete if the command was cut short, left something running, or wanted the network: then it\n" +
			"may do something else when it really runs, and is not applied. The exit code is the command's; 123 when the\n" +
			"preview is not complete, 124 when its time limit has passed, 125 when the box failed, 126 when the command\n" +
			"cannot be executed, 127 when there is none of that name, 1 when the command succeeded and not all was applied.",
		Flags: append(append(sessionFlags(), boxFlags("hide what `RULE` names, as Read(.env) or Read(/secrets/**), or make it read-only: Edit(*.lock)")...),
			&cli.BoolFlag{Name: "apply", Usage: "carry out what was seen in the real directory, if the preview is complete"},
			&cli.BoolFlag{Name: "stat", Usage: "show only the summary"},
			&cli.BoolFlag{Name: "i", Usage: "hand the command this command's standard input; without, it is empty"},
			&cli.StringFlag{Name: "dir", Usage: "start in `DIR` of the session", DefaultText: "the current directory, or the workspace"},
			&cli.StringSliceFlag{Name: "env", Usage: "set `KEY=VALUE` in the command's environment; KEY alone takes the value from yours"},
			&cli.DurationFlag{Name: "timeout", Usage: "kill the command and all it started after `TIME` (90s, 10m)", Value: previewTime},
			&cli.DurationFlag{Name: "wait", Usage: "wait up to `TIME` for a session that is in use", DefaultText: "not at all"},
			&cli.BoolFlag{Name: "no-pager", Usage: "do not page on a terminal"},
			jsonFlag(),
		),
		OnUsageError: func(c *cli.Context, err error, sub bool) error { return boxFailed(c, wrongUsage(c, err, sub)) },
		BashComplete: completeFlags,
		Action: func(c *cli.Context) error {
			err := runPreview(c)
			if err == nil || errors.As(err, new(exitCode)) {
				return err
			}
			return boxFailed(c, err)
		},
	}
}

// previewResult is what preview --json prints.
type previewResult struct {
	Session string `json:"session"`
	Code    int    `json:"exit_code"` // of sallyport
	Error   string `json:"error,omitempty"`
	Hint    string `json:"hint,omitempty"`
	*effects.Preview
	Diff   string            `json:"diff"`
	Report *changeset.Report `json:"report,omitempty"` // with --apply: what became of the changes
}

// previewRun is one run of preview.
type previewRun struct {
	*execRun
	seen previewResult
}

func runPreview(c *cli.Context) error {
	args := c.Args().Slice()
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		return usageError(c, "no command to run")
	case c.Duration("timeout") <= 0:
		return usageError(c, "--timeout %v: use a time of more than 0", c.Duration("timeout"))
	case c.String("workspace") == string(sandbox.Direct):
		return usageError(c, "--workspace direct: the real directory has no copy to try things in; use cow")
	}
	env, err := environment(c)
	if err != nil {
		return err
	}
	o, err := options(c)
	if err != nil {
		return err
	}
	if o.Name == "" {
		o.Name, o.New = "preview-"+time.Now().UTC().Format("20060102-150405.000000"), true
	}
	l, err := loadSettings(c, &o, o.Rules)
	if err != nil {
		return err
	}
	// Whoever reads the output may go; the session ends in order all the same.
	signal.Ignore(syscall.SIGPIPE)
	r := &previewRun{execRun: &execRun{cli: c, json: c.Bool("json"), env: env, signals: make(chan unix.Signal, 1)}}
	ctx, stop := r.handleInterrupts()
	defer stop()
	s, err := openWithin(ctx, o, c.Duration("wait"))
	if err != nil {
		return err
	}
	if err := l.fits(s.Workspace); err != nil {
		return errors.Join(err, s.Close())
	}
	l.say()
	l.sayHidden(&o, s.Stored().Stored)
	r.seen.Session = s.Name
	code, err := r.preview(ctx, s, args)
	if e := r.end(s); e != nil {
		complain(e.Error())
		code = exitBoxFailed
	}
	if err != nil {
		complain(err.Error())
		r.seen.Error = err.Error()
		if code == 0 {
			code = 1
		}
	}
	if r.json {
		r.seen.Code = code
		if r.seen.Error == "" {
			r.seen.Error, r.seen.Hint = r.result.Error, r.result.Hint
		}
		if err := printJSON(r.seen); err != nil {
			return err
		}
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// end lets go of the session, and removes one that was made for the preview.
func (r *previewRun) end(s *pipeline.Session) error {
	stored, err := s.End()
	if !stored.Created {
		return errors.Join(err, stored.Close())
	}
	if r.cli.IsSet("session") {
		changes, e := stored.Changes(context.Background())
		if e != nil {
			return errors.Join(err, e, stored.Close())
		}
		n := len(changes.Set.Changes)
		if e := changes.Close(); e != nil || n > 0 {
			return errors.Join(err, e, stored.Close())
		}
	}
	return errors.Join(err, stored.Remove())
}

// preview runs the command, shows what came of it, and applies it if that is
// wanted. The code is that of the command, unless the preview is not complete.
func (r *previewRun) preview(ctx context.Context, s *pipeline.Session, args []string) (code int, err error) {
	r.result.Session = s.Name
	cmd := sandbox.Command{
		Args: args, Dir: r.dir(s), Env: r.env, Signals: r.signals,
		Stdout: os.Stdout, Stderr: io.MultiWriter(os.Stderr, &r.tail),
		Envelope: sandbox.Envelope{Time: r.cli.Duration("timeout")},
	}
	if r.json {
		cmd.Stdout, cmd.Stderr = nil, &r.tail
	}
	if r.cli.Bool("i") {
		in, stop, err := input(os.Stdin)
		if err != nil {
			return exitBoxFailed, err
		}
		defer stop()
		cmd.Stdin = in
	}
	// What the user did to the workspace just before is known to be from before
	// the call.
	time.Sleep(time.Until(started.Add(changeset.Settle)))
	r.running.Store(true)
	p, err := s.Preview(ctx, cmd)
	r.running.Store(false)
	if p == nil {
		return r.report(s.Stored().Stored, args[0], nil, err), nil
	}
	defer p.Close()
	code = r.report(s.Stored().Stored, args[0], p.Ended(), err)
	if stopped := r.stopped.Load(); stopped != nil {
		p.Complete, p.Why = false, "it was "+stopped.Error()
		code = 128 + int(stopped.signal)
	} else if !p.Complete && code != exitTimeout {
		code = exitIncomplete
	}
	r.seen.Preview = p.Preview
	if err := r.show(ctx, p, s.Workspace); err != nil {
		return code, err
	}
	if !r.cli.Bool("apply") {
		return code, nil
	}
	if !p.Complete {
		return code, errors.New("nothing was applied: the preview is not complete")
	}
	return code, r.apply(ctx, p)
}

// show prints what was seen.
func (r *previewRun) show(ctx context.Context, p *pipeline.Previewed, workspace string) error {
	if r.json {
		var diff bytes.Buffer
		err := p.WriteDiff(ctx, &diff, effects.OnTerminal(false))
		r.seen.Diff = diff.String()
		return err
	}
	tty := term.IsTerminal(int(os.Stdout.Fd()))
	v := effects.OnTerminal(tty && os.Getenv("NO_COLOR") == "")
	out, done := io.Writer(os.Stdout), func() error { return nil }
	if tty && !r.cli.Bool("no-pager") {
		out, done = pager(workspace)
	}
	fmt.Fprintln(out)
	err := p.WriteSummary(ctx, out, v)
	if err == nil && !r.cli.Bool("stat") && p.Changed() {
		fmt.Fprintln(out)
		err = p.WriteDiff(ctx, out, v)
	}
	err = errors.Join(err, done())
	if errors.Is(err, os.ErrClosed) || isBrokenPipe(err) {
		return nil // the pager was left early
	}
	return err
}

// apply carries out what was seen.
func (r *previewRun) apply(ctx context.Context, p *pipeline.Previewed) error {
	report, err := p.Apply(ctx)
	if report == nil {
		return fmt.Errorf("nothing was applied: %w", err)
	}
	r.seen.Report = report
	if !r.json {
		printReport(os.Stderr, report)
	}
	if err == nil && !clean(report) {
		err = errors.New("not all of it was applied")
		if !r.cli.IsSet("session") {
			err = fmt.Errorf("%w: run the command with sallyport exec, and name what is to leave with sallyport apply", err)
		}
	}
	return err
}
