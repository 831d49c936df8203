package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/pipeline/approval"
	"github.com/sallyport/sallyport/pipeline/classifier"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/builtin"
)

// Flags that say what an agent's calls may do.
func ruleFlags() []cli.Flag {
	var modes []string
	for _, m := range permission.Modes {
		modes = append(modes, string(m))
	}
	return []cli.Flag{
		&cli.StringFlag{Name: "mode", DefaultText: "that of the settings, or " + string(permission.Default) + "; for mcp and agent auto, where the workspace is copy-on-write", Usage: "what happens to calls that no rule decides: `MODE` is one of " + strings.Join(modes, ", ")},
		&cli.StringSliceFlag{Name: "allow", Usage: "allow what `RULE` names: Tool or Tool(content), as Bash(go test *) or Edit(/src/**)"},
		&cli.StringSliceFlag{Name: "ask", Usage: "ask about what `RULE` names, whatever allows it; unproven: about what is not known to be read-only, also when a run in a copy of the session has changed nothing"},
	}
}

// policyFlags are ruleFlags, and who answers what is asked.
func policyFlags() []cli.Flag {
	return append(ruleFlags(),
		&cli.BoolFlag{Name: "save", Usage: "write what is allowed for the session to the workspace's local settings too"},
		&cli.DurationFlag{Name: "answer-within", Usage: "wait up to `TIME` for somebody to answer a question with sallyport approve", DefaultText: "5m for mcp; otherwise not at all without a terminal"},
	)
}

// agentFlags are the flags of commands that run an agent's calls.
func agentFlags(more ...cli.Flag) []cli.Flag {
	flags := append(sessionFlags(), boxFlags("deny what `RULE` names, whatever allows it: Bash(rm *), Edit; files of Read(.env) are hidden from programs too, those of Edit(*.lock) read-only")...)
	flags = append(flags, policyFlags()...)
	flags = append(flags, &cli.BoolFlag{Name: "hooks-on-host", Usage: "run the hooks of the workspace's settings on this machine, outside of the session"})
	flags = append(flags,
		&cli.BoolFlag{Name: "no-precompute", Usage: "run a call that was allowed, even if a run in a copy of the session has shown all that it does"},
		&cli.BoolFlag{Name: "no-preview", Usage: "run nothing in a copy of the session before it is asked about"},
	)
	flags = append(flags, &cli.BoolFlag{Name: "new", Usage: "use a session of its own, which is removed at the end unless it has changes"})
	return append(flags, more...)
}

// flagRules reads the rules of policyFlags, beside those of --deny.
func flagRules(c *cli.Context, denied []permission.Rule) ([]permission.Rule, error) {
	rules := slices.Clone(denied)
	for _, of := range []struct {
		flag     string
		behavior permission.Behavior
	}{{"ask", permission.Ask}, {"allow", permission.Allow}} {
		for _, text := range c.StringSlice(of.flag) {
			if of.behavior == permission.Ask && text == unproven {
				continue // no rule; see policy
			}
			rule, err := permission.ParseRule(text, of.behavior, permission.FromCLI)
			if err != nil {
				return nil, usageError(c, "--%s: %w", of.flag, err)
			}
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

// unproven is what --ask takes beside rules.
const unproven = "unproven"

// policy reads the flags of policyFlags and the settings. What the rules deny is
// the session's too: see loadSettings.
func policy(c *cli.Context, o *pipeline.Options) (*permission.Policy, *loaded, error) {
	rules, err := flagRules(c, o.Rules)
	if err != nil {
		return nil, nil, err
	}
	l, err := loadSettings(c, o, rules)
	if err != nil {
		return nil, nil, err
	}
	mode, err := l.mode(c)
	if err != nil {
		return nil, nil, err
	}
	return &permission.Policy{Mode: mode, Rules: l.Rules, AskUnproven: slices.Contains(c.StringSlice("ask"), unproven)}, l, nil
}

// An agentRun is a session that an agent's calls run in.
type agentRun struct {
	cli      *cli.Context
	session  *pipeline.Session
	pipeline *pipeline.Pipeline
	own      bool // --new

	ctx   context.Context // ends when the user interrupts
	began bool            // hooks know of it
}

// openAgent opens the session and the pipeline that the flags describe.
func openAgent(ctx context.Context, c *cli.Context) (*agentRun, error) {
	if c.IsSet("answer-within") && c.Duration("answer-within") < 0 {
		return nil, usageError(c, "--answer-within %v: use a time", c.Duration("answer-within"))
	}
	o, err := options(c)
	if err != nil {
		return nil, err
	}
	if c.Bool("new") {
		o.New = true
		if o.Name == "" {
			o.Name = ownName()
		}
	}
	rules, l, err := policy(c, &o)
	if err != nil {
		return nil, err
	}
	set := tools.NewSet(builtin.All()...)
	if err := checkTools(c, rules.Rules, set); err != nil {
		return nil, err
	}
	s, err := pipeline.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &agentRun{cli: c, session: s, own: c.Bool("new")}
	if takesAuto(c, l, s) {
		rules.Mode = permission.Auto
	}
	if r.pipeline, err = pipeline.New(s, set, rules); err != nil {
		return nil, errors.Join(err, r.close())
	}
	if err := l.fits(s.Workspace); err != nil {
		return nil, errors.Join(err, r.close())
	}
	l.say()
	l.sayHidden(&o, s.Stored().Stored)
	r.pipeline.NoPreview, r.pipeline.NoPrecompute = c.Bool("no-preview"), c.Bool("no-precompute")
	if rules.Mode == permission.Auto {
		r.pipeline.Classifier = classifier.Fast{}
	}
	if canAsk() {
		r.pipeline.Context.UI.Status = func(text string) { complain(shown(text)) }
	}
	r.pipeline.Save, r.pipeline.Locked = l.save, l.RulesLocked != ""
	if c.Bool("save") {
		r.pipeline.SaveSession = permission.FromLocal
	}
	if err := r.begin(ctx, l.Hooks); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// takesAuto reports whether the mode is auto as nobody has said another: where many
// calls of an agent follow each other, in a session that what they do cannot leave.
func takesAuto(c *cli.Context, l *loaded, s *pipeline.Session) bool {
	return (c.Command.Name == "mcp" || c.Command.Name == "agent") && !c.IsSet("mode") && l.Mode == "" &&
		s.Mode == sandbox.Cow && !c.Bool("no-preview") && l.CheckMode(permission.Auto) == nil
}

// ownName is the name of a session that nobody has named.
func ownName() string { return "run-" + time.Now().UTC().Format("20060102-150405.000000") }

// close ends the session and keeps what the calls have left. A session of its
// own that has no changes is removed.
func (r *agentRun) close() error {
	var err error
	r.finish()
	if r.pipeline != nil {
		err = r.session.SaveState(r.pipeline.Context.State)
	}
	s, endErr := r.session.End()
	err = errors.Join(err, endErr)
	if r.own && s.Mode == sandbox.Direct {
		return errors.Join(err, s.Remove()) // it has nothing of its own
	}
	if r.own && s.Mode == sandbox.Cow {
		changes, changesErr := s.Changes(context.Background())
		if changesErr == nil {
			none := len(changes.Set.Changes) == 0
			if changesErr = changes.Close(); changesErr == nil && none {
				return errors.Join(err, s.Remove())
			}
		}
		err = errors.Join(err, changesErr)
	}
	return errors.Join(err, s.Close())
}

// hintChanges says how what the session has changed is seen and let out.
func (r *agentRun) hintChanges() {
	if r.session.Mode != sandbox.Cow {
		return
	}
	changes, err := r.session.Changes(context.Background())
	if err != nil {
		return
	}
	n := len(changes.Set.Changes)
	changes.Close()
	if n > 0 {
		which := sessionArgs(r.cli, r.session.Name, r.own)
		fmt.Fprintf(os.Stderr, "sallyport: %s in session %s: sallyport diff%s, sallyport apply%[3]s\n", tools.Count(n, "change"), r.session.Name, which)
	}
}

// sessionArgs names the session to other commands, as far as that is needed.
func sessionArgs(c *cli.Context, name string, own bool) string {
	switch {
	case c.IsSet("session") || own:
		return " --session " + name
	case c.IsSet("w"):
		return " -w " + shellQuoted(c.String("w"))
	}
	return ""
}

// prompter is who is asked: the person at this terminal, or one at another.
func (r *agentRun) prompter() permission.Prompter {
	if canAsk() && !r.cli.Bool("json") {
		return terminalPrompter{}
	}
	return r.queue(r.cli.Duration("answer-within"))
}

// queue asks whoever runs sallyport approve; nobody, if nothing is to wait.
func (r *agentRun) queue(within time.Duration) permission.Prompter {
	if within <= 0 {
		return nil
	}
	return &approval.Queue{Session: r.session.Dir(), Within: within, Asked: func(w approval.Waiting) {
		complain(fmt.Sprintf("%s waits for an answer until %s: sallyport approve %s", shown(w.Prompt.Title), w.Expires.Format(time.TimeOnly), w.ID))
	}}
}
