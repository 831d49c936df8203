package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/pipeline/hooks"
	"github.com/sallyport/sallyport/sandbox"
)

// begin has the hooks of the settings take part, and tells them that the session
// begins.
func (r *agentRun) begin(ctx context.Context, list []settings.Hook) error {
	if len(list) == 0 {
		return nil
	}
	box := hooks.Place(&hooks.Box{Session: r.session})
	if r.cli.Bool("hooks-on-host") {
		if r.session.Mode == sandbox.Direct && slices.ContainsFunc(list, hooks.OfWorkspace) {
			return errors.New("--hooks-on-host is not for sessions in the real directory, where an agent could change what the hooks run; use --workspace cow")
		}
		box = nil
	}
	h, err := hooks.New(list, &hooks.Host{Workspace: r.session.Workspace}, box)
	if err != nil {
		return err
	}
	r.pipeline.Hooks, r.ctx, r.began = h, ctx, true
	source := "resume"
	if r.session.Stored().Created {
		source = "startup"
	}
	notes, err := r.pipeline.Begin(ctx, source)
	for _, note := range notes {
		complain(note)
	}
	return err
}

// lastHooks is how long the hooks of the end may take after an interrupt.
const lastHooks = 5 * time.Second

// finish tells the hooks that the session ends.
func (r *agentRun) finish() {
	if !r.began {
		return
	}
	ctx := r.ctx
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastHooks)
		defer cancel()
	}
	notes, err := r.pipeline.Finish(ctx, "other")
	if err != nil {
		notes = append(notes, err.Error())
	}
	for _, note := range notes {
		complain(note)
	}
}

func hookCommand() *cli.Command {
	return &cli.Command{
		Name:  "hook",
		Usage: "decide on another agent's tool calls, as a hook of its own",
		// A misspelt name must not let every call through either.
		OnUsageError: func(c *cli.Context, err error, sub bool) error { return blocked(wrongUsage(c, err, sub)) },
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return blocked(usageError(c, "no hook %q; there is pre-tool-use", c.Args().First()))
			}
			return cli.ShowSubcommandHelp(c)
		},
		Subcommands: []*cli.Command{{
			Name:      "pre-tool-use",
			Usage:     "decide on the tool call that is described on standard input",
			ArgsUsage: " ",
			Description: "For agents that run their tools themselves: as a PreToolUse hook, it is given each call as JSON, and answers\n" +
				"allow, ask or deny by the rules of the settings and the flags. Nothing runs in a session, and nothing is held\n" +
				"by the kernel: what is allowed here runs as the agent runs it. The mode is the agent's own unless --mode is\n" +
				"given; bypassPermissions, which is for sealed sessions only, is taken as default.\n\n" +
				"   sallyport hook pre-tool-use --deny 'Read(.env)' --allow 'Bash(go test *)'\n\n" +
				"The exit code is 0; 2, which stops the call, when there is no decision: the input is none, or a settings file\n" +
				"is wrong. See docs/hooks.md.",
			Flags: append([]cli.Flag{
				&cli.StringFlag{Name: "w", Usage: "the workspace `DIR`", DefaultText: "CLAUDE_PROJECT_DIR, or the agent's working directory"},
				&cli.StringSliceFlag{Name: "deny", Usage: "deny what `RULE` names, whatever allows it"},
				&cli.DurationFlag{Name: "within", Value: 20 * time.Second, Usage: "stop the call if it is not decided on within `TIME`, which must be less than the agent gives its hooks"},
			}, slices.Concat(ruleFlags(), settingsFlags())...),
			OnUsageError: func(c *cli.Context, err error, sub bool) error { return blocked(wrongUsage(c, err, sub)) },
			BashComplete: completeFlags,
			Action: func(c *cli.Context) error {
				err := inTime(c.Duration("within"), func() error { return runPreToolUse(c) })
				if err != nil {
					return blocked(err)
				}
				return nil
			},
		}},
	}
}

// exitBlocked is what an agent takes as an objection; any other failure would let
// the call through.
const exitBlocked = 2

func blocked(err error) error {
	if errors.As(err, new(exitCode)) {
		return exitCode(exitBlocked)
	}
	complain(err.Error())
	return exitCode(exitBlocked)
}

// inTime decides, or blocks when that takes too long: an agent whose hook takes
// longer than it waits lets the call through. Files of a workspace that nobody
// trusts can have tens of thousands of rules.
func inTime(within time.Duration, decide func() error) error {
	start := time.Now()
	late := func() error { return fmt.Errorf("it was not decided within %v", within) }
	timer := time.AfterFunc(within, func() { os.Exit(int(blocked(late()).(exitCode))) })
	defer timer.Stop()
	if err := decide(); err != nil {
		return err
	}
	if time.Since(start) >= within {
		return late()
	}
	return nil
}

// A preToolUse is what a PreToolUse hook answers.
type preToolUse struct {
	Specific preToolUseAnswer `json:"hookSpecificOutput"`
}

type preToolUseAnswer struct {
	Event    string              `json:"hookEventName"`
	Decision permission.Behavior `json:"permissionDecision"`
	Reason   string              `json:"permissionDecisionReason"`
}

func runPreToolUse(c *cli.Context) error {
	if c.Args().Present() {
		return usageError(c, "it takes no arguments: the call comes on standard input")
	}
	in, err := readHookInput(os.Stdin)
	if err != nil {
		return err
	}
	j, err := openJudge(c, hookWorkspace(c, in))
	if err != nil {
		return err
	}
	defer j.Close()
	j.Policy.Unheld = true
	said, err := hookMode(c, in, j.Policy, j.loaded)
	if err != nil {
		return err
	}
	names := aliases{filepath.Clean(hookWorkspace(c, in)): j.Policy.Workspace}
	if in.Dir != "" {
		j.Dir = filepath.Clean(in.Dir)
		if real, err := filepath.EvalSymlinks(j.Dir); err == nil {
			names[j.Dir] = real
			j.Dir = real
		}
	}
	j.Links = names.followed(j.Links)
	got, err := j.Judge.Judge(in.Tool, in.ToolInput)
	if err != nil {
		return err
	}
	answer := preToolUseAnswer{Event: "PreToolUse", Decision: got.Behavior, Reason: got.Reason}
	if said != "" {
		complain(said)
		answer.Reason += "; " + said
	}
	return printJSON(preToolUse{answer})
}

// readHookInput reads the call that a hook is told of.
func readHookInput(from io.Reader) (*hooks.Input, error) {
	data, err := io.ReadAll(io.LimitReader(from, mostStdin+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("standard input: %w", err)
	case len(data) > mostStdin:
		return nil, fmt.Errorf("standard input has more than %d bytes", mostStdin)
	}
	in := &hooks.Input{}
	err = json.Unmarshal(data, in)
	if err == nil {
		err = hooks.KeysOnce(data, 1)
	}
	if err != nil {
		return nil, fmt.Errorf("standard input is not the JSON of a hook's input: %w", err)
	}
	switch {
	case in.Event != "" && in.Event != "PreToolUse":
		return nil, fmt.Errorf("the event is %q; this is a hook for PreToolUse", in.Event)
	case in.Tool == "":
		return nil, errors.New("the hook's input has no tool_name")
	case in.ToolInput == nil:
		return nil, errors.New("the hook's input has no tool_input")
	case in.Dir != "" && !filepath.IsAbs(in.Dir):
		return nil, fmt.Errorf("cwd is %q, which is not absolute", in.Dir)
	}
	return in, nil
}

// aliases are other names of directories: those that an agent has, with links in
// them.
type aliases map[string]string

// followed looks up where paths lead that may begin with such a name.
func (a aliases) followed(links func([]string) ([]string, error)) func([]string) ([]string, error) {
	return func(paths []string) ([]string, error) {
		paths = slices.Clone(paths)
		for i, path := range paths {
			for alias, real := range a {
				if path == alias || strings.HasPrefix(path, alias+"/") {
					paths[i] = real + path[len(alias):]
				}
			}
		}
		return links(paths)
	}
}

// hookWorkspace is the directory that the agent works on.
func hookWorkspace(c *cli.Context, in *hooks.Input) string {
	if dir := os.Getenv("CLAUDE_PROJECT_DIR"); dir != "" && !c.IsSet("w") {
		return dir
	}
	if c.IsSet("w") {
		return c.String("w")
	}
	return in.Dir
}

// hookMode makes the policy's mode the agent's, unless the flags have one, and
// returns what there is to say of it.
func hookMode(c *cli.Context, in *hooks.Input, p *permission.Policy, l *loaded) (said string, err error) {
	mode := in.Mode
	if c.IsSet("mode") {
		mode = p.Mode
	}
	switch {
	case mode == "":
		mode = p.Mode
	case c.IsSet("mode") && !slices.Contains(permission.Modes, mode):
		return "", usageError(c, "no mode %q", mode)
	case c.IsSet("mode") && mode == permission.Bypass:
		return "", usageError(c, "--mode %s is only for sealed sessions", mode)
	case !slices.Contains(permission.Modes, mode):
		said = fmt.Sprintf("the mode %.100q is not known and was taken as default", mode)
		mode = permission.Default
	}
	if mode == permission.Bypass {
		said = "the mode bypassPermissions is only for sealed sessions and was taken as default"
		mode = permission.Default
	}
	p.Mode = mode
	return said, l.CheckMode(mode)
}
