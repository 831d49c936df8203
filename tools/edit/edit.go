// Package edit is the tool Edit: one string in a file for another.
package edit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/edit/call"
	"github.com/sallyport/sallyport/tools/files"
)

// Input is what a model sends.
type Input struct {
	FilePath   string `json:"file_path" jsonschema:"The file to change: absolute, or relative to the workspace"`
	OldString  string `json:"old_string" jsonschema:"The text to replace, exactly as it is in the file; empty to make a new file"`
	NewString  string `json:"new_string" jsonschema:"The text to replace it with"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"Replace old_string wherever it is; by default it must be there once"`
}

// MostStrings is the most that both strings may have, in bytes: a message to the
// container holds no more.
const MostStrings = 3_000_000

// Tool is Edit.
var Tool = tools.Define(tools.Definition[Input, call.Output, struct{}]{
	Name:    "Edit",
	Summary: "replace text in a file",
	Description: `Replaces old_string by new_string in a file.
- The file must have been read with Read before, and not have changed since.
- Give old_string exactly as it is in the file, with its indentation and without the line numbers that Read shows. It must be there once: give as much of the text around it as makes it so, or set replace_all.
- An empty old_string makes a new file. The line ends of the file (LF or CRLF) are kept.`,
	Validate: func(in Input) error {
		if n := len(in.OldString) + len(in.NewString); n > MostStrings {
			return fmt.Errorf("old_string and new_string have %d bytes; at most %d can be sent at once: use smaller parts", n, MostStrings)
		}
		if in.OldString == in.NewString && in.OldString != "" {
			return errors.New("old_string and new_string are the same: nothing would change")
		}
		return files.CheckNewPath(in.FilePath)
	},
	Access: func(c *tools.Context, in Input) []tools.Access {
		return []tools.Access{{Path: c.Abs(in.FilePath), Write: true}}
	},
	Title:  func(in Input) string { return "Edit " + inside.Quote(in.FilePath) },
	Diff:   diff,
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
	out, err := tools.Call[call.Request, call.Output](ctx, c, "Edit", call.Request{
		Path: []byte(judged.Path), Resolved: judged.Resolved, Workspace: c.Workspace,
		Old: []byte(in.OldString), New: []byte(in.NewString), All: in.ReplaceAll, Expected: expected,
	}, nil)
	if err != nil {
		return nil, err
	}
	if len(out.Snippet) > call.MostSnippet {
		return nil, fmt.Errorf("the container returned %d bytes of a file, more than it may", len(out.Snippet))
	}
	result := &tools.Result[call.Output]{Data: *out}
	if files.IsHash(out.Hash) {
		result.Modify = func(s *tools.State) { s.Saw(path, out.Hash) }
	}
	return result, nil
}

func render(out call.Output) []tools.Block {
	var b strings.Builder
	name := inside.Quote(out.Path)
	switch {
	case out.Created:
		fmt.Fprintf(&b, "created %s: %d bytes\n", name, out.Size)
	case out.Replaced > 1:
		fmt.Fprintf(&b, "updated %s: %d replacements; around the first it is now:\n", name, out.Replaced)
	default:
		fmt.Fprintf(&b, "updated %s; around the change it is now:\n", name)
	}
	switch {
	case out.Emptied:
		b.WriteString("(the file is now empty)\n")
	case !out.Created:
		files.Number(&b, out.Snippet, out.Start)
	}
	if out.Links > 0 {
		fmt.Fprintf(&b, "the file had %d other names (hard links), which keep the old content\n", out.Links)
	}
	return tools.Text(strings.TrimSuffix(b.String(), "\n"))
}
