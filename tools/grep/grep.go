// Package grep is the tool Grep: a search in what files hold.
package grep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/grep/call"
	"github.com/sallyport/sallyport/tools/internal/tree"
)

// Input is what a model sends. Its flags are called as ripgrep's are.
type Input struct {
	Pattern    string    `json:"pattern" jsonschema:"The regular expression to search for, as ripgrep has it"`
	Path       string    `json:"path,omitempty" jsonschema:"The file or directory to search in: absolute, or relative to the workspace, which is the default"`
	Glob       string    `json:"glob,omitempty" jsonschema:"Which files to search, as in .gitignore: *.js, *.{ts,tsx}, !*_test.go; several with commas or spaces between them (a space in a name is written with a backslash before it)"`
	Type       string    `json:"type,omitempty" jsonschema:"Which type of files to search, as ripgrep calls it: go, py, js, ts, rust, java ..."`
	OutputMode call.Mode `json:"output_mode,omitempty" jsonschema:"files_with_matches: the paths of files that match (default); content: the lines that match; count: how many lines match in each file"`
	Before     int       `json:"-B,omitempty" jsonschema:"In mode content: lines to show before each match"`
	After      int       `json:"-A,omitempty" jsonschema:"In mode content: lines to show after each match"`
	Around     int       `json:"-C,omitempty" jsonschema:"In mode content: lines to show before and after each match"`
	Context    int       `json:"context,omitempty" jsonschema:"The same as -C"`
	Numbers    *bool     `json:"-n,omitempty" jsonschema:"In mode content: show the numbers of lines; true by default"`
	IgnoreCase bool      `json:"-i,omitempty" jsonschema:"Take upper and lower case for the same"`
	Only       bool      `json:"-o,omitempty" jsonschema:"In mode content: show only what matches of each line"`
	Multiline  bool      `json:"multiline,omitempty" jsonschema:"Let matches span lines, and . match a line's end"`
	HeadLimit  *int      `json:"head_limit,omitempty" jsonschema:"How many lines (mode content) or files to return; 250 by default, 0 for as many as fit"`
	Offset     int       `json:"offset,omitempty" jsonschema:"How many lines or files to leave out before the first that is returned; 0 by default"`
}

// Limits of an input.
const (
	defaultLimit = 250
	mostContext  = 10_000 // lines
	mostPattern  = 16_000 // bytes
	mostGlobs    = 100
)

// Output is what was found.
type Output struct {
	Mode call.Mode `json:"mode"`
	// Blocks are the files that match, with paths relative to the workspace where
	// they are in it, in the order of these; in mode content with their lines.
	Blocks []call.Block `json:"blocks"`
	// Files and Matches are how many files match, and in mode count how many
	// lines, whether returned or not. In mode content, where the search ends when
	// there is enough, they are 0.
	Files   int `json:"files,omitempty"`
	Matches int `json:"matches,omitempty"`
	// Offset is how many lines or files were left out before these; Next the
	// offset of the next, 0 when nothing follows.
	Offset int      `json:"offset,omitempty"`
	Next   int      `json:"next_offset,omitempty"`
	Notes  []string `json:"notes,omitempty"` // what could not be searched

	numbers bool // are shown
	context bool // was asked for
}

// Tool is Grep.
var Tool = tools.Define(tools.Definition[Input, Output, call.Progress]{
	Name:    "Grep",
	Summary: "search in files",
	Description: `Searches files for a regular expression, with ripgrep where the session has it.
- Returns the paths of the files that match, or with output_mode content their lines, with count how many of them match. What was cut is said, with the offset to go on with.
- Files that .gitignore and its like name, binary files and what version control keeps (.git) are left out; hidden files are not, and links are not followed.
- Literal braces and the like are escaped (interface\{\}). A pattern matches within one line, unless multiline is set.`,
	Fields: map[string]func(*jsonschema.Schema){
		"output_mode": func(s *jsonschema.Schema) { s.Enum = []any{call.Files, call.Content, call.Count} },
		"-A":          bounded(mostContext), "-B": bounded(mostContext), "-C": bounded(mostContext), "context": bounded(mostContext),
		"-n":         func(s *jsonschema.Schema) { s.Types, s.Type = nil, "boolean" },
		"head_limit": bounded(call.MostKept),
		"offset":     bounded(call.MostKept),
	},
	ConcurrencySafe: func(Input) bool { return true },
	ReadOnly:        func(Input) bool { return true },
	Validate:        validate,
	Access: func(c *tools.Context, in Input) []tools.Access {
		return []tools.Access{{Path: c.Abs(in.Path), Tree: true}}
	},
	Title:  title,
	Call:   run,
	Render: render,
})

// bounded makes a field an integer from 0 on.
func bounded(most int) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		s.Types, s.Type = nil, "integer"
		s.Minimum, s.Maximum = jsonschema.Ptr(0.0), jsonschema.Ptr(float64(most))
	}
}

func validate(in Input) error {
	for name, value := range map[string]string{"pattern": in.Pattern, "glob": in.Glob, "type": in.Type} {
		if strings.IndexByte(value, 0) >= 0 {
			return fmt.Errorf("the %s has a zero byte in it", name)
		}
		if len(value) > mostPattern {
			return fmt.Errorf("the %s has %d bytes; at most %d can be searched for", name, len(value), mostPattern)
		}
	}
	if in.Pattern == "" {
		return errors.New("the pattern is empty; use ^ to find every line")
	}
	if n := len(globs(in.Glob)); n > mostGlobs {
		return fmt.Errorf("%d globs were given; use braces, as in *.{ts,tsx}, and at most %d", n, mostGlobs)
	}
	return tree.CheckPath(in.Path)
}

func title(in Input) string {
	s := "Grep " + inside.Quote(in.Pattern)
	if in.Path != "" {
		s += " in " + inside.Quote(in.Path)
	}
	return s
}

// globs splits what agents send as one: at spaces, and at commas that are not in
// braces or brackets.
func globs(s string) []string {
	var list []string
	var b strings.Builder
	end := func() {
		if b.Len() > 0 {
			list = append(list, b.String())
		}
		b.Reset()
	}
	depth, class := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			b.WriteByte(c)
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '{' && !class:
			depth++
		case c == '}' && !class && depth > 0:
			depth--
		case c == ',' && depth == 0 && !class, c == ' ', c == '\t', c == '\n', c == '\r':
			if depth > 0 {
				continue // as in {a, b}
			}
			end()
			class = false
			continue
		}
		b.WriteByte(s[i])
	}
	end()
	return list
}

func (in Input) request(judged tools.Judged, workspace string) call.Request {
	req := call.Request{
		Path: []byte(judged.Path), Resolved: judged.Resolved, Workspace: workspace,
		Pattern: in.Pattern, Mode: in.OutputMode, Globs: globs(in.Glob), Type: in.Type,
		IgnoreCase: in.IgnoreCase, Multiline: in.Multiline, Limit: defaultLimit, Offset: in.Offset,
	}
	if req.Mode == "" {
		req.Mode = call.Files
	}
	if in.HeadLimit != nil {
		req.Limit = *in.HeadLimit
	}
	if req.Mode != call.Content {
		return req
	}
	req.Only = in.Only
	// As in ripgrep, -A and -B say more than -C does.
	around := max(in.Around, in.Context)
	req.Before, req.After = in.Before, in.After
	if req.Before == 0 {
		req.Before = around
	}
	if req.After == 0 {
		req.After = around
	}
	return req
}

func run(ctx context.Context, c *tools.Context, in Input, progress func(call.Progress)) (*tools.Result[Output], error) {
	judged, err := c.JudgedPath()
	if err != nil {
		return nil, err
	}
	req := in.request(judged, c.Workspace)
	got, err := tools.Call[call.Request, call.Result](ctx, c, "Grep", req, func(data []byte) {
		var p call.Progress
		if json.Unmarshal(data, &p) == nil && p.Matches >= 0 && p.Files >= 0 {
			progress(p)
		}
	})
	if err != nil {
		return nil, err
	}
	out := fit(*got, req, c.Rel, c.Abs(in.Path))
	out.numbers = in.Numbers == nil || *in.Numbers
	out.context = req.Before+req.After > 0
	return &tools.Result[Output]{Data: out}, nil
}

// mostShown is the most bytes that the lines or paths of a result have, so that
// it is not cut where it could not say the next offset.
const mostShown = 80_000

// fit makes a result of what came from inside, which may be anything: no more
// than was asked for, and no more than can be shown.
func fit(got call.Result, req call.Request, rel func(string) string, root string) Output {
	out := Output{
		Mode: req.Mode, Blocks: []call.Block{}, Offset: req.Offset,
		Files: max(got.Files, 0), Matches: max(got.Matches, 0), Notes: tree.Notes(got.Notes),
	}
	limit := req.Limit
	if limit == 0 {
		limit = call.MostKept
	}
	units, size := 0, 0
	more := got.More
	// take counts a line or a file, unless there is no room for it.
	take := func(bytes int) bool {
		size += bytes
		if units == limit || units > 0 && size > mostShown {
			more = true
			return false
		}
		units++
		return true
	}
blocks:
	for _, b := range got.Blocks {
		path := root
		if b.Path != "" {
			path = strings.TrimSuffix(root, "/") + "/" + b.Path
		}
		b.Path = rel(path)
		width := len(tree.Name(b.Path)) + 12
		if req.Mode != call.Content {
			if !take(width) {
				break
			}
			b.Lines = nil
			out.Blocks = append(out.Blocks, b)
			continue
		}
		for i, l := range b.Lines {
			if !take(width + len(l.Text)) {
				if i > 0 {
					b.Lines = b.Lines[:i]
					out.Blocks = append(out.Blocks, b)
				}
				break blocks
			}
		}
		if len(b.Lines) > 0 {
			out.Blocks = append(out.Blocks, b)
		}
	}
	if more {
		out.Next = req.Offset + units
	}
	return out
}

func render(out Output) []tools.Block {
	var b strings.Builder
	units := 0
	for i, block := range out.Blocks {
		name := tree.Name(block.Path)
		switch out.Mode {
		case call.Content:
			if i > 0 && out.context {
				b.WriteString("--\n")
			}
			lines(&b, name, block.Lines, out)
			units += len(block.Lines)
			continue
		case call.Count:
			fmt.Fprintf(&b, "%s:%d\n", name, block.Count)
		default:
			b.WriteString(name + "\n")
		}
		units++
	}
	unit := "file"
	if out.Mode == call.Content {
		unit = "line"
	}
	switch {
	case units == 0 && out.Offset > 0:
		fmt.Fprintf(&b, "(nothing is left at offset %d)\n", out.Offset)
	case units == 0 && out.Mode == call.Content:
		b.WriteString("No matches found\n")
	case units == 0:
		b.WriteString("No files found\n")
	}
	if out.Files > 0 {
		total := "(" + tools.Count(out.Files, "file") + " in all"
		if out.Mode == call.Count {
			total = "(" + tools.Count(out.Matches, "line") + " in " + tools.Count(out.Files, "file") + " in all"
		}
		b.WriteString(total + ")\n")
	}
	if out.Next > 0 {
		fmt.Fprintf(&b, "(cut after %s; go on with offset %d, or search for less)\n", tools.Count(units, unit), out.Next)
	}
	for _, note := range out.Notes {
		fmt.Fprintf(&b, "(not searched: %s)\n", note)
	}
	return tools.Text(strings.TrimSuffix(b.String(), "\n"))
}

// lines shows those of a file as ripgrep does: a colon behind the number of one
// that matches, a dash behind that of one around it.
func lines(b *strings.Builder, name string, lines []call.Line, out Output) {
	for i, l := range lines {
		if i > 0 && out.context && l.Number > lines[i-1].Number+1 {
			b.WriteString("--\n")
		}
		sep := ":"
		if l.Context {
			sep = "-"
		}
		b.WriteString(name + sep)
		if out.numbers {
			fmt.Fprintf(b, "%d%s", l.Number, sep)
		}
		b.WriteString(l.Text)
		if l.Cut > 0 {
			fmt.Fprintf(b, " [%d more bytes]", l.Cut)
		}
		b.WriteByte('\n')
	}
}
