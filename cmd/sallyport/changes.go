package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/tools"
)

func diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "show what a session changed in its workspace",
		ArgsUsage: "[PATH...]",
		Description: "Shows the changes that have not been applied: a summary and a diff on a terminal, a patch for git apply\n" +
			"elsewhere. Paths limit it to what is at and below them.",
		Flags: append(sessionFlags(),
			&cli.BoolFlag{Name: "stat", Usage: "show only the summary"},
			&cli.BoolFlag{Name: "patch", Usage: "show only the patch"},
			&cli.BoolFlag{Name: "no-pager", Usage: "do not page on a terminal"},
			jsonFlag(),
		),
		Action: runDiff, BashComplete: completeFlags,
	}
}

func runDiff(c *cli.Context) error {
	s, err := looked(c)
	if err != nil {
		return err
	}
	ctx := c.Context
	read := takesLong("reading the changes of session %s", s.Name)
	changes, err := s.Changes(ctx, permission.ProtectedBy(s.Workspace))
	read()
	if err != nil {
		return err
	}
	defer changes.Close()
	set, err := selected(changes, s, c.Args().Slice())
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(map[string]any{"session": s.Name, "changes": orEmpty(set)})
	}
	if len(set) == 0 {
		fmt.Fprintf(os.Stderr, "sallyport: no changes in session %s\n", s.Name)
		return nil
	}
	tty := term.IsTerminal(int(os.Stdout.Fd()))
	out, done := io.Writer(os.Stdout), func() error { return nil }
	if tty && !c.Bool("no-pager") && !c.Bool("stat") {
		out, done = pager(s.Workspace)
	}
	o := changeset.DiffOptions{Changes: set, Terminal: tty, Color: tty && os.Getenv("NO_COLOR") == ""}
	if !c.Bool("patch") && (tty || c.Bool("stat")) {
		err = changes.WriteStat(ctx, out, o)
	}
	if err == nil && !c.Bool("stat") {
		if tty && !c.Bool("patch") {
			fmt.Fprintln(out)
		}
		err = changes.WritePatch(ctx, out, o)
	}
	err = errors.Join(err, done())
	if errors.Is(err, os.ErrClosed) || isBrokenPipe(err) {
		return nil // the pager was left early
	}
	if n := notInPatch(set); err == nil && n > 0 && !tty && !c.Bool("stat") {
		fmt.Fprintf(os.Stderr, "sallyport: %s cannot be in a patch: see sallyport diff --stat\n", tools.Count(n, "change"))
	}
	return err
}

// notInPatch counts the changes that a patch has no form for: what is refused,
// and empty directories.
func notInPatch(set []*changeset.Change) (n int) {
	full := make(map[string]bool)
	for _, c := range set {
		full[path.Dir(c.Path)] = true
	}
	for _, c := range set {
		if c.Refused != "" || c.Type == changeset.Dir && !full[c.Path] {
			n++
		}
	}
	return n
}

func applyCommand() *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "carry out a session's changes in the real directory",
		ArgsUsage: "[PATH...]",
		Description: "Without paths, all changes are applied but those of protected paths, which must be named: git hooks and\n" +
			"configuration, shell and editor configuration. What you have changed yourself since is never overwritten:\n" +
			"such a change is a conflict, and stays in the session. The exit code is 1 if any change was not applied.",
		Flags: append(sessionFlags(),
			&cli.BoolFlag{Name: "atomic", Usage: "apply nothing if there is a conflict or an error; what is refused stays behind, as without it"},
			&cli.BoolFlag{Name: "force", Usage: "apply conflicts among the named PATHs too, replacing what is there"},
			&cli.BoolFlag{Name: "n", Aliases: []string{"dry-run"}, Usage: "only say what would be applied"},
			jsonFlag(),
		),
		Action: runApply, BashComplete: completeFlags,
	}
}

func runApply(c *cli.Context) error {
	if c.Bool("force") && !c.Args().Present() {
		return usageError(c, "--force needs the paths that it is meant for")
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	s, err := openSelection(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	if c.Bool("n") {
		if c.Bool("json") {
			return printJSON(map[string]any{"session": s.Name, "changes": orEmpty(s.set)})
		}
		return s.changes.WriteStat(ctx, os.Stdout, changeset.DiffOptions{Changes: s.set, Terminal: true})
	}
	done := takesLong("applying to %s", s.Workspace)
	report, err := s.Apply(ctx, s.changes, sandbox.ApplyOptions{Paths: s.paths, Force: c.Bool("force"), Atomic: c.Bool("atomic")})
	done()
	if report == nil {
		return err
	}
	if c.Bool("json") {
		if e := printJSON(applied(s.Name, report)); e != nil {
			return e
		}
	} else {
		printReport(os.Stdout, report)
	}
	if err != nil {
		return err
	}
	if !clean(report) {
		return exitCode(1)
	}
	return nil
}

// applied is what apply --json prints: the report, and always what was applied,
// be it nothing.
func applied(session string, r *changeset.Report) any {
	return struct {
		Session string `json:"session"`
		*changeset.Report
		Applied []string `json:"applied"`
	}{session, r, append([]string{}, r.Applied...)}
}

func discardCommand() *cli.Command {
	return &cli.Command{
		Name:        "discard",
		Usage:       "throw a session's changes away",
		ArgsUsage:   "PATH... | --all",
		Description: "The session sees the real directory's own files again at the paths and below them.",
		Flags: append(sessionFlags(),
			&cli.BoolFlag{Name: "all", Usage: "discard all changes"},
			jsonFlag(),
		),
		Action: runDiscard, BashComplete: completeFlags,
	}
}

func runDiscard(c *cli.Context) error {
	if c.Bool("all") == c.Args().Present() {
		return usageError(c, "name paths, or use --all")
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	s, err := openSelection(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	names := make([]string, len(s.set))
	for i, change := range s.set {
		names[i] = change.Path
	}
	done := takesLong("discarding %s", tools.Count(len(names), "change"))
	err = s.Discard(ctx, s.paths)
	done()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(map[string]any{"session": s.Name, "discarded": names})
	}
	fmt.Printf("discarded %s\n", tools.Count(len(names), "change"))
	return nil
}

// A selection is a session that is held, and which of its changes are meant.
type selection struct {
	*pipeline.Stored
	changes *sandbox.Changes
	paths   []string // of the workspace, as they were named; none is all
	set     []*changeset.Change
}

// openSelection opens what apply and discard are called for.
func openSelection(ctx context.Context, c *cli.Context) (_ *selection, err error) {
	s := &selection{}
	if s.Stored, err = stored(c); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.paths, err = relative(s.Stored.Stored, c.Args().Slice()); err != nil {
		return nil, err
	}
	done := takesLong("reading the changes of session %s", s.Name)
	s.changes, err = s.Changes(ctx)
	done()
	if err != nil {
		return nil, err
	}
	s.set, err = selected(s.changes, s.Stored.Stored, c.Args().Slice())
	return s, err
}

func (s *selection) close() {
	if s.changes != nil {
		s.changes.Close()
	}
	s.Close()
}

// relative turns paths that a user typed into paths of the workspace. They may
// be relative to the current directory when that is in the workspace, else to
// the workspace.
func relative(s *sandbox.Stored, args []string) ([]string, error) {
	dir := s.Workspace
	if wd, err := os.Getwd(); err == nil {
		if _, err := s.Relative(wd, "/"); err == nil {
			dir = wd
		}
	}
	var paths []string
	for _, arg := range args {
		path, err := s.Relative(arg, dir)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// selected are the changes at and below the paths; all without any. A path that
// selects none is an error.
func selected(c *sandbox.Changes, s *sandbox.Stored, args []string) ([]*changeset.Change, error) {
	paths, err := relative(s, args)
	if err != nil || len(paths) == 0 {
		return c.Set.Changes, err
	}
	used := make([]bool, len(paths))
	var set []*changeset.Change
	for _, change := range c.Set.Changes {
		in := false
		for i, p := range paths {
			if p == "." || change.Path == p || strings.HasPrefix(change.Path, p+"/") || change.From == p {
				used[i], in = true, true
			}
		}
		if in {
			set = append(set, change)
		}
	}
	for i, u := range used {
		if !u && paths[i] != "." {
			return nil, fmt.Errorf("nothing is changed at %s in session %s; see sallyport diff --stat", args[i], s.Name)
		}
	}
	return set, nil
}

func orEmpty(set []*changeset.Change) []*changeset.Change {
	if set == nil {
		return []*changeset.Change{}
	}
	return set
}

// printReport says what became of the changes.
func printReport(w io.Writer, r *changeset.Report) {
	for _, path := range r.Applied {
		fmt.Fprintf(w, "applied   %s\n", changeset.Printable(path))
	}
	list := func(what string, problems []changeset.Problem) {
		for _, p := range problems {
			fmt.Fprintf(w, "%s %s: %s\n", what, changeset.Printable(p.Path), changeset.Printable(p.Reason))
		}
	}
	list("refused  ", r.Refused)
	list("conflict ", r.Conflicts)
	list("failed   ", r.Failed)
	for _, path := range r.Left {
		fmt.Fprintf(w, "left      %s: the old of a file that has been written to meanwhile\n", changeset.Printable(path))
	}
	if len(r.Conflicts) > 0 {
		fmt.Fprintln(w, "conflicts stay in the session: compare with sallyport diff PATH, then sallyport apply --force PATH or discard PATH")
	}
	// git status is enough to make it one, and nobody can compare it.
	for _, p := range r.Conflicts {
		if repo, ok := strings.CutSuffix(p.Path, ".git/index"); ok && (repo == "" || strings.HasSuffix(repo, "/")) {
			fmt.Fprintf(w, "git outside has rewritten %s: sallyport discard that one, and git reset makes it anew from HEAD\n", changeset.Printable(p.Path))
		}
	}
	if len(r.Applied)+len(r.Refused)+len(r.Conflicts)+len(r.Failed) == 0 {
		fmt.Fprintln(w, "nothing to apply")
	}
}

// clean reports whether all that was to be applied was.
func clean(r *changeset.Report) bool {
	return len(r.Refused)+len(r.Conflicts)+len(r.Failed) == 0
}

// askApply shows the changes and asks whether to carry them out.
func askApply(c *sandbox.Changes, workspace string) (bool, error) {
	ctx := context.Background()
	o := changeset.DiffOptions{Changes: c.Set.Changes, Terminal: true, Color: os.Getenv("NO_COLOR") == ""}
	if err := c.WriteStat(ctx, os.Stderr, o); err != nil {
		return false, err
	}
	// A question whose answer changes nothing is not asked.
	if !slices.ContainsFunc(c.Set.Changes, canLeave) {
		return false, nil
	}
	for {
		switch ask(fmt.Sprintf("Apply to %s? [y]es, [N]o, [d]iff ", workspace)) {
		case "y":
			return true, nil
		case "d":
			out, done := pager(workspace)
			err := errors.Join(c.WritePatch(ctx, out, o), done())
			if err != nil && !isBrokenPipe(err) {
				return false, err
			}
		default:
			return false, nil
		}
	}
}

// canLeave reports whether a change is applied when all are.
func canLeave(c *changeset.Change) bool {
	return !c.Protected && c.Refused == "" && c.Base != changeset.BaseConflict
}
