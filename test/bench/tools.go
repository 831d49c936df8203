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
	ping, hangUp, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer hangUp()
	if got, err = turns(3000, read, ping); err != nil {
		return nil, err
	}
	reads := got[0]
	rows = append(rows,
		row("Read of 4 KiB, the whole pipeline", "µs", reads, nil, 200),
		// As for a call that starts no program, see benchCall.
		row("the same, against a round trip to cat", "µs", reads, got[1], 200.0/11),
	)
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

	more, err := benchGrep(e)
	return append(rows, more...), err
}

// benchGrep searches Go's own source tree, some 11,000 files, and the workspace of
// many tiny ones, of which each open costs an overlay what it costs.
func benchGrep(e *env) (rows []Row, err error) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		skip("Grep against ripgrep", err)
		return nil, nil
	}
	goroot, err := exec.CommandContext(e.ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	large := filepath.Join(e.dir, "go")
	if err := os.CopyFS(large, os.DirFS(filepath.Join(strings.TrimSpace(string(goroot)), "src"))); err != nil {
		return nil, err
	}
	tiny, err := e.workspace(20_000)
	if err != nil {
		return nil, err
	}
	for _, tree := range []struct {
		what, dir, pattern string
		reach              float64
	}{
		{"Grep over the source of Go, against ripgrep on the host", large, `func \(.*\) Close\(\) error`, 1.2},
		{"Grep over 20,000 tiny files, all of which match", tiny, "thr[e]+$", 0},
	} {
		got, err := grep(e, rg, tree.dir, tree.pattern)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row(tree.what, "ms", got[0], got[1], tree.reach))
	}
	return rows, nil
}

// grep measures a search by the tool, and by ripgrep on the host.
func grep(e *env, rg, dir, pattern string) (got []samples, err error) {
	s, err := pipeline.Open(e.ctx, pipeline.Options{Store: e.store, Workspace: dir, Driver: driver(), Name: "grep", New: true})
	if err != nil {
		return nil, err
	}
	defer func() {
		stored, endErr := s.End()
		err = errors.Join(err, endErr, stored.Remove())
	}()
	p, err := pipeline.New(s, tools.NewSet(builtin.All()...), &permission.Policy{Mode: permission.Default})
	if err != nil {
		return nil, err
	}
	input, err := json.Marshal(map[string]string{"pattern": pattern})
	if err != nil {
		return nil, err
	}
	return turns(20, func() error {
		if o := p.Run(e.ctx, pipeline.Use{ID: "bench", Name: "Grep", Input: input}); o.IsError {
			return errors.New(o.Text())
		}
		return nil
	}, func() error {
		cmd := exec.Command(rg, "--no-config", "--files-with-matches", "-e", pattern, "--", ".")
		cmd.Dir = dir
		return cmd.Run()
	})
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
