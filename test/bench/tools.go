package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/builtin"
)

// benchTools measures an agent's calls: the whole pipeline, with the record.
func benchTools(e *env) (rows []Row, err error) {
	workspace, err := e.workspace(20_000)
	if err != nil {
		return nil, err
	}
	line := strings.Repeat("x", 63) + "\n"
	if err := os.WriteFile(filepath.Join(workspace, "4k"), []byte(strings.Repeat(line, 64)), 0o644); err != nil {
		return nil, err
	}
	s, err := pipeline.Open(e.ctx, pipeline.Options{Store: e.store, Workspace: workspace, Driver: driver()})
	if err != nil {
		return nil, err
	}
	defer func() {
		stored, endErr := s.End()
		err = errors.Join(err, endErr, stored.Remove())
	}()
	p, err := pipeline.New(s, tools.NewSet(append(builtin.All(), nothing)...), &permission.Policy{Mode: permission.Bypass})
	if err != nil {
		return nil, err
	}
	use := func(tool, input string) func() error {
		u := pipeline.Use{ID: "bench", Name: tool, Input: json.RawMessage(input)}
		return func() error {
			if o := p.Run(e.ctx, u); o.IsError {
				return fmt.Errorf("%s: %s", tool, o.Text())
			}
			return nil
		}
	}

	alone := use("Nothing", `{"path":"src/main.go","count":10}`)
	got, err := turns(10_000, alone)
	if err != nil {
		return nil, err
	}
	rows = append(rows, row("the pipeline without the box", "µs", got[0], nil, 25))
	allocs := testing.AllocsPerRun(1000, func() { err = errors.Join(err, alone()) })
	if err != nil {
		return nil, err
	}
	rows = append(rows, Row{Name: "the same, allocations", Unit: "", P50: allocs, P95: allocs, Reach: 100, OK: allocs <= 100})

	read := use("Read", `{"file_path":"4k"}`)
	if got, err = turns(3000, read); err != nil {
		return nil, err
	}
	reads := got[0]
	rows = append(rows, row("Read of 4 KiB, the whole pipeline", "µs", reads, nil, 200))
	cat, end, err := dockerExec(e)
	if err != nil {
		skip("Read against docker exec", err)
	} else {
		if got, err = turns(30, cat); err == nil {
			rows = append(rows, row("the same, against docker exec cat", "ms", reads, got[0], 1.0/200))
		}
		if err = errors.Join(err, end()); err != nil {
			return nil, err
		}
	}

	if got, err = turns(200, use("Bash", `{"command":"true"}`), command("bash", "-c", "true")); err != nil {
		return nil, err
	}
	rows = append(rows, row("Bash true, the whole pipeline, against the host", "ms", got[0], got[1], 2))

	rg, err := exec.LookPath("rg")
	if err != nil {
		skip("Grep against ripgrep", err)
		return rows, nil
	}
	search := func() error {
		cmd := exec.Command(rg, "--no-config", "--files-with-matches", "-e", "thr[e]+$", "--", ".")
		cmd.Dir = workspace
		return cmd.Run()
	}
	if got, err = turns(20, use("Grep", `{"pattern":"thr[e]+$"}`), search); err != nil {
		return nil, err
	}
	return append(rows, row("Grep over 20,000 files, against ripgrep on the host", "ms", got[0], got[1], 1.2)), nil
}

// nothing is a tool that does nothing, for what the pipeline itself takes.
var nothing = tools.Define(tools.Definition[nothingInput, string, struct{}]{
	Name: "Nothing", Summary: "do nothing", Site: tools.Host,
	ReadOnly: func(nothingInput) bool { return true },
	Access: func(c *tools.Context, in nothingInput) []tools.Access {
		return []tools.Access{{Path: c.Abs(in.Path)}}
	},
	Call: func(context.Context, *tools.Context, nothingInput, func(struct{})) (*tools.Result[string], error) {
		return &tools.Result[string]{Data: "done"}, nil
	},
	Render: func(out string) []tools.Block { return tools.Text(out) },
})

type nothingInput struct {
	Path  string `json:"path"`
	Count int    `json:"count,omitempty"`
}
