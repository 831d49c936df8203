package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/permission/bash"
)

func explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "show what a shell command would do, without running it",
		ArgsUsage: "'COMMAND'",
		Description: "Takes the command apart as bash does and shows each part of it: what kind of command it is, what it\n" +
			"reads and writes, and why it is not read-only. Nothing is run, and no rule is asked. \"-\" reads the\n" +
			"command from standard input. In what is shown, … stands for what is not known before it runs.\n\n" +
			"With --json: {read_only, parts: [{argv, kind, paths, hosts, why}], unprovable}. A redirection is a part\n" +
			"of its own. read_only is true also of what does no more than look at processes or sockets.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "C", Usage: "the directory that it would run in, `DIR`; this one by default"},
			jsonFlag(),
		},
		Action: atMost(1, func(c *cli.Context) error {
			if !c.Args().Present() {
				return usageError(c, "it needs a command, as one argument: sallyport explain 'ls | head'")
			}
			src := c.Args().First()
			if src == "-" {
				text, err := io.ReadAll(io.LimitReader(os.Stdin, bash.MaxLength+1))
				if err != nil {
					return fmt.Errorf("reading the command: %w", err)
				}
				src = string(text)
			}
			dir, err := directory(c.String("C"))
			if err != nil {
				return err
			}
			s := bash.Parse(src, bash.Env{Dir: dir, Home: os.Getenv("HOME")})
			if c.Bool("json") {
				return printJSON(explained(s))
			}
			explain(os.Stdout, s, colored(os.Stdout))
			return nil
		}),
		BashComplete: completeFlags,
	}
}

// directory is a directory by its own name, without links.
func directory(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(abs); err == nil && !info.IsDir() {
			err = errors.New("it is no directory")
		}
	}
	if err != nil {
		return "", fmt.Errorf("the directory of the command: %w; name one that is there with -C", err)
	}
	return abs, nil
}

// An explanation is what explain --json prints.
type explanation struct {
	ReadOnly   bool            `json:"read_only"`
	Parts      []explainedPart `json:"parts"`
	Unprovable []string        `json:"unprovable"`
}

type explainedPart struct {
	Argv  []string `json:"argv"`
	Kind  string   `json:"kind"`
	Paths []string `json:"paths"` // absolute; patterns of the shell as such
	Hosts []string `json:"hosts"`
	Why   string   `json:"why"` // it is not read-only; "" when it is

	part   *bash.Part // nil for a redirection
	writes []string
	depth  int
}

func explained(s *bash.Script) explanation {
	only, _ := s.ReadOnly()
	looks, _ := s.Inspect()
	e := explanation{ReadOnly: only || looks, Parts: explainedParts(s), Unprovable: []string{}}
	say := func(why string) {
		if why != "" && !slices.Contains(e.Unprovable, why) {
			e.Unprovable = append(e.Unprovable, why)
		}
	}
	say(s.Bad)
	for _, note := range s.Notes {
		say(note)
	}
	for i := range s.Parts {
		switch p := &s.Parts[i]; {
		case p.ReadOnly || p.Inspects:
		case p.Kind == bash.Unknown:
			say(p.Why)
		case p.Open:
			say("not all that it touches is known: " + dotted(p.Text))
		}
	}
	for _, r := range s.Redirects {
		if r.Write && len(r.Paths) == 0 {
			say("where it writes is not known: " + r.Source)
		}
	}
	return e
}

func explainedParts(s *bash.Script) []explainedPart {
	parts := make([]explainedPart, 0, len(s.Parts)+len(s.Redirects))
	for i := range s.Parts {
		p := &s.Parts[i]
		e := explainedPart{Argv: []string{}, Kind: string(p.Kind), Paths: []string{}, Hosts: append([]string{}, p.Hosts...), part: p}
		for _, word := range p.Words {
			e.Argv = append(e.Argv, dotted(word.Value))
		}
		for _, to := range p.Paths {
			e.Paths = append(e.Paths, to.Name)
			if to.Write {
				e.writes = append(e.writes, to.Name)
			}
		}
		e.Paths = append(e.Paths, p.Globs...)
		if !p.ReadOnly && !p.Inspects {
			e.Why = p.Why
		}
		// A part stands below the last one that may run it.
		if p.Through != "" {
			e.depth = 1
			for j := len(parts) - 1; j >= 0; j-- {
				if name := parts[j].Argv; len(name) > 0 && path.Base(name[0]) == p.Through {
					e.depth = parts[j].depth + 1
					break
				}
			}
		}
		parts = append(parts, e)
	}
	for _, r := range s.Redirects {
		e := explainedPart{Argv: []string{r.Source}, Kind: string(bash.Read), Paths: append(append([]string{}, r.Paths...), r.Globs...), Hosts: []string{}}
		if r.Write {
			e.Kind, e.Why, e.writes = string(bash.Write), "it writes by "+r.Source, r.Paths
		}
		parts = append(parts, e)
	}
	return parts
}

// dotted is a text of a script in which … stands for what is not known.
func dotted(text string) string { return strings.ReplaceAll(text, bash.Any, "…") }

// most are how many parts, or paths of one, a person is shown.
const (
	mostParts = 100
	mostPaths = 8
)

// explain shows a person what a script would do. What it quotes may be anybody's.
func explain(out io.Writer, s *bash.Script, color bool) {
	paint := func(code, text string) string {
		if !color {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	only, why := s.ReadOnly()
	looks, _ := s.Inspect()
	switch {
	case only:
		fmt.Fprintln(out, paint("32", "read-only"))
	case looks:
		fmt.Fprintln(out, paint("32", "looks at processes"))
	default:
		fmt.Fprintln(out, paint("31", "not read-only")+": "+cut(why))
	}
	e := explained(s)
	for i, p := range e.Parts {
		if i == mostParts {
			fmt.Fprintf(out, "  and %d parts more; --json shows all\n", len(e.Parts)-i)
			break
		}
		code := "32"
		if p.Why != "" {
			code = "31"
		}
		indent := strings.Repeat("  ", 1+p.depth)
		through := ""
		if p.part != nil && p.part.Through != "" {
			through = " (run by " + cut(p.part.Through) + ")"
		}
		fmt.Fprintf(out, "%s%s  %s%s\n", indent, cut(strings.Join(p.Argv, " ")), paint(code, p.Kind), paint("2", through))
		reads := slices.DeleteFunc(slices.Clone(p.Paths), func(name string) bool { return slices.Contains(p.writes, name) })
		for _, line := range []struct {
			what string
			list []string
		}{{"reads", reads}, {"writes", p.writes}, {"hosts", p.Hosts}} {
			if len(line.list) > 0 {
				fmt.Fprintf(out, "%s    %s %s\n", indent, line.what, listed(line.list))
			}
		}
		if p.Why != "" {
			fmt.Fprintf(out, "%s    why: %s\n", indent, cut(p.Why))
		}
	}
	if len(e.Unprovable) > 0 {
		fmt.Fprintln(out, "not provable:")
	}
	for _, why := range e.Unprovable {
		fmt.Fprintln(out, "  "+cut(why))
	}
}

// cut is the beginning of a text, harmless to a terminal.
func cut(text string) string {
	const most = 200
	if runes := []rune(printed(text)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return printed(text)
}

func listed(names []string) string {
	var list []string
	for i, name := range names {
		if i == mostPaths {
			list = append(list, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		list = append(list, cut(name))
	}
	return strings.Join(list, ", ")
}
