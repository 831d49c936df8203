package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"
)

// usageError is what a command returns that was called wrongly.
func usageError(c *cli.Context, format string, args ...any) error {
	return wrongCall(c.Command.HelpName, fmt.Errorf(format, args...))
}

// wrongCall names the command below sallyport once: main says "sallyport: ".
func wrongCall(command string, err error) error {
	where := ""
	if _, below, ok := strings.Cut(command, " "); ok {
		where = below + ": "
	}
	return fmt.Errorf("%s%w; see %s --help", where, err, command)
}

// atMost makes it an error to give a command more than n arguments.
func atMost(n int, action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() > n {
			return usageError(c, "there is one argument too many: %q", c.Args().Get(n))
		}
		return action(c)
	}
}

// explainUsage makes a command and those below it say in one line what is wrong
// with their flags. They have no command "help" of their own: it would take the
// place of a path or a program of that name.
func explainUsage(cmd *cli.Command) {
	cmd.HideHelpCommand = true
	if cmd.OnUsageError == nil {
		cmd.OnUsageError = wrongUsage
	}
	for _, f := range cmd.Flags {
		if b, ok := f.(*cli.BoolFlag); ok {
			b.DisableDefaultText = true // that it is off goes without saying
		}
	}
	for _, sub := range cmd.Subcommands {
		explainUsage(sub)
	}
}

var (
	wrongValue   = regexp.MustCompile(`^invalid (?:boolean )?value ("(?s:.*)") for (?:flag )?-([a-z-]+): `)
	unknownFlag  = regexp.MustCompile(`^flag provided but not defined: (-.*)`)
	lacksAnother = regexp.MustCompile(`^flag needs an argument: -([a-z-]+)`)
)

// wrongUsage says what is wrong with the flags of a command.
func wrongUsage(c *cli.Context, err error, _ bool) error {
	msg, name := err.Error(), "sallyport"
	if c.Command != nil && c.Command.HelpName != "" {
		name = c.Command.HelpName
	}
	if m := wrongValue.FindStringSubmatch(msg); m != nil {
		msg = fmt.Sprintf("%s %s: %s", dashes(m[2]), m[1], wanted(c, m[2]))
	} else if m := unknownFlag.FindStringSubmatch(msg); m != nil {
		msg = "there is no flag " + dashes(strings.TrimLeft(m[1], "-"))
	} else if m := lacksAnother.FindStringSubmatch(msg); m != nil {
		msg = dashes(m[1]) + " needs a value"
	}
	return wrongCall(name, errors.New(msg))
}

func dashes(flag string) string {
	if len(flag) == 1 {
		return "-" + flag
	}
	return "--" + flag
}

// wanted says what the value of a flag is.
func wanted(c *cli.Context, name string) string {
	for _, f := range c.Command.Flags {
		if f.Names()[0] != name {
			continue
		}
		switch f.(type) {
		case *cli.DurationFlag:
			return "use a time with its unit, such as 90s or 10m"
		case *cli.Int64Flag:
			return "use a whole number"
		case *cli.Float64Flag:
			return "use a number"
		case *cli.BoolFlag:
			return "it takes no value"
		}
	}
	return "that is no value for it"
}

// inOrder moves the flags of a command before its other arguments, where the
// parser wants them: both "sessions rm --force NAME" and "sessions rm NAME
// --force" are right. What follows "--" stays where it is, and so do the
// arguments of exec, which are another program's.
func inOrder(app *cli.App, args []string) []string {
	// The help of a command below another is found by its flag only.
	if len(args) > 2 && args[1] == "help" && find(app.Commands, args[2]) != nil {
		args = append(append([]string{args[0]}, args[2:]...), "--help")
	}
	cmd, i := (*cli.Command)(nil), 1
	list := app.Commands
	for i < len(args) {
		next := find(list, args[i])
		if next == nil {
			break
		}
		cmd, list = next, next.Subcommands
		i++
	}
	if cmd == nil || ofUser(cmd) || args[len(args)-1] == generate {
		return args
	}
	done := args[:i:i]
	var flags, rest []string
	for ; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			rest = append(rest, args[i+1:]...)
			i = len(args)
		case len(arg) > 1 && arg[0] == '-':
			flags = append(flags, arg)
			if takesValue(cmd, arg) && i+1 < len(args) {
				i++
				flags = append(flags, args[i])
			}
		case find(cmd.Subcommands, arg) != nil:
			return args // a flag stands between a command and its own
		default:
			rest = append(rest, arg)
		}
	}
	if len(rest) > 0 {
		flags = append(flags, "--")
	}
	return append(append(done, flags...), rest...)
}

func find(list []*cli.Command, name string) *cli.Command {
	for _, cmd := range list {
		if cmd.HasName(name) {
			return cmd
		}
	}
	return nil
}

// takesValue reports whether a flag is followed by its value.
func takesValue(cmd *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	for _, f := range cmd.Flags {
		for _, n := range f.Names() {
			if n != name {
				continue
			}
			_, isBool := f.(*cli.BoolFlag)
			return !isBool
		}
	}
	return false
}
