package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/pipeline/effects"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/tools"
)

// Exit codes of exec and preview, beside the command's own.
const (
	exitIncomplete = 123 // a preview is not all that the command would do
	exitTimeout    = 124 // as timeout(1)
	exitBoxFailed  = 125 // the session could not be started, or ended early
	exitDenied     = 126 // the command may not be run; also: it is no program
	exitNotFound   = 127 // there is no such command in the box
	// 128 and the signal's number: it was stopped by a signal to sallyport, as
	// 130 by SIGINT, or it ended by one itself
)

func execCommand() *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run a command in a session",
		ArgsUsage: "-- COMMAND [ARG...]",
		Description: "Runs a command of yours in the session of this directory, which is made if there is none. It sees the\n" +
			"machine's programs and the workspace; no network, no home directory. What it changes stays in the session:\n" +
			"see sallyport diff, apply and discard. Processes that it leaves in the background end with it.\n\n" +
			"The exit code is the command's; 124 when its time limit has passed, 125 when the box failed, 126 when the\n" +
			"command was denied or cannot be executed, 127 when there is none of that name, 130 when it was interrupted.",
		Flags: append(append(sessionFlags(), boxFlags("hide what `RULE` names, as Read(.env) or Read(/secrets/**), or make it read-only: Edit(*.lock)")...),
			&cli.BoolFlag{Name: "new", Usage: "use a session of its own, which is removed at the end unless it has changes"},
			&cli.BoolFlag{Name: "t", Usage: "run the command on a terminal"},
			&cli.BoolFlag{Name: "i", Usage: "hand the command this command's standard input; without, it is empty"},
			&cli.BoolFlag{Name: "read-only", Usage: "run it in a read-only view of the session"},
			&cli.StringFlag{Name: "dir", Usage: "start in `DIR` of the session", DefaultText: "the current directory, or the workspace"},
			&cli.StringSliceFlag{Name: "env", Usage: "set `KEY=VALUE` in the command's environment; KEY alone takes the value from yours"},
			&cli.DurationFlag{Name: "timeout", Usage: "kill the command and all it started after `TIME` (90s, 10m)", DefaultText: "never"},
			&cli.DurationFlag{Name: "wait", Usage: "wait up to `TIME` for a session that is in use", DefaultText: "not at all"},
			&cli.StringFlag{Name: "apply", Value: "ask", Usage: "what to do with the changes at the end: `ask`, always or never; ask is never without a terminal"},
			jsonFlag(),
		),
		OnUsageError: func(c *cli.Context, err error, sub bool) error { return boxFailed(c, wrongUsage(c, err, sub)) },
		BashComplete: completeFlags,
		Action: func(c *cli.Context) error {
			err := runExec(c)
			if err == nil || errors.As(err, new(exitCode)) {
				return err
			}
			return boxFailed(c, err)
		},
	}
}

func runExec(c *cli.Context) error {
	args := c.Args().Slice()
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return usageError(c, "no command to run")
	}
	if apply := c.String("apply"); apply != "ask" && apply != "always" && apply != "never" {
		return usageError(c, "--apply %s: use ask, always or never", apply)
	}
	if c.Bool("json") && c.Bool("t") {
		return usageError(c, "--json and -t exclude each other")
	}
	if c.Bool("t") && !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("-t needs a terminal on standard input; leave it out, or use -i")
	}
	if c.IsSet("timeout") && c.Duration("timeout") <= 0 {
		return usageError(c, "--timeout %v: use a time of more than 0", c.Duration("timeout"))
	}
	env, err := environment(c)
	if err != nil {
		return err
	}
	o, err := options(c)
	if err != nil {
		return err
	}
	if c.Bool("new") {
		if o.Name == "" {
			o.Name = "run-" + time.Now().UTC().Format("20060102-150405.000000")
		}
		o.New = true
	}
	l, err := loadSettings(c, &o, o.Rules)
	if err != nil {
		return err
	}
	// Whoever reads the output may go; the session ends in order all the same.
	signal.Ignore(syscall.SIGPIPE)
	r := &execRun{cli: c, json: c.Bool("json"), env: env, signals: make(chan unix.Signal, 1)}
	ctx, stop := r.handleInterrupts()
	defer stop()

	s, err := openWithin(ctx, o, c.Duration("wait"))
	if errors.Is(err, sandbox.ErrExists) {
		return fmt.Errorf("%w; leave out --new to use it, or take another name with --session", err)
	}
	if err != nil {
		return err
	}
	if err := l.fits(s.Workspace); err != nil {
		return errors.Join(err, s.Close())
	}
	l.say()
	l.sayHidden(&o, s.Stored().Stored)
	exit, err := r.exec(ctx, s, args)
	stored, endErr := s.End()
	stop() // a question is left by ^C, as everywhere
	code := r.report(s.Stored().Stored, args[0], exit, err)
	if endErr != nil {
		complain(endErr.Error())
		code = exitBoxFailed
	}
	if err := r.finish(stored, c.Bool("new")); err != nil {
		complain(err.Error())
		if code == 0 {
			code = 1
		}
	}
	if r.unclean && code == 0 {
		code = 1
	}
	if r.json {
		r.result.Code = code
		if err := printJSON(r.result); err != nil {
			return err
		}
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// openWithin opens a session, and waits for one that is in use for at most as
// long as it is told to.
func openWithin(ctx context.Context, o pipeline.Options, wait time.Duration) (*pipeline.Session, error) {
	const again = 50 * time.Millisecond
	for end := time.Now().Add(wait); ; {
		s, err := pipeline.Open(ctx, o)
		if !errors.As(err, new(*sandbox.BusyError)) || time.Until(end) < again {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(again):
		}
	}
}

// boxFailed says why nothing was run.
func boxFailed(c *cli.Context, err error) error {
	complain(err.Error())
	if c.Bool("json") {
		return errors.Join(printJSON(execResult{Code: exitBoxFailed, Error: err.Error()}), exitCode(exitBoxFailed))
	}
	return exitCode(exitBoxFailed)
}

// environment reads --env.
func environment(c *cli.Context) ([]string, error) {
	var env []string
	for _, arg := range c.StringSlice("env") {
		name, _, hasValue := strings.Cut(arg, "=")
		if name == "" {
			return nil, usageError(c, "--env %s: use KEY=VALUE", arg)
		}
		if !hasValue {
			value, ok := os.LookupEnv(name)
			if !ok {
				return nil, usageError(c, "--env %s: it is not set here; use KEY=VALUE", arg)
			}
			arg = name + "=" + value
		}
		env = append(env, arg)
	}
	return env, nil
}

// started is when this process was.
var started = time.Now()

// execRun is one run of exec.
type execRun struct {
	cli     *cli.Context
	json    bool
	env     []string
	result  execResult
	tail    tail // of standard error, where a shell says what it did not find
	unclean bool // something that was to be applied was not
	running atomic.Bool
	stopped atomic.Pointer[interruptError] // the signal that sallyport got; nil if none
	signals chan unix.Signal               // to the command while it is running
}

// execResult is what exec --json prints.
type execResult struct {
	Session     string          `json:"session"`
	Code        int             `json:"exit_code"`
	Signal      string          `json:"signal,omitempty"`
	Error       string          `json:"error,omitempty"`
	Hint        string          `json:"hint,omitempty"`
	Stdout      string          `json:"stdout"`
	Stdout64    []byte          `json:"stdout_base64,omitempty"` // all of it, when it is no UTF-8
	Stderr      string          `json:"stderr"`
	Stderr64    []byte          `json:"stderr_base64,omitempty"`
	Quarantined []string        `json:"quarantined,omitempty"` // paths that appeared where nothing may
	Truncated   bool            `json:"truncated,omitempty"`   // output beyond 1 MiB each
	DurationMS  int64           `json:"duration_ms"`
	Changes     json.RawMessage `json:"changes,omitempty"`
	// Report says what became of the changes, if they were to be applied.
	Report *changeset.Report `json:"report,omitempty"`
}

// An interruptError is why a call ends that was stopped by a signal to
// sallyport.
type interruptError struct{ signal syscall.Signal }

func (e *interruptError) Error() string { return "stopped by " + e.signal.String() }

// grace is how long a command may take to end after a signal, before it is
// killed with all it has started.
const grace = 3 * time.Second

// handleInterrupts hands the first SIGINT, SIGTERM, SIGQUIT or SIGHUP to the
// call, which must then end within the grace, so that its end is on record. A
// second one ends the session. The returned function ends that.
func (r *execRun) handleInterrupts() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup has it ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		sig, ok := <-signals
		if !ok {
			return
		}
		stopped := &interruptError{sig.(syscall.Signal)}
		r.stopped.Store(stopped)
		if r.running.Load() {
			r.signals <- stopped.signal
			time.AfterFunc(grace, func() { cancel(stopped) })
		} else {
			cancel(stopped)
		}
		if sig, ok := <-signals; ok {
			// The session's processes end with this one.
			os.Exit(128 + int(sig.(syscall.Signal)))
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	})
}

func (r *execRun) exec(ctx context.Context, s *pipeline.Session, args []string) (*sandbox.Exit, error) {
	r.result.Session = s.Name
	cmd := sandbox.Command{
		Args: args, Dir: r.dir(s), Env: r.env,
		Stdout: os.Stdout, Stderr: io.MultiWriter(os.Stderr, &r.tail),
		Envelope: sandbox.Envelope{Time: r.cli.Duration("timeout")},
	}
	if r.cli.Bool("read-only") {
		cmd.Envelope.Box = sandbox.Eye
	}
	if r.cli.Bool("i") || r.cli.Bool("t") {
		in, stop, err := input(os.Stdin)
		if err != nil {
			return nil, err
		}
		defer stop()
		cmd.Stdin = in
	}
	var stdout, stderr effects.Capture
	if r.json {
		cmd.Stdout, cmd.Stderr = &stdout, io.MultiWriter(&stderr, &r.tail)
	}
	if r.cli.Bool("t") {
		terminal, restore, err := ownTerminal()
		if err != nil {
			return nil, err
		}
		defer restore()
		cmd.Terminal = terminal
		cmd.Stdout = io.MultiWriter(os.Stdout, &r.tail) // a terminal has one output
	}
	// What the user did to the workspace just before is known to be from before
	// the call.
	time.Sleep(time.Until(started.Add(changeset.Settle)))
	start := time.Now()
	cmd.Signals = r.signals
	r.running.Store(true)
	exit, err := s.Exec(ctx, cmd)
	r.running.Store(false)
	r.result.DurationMS = time.Since(start).Milliseconds()
	r.result.Stdout, r.result.Stderr = stdout.String(), stderr.String()
	r.result.Stdout64, r.result.Stderr64 = stdout.NotText(), stderr.NotText()
	r.result.Truncated = stdout.Cut || stderr.Cut
	return exit, err
}

// dir is where the command starts: where the user is, if the session has that.
func (r *execRun) dir(s *pipeline.Session) string {
	if r.cli.IsSet("dir") {
		return r.cli.String("dir")
	}
	if wd, err := os.Getwd(); err == nil && !r.cli.IsSet("w") {
		if rel, err := s.Relative(wd, "/"); err == nil {
			return rel
		}
	}
	return ""
}

// report says how the command ended, if it was not by itself, and returns the
// exit code.
func (r *execRun) report(s *sandbox.Stored, program string, exit *sandbox.Exit, err error) int {
	say := func(format string, args ...any) {
		r.result.Error = fmt.Sprintf(format, args...)
		complain(r.result.Error)
	}
	hint := func(text string) {
		if text != "" {
			r.result.Hint = text
			complain(text)
		}
	}
	var start *sandbox.StartError
	var interrupt *interruptError
	switch {
	case errors.As(err, &start) && start.Dir:
		say("%s; name another with --dir", start)
		return exitBoxFailed
	case errors.As(err, &start):
		if !errors.Is(start.Errno, unix.ENOENT) {
			say("%s", start)
			return exitDenied
		}
		say("%s in the session", start) // outside there may well be one
		hint(hintFor(program))
		return exitNotFound
	case errors.Is(err, sandbox.ErrTime):
		say("the command was killed, with all it had started, after %v", r.cli.Duration("timeout"))
		return exitTimeout
	case errors.As(err, &interrupt):
		r.result.Error = interrupt.Error()
		return 128 + int(interrupt.signal)
	case isBrokenPipe(err):
		r.result.Error = "nobody reads the output"
		return 128 + int(syscall.SIGPIPE)
	case errors.Is(err, sandbox.ErrNotHeld):
		say("%v", err)
		return exitDenied
	case err != nil:
		say("%v", err)
		return exitBoxFailed
	}
	if exit.OutOfMemory > 0 {
		hint(fmt.Sprintf("the session's memory limit was reached and %s killed; raise it with --memory", tools.Count(exit.OutOfMemory, "process")))
	}
	r.result.Quarantined = exit.Quarantined
	for _, path := range exit.Quarantined {
		say("%s appeared, which is protected; it was moved to %s", path, filepath.Join(s.Dir(), sandbox.QuarantineDir))
	}
	if exit.Signal != 0 {
		r.result.Signal = unix.SignalName(exit.Signal)
	}
	if exit.Code == exitNotFound {
		if missing := r.tail.notFound(); missing != "" {
			hint(hintFor(missing))
		}
	}
	if exit.Code != 0 && r.tail.contains("not a git repository") {
		hint(gitHint(s))
	}
	if exit.Code != 0 && os.Geteuid() != 0 && r.tail.contains("Value too large for defined data type") {
		hint(fmt.Sprintf("a file of another group cannot be changed in a session of an ordinary user: only your own group %d is known inside; "+
			"find such files with: find . ! -group %[1]d", os.Getegid()))
	}
	return exit.Status()
}

// finish applies the changes if that is wanted, or says that there are some. A
// session of its own that has none is removed.
func (r *execRun) finish(s *pipeline.Stored, own bool) error {
	if s.Mode != sandbox.Cow {
		return s.Close()
	}
	ctx := context.Background()
	done := takesLong("reading the changes of session %s", s.Name)
	changes, err := s.Changes(ctx)
	done()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	n := len(changes.Set.Changes)
	if r.json {
		if r.result.Changes, err = json.Marshal(changes.Set.Changes); err != nil {
			return errors.Join(err, changes.Close(), s.Close())
		}
	}
	applied := false
	if n > 0 {
		applied, err = r.offer(ctx, s, changes)
	}
	err = errors.Join(err, changes.Close())
	if own && (n == 0 || applied) && err == nil {
		return s.Remove()
	}
	return errors.Join(err, s.Close())
}

// offer carries out the changes, as --apply says. It returns whether all were.
func (r *execRun) offer(ctx context.Context, s *pipeline.Stored, c *sandbox.Changes) (bool, error) {
	n := len(c.Set.Changes)
	switch r.cli.String("apply") {
	case "always":
	case "never":
		return false, nil
	default:
		if r.json || r.cli.Bool("read-only") {
			return false, nil
		}
		if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stderr.Fd())) {
			fmt.Fprintf(os.Stderr, "sallyport: %s in session %s: sallyport diff%s, sallyport apply%[3]s\n", tools.Count(n, "change"), s.Name, r.which())
			return false, nil
		}
		yes, err := askApply(c, s.Workspace)
		if err != nil || !yes {
			fmt.Fprintf(os.Stderr, "sallyport: %s kept in session %s: sallyport diff%s, sallyport apply%[3]s, sallyport discard%[3]s\n", tools.Count(n, "change"), s.Name, r.which())
			return false, err
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	done := takesLong("applying to %s", s.Workspace)
	report, err := s.Apply(ctx, c, sandbox.ApplyOptions{})
	done()
	if report != nil {
		r.result.Report, r.unclean = report, !clean(report)
		if !r.json {
			printReport(os.Stderr, report)
		}
	}
	return err == nil && report != nil && clean(report), err
}

// which names the session to other commands, as far as that is needed.
func (r *execRun) which() string {
	switch {
	case r.cli.IsSet("session") || r.cli.Bool("new"):
		return " --session " + r.result.Session
	case r.cli.IsSet("w"):
		return " -w " + shellQuoted(r.cli.String("w"))
	}
	return ""
}
