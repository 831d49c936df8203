package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/builtin"
)

func toolsCommand() *cli.Command {
	return &cli.Command{
		Name:        "tools",
		Usage:       "show the tools that agents have",
		ArgsUsage:   "[NAME]",
		Description: "Lists the tools, or shows one with its input. With --json, one tool a line.",
		Flags:       []cli.Flag{jsonFlag()},
		Action: atMost(1, func(c *cli.Context) error {
			set := tools.NewSet(builtin.All()...)
			list := set.All()
			if c.Args().Present() {
				t, err := set.Find(c.Args().First())
				if err != nil {
					return err
				}
				list = []*tools.Tool{t}
			}
			switch {
			case c.Bool("json"):
				for _, t := range list {
					if err := printJSON(toolJSON(t)); err != nil {
						return err
					}
				}
			case c.Args().Present():
				printTool(list[0])
			default:
				w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
				fmt.Fprintln(w, "TOOL\tRUNS IN\tFLAGS\tWHAT IT DOES")
				for _, t := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, t.Site, flagsText(t), t.Summary)
				}
				return w.Flush()
			}
			return nil
		}),
		BashComplete: completeTools,
	}
}

func flagsText(t *tools.Tool) string {
	if flags := t.Flags(); len(flags) > 0 {
		return strings.Join(flags, ", ")
	}
	return "-"
}

// completeTools completes a tool's name, and flags.
func completeTools(c *cli.Context) {
	if strings.HasPrefix(completed(), "-") || c.Args().Present() {
		completeFlags(c)
		return
	}
	for _, t := range tools.NewSet(builtin.All()...).All() {
		fmt.Println(t.Name)
	}
}

// toolJSONValue is what tools --json prints of a tool.
type toolJSONValue struct {
	Name        string             `json:"name"`
	Aliases     []string           `json:"aliases,omitempty"`
	Summary     string             `json:"summary"`
	Description string             `json:"description"`
	Site        string             `json:"site"`
	Flags       []string           `json:"flags"`
	Limits      map[string]any     `json:"limits"`
	InputSchema *jsonschema.Schema `json:"input_schema"`
}

func toolJSON(t *tools.Tool) *toolJSONValue {
	return &toolJSONValue{
		Name: t.Name, Aliases: t.Aliases, Summary: t.Summary, Description: t.Description, Site: t.Site.String(),
		Flags: append([]string{}, t.Flags()...), Limits: limits(t), InputSchema: t.InputSchema,
	}
}

// limits of a tool; one without a limit of its size limits itself.
func limits(t *tools.Tool) map[string]any {
	l := map[string]any{"timeout_ms": t.DefaultTimeout().Milliseconds()}
	if t.MaxResult != tools.Unlimited {
		l["max_result_characters"] = t.MaxResult
	}
	return l
}

func printTool(t *tools.Tool) {
	fmt.Printf("%s: %s\n\n%s\n\n", t.Name, t.Summary, wrap(t.Description, 100))
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "runs in\t%s\n", t.Site)
	fmt.Fprintf(w, "flags\t%s\n", flagsText(t))
	if len(t.Aliases) > 0 {
		fmt.Fprintf(w, "also called\t%s\n", strings.Join(t.Aliases, ", "))
	}
	size := "limits itself"
	if t.MaxResult != tools.Unlimited {
		size = fmt.Sprintf("%d characters", t.MaxResult)
	}
	fmt.Fprintf(w, "result\t%s\n", size)
	fmt.Fprintf(w, "time\t%v\n", t.DefaultTimeout())
	w.Flush()
	fmt.Println("\ninput:")
	w = tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	required := make(map[string]bool)
	for _, name := range t.InputSchema.Required {
		required[name] = true
	}
	for _, name := range t.InputSchema.PropertyOrder {
		p := t.InputSchema.Properties[name]
		kind := p.Type
		if required[name] {
			kind += ", needed"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", name, kind, p.Description)
	}
	w.Flush()
}

// wrap breaks the lines of a text into such of at most width characters.
func wrap(text string, width int) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, wrapLine(line, width))
	}
	return strings.Join(lines, "\n")
}

func wrapLine(line string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(line) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
