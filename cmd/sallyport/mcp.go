package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/pipeline/approval"
	"github.com/sallyport/sallyport/pipeline/mcpserver"
	"github.com/sallyport/sallyport/sandbox"
)

func mcpCommand() *cli.Command {
	return &cli.Command{
		Name:      "mcp",
		Usage:     "serve a session's tools to an agent's client (Model Context Protocol)",
		ArgsUsage: " ",
		Description: "Speaks the Model Context Protocol on standard input and output: an agent's client starts it, and gets the\n" +
			"tools of the session of the directory that it is started in. Every call is decided on by --mode and the rules;\n" +
			"what is to be asked is asked in the client where it can, or in another terminal: sallyport approve.\n\n" +
			"Each client has a session of its own: one that comes while another has the workspace's session gets a new\n" +
			"one, and says so on standard error. See docs/agents.md for the lines that set up clients.\n\n" +
			"A client that runs without a person (claude -p, codex exec) says no by itself to what it is asked: with\n" +
			"--elicit=false questions go to sallyport approve in any case.",
		Flags:        agentFlags(&cli.BoolFlag{Name: "elicit", Value: true, Usage: "ask in the client where it can ask its user (MCP elicitation), as it does unless --elicit=false is given"}),
		BashComplete: completeFlags,
		Action:       atMost(0, runMCP),
	}
}

func runMCP(c *cli.Context) error {
	signal.Ignore(syscall.SIGPIPE) // a client that goes is no reason to leave a mess
	ctx, stop := interruptible(c.Context)
	defer stop()
	r, err := openAgent(ctx, c)
	if errors.As(err, new(*sandbox.BusyError)) && !c.IsSet("session") && !c.Bool("new") {
		if r, err = openOwn(ctx, c); err == nil {
			complain("the workspace's session is in use; this client has the session " + r.session.Name)
		}
	}
	if err != nil {
		return err
	}
	within := approval.DefaultWithin
	if c.IsSet("answer-within") {
		within = c.Duration("answer-within")
	}
	server := mcpserver.New(r.pipeline, r.queue(within), within)
	server.InClient = c.Bool("elicit")
	err = server.Serve(ctx, os.Stdin, os.Stdout)
	return errors.Join(err, r.close())
}

// openOwn is openAgent with a session of its own.
func openOwn(ctx context.Context, c *cli.Context) (*agentRun, error) {
	if err := c.Set("new", "true"); err != nil {
		return nil, err
	}
	return openAgent(ctx, c)
}
