package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox"
)

// Exit codes of exec, beside the command's own.
const (
	exitTimeout     = 124 // as timeout(1)
	exitBoxFailed   = 125 // the session could not be started, or ended early
	exitDenied      = 126 // the command may not be run; also: it is no program
	exitNotFound    = 127 // there is no such command in the box
	exitInterrupted = 130 // it was stopped by SIGINT
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
		Flags: append(append(sessionFlags(), boxFlags()...),
			&cli.BoolFlag{Name: "new", Usage: "use a session of its own, which is removed at the end unless it has changes"},
			&cli.BoolFlag{Name: "t", Usage: "run the command on a terminal"},
			&cli.BoolFlag{Name: "i", Usage: "hand the command this command's standard input; without, it is empty"},
			&cli.BoolFlag{Name: "read-only", Usage: "run it in a read-only view of the session"},
			&cli.StringFlag{Name: "dir", Usage: "start in `DIR` of the session", DefaultText: "the current directory, or the workspace"},
			&cli.StringSliceFlag{Name: "env", Usage: "set `KEY=VALUE` in the command's environment"},
			&cli.DurationFlag{Name: "timeout", Usage: "kill the command and all it started after `TIME` (90s, 10m)", DefaultText: "never"},
			&cli.StringFlag{Name: "apply", Value: "ask", Usage: "what to do with the changes at the end: `ask`, always or never; ask is never without a terminal"},
			jsonFlag(),
		),
		Action: runExec,
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
	r := &execRun{cli: c, json: c.Bool("json")}
	ctx, stop := r.handleInterrupts()
	defer stop()

	s, err := pipeline.Open(ctx, o)
	if err != nil {
		return boxFailed(err)
	}
	exit, err := r.exec(ctx, s, args)
	stored, endErr := s.End()
	code := r.report(args[0], exit, err)
	if endErr != nil {
		fmt.Fprintln(os.Stderr, "sallyport:", endErr)
		code = exitBoxFailed
	}
	if err := r.finish(stored, c.Bool("new")); err != nil {
		fmt.Fprintln(os.Stderr, "sallyport:", err)
		if code == 0 {
			code = 1
		}
	}
	if r.json {
		r.result.Code = code
		if err := json.NewEncoder(os.Stdout).Encode(r.result); err != nil {
			return err
		}
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

func boxFailed(err error) error {
	fmt.Fprintln(os.Stderr, "sallyport:", err)
	return exitCode(exitBoxFailed)
}

// execRun is one run of exec.
type execRun struct {
	cli    *cli.Context
	json   bool
	result execResult
	tail   tail // of standard error, where a shell says what it did not find
}

// execResult is what exec --json prints.
type execResult struct {
	Session    string          `json:"session"`
	Code       int             `json:"exit_code"`
	Signal     string          `json:"signal,omitempty"`
	Error      string          `json:"error,omitempty"`
	Stdout     string          `json:"stdout"`
	Stderr     string          `json:"stderr"`
	Truncated  bool            `json:"truncated,omitempty"` // output beyond 1 MiB each
	DurationMS int64           `json:"duration_ms"`
	Changes    json.RawMessage `json:"changes,omitempty"`
	Applied    []string        `json:"applied,omitempty"`
}

// errInterrupted is why a call ends that was stopped by a signal.
var errInterrupted = errors.New("interrupted")

// handleInterrupts makes the first SIGINT or SIGTERM stop the call, and a
// second one the session.
func (r *execRun) handleInterrupts() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		cancel(errInterrupted)
		if _, ok := <-signals; ok {
			// The session's processes end with this one.
			os.Exit(exitInterrupted)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}

func (r *execRun) exec(ctx context.Context, s *pipeline.Session, args []string) (*sandbox.Exit, error) {
	r.result.Session = s.Name
	cmd := sandbox.Command{
		Args: args, Dir: r.dir(s), Env: r.cli.StringSlice("env"),
		Stdout: os.Stdout, Stderr: io.MultiWriter(os.Stderr, &r.tail),
		Envelope: sandbox.Envelope{Time: r.cli.Duration("timeout")},
	}
	if r.cli.Bool("read-only") {
		cmd.Envelope.Box = sandbox.Eye
	}
	if r.cli.Bool("i") {
		cmd.Stdin = os.Stdin
	}
	var stdout, stderr capture
	if r.json {
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
	}
	if r.cli.Bool("t") {
		terminal, restore, err := ownTerminal()
		if err != nil {
			return nil, err
		}
		defer restore()
		cmd.Stdin, cmd.Terminal = os.Stdin, terminal
	}
	start := time.Now()
	exit, err := s.Exec(ctx, cmd)
	r.result.DurationMS = time.Since(start).Milliseconds()
	r.result.Stdout, r.result.Stderr = stdout.String(), stderr.String()
	r.result.Truncated = stdout.cut || stderr.cut
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
func (r *execRun) report(program string, exit *sandbox.Exit, err error) int {
	say := func(format string, args ...any) {
		msg := fmt.Sprintf(format, args...)
		r.result.Error = msg
		fmt.Fprintln(os.Stderr, "sallyport:", msg)
	}
	var start *sandbox.StartError
	switch {
	case errors.As(err, &start):
		say("%s", start)
		if !errors.Is(start.Errno, unix.ENOENT) {
			return exitDenied
		}
		if hint := hintFor(program); hint != "" {
			say("%s", hint)
		}
		return exitNotFound
	case errors.Is(err, sandbox.ErrTime):
		say("the command was killed, with all it had started, after %v", r.cli.Duration("timeout"))
		return exitTimeout
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, sandbox.ErrNotHeld):
		say("%v", err)
		return exitDenied
	case err != nil:
		say("%v", err)
		return exitBoxFailed
	}
	for _, path := range exit.Quarantined {
		say("%s appeared, which is protected; it was moved to the session's directory quarantine", path)
	}
	if exit.Signal != 0 {
		r.result.Signal = unix.SignalName(exit.Signal)
	}
	if exit.Code == exitNotFound {
		if missing := r.tail.notFound(); missing != "" {
			if hint := hintFor(missing); hint != "" {
				say("%s", hint)
			}
		}
	}
	if exit.Code != 0 && os.Geteuid() != 0 && r.tail.contains("Value too large for defined data type") {
		say("a file of another group cannot be changed in a session of an ordinary user: only your own group %d is known inside; "+
			"find such files with: find . ! -group %d", os.Getegid(), os.Getegid())
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
	changes, err := s.Changes(ctx)
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
		if r.json {
			return false, nil
		}
		if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stderr.Fd())) {
			fmt.Fprintf(os.Stderr, "sallyport: %s in session %s: sallyport diff, sallyport apply\n", count(n, "change"), s.Name)
			return false, nil
		}
		yes, err := askApply(c, s.Workspace)
		if err != nil || !yes {
			fmt.Fprintf(os.Stderr, "sallyport: %s kept in session %s: sallyport diff, sallyport apply, sallyport discard\n", count(n, "change"), s.Name)
			return false, err
		}
	}
	report, err := s.Apply(ctx, c, sandbox.ApplyOptions{})
	if report != nil {
		r.result.Applied = report.Applied
		if !r.json {
			printReport(os.Stderr, report)
		}
	}
	return err == nil && report != nil && clean(report), err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// capture keeps the beginning of what is written.
type capture struct {
	bytes.Buffer
	cut bool
}

const mostCaptured = 1 << 20

func (c *capture) Write(p []byte) (int, error) {
	if room := mostCaptured - c.Len(); len(p) > room {
		c.cut = true
		c.Buffer.Write(p[:room])
		return len(p), nil
	}
	return c.Buffer.Write(p)
}

// tail keeps the end of what is written.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4096
	t.data = append(t.data, p...)
	if len(t.data) > most {
		t.data = append(t.data[:0], t.data[len(t.data)-most:]...)
	}
	return len(p), nil
}

func (t *tail) contains(s string) bool { return bytes.Contains(t.data, []byte(s)) }

// notFound returns the program that a shell says it did not find.
func (t *tail) notFound() string {
	for line := range strings.Lines(string(t.data)) {
		line = strings.TrimSpace(line)
		head, ok := strings.CutSuffix(line, ": command not found") // bash
		if !ok {
			head, ok = strings.CutSuffix(line, ": not found") // dash
		}
		if ok {
			return head[strings.LastIndexByte(head, ' ')+1:]
		}
	}
	return ""
}
