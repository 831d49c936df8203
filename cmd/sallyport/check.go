package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "say how a tool call would be decided on",
		ArgsUsage: "TOOL JSON",
		Description: "Prints what would be decided on a call, by which rule, mode or judgement, and what the kernel would hold it\n" +
			"to. Nothing is run, and nobody is asked: ask stands for whatever would be asked about. JSON is the call's\n" +
			"input; - reads it from standard input. Any tool can be named: one that sallyport does not have counts as\n" +
			"writing. The session is taken to be sealed, with its workspace copy-on-write.\n\n" +
			"   sallyport check --allow 'Bash(git *)' Bash '{\"command\": \"git push && rm -rf x\"}'\n" +
			"   sallyport check --deny 'Read(.env)' Read '{\"file_path\": \".env\"}'\n\n" +
			"With --json it is {behavior, reason, chain: [{layer, source, rule, answer}], envelope}; envelope is null where\n" +
			"the call would not run, and its writable null where it may write what the session may. Hooks are not run.\n" +
			"The exit code is 0 whatever is decided.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "w", Usage: "the workspace `DIR`", DefaultText: "the current directory"},
			&cli.StringFlag{Name: "C", Usage: "the working directory `DIR` in it", DefaultText: "the workspace"},
			&cli.StringSliceFlag{Name: "deny", Usage: "deny what `RULE` names, whatever allows it"},
			jsonFlag(),
		}, slices.Concat(ruleFlags(), settingsFlags())...),
		BashComplete: completeTools,
		Action:       runCheck,
	}
}

func runCheck(c *cli.Context) error {
	if c.Args().Len() < 1 || c.Args().Len() > 2 {
		return usageError(c, "a tool and its input are needed")
	}
	input, err := jsonArg(c, 1)
	if err != nil {
		return err
	}
	j, err := openJudge(c, c.String("w"))
	if err != nil {
		return err
	}
	defer j.Close()
	j.Policy.Sealed = true
	if err := j.Policy.Check(); err != nil {
		return err
	}
	if dir := c.String("C"); filepath.IsAbs(dir) {
		j.Dir = filepath.Clean(dir)
	} else if dir != "" {
		j.Dir = filepath.Join(j.Policy.Workspace, dir)
	}
	got, err := j.Judge.Judge(c.Args().First(), input)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		result := judgementJSON(got)
		result.Unheard = j.unheard
		return printJSON(result)
	}
	printJudgement(got)
	if j.unheard > 0 {
		complain(tools.Count(j.unheard, "hook") + " of the settings would have a say before the call; none is run here")
	}
	return nil
}

// jsonArg is the input of a tool that stands at an argument, or comes from standard
// input where that is "-".
func jsonArg(c *cli.Context, at int) ([]byte, error) {
	switch text := c.Args().Get(at); text {
	case "":
		return []byte("{}"), nil
	case "-":
		input, err := io.ReadAll(io.LimitReader(os.Stdin, mostStdin))
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return input, nil
	default:
		return []byte(text), nil
	}
}

// judgement is what check --json prints.
type judgement struct {
	Behavior permission.Behavior `json:"behavior"`
	Reason   string              `json:"reason"`
	Chain    []judgementStep     `json:"chain"`
	Safety   *permission.Safety  `json:"safety,omitempty"`
	Rule     string              `json:"rule,omitempty"` // that a yes for the session would allow
	Envelope *envelopeResult     `json:"envelope"`       // null: it would not run in the session
	Unheard  int                 `json:"hooks_not_run,omitempty"`
}

// judgementStep has all fields, also those that are empty.
type judgementStep struct {
	Layer  string `json:"layer"`
	Source string `json:"source"`
	Rule   string `json:"rule"`
	Answer string `json:"answer"`
}

func judgementJSON(j *pipeline.Judgement) *judgement {
	r := &judgement{Behavior: j.Behavior, Reason: j.Reason, Chain: []judgementStep{}, Safety: j.Safety, Rule: j.Rule, Envelope: envelopeOf(j.Envelope)}
	for _, s := range j.Chain {
		r.Chain = append(r.Chain, judgementStep(s))
	}
	return r
}

func printJudgement(j *pipeline.Judgement) {
	fmt.Printf("%s: %s\n", j.Behavior, printed(j.Reason))
	for _, s := range j.Chain {
		words := []string{s.Layer}
		if s.Rule != "" {
			words = append(words, printed(s.Rule))
		}
		if s.Source != "" {
			words = append(words, "("+permission.Source(s.Source).String()+")")
		}
		fmt.Printf("  %-5s %s\n", s.Answer, strings.Join(words, " "))
	}
	if j.Envelope != nil {
		fmt.Printf("  it runs in %s\n", heldTo(j.Envelope))
	}
	if j.Rule != "" {
		fmt.Printf("  it would be allowed by: --allow %s\n", shellQuoted(j.Rule))
	}
}

// heldTo is what a call is held to, in words.
func heldTo(e *sandbox.Envelope) string {
	text := "the " + e.Box.String()
	switch {
	case e.Box == sandbox.Eye:
		text += ", where nothing can be written"
	case e.Writable == nil:
		text += ", and may write what the session may"
	case len(e.Writable) == 0:
		text += ", and may write nothing"
	default:
		paths := make([]string, len(e.Writable))
		for i, path := range e.Writable {
			paths[i] = printed(path)
		}
		text += ", and may write " + strings.Join(paths, ", ")
	}
	return text + "; no network"
}
