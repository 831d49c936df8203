// Command sallyport runs an AI agent's tool calls, and your own commands, in a
// sealed container, and lets their effects out only as far as you allow.
//
// Rules of the terminal, for every command:
//
//   - What was asked for goes to standard output; everything else, also a hint
//     or a question, to standard error.
//   - Errors begin with "sallyport: " and say in one or two lines what failed,
//     why, and what to do.
//   - Names and contents that come out of a session are shown so that they
//     cannot act on the terminal.
//   - With --json, standard output is one JSON value, or for lists one a line.
//   - The exit code is 0, or 1 for an error; exec and preview have codes of their
//     own (see exec.go).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/containerd/log"
	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/internal/version"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native"
)

func main() {
	// What is alive is little, and what a decision leaves is garbage at once.
	debug.SetGCPercent(400) // some 20 MB at most, where nothing large is read
	// What ttrpc logs of a guest is that guest's to write; wire reports it once.
	log.L.Logger.SetOutput(io.Discard)
	app := newApp()
	if completeValue(app, os.Args) {
		return
	}
	err := app.Run(inOrder(app, os.Args))
	native.Shutdown()
	if err == nil {
		return
	}
	var code exitCode
	if errors.As(err, &code) {
		os.Exit(int(code))
	}
	complain(err.Error())
	os.Exit(1)
}

// complain says something on standard error. What it quotes may be anybody's.
func complain(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(os.Stderr, "sallyport:", printed(strings.TrimSuffix(line, "\n")))
	}
}

// An exitCode is the exit code of a command that has said all there is to say.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func newApp() *cli.App {
	app := &cli.App{
		Name:    "sallyport",
		Usage:   "run an agent's commands in a sealed box, and let out what you approve",
		Version: version.Version,
		Description: "A session is a box around one workspace. Commands run inside see the machine's programs and\n" +
			"the workspace, no network, no home directory and no secrets; what they change stays in the\n" +
			"session until you apply it.\n\n" +
			"   sallyport exec -- make test     run a command in the session of this directory\n" +
			"   sallyport diff                  show what it changed\n" +
			"   sallyport apply                 carry that out in the real directory",
		EnableBashCompletion:   true,
		UseShortOptionHandling: true,
		// A comma may be part of a path or a value.
		DisableSliceFlagSeparator: true,
		// Commands return errors; main prints them.
		ExitErrHandler: func(*cli.Context, error) {},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("no command %q%s; see sallyport --help", c.Args().First(), nearest(c.Args().First(), c.App))
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{
			execCommand(), previewCommand(), callCommand(), checkCommand(), explainCommand(), agentCommand(), mcpCommand(), toolsCommand(), hookCommand(), approveCommand(), trustCommand(),
			diffCommand(), applyCommand(), discardCommand(),
			sessionsCommand(), auditCommand(), doctorCommand(), setupCommand(), completionCommand(),
		},
	}
	app.OnUsageError = wrongUsage
	for _, cmd := range app.Commands {
		explainUsage(cmd)
	}
	return app
}

// nearest suggests the command that a mistyped one begins like.
func nearest(typed string, app *cli.App) string {
	best, bestLen := "", 1
	for _, cmd := range app.Commands {
		n := 0
		for n < len(typed) && n < len(cmd.Name) && typed[n] == cmd.Name[n] {
			n++
		}
		if n > bestLen {
			best, bestLen = cmd.Name, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

func openStore() (*sandbox.Store, error) { return sandbox.OpenStore("") }

// interruptible returns a context that ends with the first SIGINT or SIGTERM.
// A second one ends the process at once.
func interruptible(ctx context.Context) (context.Context, func()) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
