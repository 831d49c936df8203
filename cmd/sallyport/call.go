package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/bash"
)

func callCommand() *cli.Command {
	return &cli.Command{
		Name:      "call",
		Usage:     "run one tool call of an agent",
		ArgsUsage: "TOOL JSON",
		Description: "Runs one call of a tool as an agent would make it: it passes the pipeline, is decided on by --mode and the\n" +
			"rules, and runs in the session of this directory. JSON is the tool's input; - reads it from standard input.\n" +
			"See sallyport tools for the tools and their inputs.\n\n" +
			"   sallyport call Read '{\"file_path\": \"go.mod\"}'\n" +
			"   sallyport call Bash '{\"command\": \"go vet ./...\"}' --allow 'Bash(go vet *)'\n\n" +
			"The working directory and which files were read are kept for the next call in the same session. The exit\n" +
			"code is 0, 1 when the tool failed, 126 when the call was denied, 130 when it was interrupted.",
		Flags:        agentFlags(jsonFlag()),
		BashComplete: completeTools,
		Action:       runCall,
	}
}

func runCall(c *cli.Context) error {
	if c.Args().Len() < 1 || c.Args().Len() > 2 {
		return usageError(c, "a tool and its input are needed")
	}
	input, err := jsonArg(c, 1)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	r, err := openAgent(ctx, c)
	if err != nil {
		return err
	}
	if r.pipeline.Prompter = r.prompter(); r.pipeline.Prompter != nil && !c.Bool("save") {
		r.pipeline.Prompter = oneCall{r.pipeline.Prompter}
	}
	o := r.pipeline.Run(ctx, pipeline.Use{ID: "call", Name: c.Args().First(), Input: input})
	if out, ok := o.Data.(bash.Output); ok && out.OutputFile != "" {
		complain("what runs in the background ends with this call; sallyport agent and mcp go on with it to the next")
	}
	if !c.Bool("json") && o.Envelope != nil && o.Envelope.Box == sandbox.Hand {
		r.hintChanges()
	}
	if err := r.close(); err != nil {
		complain(err.Error())
	}
	if c.Bool("json") {
		if err := printJSON(outcomeJSON(o)); err != nil {
			return err
		}
	} else {
		printOutcome(o)
	}
	switch {
	case errors.As(o.Err, new(*pipeline.DeniedError)):
		return exitCode(exitDenied)
	case ctx.Err() != nil:
		return exitCode(130)
	case o.IsError:
		return exitCode(1)
	}
	return nil
}

// oneCall asks without offering an answer for the rest of the session: there are no
// other calls that it could be for.
type oneCall struct{ permission.Prompter }

func (p oneCall) Ask(ctx context.Context, q *permission.Prompt) (permission.Answer, error) {
	once := *q
	once.Rule, once.CanSave = "", false
	return p.Prompter.Ask(ctx, &once)
}

// mostStdin is the largest input that is read from standard input, in bytes.
const mostStdin = 64 << 20

// printOutcome prints a result on standard output, and one that failed on
// standard error.
func printOutcome(o *pipeline.Outcome) {
	for _, note := range o.Notes {
		complain(note)
	}
	out := os.Stdout
	if o.IsError {
		out = os.Stderr
	}
	if text := o.Text(); text != "" {
		fmt.Fprintln(out, shown(text))
	}
	for _, message := range o.Messages {
		fmt.Fprintln(os.Stderr, shown(message))
	}
}

// callResult is what call --json prints.
type callResult struct {
	Tool     string           `json:"tool"`
	Decision *decisionResult  `json:"decision,omitempty"` // none: the call did not come so far
	Envelope *envelopeResult  `json:"envelope,omitempty"` // none: it did not run
	Applied  bool             `json:"applied,omitempty"`  // what a preview had done was: it did not run again
	Result   toolResult       `json:"result"`
	Data     any              `json:"data,omitempty"`
	Notes    []string         `json:"notes,omitempty"`
	Messages []string         `json:"messages,omitempty"`
	Micros   map[string]int64 `json:"duration_us"`
}

type decisionResult struct {
	Behavior permission.Behavior `json:"behavior"`
	Reason   string              `json:"reason"`
	Chain    []permission.Step   `json:"chain"`
}

type envelopeResult struct {
	Box string `json:"box"`
	// Writable is all that may be written; null is what the session may.
	Writable []string `json:"writable"`
	Network  string   `json:"network"`
	Time     string   `json:"time"`
}

func decisionOf(d *permission.Decision) decisionResult {
	return decisionResult{d.Behavior, d.Reason, d.Chain}
}

func envelopeOf(e *sandbox.Envelope) *envelopeResult {
	if e == nil {
		return nil
	}
	r := &envelopeResult{Box: e.Box.String(), Writable: e.Writable, Network: "none", Time: e.Time.String()}
	if e.Box == sandbox.Eye {
		r.Writable = []string{}
	}
	return r
}

// toolResult is a tool_result block of the Messages API.
type toolResult struct {
	Type    string        `json:"type"`
	UseID   string        `json:"tool_use_id,omitempty"`
	Content []tools.Block `json:"content"`
	IsError bool          `json:"is_error,omitempty"`
}

func resultOf(o *pipeline.Outcome) toolResult {
	return toolResult{Type: "tool_result", UseID: o.Use.ID, Content: o.Blocks, IsError: o.IsError}
}

func outcomeJSON(o *pipeline.Outcome) *callResult {
	r := &callResult{
		Tool: o.Tool, Applied: o.Applied, Result: resultOf(o), Data: o.Data, Notes: o.Notes, Messages: o.Messages,
		Micros: map[string]int64{"total": o.Duration.Microseconds(), "call": o.Ran.Microseconds(), "asked": o.Asked.Microseconds()},
	}
	if r.Tool == "" {
		r.Tool = o.Use.Name
	}
	if d := o.Decision; d != nil {
		decision := decisionOf(d)
		r.Decision = &decision
	}
	r.Envelope = envelopeOf(o.Envelope)
	return r
}

// held is how a call was held, in a word or two.
func held(e *sandbox.Envelope) string {
	if e == nil {
		return "host"
	}
	return e.Box.String()
}
