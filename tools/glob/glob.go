// Package glob is the tool Glob: files by their names.
package glob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/glob/call"
	"github.com/sallyport/sallyport/tools/internal/glob"
	"github.com/sallyport/sallyport/tools/internal/tree"
)

// Input is what a model sends.
type Input struct {
	Pattern string `json:"pattern" jsonschema:"The pattern that paths are to match, relative to path: for example **/*.go or src/*.{ts,tsx}"`
	Path    string `json:"path,omitempty" jsonschema:"The directory to look in: absolute, or relative to the workspace, which is the default"`
}

// Output is what was found.
type Output struct {
	// Files are paths, relative to the workspace where they are in it, the newest
	// first.
	Files []string `json:"files"`
	Total int      `json:"total"` // how many match; more than Files when those were cut
	Notes []string `json:"notes,omitempty"`
}

// Tool is Glob.
var Tool = tools.Define(tools.Definition[Input, Output, struct{}]{
	Name:    "Glob",
	Summary: "find files by their names",
	Description: `Finds files whose paths match a pattern, and returns them with those that were changed last first.
- * and ? match within a name, ** as a whole component any number of directories, [a-z] one character, {a,b} one of several; a name that begins with a dot is like any other.
- At most 100 are returned, and it is said when there are more. Links are listed and not followed; what version control keeps (.git and its like) is left out.
- Use Grep to search what is in files.`,
	ConcurrencySafe: func(Input) bool { return true },
	ReadOnly:        func(Input) bool { return true },
	Validate:        validate,
	Access: func(c *tools.Context, in Input) []tools.Access {
		dir, _ := in.split(c)
		return []tools.Access{{Path: dir, Tree: true}}
	},
	Title:  func(in Input) string { return "Glob " + inside.Quote(in.Pattern) },
	Call:   run,
	Render: render,
})

func validate(in Input) error {
	if in.Pattern == "" {
		return errors.New("the pattern is empty; **/* matches every file")
	}
	if strings.IndexByte(in.Pattern, 0) >= 0 {
		return errors.New("the pattern has a zero byte in it")
	}
	if slices.Contains(strings.Split(in.Pattern, "/"), "..") {
		return errors.New("the pattern has .. in it, which matches nothing; give the directory to look in as path")
	}
	if _, err := glob.Compile(in.Pattern); err != nil {
		return err
	}
	return tree.CheckPath(in.Path)
}

// split returns the directory that a call looks in and the pattern below it. Of
// a pattern that is absolute, the directories in which nothing has a meaning of
// its own say where.
func (in Input) split(c *tools.Context) (dir, pattern string) {
	pattern = in.Pattern
	if !strings.HasPrefix(pattern, "/") && !strings.HasPrefix(pattern, "~/") {
		for strings.HasPrefix(pattern, "./") {
			pattern = strings.TrimLeft(pattern[2:], "/")
		}
		return c.Abs(in.Path), pattern
	}
	end := strings.IndexAny(pattern, `*?[{\`)
	if end < 0 {
		end = len(strings.TrimRight(pattern, "/"))
	}
	end = strings.LastIndexByte(pattern[:end], '/') + 1
	return c.Abs(pattern[:max(end, 1)]), pattern[end:]
}

// mostShown is how much of a result is paths, in bytes.
const mostShown = 80_000

func run(ctx context.Context, c *tools.Context, in Input, _ func(struct{})) (*tools.Result[Output], error) {
	judged, err := c.JudgedPath()
	if err != nil {
		return nil, err
	}
	dir, pattern := in.split(c)
	got, err := tools.Call[call.Request, call.Result](ctx, c, "Glob", call.Request{
		Path: []byte(judged.Path), Resolved: judged.Resolved, Workspace: c.Workspace, Pattern: pattern,
	}, nil)
	if err != nil {
		return nil, err
	}
	out := Output{Files: []string{}, Total: max(got.Total, 0), Notes: tree.Notes(got.Notes)}
	shown := 0
	for _, name := range got.Files[:min(len(got.Files), call.MostFiles)] {
		path := c.Rel(strings.TrimSuffix(dir, "/") + "/" + name)
		if shown += len(path); shown > mostShown {
			break
		}
		out.Files = append(out.Files, path)
	}
	out.Total = max(out.Total, len(out.Files))
	return &tools.Result[Output]{Data: out}, nil
}

func render(out Output) []tools.Block {
	var b strings.Builder
	if out.Total == 0 {
		b.WriteString("No files found\n")
	}
	for _, path := range out.Files {
		b.WriteString(tree.Name(path))
		b.WriteByte('\n')
	}
	if n := len(out.Files); n < out.Total {
		fmt.Fprintf(&b, "(the %d newest of %d files are shown; use a narrower pattern or path)\n", n, out.Total)
	}
	for _, note := range out.Notes {
		fmt.Fprintf(&b, "(not looked at: %s)\n", note)
	}
	return tools.Text(strings.TrimSuffix(b.String(), "\n"))
}
