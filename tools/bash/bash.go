// Package bash is the definition of Bash.
package bash

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/bash/call"
)

// Input is what a model sends.
type Input struct {
	Command         string `json:"command" jsonschema:"the command, as bash reads it"`
	Timeout         int    `json:"timeout,omitempty" jsonschema:"milliseconds after which it is killed with all it started; 120000 unless given, at most 600000"`
	Description     string `json:"description,omitempty" jsonschema:"what it does, in a few words, for people who watch"`
	RunInBackground bool   `json:"run_in_background,omitempty" jsonschema:"return at once and let it run; its output goes to a file that Read can read"`
}

// Limits of Timeout, in milliseconds.
const (
	defaultTimeout = 120_000
	mostTimeout    = 600_000
)

// longest is the longest command: the kernel takes no longer argument
// (MAX_ARG_STRLEN, execve(2)), in bytes.
const longest = 128<<10 - 1

// Output is what it returns.
type Output struct {
	call.Output
	// OutputFile takes the output of a command in the background.
	OutputFile string `json:"output_file,omitempty"`
}

// Tool is Bash.
var Tool = tools.Define(tools.Definition[Input, Output, struct{}]{
	Name:    "Bash",
	Summary: "run a shell command in the session",
	Description: "Runs a command with bash in the session: a sealed box with the machine's programs, the workspace and no network. " +
		"The working directory is kept between calls; nothing else of the shell is. Standard input is empty. " +
		"What it changes stays in the session until a person lets it out. Returns standard output, standard error and the exit code. " +
		"Prefer Read, Edit, Write, Grep and Glob to cat, sed, echo, grep and find.",
	Fields: map[string]func(*jsonschema.Schema){
		"timeout": func(s *jsonschema.Schema) {
			s.Minimum, s.Maximum = jsonschema.Ptr(1.0), jsonschema.Ptr(float64(mostTimeout))
		},
	},
	// What the command itself would change is judged apart from this.
	ReadOnly: func(in Input) bool { return !in.RunInBackground },
	Validate: func(in Input) error {
		switch {
		case strings.TrimSpace(in.Command) == "":
			return errors.New("the command is empty")
		case strings.ContainsRune(in.Command, 0):
			return errors.New("the command holds a NUL byte, which no shell can be given")
		case len(in.Command) > longest:
			return fmt.Errorf("the command has %d bytes, of at most %d; put what is long into a file with Write", len(in.Command), longest)
		}
		return nil
	},
	Command:         func(in Input) string { return in.Command },
	ClassifierInput: func(in Input) string { return in.Command },
	Timeout:         func(in Input) time.Duration { return timeout(in) },
	Title:           func(in Input) string { return "Bash " + firstLine(in.Command) },
	Call:            run,
	Render:          render,
})

func timeout(in Input) time.Duration {
	if in.Timeout == 0 {
		in.Timeout = defaultTimeout
	}
	return time.Duration(in.Timeout) * time.Millisecond
}

func run(ctx context.Context, c *tools.Context, in Input, _ func(struct{})) (*tools.Result[Output], error) {
	req := call.Request{
		Command: in.Command, Dir: c.Dir, Workspace: c.Workspace, TimeoutMS: int(timeout(in).Milliseconds()),
	}
	if in.RunInBackground {
		req.Background = "/tmp/background-" + strings.ToLower(rand.Text()[:8]) + ".log"
	}
	out, err := tools.Call[call.Request, call.Output](ctx, c, call.Name, req, nil)
	if out == nil {
		return nil, err
	}
	r := &tools.Result[Output]{Data: Output{Output: *out}}
	if out.Code == 0 {
		r.Data.OutputFile = req.Background
	}
	r.IsError = out.Code != 0 || out.Interrupted || out.TimedOut
	if isDir(out.Dir) && out.Dir != c.Dir {
		r.Modify = func(s *tools.State) { s.SetDir(out.Dir) }
	}
	if out.TimedOut {
		err = fmt.Errorf("killed, with all it had started, after %v; give a longer timeout (at most %v), or run it in the background", timeout(in), mostTimeout*time.Millisecond)
	}
	return r, err
}

// isDir reports whether a text from inside could be a working directory: one that
// the paths of commands can be judged by.
func isDir(text string) bool {
	return len(text) < unix.PathMax && filepath.IsAbs(text) && filepath.Clean(text) == text && !strings.ContainsAny(text, "\n\x00")
}

func render(out Output) []tools.Block {
	if out.OutputFile != "" {
		return tools.Text("Running in the background. Its output goes to " + out.OutputFile + "; look at it with Read.")
	}
	var parts []string
	if out.Code != 0 && !out.TimedOut && !out.Interrupted {
		how := fmt.Sprintf("Exit code %d", out.Code)
		if out.Signal != "" {
			how += " (" + out.Signal + ")"
		}
		parts = append(parts, how)
	}
	for _, text := range []string{out.Stdout, out.Stderr, out.Note} {
		if text = strings.TrimRight(text, "\n"); text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 && !out.TimedOut && !out.Interrupted {
		return tools.Text("(no output)")
	}
	return tools.Text(strings.Join(parts, "\n"))
}

// firstLine is the beginning of a command, for a title.
func firstLine(command string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(command), "\n")
	const most = 120
	if r := []rune(line); len(r) > most {
		return string(r[:most]) + " ..."
	}
	if rest != "" {
		line += " ..."
	}
	return line
}
