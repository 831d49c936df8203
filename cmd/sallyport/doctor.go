package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/doctor"
	"github.com/sallyport/sallyport/sandbox/native"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "find out what this machine can do for a session, and how to cure what it cannot",
		Description: "Tries it: makes namespaces, mounts, an overlay, a cgroup, and a session. Nothing is left of that.\n" +
			"The exit code is 1 if no session can be started.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "w", Usage: "the workspace `DIR` to try an overlay on", DefaultText: "the current directory"},
			jsonFlag(),
		},
		Action: atMost(0, runDoctor),
	}
}

func runDoctor(c *cli.Context) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	workspace, err := filepath.Abs(c.String("w"))
	if err != nil {
		return err
	}
	if resolved, err := sandbox.ResolveWorkspace(workspace); err == nil {
		workspace = resolved
	} else if c.IsSet("w") {
		return err
	} // any directory will do to try an overlay on
	checks := doctor.Run(c.Context, doctor.Options{Store: store, Workspace: workspace, Driver: native.Driver{}})
	if c.Bool("json") {
		for _, check := range checks {
			if err := printJSON(check); err != nil {
				return err
			}
		}
	} else {
		printChecks(checks)
	}
	if !doctor.Healthy(checks) {
		return exitCode(1)
	}
	return nil
}

func printChecks(checks []doctor.Check) {
	color := term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == ""
	colors := map[doctor.Status]string{doctor.OK: "32", doctor.Less: "33", doctor.Fail: "31", doctor.Info: "2"}
	for _, check := range checks {
		status := fmt.Sprintf("%-4s", check.Status)
		if color {
			status = "\x1b[" + colors[check.Status] + "m" + status + "\x1b[0m"
		}
		fmt.Printf("%s  %-16s %s\n", status, check.Name, changeset.Printable(check.Found))
		if check.Means != "" {
			fmt.Printf("%24s%s\n", "", check.Means)
		}
		if check.Cure != "" {
			fmt.Printf("%24scure: %s\n", "", check.Cure)
		}
	}
}

func setupCommand() *cli.Command {
	return &cli.Command{
		Name:  "setup",
		Usage: "change this machine, as root, so that ordinary users can start sessions",
		Description: "Shows what it would write, asks, and writes it: an AppArmor profile that lets sallyport make user\n" +
			"namespaces, and a systemd setting that lets users limit what they start. --undo takes it back.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "undo", Usage: "take back what setup did"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
			&cli.BoolFlag{Name: "n", Aliases: []string{"dry-run"}, Usage: "only show what would be done"},
			&cli.StringFlag{Name: "executable", Usage: "the `PATH` of sallyport", DefaultText: "this one"},
			&cli.StringFlag{Name: "root", Value: "/", Usage: "the root `DIR` of the machine to set up", Hidden: true},
			jsonFlag(),
		},
		Action: atMost(0, runSetup),
	}
}

func runSetup(c *cli.Context) error {
	executable := c.String("executable")
	if executable == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		if executable, err = filepath.EvalSymlinks(self); err != nil {
			return err
		}
	}
	root := c.String("root")
	s, err := doctor.PlanSetup(root, executable)
	if err != nil {
		return err
	}
	json, undo := c.Bool("json"), c.Bool("undo")
	if json && (c.Bool("n") || !c.Bool("yes")) {
		return printJSON(s)
	}
	say := func(args ...any) {
		if !json {
			fmt.Println(args...)
		}
	}
	switch {
	case len(s.Files) == 0:
		say("nothing to do: this machine restricts neither user namespaces by AppArmor nor cgroups by systemd")
	case s.Done() && !undo:
		say("nothing to do: it is set up already")
	default:
		if !json {
			showSetup(s, undo)
		}
		if c.Bool("n") {
			return nil
		}
		if err := confirmed(c); err != nil {
			return err
		}
		run := func(args []string) error { say("would run:", strings.Join(args, " ")); return nil }
		if root == "/" {
			run = nil // for real
		}
		if undo {
			err = s.Remove(run)
		} else {
			err = s.Do(run)
		}
		if err != nil {
			return err
		}
		say("done; see sallyport doctor")
	}
	if json {
		if s, err = doctor.PlanSetup(root, executable); err == nil {
			err = printJSON(s)
		}
	}
	return err
}

// confirmed asks whether the machine is to be changed.
func confirmed(c *cli.Context) error {
	switch {
	case c.Bool("yes"):
		return nil
	case !term.IsTerminal(int(os.Stdin.Fd())):
		return errors.New("setup asks before it changes the machine, and there is no terminal to ask on; use --yes")
	case ask("Do this? [y]es, [N]o ") != "y":
		return errors.New("nothing was changed")
	}
	return nil
}

func showSetup(s *doctor.Setup, undo bool) {
	commands := s.Run
	verb := "write"
	if undo {
		commands, verb = s.Undo, "remove"
	}
	for _, f := range s.Files {
		fmt.Printf("%s %s: %s\n", verb, f.Path, f.Why)
		if !undo {
			for line := range strings.Lines(f.Content) {
				fmt.Print("    ", line)
			}
		}
	}
	for _, args := range commands {
		fmt.Println("run", strings.Join(args, " "))
	}
}
