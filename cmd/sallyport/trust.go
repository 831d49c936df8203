package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
)

func trustCommand() *cli.Command {
	return &cli.Command{
		Name:      "trust",
		Usage:     "let the settings that come with a workspace allow what they say",
		ArgsUsage: " ",
		Description: "Settings in a workspace (.sallyport/settings.json, settings.local.json) may have been written by anybody: what\n" +
			"they deny holds at once, what they allow only after you have seen it and said yes here. That is about the\n" +
			"files as they are now: one that changes is untrusted again.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "w", Usage: "the workspace `DIR`", DefaultText: "the current directory"},
			importFlag(),
			&cli.BoolFlag{Name: "list", Usage: "list what is trusted, in all workspaces"},
			&cli.BoolFlag{Name: "revoke", Usage: "trust nothing of this workspace any more"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
			jsonFlag(),
		},
		BashComplete: completeFlags,
		Action:       atMost(0, runTrust),
	}
}

// trustFile is what trust --json prints of a file.
type trustFile struct {
	File    string   `json:"file"`
	Trusted bool     `json:"trusted"`
	Allows  []string `json:"allows"` // a line each
}

func runTrust(c *cli.Context) error {
	if c.Bool("list") && c.Bool("revoke") {
		return usageError(c, "--list and --revoke exclude each other")
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	if c.Bool("list") {
		return listTrusted(c, &settings.Places{State: store.Dir()})
	}
	workspace, err := sandbox.ResolveWorkspace(c.String("w"))
	if err != nil {
		return err
	}
	places, err := placesOf(c, store, workspace)
	if err != nil {
		return err
	}
	if c.Bool("revoke") {
		return revokeTrust(c, places)
	}
	s, err := places.Load()
	if err != nil {
		return err
	}
	return trustFiles(c, places, s.Untrusted(), s.Files)
}

func trustFiles(c *cli.Context, places *settings.Places, untrusted, all []*settings.File) error {
	json := c.Bool("json")
	if !json {
		for _, f := range untrusted {
			fmt.Printf("%s would:\n", f.Name)
			for _, line := range f.Loosens() {
				fmt.Printf("    %s\n", printed(line))
			}
		}
	}
	switch {
	case len(untrusted) == 0:
		if !json {
			fmt.Println("nothing to trust: no settings of this workspace would allow anything that they do not already")
		}
	case c.Bool("yes"):
	case json: // it only shows
		return printTrust(all)
	case !term.IsTerminal(int(os.Stdin.Fd())):
		return errors.New("trust asks, and there is no terminal to ask on; use --yes when you have seen what the files say")
	case ask("Trust this? [y]es, [N]o ") != "y":
		return errors.New("nothing is trusted that was not before")
	}
	for _, f := range untrusted {
		if err := places.Trust(f); err != nil {
			return err
		}
		f.Trusted = true
		if !json {
			fmt.Printf("trusted: %s\n", f.Name)
		}
	}
	if json {
		return printTrust(all)
	}
	return nil
}

func printTrust(files []*settings.File) error {
	for _, f := range files {
		if !f.OfWorkspace {
			continue
		}
		if err := printJSON(trustFile{f.Name, f.Trusted, append([]string{}, f.Loosens()...)}); err != nil {
			return err
		}
	}
	return nil
}

func listTrusted(c *cli.Context, places *settings.Places) error {
	all, err := places.AllTrusted()
	if err != nil {
		return err
	}
	for _, t := range all {
		if c.Bool("json") {
			if err := printJSON(t); err != nil {
				return err
			}
			continue
		}
		fmt.Printf("%s  %s  since %s\n", printed(t.Workspace), t.File, t.Since.Local().Format(time.DateTime))
	}
	return nil
}

func revokeTrust(c *cli.Context, places *settings.Places) error {
	gone, err := places.Revoke()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		for _, t := range gone {
			if err := printJSON(t); err != nil {
				return err
			}
		}
		return nil
	}
	if len(gone) == 0 {
		fmt.Println("nothing of this workspace was trusted")
		return nil
	}
	fmt.Printf("no longer trusted: %s\n", tools.Count(len(gone), "trusted file"))
	return nil
}
