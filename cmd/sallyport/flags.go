package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/native"
)

// Flags that say which session is meant.
func sessionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "w", Usage: "the workspace `DIR`", DefaultText: "the current directory"},
		&cli.StringFlag{Name: "session", Usage: "the session's `NAME`", DefaultText: "that of the workspace"},
	}
}

// printed is a path as it is shown.
func printed(path string) string { return changeset.Printable(path) }

// shellQuoted is a word as a shell reads it.
func shellQuoted(s string) string {
	if s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/+:,@%") == "" {
		return s
	}
	if changeset.Printable(s) != s {
		return "DIR" // it could not be copied from a terminal anyway
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON"}
}

// Flags that say what a session is created with and limited to. What --deny does
// depends on whose the commands are.
func boxFlags(deny string) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "workspace", Usage: "`cow`: changes stay in the session until they are applied; direct: the real directory is writable", DefaultText: "cow"},
		&cli.StringSliceFlag{Name: "expose", Usage: "show the session `DIR` too, read-only, or with DIR:cow with a private layer to write to; or a preset: " + strings.Join(sandbox.Presets(), ", ")},
		&cli.StringSliceFlag{Name: "deny", Usage: deny},
		&cli.StringFlag{Name: "memory", Usage: "limit the session's memory to `SIZE` (512m, 4g)", DefaultText: "3/4 of the machine's"},
		&cli.Float64Flag{Name: "cpus", Usage: "limit the session to `N` processors", DefaultText: "no limit"},
		&cli.Int64Flag{Name: "pids", Usage: "limit the session to `N` processes and threads", DefaultText: strconv.Itoa(sandbox.DefaultPids)},
		&cli.StringFlag{Name: "disk", Usage: "limit what the session's layers hold to `SIZE`", DefaultText: "10g"},
	}, settingsFlags()...)
}

// options reads the flags of sessionFlags and, where a command has them,
// boxFlags.
func options(c *cli.Context) (pipeline.Options, error) {
	o := pipeline.Options{Name: c.String("session"), Workspace: c.String("w"), Driver: native.Driver{}}
	for _, name := range []string{"session", "w"} {
		if c.IsSet(name) && c.String(name) == "" {
			return o, usageError(c, "%s is empty", dashes(name))
		}
	}
	store, err := openStore()
	if err != nil {
		return o, err
	}
	o.Store = store
	o.Mode = sandbox.WorkspaceMode(c.String("workspace"))
	if o.Mode != "" && o.Mode != sandbox.Cow && o.Mode != sandbox.Direct {
		return o, usageError(c, "--workspace %s: use cow or direct", o.Mode)
	}
	o.Limits.CPUs, o.Limits.Pids = c.Float64("cpus"), c.Int64("pids")
	if o.Limits.Memory, err = size(c.String("memory")); err != nil {
		return o, usageError(c, "--memory: %w", err)
	}
	if o.Limits.Disk, err = size(c.String("disk")); err != nil {
		return o, usageError(c, "--disk: %w", err)
	}
	if c.IsSet("cpus") && o.Limits.CPUs <= 0 || c.IsSet("pids") && o.Limits.Pids <= 0 {
		return o, usageError(c, "a limit must be more than 0")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/nonexistent"
	}
	for _, arg := range c.StringSlice("expose") {
		e, err := sandbox.ResolveExpose(arg, home, os.Getenv)
		if err != nil {
			return o, err
		}
		o.Expose = append(o.Expose, *e)
	}
	return o, denials(c, &o)
}

// denials reads --deny. Where a command's calls are not those of an agent, only
// rules of files mean something.
func denials(c *cli.Context, o *pipeline.Options) error {
	for _, text := range c.StringSlice("deny") {
		rule, err := permission.ParseRule(text, permission.Deny, permission.FromCLI)
		if err != nil {
			return usageError(c, "--deny: %w", err)
		}
		if ofUser(c.Command) && !rule.OfFiles() {
			return usageError(c, "--deny %s: use Read(PATTERN) or Edit(PATTERN), of paths in the workspace", text)
		}
		o.Rules = append(o.Rules, rule)
	}
	return nil
}

// ofUser reports whether what a command runs is the user's own, and not an agent's.
func ofUser(c *cli.Command) bool { return c.Name == "exec" || c.Name == "preview" }

// size reads a number of bytes with an optional unit.
func size(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	number := strings.TrimRight(strings.ToLower(s), "bi")
	shift := 0
	if number != "" {
		if i := strings.IndexByte("kmgt", number[len(number)-1]); i >= 0 {
			shift, number = 10*(i+1), number[:len(number)-1]
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	n := f * float64(int64(1)<<shift)
	if err != nil || f <= 0 || n >= 1<<62 {
		return 0, fmt.Errorf("%q is no size: use a number of bytes, or one with k, m, g or t", s)
	}
	return int64(n), nil
}

// stored holds the session that the flags name. It must exist.
func stored(c *cli.Context) (*pipeline.Stored, error) {
	o, err := options(c)
	if err != nil {
		return nil, err
	}
	name, err := sessionName(&o)
	if err != nil {
		return nil, err
	}
	s, err := pipeline.Hold(pipeline.Options{Store: o.Store, Name: name, Existing: true, Driver: o.Driver})
	return s, explainNone(err, c, o.Store, name)
}

// looked reads the session that the flags name without holding it.
func looked(c *cli.Context) (*sandbox.Stored, error) {
	o, err := options(c)
	if err != nil {
		return nil, err
	}
	name, err := sessionName(&o)
	if err != nil {
		return nil, err
	}
	s, err := o.Store.Look(name)
	return s, explainNone(err, c, o.Store, name)
}

func sessionName(o *pipeline.Options) (string, error) {
	if o.Name != "" {
		return o.Name, sandbox.CheckName(o.Name)
	}
	workspace, err := sandbox.ResolveWorkspace(o.Workspace)
	return pipeline.SessionName(workspace), err
}

// explainNone says what can be done about a session that does not exist.
func explainNone(err error, c *cli.Context, st *sandbox.Store, name string) error {
	if !errors.Is(err, sandbox.ErrNoSession) {
		return err
	}
	if c.String("session") != "" || c.Args().Present() && c.Command.Name != "diff" && c.Command.Name != "apply" && c.Command.Name != "discard" {
		return fmt.Errorf("there is no session %s; see sallyport sessions ls", name)
	}
	workspace, err := sandbox.ResolveWorkspace(c.String("w"))
	if err != nil {
		return err
	}
	list, err := st.List()
	if err != nil {
		return err
	}
	for _, s := range list {
		if _, err := s.Relative(workspace, "/"); err == nil {
			return fmt.Errorf("there is no session of %s, but %s is of %s: name it with --session, or go there", printed(workspace), s.Name, printed(s.Workspace))
		}
	}
	return fmt.Errorf("there is no session of %s: begin one with sallyport exec -- COMMAND, or see sallyport sessions ls", printed(workspace))
}
