package changeset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/sallyport/sallyport/internal/beneath"
)

// ApplyOptions say what Apply is to carry out, and how.
type ApplyOptions struct {
	// Paths are what is applied; nil is all. A path names itself and all below
	// it, and what is named may be protected, unless it is named by ".".
	Paths []string
	// Exact makes a path name the change of that very path, and none below it; what
	// is protected stays.
	Exact bool
	// Force applies conflicts too: what the workspace has there now is replaced.
	Force bool
	// Atomic applies all or nothing: a conflict or an error leaves the workspace
	// as it was. What is refused is not part of it.
	Atomic bool
	// Owner is given to all that is written, if not nil. Otherwise, and only by
	// root, files get the owner they have in the upper, or what is root's there
	// the owner of what it replaces or of the directory it is put in.
	Owner *Owner
	// Journal is the session's directory. The journal in it is what Recover puts
	// things right by if Apply was cut short.
	Journal *beneath.Dir

	seam seam
}

// A seam lets tests see each step and do without what a file system may lack.
type seam struct {
	step       func(string)
	noExchange bool
}

func (s seam) at(what string) {
	if s.step != nil {
		s.step(what)
	}
}

// A Report says what became of each change. Changes that were not selected are
// not in it.
type Report struct {
	Applied   []string  `json:"applied,omitempty"`
	Refused   []Problem `json:"refused,omitempty"`   // can never leave, or must be named
	Conflicts []Problem `json:"conflicts,omitempty"` // not known to be made on what is there
	Failed    []Problem `json:"failed,omitempty"`
	// Left are temporary files that could not be removed without losing what
	// somebody else wrote: the old of a file that has been written to since.
	Left []string `json:"left,omitempty"`
}

// A Problem is why a change was not applied.
type Problem struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// conflict is the error of a change whose base is not what is there.
type conflict string

func (c conflict) Error() string { return string(c) }

// ErrNotApplied is returned by an atomic Apply that applied nothing. The report
// says why.
var ErrNotApplied = errors.New("nothing was applied")

// ErrCutShort is returned by Apply if an earlier one was cut short: Recover is to
// be called, and the set to be read again.
var ErrCutShort = errors.New("an earlier apply was cut short")

// Apply carries out changes in the target, which is the workspace itself.
//
// Every file is made beside its place and put there in one step; what it
// replaces is looked at once more when it is out of the way, and put back if it
// is not what the change was made on. What the user writes before, during or
// after is so never lost. Nothing outside the target is touched, whatever links
// lie in it.
//
// If the process dies, Recover undoes the change that was not finished or, if
// atomic, all; then the same Apply of the set read again ends as it would have.
func Apply(ctx context.Context, s *Set, target *beneath.Dir, o ApplyOptions) (*Report, error) {
	report, err := apply(ctx, s, target, o)
	if err != nil {
		err = fmt.Errorf("applying changes: %w", err)
	}
	return report, err
}

func apply(ctx context.Context, s *Set, target *beneath.Dir, o ApplyOptions) (*Report, error) {
	if o.Journal == nil {
		return &Report{}, errors.New("no directory for the journal")
	}
	t, err := openTarget(target, s.bases, o.seam)
	if err != nil {
		return &Report{}, err
	}
	defer t.close()
	a := &applier{target: t, ctx: ctx, set: s, opts: o, report: new(Report), where: make(map[string]*operation)}
	if o.Exact {
		a.exact = make(map[string]bool)
		for _, path := range o.Paths {
			a.exact[path] = true
		}
	}
	t.seam.at("make the journal")
	a.journal, err = newJournal(o.Journal, target)
	if errors.Is(err, fs.ErrExist) {
		err = ErrCutShort
	}
	if err != nil {
		return a.report, err
	}
	groups, err := a.plan()
	if err == nil {
		err = a.run(groups)
	}
	var broken *brokenError
	if !errors.As(err, &broken) {
		err = errors.Join(err, a.sync.finish(t))
		t.seam.at("remove the journal")
		err = errors.Join(err, a.journal.remove())
	}
	a.journal.file.Close()
	order := func(a, b Problem) int { return comparePaths(a.Path, b.Path) }
	slices.SortFunc(a.report.Applied, comparePaths)
	slices.SortFunc(a.report.Refused, order)
	slices.SortFunc(a.report.Conflicts, order)
	slices.SortFunc(a.report.Failed, order)
	return a.report, err
}

type applier struct {
	*target
	ctx     context.Context
	set     *Set
	opts    ApplyOptions
	report  *Report
	journal *journal
	sync    syncer
	exact   map[string]bool       // Options.Paths, if Options.Exact
	where   map[string]*operation // by which a path is put
}

// problem reports why a change is not applied.
func (a *applier) problem(c *Change, err error) {
	p := Problem{c.Path, err.Error()}
	var why conflict
	if errors.As(err, &why) {
		a.report.Conflicts = append(a.report.Conflicts, p)
	} else {
		a.report.Failed = append(a.report.Failed, p)
	}
}

func (a *applier) refuse(c *Change, reason string) {
	a.report.Refused = append(a.report.Refused, Problem{c.Path, reason})
}

// batch is how many groups of many are carried out together, so that the file
// system is synced once for all of them.
const batch = 256

// run carries out groups of operations.
func (a *applier) run(groups []*group) error {
	if a.opts.Atomic {
		if len(a.report.Conflicts)+len(a.report.Failed) > 0 {
			return ErrNotApplied
		}
		return a.runOne(join(groups))
	}
	if len(groups) <= maxSynced {
		return a.runEach(groups)
	}
	for some := range slices.Chunk(groups, batch) {
		conflicts, failed := len(a.report.Conflicts), len(a.report.Failed)
		all := join(some)
		err := a.carryOut(all)
		var broken *brokenError
		switch {
		case err == nil:
			a.applied(all)
			continue
		case errors.As(err, &broken):
			return err
		}
		// One of them cannot be carried out, and all were undone. Each for itself
		// will say which.
		a.report.Conflicts, a.report.Failed = a.report.Conflicts[:conflicts], a.report.Failed[:failed]
		if err := a.runEach(some); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) runEach(groups []*group) error {
	for _, g := range groups {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		if err := a.runOne(g); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) applied(g *group) {
	for _, c := range g.changes {
		a.report.Applied = append(a.report.Applied, c.Path)
	}
}

// runOne carries out a group. An error ends the apply; what else becomes of the
// group is reported.
func (a *applier) runOne(g *group) error {
	err := a.carryOut(g)
	var broken *brokenError
	var of *opError
	switch {
	case err == nil:
		a.applied(g)
	case errors.As(err, &broken):
		return err
	case !a.opts.Atomic:
		for _, c := range g.changes {
			a.problem(c, err)
		}
	case errors.As(err, &of):
		a.problem(of.change, of.err)
		return ErrNotApplied
	default:
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	return nil
}

// A brokenError stops an apply altogether, with the journal left for Recover.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// An opError is the error of one operation of a group.
type opError struct {
	change *Change
	err    error
}

func (e *opError) Error() string { return e.err.Error() }
func (e *opError) Unwrap() error { return e.err }
