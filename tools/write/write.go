// Package write is the tool Write: a file with a given content.
package write

import (
	"context"
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/files"
	"github.com/sallyport/sallyport/tools/write/call"
)

// Input is what a model sends.
type Input struct {
	FilePath string `json:"file_path" jsonschema:"The file to write: absolute, or relative to the workspace"`
	Content  string `json:"content" jsonschema:"All that the file is to contain"`
}

// MostContent is the most that one call writes, in bytes: a message to the
// container holds no more.
const MostContent = 3_000_000

// Tool is Write.
var Tool = tools.Define(tools.Definition[Input, call.Output, struct{}]{
	Name:    "Write",
	Summary: "write a file",
	Description: `Writes a file: makes it, with the directories that are missing, or replaces all that is in it.
- A file that exists must have been read with Read before, and not have changed since.
- To change a part of a file use Edit.`,
	Destructive: func(Input) bool { return true }, // what the file had is gone
	Validate: func(in Input) error {
		if len(in.Content) > MostContent {
			return fmt.Errorf("content has %d bytes; at most %d can be written at once: write it in parts, with Bash (cat >>)", len(in.Content), MostContent)
		}
		return files.CheckNewPath(in.FilePath)
	},
	Access: func(c *tools.Context, in Input) []tools.Access {
		return []tools.Access{{Path: c.Abs(in.FilePath), Write: true}}
	},
	Title:  func(in Input) string { return "Write " + inside.Quote(in.FilePath) },
	Call:   run,
	Render: render,
})

func run(ctx context.Context, c *tools.Context, in Input, _ func(struct{})) (*tools.Result[call.Output], error) {
	judged, err := c.JudgedPath()
	if err != nil {
		return nil, err
	}
	path := c.Abs(in.FilePath)
	expected, _ := c.State.Seen(path)
	out, err := tools.Call[call.Request, call.Output](ctx, c, "Write", call.Request{
		Path: []byte(judged.Path), Resolved: judged.Resolved, Content: []byte(in.Content), Expected: expected,
	}, nil)
	if err != nil {
		return nil, err
	}
	result := &tools.Result[call.Output]{Data: *out}
	if files.IsHash(out.Hash) {
		result.Modify = func(s *tools.State) { s.Saw(path, out.Hash) }
	}
	return result, nil
}

func render(out call.Output) []tools.Block {
	var b strings.Builder
	verb := "updated"
	if out.Created {
		verb = "created"
	}
	fmt.Fprintf(&b, "%s %s: %s, %s", verb, inside.Quote(out.Path), tools.Count(out.Size, "byte"), tools.Count(out.Lines, "line"))
	if out.Emptied {
		b.WriteString("\nthe file is now empty")
	}
	if out.Links > 0 {
		fmt.Fprintf(&b, "\nthe file had %d other names (hard links), which keep the old content", out.Links)
	}
	return tools.Text(b.String())
}
