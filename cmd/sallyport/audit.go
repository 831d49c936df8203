package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/tools"
)

func auditCommand() *cli.Command {
	which := []cli.Flag{
		&cli.StringFlag{Name: "session", Usage: "only the session of this `NAME` or ID", DefaultText: "all, also removed ones"},
		jsonFlag(),
	}
	return &cli.Command{
		Name:  "audit",
		Usage: "list what was decided and done, and check that the record is whole",
		Description: "Each session has a record: a line for each decision, written before the call runs, and one for what came\n" +
			"of it. Each names the hash of the one before it, so that no line can be changed or removed unseen.",
		Flags: which,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError(c, "no command %q", c.Args().First())
			}
			return listRecords(c)
		},
		Subcommands: []*cli.Command{
			{Name: "ls", Usage: "list the records", Flags: which, Action: atMost(0, listRecords)},
			{
				Name: "verify", Usage: "follow the chain of hashes",
				Description: "Prints the hash of the newest record of each session. Kept elsewhere and given with --head, it proves\n" +
					"that the end was not cut off either.",
				Flags:  append(which, &cli.StringFlag{Name: "head", Usage: "the `HASH` of a record that must be there"}),
				Action: atMost(0, verifyRecords),
			},
		},
	}
}

// recordFiles are the records of sessions: of those that exist, and of those
// that were removed.
func recordFiles(c *cli.Context) (map[string]string, []string, error) {
	store, err := openStore()
	if err != nil {
		return nil, nil, err
	}
	files := make(map[string]string) // name to path
	var order []string
	add := func(name, id, path string) {
		if want := c.String("session"); want != "" && want != name && want != id {
			return
		}
		if _, taken := files[name]; taken {
			name += "-" + id
		}
		files[name] = path
		order = append(order, name)
	}
	removed, err := filepath.Glob(filepath.Join(store.RecordDir(), "*.jsonl"))
	if err != nil {
		return nil, nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, nil, err
	}
	for _, s := range list {
		add(s.Name, s.ID, filepath.Join(s.Dir(), sandbox.RecordFile))
	}
	for _, path := range removed {
		base := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		if i := strings.LastIndexByte(base, '-'); i > 0 {
			add(base[:i], base[i+1:], path)
		}
	}
	if len(order) == 0 && c.String("session") != "" {
		return nil, nil, fmt.Errorf("there is no record of a session %s; see sallyport audit", c.String("session"))
	}
	return files, order, nil
}

func listRecords(c *cli.Context) error {
	files, order, err := recordFiles(c)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	if !c.Bool("json") && len(order) > 0 {
		fmt.Fprintln(w, "TIME\tSESSION\tWHAT\tDECISION\tRESULT")
	}
	var errs []error
	// One session after another is how they are read, and not how it happened.
	var rows []row
	for _, name := range order {
		pending := make(map[string]*audit.Record) // decisions whose result is still to come
		_, err := audit.ReadFile(files[name], func(r *audit.Record) error {
			if c.Bool("json") {
				return printJSON(r)
			}
			if r.Kind == audit.KindDecision {
				pending[r.Call] = r
				return nil
			}
			rows = append(rows, rowOf(name, r, pending[r.Call]))
			delete(pending, r.Call)
			return nil
		})
		for _, r := range pending {
			rows = append(rows, rowOf(name, r, r))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the record of session %s: %w", name, err))
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.time.Compare(b.time) })
	for _, r := range rows {
		fmt.Fprintln(w, r.text)
	}
	return errors.Join(append(errs, w.Flush())...)
}

// A row is a line of the list.
type row struct {
	time time.Time
	text string
}

func rowOf(name string, r, decision *audit.Record) row {
	what, decided := string(r.Kind), ""
	var result []string
	if r.Event != "" {
		what = r.Event
	}
	if decision != nil {
		what = decision.Tool + " " + shortInput(decision.Input)
		if d := decision.Decision; d != nil {
			decided = d.Behavior + ": " + d.Reason
		}
	}
	if r.Kind == audit.KindEvent && r.Tool != "" {
		what += " " + r.Tool // an event of a call
		if r.Input != nil {
			what += " " + shortInput(r.Input)
		}
		result = append(result, fields(r.Detail)...)
	}
	switch x := r.Result; {
	case x == nil && r.Kind == audit.KindDecision:
		result = append(result, "no result: it runs, or its process died")
	case x == nil:
	case x.Error != "":
		result = append(result, x.Error)
	case x.Signal != "":
		result = append(result, x.Signal)
	case x.Exit != nil:
		result = append(result, fmt.Sprintf("exit %d", *x.Exit))
	}
	if x := r.Result; x != nil {
		if x.Applied {
			result = append(result, "taken from its preview")
		}
		result = append(result, x.Duration.Round(100*time.Microsecond).String())
		if n := len(x.Paths) + x.More; n > 0 {
			result = append(result, tools.Count(n, "change")+" in the session")
		}
	}
	return row{r.Time, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", r.Time.Local().Format("2006-01-02 15:04:05.000"), name,
		changeset.Printable(what), changeset.Printable(decided), changeset.Printable(strings.Join(result, ", ")))}
}

// fields are what is said of an event in short, by name: texts, numbers that are not
// 0, and how long lists are.
func fields(detail map[string]any) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(detail)) {
		switch x := detail[name].(type) {
		case string, bool, float64, json.Number:
			text := fmt.Sprint(x)
			if ns, ok := x.(float64); ok && strings.HasSuffix(name, "_ns") {
				text = time.Duration(ns).Round(100 * time.Microsecond).String()
			}
			if text != "0" && len(text) <= 100 && name != "change_set" {
				list = append(list, strings.TrimSuffix(name, "_ns")+" "+text)
			}
		case []any:
			list = append(list, fmt.Sprintf("%s %d", name, len(x)))
		}
	}
	return list
}

// shortInput shows an input in a few words: what is run, or which file it is
// about, or all of it.
func shortInput(input json.RawMessage) string {
	var known struct {
		Args     []string `json:"args"`
		Command  string   `json:"command"`
		FilePath string   `json:"file_path"`
	}
	var s string
	switch err := json.Unmarshal(input, &known); {
	case err == nil && len(known.Args) > 0:
		s = strings.Join(known.Args, " ")
	case err == nil && known.Command+known.FilePath != "":
		s = known.Command + known.FilePath
	default:
		s = readable(input)
	}
	if r := []rune(s); len(r) > 60 {
		s = string(r[:59]) + "…"
	}
	return s
}

// readable is JSON in which < and its like stand as they are.
func readable(data json.RawMessage) string {
	var v any
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if json.Unmarshal(data, &v) != nil || enc.Encode(v) != nil {
		return string(data)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func verifyRecords(c *cli.Context) error {
	files, order, err := recordFiles(c)
	if err != nil {
		return err
	}
	want, found := c.String("head"), false
	var errs []error
	for _, name := range order {
		report, err := audit.ReadFile(files[name], func(r *audit.Record) error {
			found = found || r.Prev == want
			return nil
		})
		if report == nil {
			errs = append(errs, err)
			continue
		}
		if err == nil && report.Records == 0 {
			err = errors.New("it is empty, and each session has at least one record")
		}
		found = found || report.Head == want
		line := struct {
			Session string `json:"session"`
			*audit.Report
			OK    bool   `json:"ok"`
			Error string `json:"error,omitempty"`
		}{Session: name, Report: report, OK: err == nil}
		if err != nil {
			line.Error = err.Error()
			errs = append(errs, fmt.Errorf("the record of session %s is broken: %w; the file is %s", name, err, files[name]))
		}
		if c.Bool("json") {
			if err := printJSON(line); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			end := ""
			if report.Open {
				end = ", not closed: in use, or its process died"
			}
			fmt.Printf("%s: %s, whole%s\n  newest: %s\n", name, tools.Count(report.Records, "record"), end, report.Head)
		}
	}
	if want != "" && !found {
		errs = append(errs, fmt.Errorf("no record has the hash %s: the end was cut off, or it is of another session", want))
	}
	return errors.Join(errs...)
}
