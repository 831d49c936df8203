// Package read is the tool Read: lines of a file.
package read

import (
	"context"
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/files"
	"github.com/sallyport/sallyport/tools/read/call"
)

// Input is what a model sends.
type Input struct {
	FilePath string `json:"file_path" jsonschema:"The file to read: absolute, or relative to the workspace"`
	Offset   int    `json:"offset,omitempty" jsonschema:"The number of the line to start from; 1 is the first, and the default"`
	Limit    int    `json:"limit,omitempty" jsonschema:"How many lines to read; 2000 by default"`
}

// Tool is Read.
var Tool = tools.Define(tools.Definition[Input, call.Output, struct{}]{
	Name:    "Read",
	Summary: "read lines of a text file",
	Description: `Reads a text file and returns its lines with their numbers, as "cat -n" does: the number, a tab, the line.
- Without offset and limit it reads the first 2000 lines. What was left out is said, with the offset to read on with; lines are cut at 2000 characters.
- It reads regular files of UTF-8 text, not directories (use Glob, or Bash with ls), images or other binary files.
- Edit and Write change a file only after it was read.`,
	ConcurrencySafe: func(Input) bool { return true },
	ReadOnly:        func(Input) bool { return true },
	MaxResult:       tools.Unlimited, // it limits itself
	Validate: func(in Input) error {
		switch {
		case in.Offset < 0:
			return fmt.Errorf("offset is %d; lines are counted from 1", in.Offset)
		case in.Limit < 0:
			return fmt.Errorf("limit is %d; it must be positive", in.Limit)
		}
		return files.CheckPath(in.FilePath)
	},
	Access: func(c *tools.Context, in Input) []tools.Access {
		return []tools.Access{{Path: c.Abs(in.FilePath)}}
	},
	Title:  func(in Input) string { return "Read " + inside.Quote(in.FilePath) },
	Call:   run,
	Render: render,
})

func run(ctx context.Context, c *tools.Context, in Input, _ func(struct{})) (*tools.Result[call.Output], error) {
	judged, err := c.JudgedPath()
	if err != nil {
		return nil, err
	}
	limit := in.Limit
	if limit == 0 {
		limit = call.DefaultLimit
	}
	out, err := tools.Call[call.Request, call.Output](ctx, c, "Read", call.Request{
		Path: []byte(judged.Path), Resolved: judged.Resolved, Workspace: c.Workspace,
		Offset: max(in.Offset, 1), Limit: limit,
	}, nil)
	if err != nil {
		return nil, err
	}
	if len(out.Content) > 3*call.MostContent { // a byte that is no UTF-8 has become three
		return nil, fmt.Errorf("the container returned %d bytes of a file, more than it may", len(out.Content))
	}
	result := &tools.Result[call.Output]{Data: *out}
	if path := c.Abs(in.FilePath); files.IsHash(out.Hash) {
		result.Modify = func(s *tools.State) { s.Saw(path, out.Hash) }
	}
	return result, nil
}

func render(out call.Output) []tools.Block {
	var b strings.Builder
	switch {
	case out.Lines > 0:
		b.Grow(len(out.Content) + len(out.Content)/4 + 200)
		files.Number(&b, out.Content, out.Start)
	case out.Total == 0:
		b.WriteString("(the file is empty)\n")
	default:
		fmt.Fprintf(&b, "(the file has %s; line %d is past its end)\n", tools.Count(out.Total, "line"), out.Start)
	}
	if out.Next > 0 {
		of := ""
		if out.Total > 0 {
			of = fmt.Sprintf(" of %d", out.Total)
		}
		why := ""
		if out.Full {
			why = ", as many as fit into one result"
		}
		fmt.Fprintf(&b, "(lines %d to %d%s are shown%s; read on with offset %d)\n", out.Start, out.Next-1, of, why, out.Next)
	}
	if out.Far {
		b.WriteString("(the file goes on beyond what Read looks at; use Bash with tail or sed -n)\n")
	}
	return tools.Text(strings.TrimSuffix(b.String(), "\n"))
}
