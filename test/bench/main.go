// Command bench measures what sessions cost, against other ways to do the same
// in the same run, prints a table and writes the rows as JSON.
//
//	go run ./test/bench [-out FILE] [-only NAME]
//
// A reach is the most that a row's ratio may be, or its median where it has no
// baseline; of a speed, in MB/s, it is the least. Subject and baseline are measured in turns, so that the noise of a
// machine falls on both. What is absent is skipped by name. It ends within 10
// minutes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native"
)

// A Row is one measurement.
type Row struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
	Baseline float64 `json:"baseline"` // the median of what it is compared with, 0 for nothing
	Ratio    float64 `json:"ratio"`    // P50 by Baseline
	Reach    float64 `json:"reach"`    // 0 for none
	OK       bool    `json:"ok"`
}

// A bench measures some rows.
type bench struct {
	name string
	run  func(*env) ([]Row, error)
}

var benches = []bench{
	{"session", benchSession},
	{"call", benchCall},
	{"tools", benchTools},
	{"diff", benchDiff},
	{"fork", benchFork},
	{"fork", benchAdopt},
	{"idle", benchIdle},
	{"permission", benchPermission},
}

// env is what benches work with.
type env struct {
	ctx   context.Context
	dir   string // for workspaces
	store *sandbox.Store
	n     int
}

func main() {
	out := flag.String("out", "", "write the rows to `FILE`")
	only := flag.String("only", "", "only the bench of this `NAME`")
	flag.Parse()
	debug.SetGCPercent(400) // as sallyport does
	if err := run(*out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(out, only string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "sallyport-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	state := filepath.Join(dir, "state")
	store, err := sandbox.OpenStore(state)
	if err != nil {
		return err
	}
	e := &env{ctx: ctx, dir: dir, store: store}
	var rows []Row
	for _, b := range benches {
		if only != "" && only != b.name {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", b.name)
		got, err := b.run(e)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		rows = append(rows, got...)
	}
	print(rows)
	if out == "" {
		return nil
	}
	data, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(data, '\n'), 0o644)
}

func print(rows []Row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "what\tunit\tp50\tp95\tbaseline\tratio\treach\t\t")
	for _, r := range rows {
		ok := "ok"
		if !r.OK {
			ok = "MISSED"
		}
		if r.Reach == 0 {
			ok = ""
		}
		fmt.Fprintf(w, "%s\t%s\t%.3f\t%.3f\t%s\t%s\t%s\t%s\t\n", r.Name, r.Unit, r.P50, r.P95, number(r.Baseline), number(r.Ratio), number(r.Reach), ok)
	}
	w.Flush()
}

func number(f float64) string {
	if f == 0 {
		return "-"
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", f), "0"), ".")
}

// skip says what is not measured, and why.
func skip(what string, why any) { fmt.Fprintf(os.Stderr, "bench: skipped %s: %v\n", what, why) }

// samples are times of one thing.
type samples []time.Duration

func (s samples) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// row makes a row of times, in milliseconds unless unit says µs.
func row(name, unit string, s, baseline samples, reach float64) Row {
	scale := float64(time.Millisecond)
	if unit == "µs" {
		scale = float64(time.Microsecond)
	}
	r := Row{Name: name, Unit: unit, P50: float64(s.quantile(0.5)) / scale, P95: float64(s.quantile(0.95)) / scale, Reach: reach}
	value := r.P50
	if len(baseline) > 0 {
		r.Baseline = float64(baseline.quantile(0.5)) / scale
		r.Ratio = r.P50 / r.Baseline
		value = r.Ratio
	}
	r.OK = reach == 0 || value <= reach
	return r
}

// turns measures several things in turns, after a few that do not count.
func turns(n int, things ...func() error) ([]samples, error) {
	const warm = 5
	all := make([]samples, len(things))
	for i := range n + warm {
		for j, f := range things {
			start := time.Now()
			if err := f(); err != nil {
				return nil, err
			}
			if i >= warm {
				all[j] = append(all[j], time.Since(start))
			}
		}
	}
	return all, nil
}

// workspace makes a directory with some files, a hundred in each directory.
func (e *env) workspace(files int) (string, error) {
	e.n++
	dir := filepath.Join(e.dir, fmt.Sprintf("workspace-%d", e.n))
	for i := range files {
		sub := filepath.Join(dir, fmt.Sprintf("d%d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return "", err
			}
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%d.txt", i)), []byte("one\ntwo\nthree\n"), 0o644); err != nil {
			return "", err
		}
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// startOver makes a session live over a workspace with some files.
func (e *env) startOver(files int) (*sandbox.Stored, *sandbox.Session, error) {
	workspace, err := e.workspace(files)
	if err != nil {
		return nil, nil, err
	}
	return e.start(workspace)
}

// start makes a session live.
func (e *env) start(workspace string) (*sandbox.Stored, *sandbox.Session, error) {
	e.n++
	s, err := e.store.Create(sandbox.Settings{
		Name: fmt.Sprintf("bench-%d", e.n), Workspace: workspace, Mode: sandbox.Cow, Image: "host", Driver: "native",
	})
	if err != nil {
		return nil, nil, err
	}
	live, err := s.Start(e.ctx, sandbox.StartOptions{Driver: driver(), Env: os.Environ()})
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, live, nil
}

// driver is the native one with the guest that make build has made.
func driver() native.Driver { return native.Driver{Guest: "bin/sallyport-guest"} }
