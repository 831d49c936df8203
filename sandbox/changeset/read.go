package changeset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/beneath"
)

// Options say what Read is to know besides the layers. The zero value has no
// protected and no refused paths, and looks up no bases.
type Options struct {
	// Bases has the base records of the upper. Without it Change.Base is empty,
	// and applying a change to what exists takes Force.
	Bases *Bases
	// Protected reports whether a path may leave only if it is named. Of a link, it
	// is asked with a slash at the end of the path as well.
	Protected func(path string) bool
	// Refuse says why a path may never leave; empty if it may.
	Refuse func(path string) string
	// MaxEntries bounds the entries looked at; 0 is a million.
	MaxEntries int
	// MaxFileSize is the size above which a file is refused; 0 is 16 GiB. A file
	// of holes can be any size.
	MaxFileSize int64
	// Items makes Set.Items; nil does not.
	Items *Seen

	raw bool // tests: infer nothing
}

// ErrTooMany is wrapped by the error for a change set above Options.MaxEntries.
var ErrTooMany = errors.New("too many changes")

// TempPrefix begins the names that Apply makes beside its targets. An agent's
// files of such names do not leave.
const TempPrefix = ".sallyport-"

// A Set is what a session changed. Its methods read the layers that it was read
// from, which stay the caller's and have to stay open. It is not for use by
// several goroutines at once.
type Set struct {
	Changes []*Change // ordered by path, a directory before what is in it

	layers    Layers
	bases     *Bases
	unchanged []*Change // entries of the upper that are as in the view: Kind is empty
	now       Time      // by the upper's clock, from before anything was read

	items      []*Item
	incomplete string // why they are not all
}

// Read finds what the upper changes against the view below it. What it costs
// depends on the upper, and on the directories that the upper removes or makes
// opaque, never on the rest of the workspace.
//
// The session may go on writing meanwhile. Then the set may have parts of
// before and after, but a change whose content is no longer what it was when
// the set was read cannot be opened or applied.
func Read(ctx context.Context, l Layers, o Options) (*Set, error) {
	s, err := read(ctx, l, o)
	if err != nil {
		return nil, fmt.Errorf("reading the changes: %w", err)
	}
	return s, nil
}

func read(ctx context.Context, l Layers, o Options) (*Set, error) {
	if o.Protected == nil {
		o.Protected = func(string) bool { return false }
	}
	if o.Refuse == nil {
		o.Refuse = func(string) string { return "" }
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = 1_000_000
	}
	if o.MaxFileSize == 0 {
		o.MaxFileSize = 16 << 30
	}
	view, done, err := l.Lower.sameMount()
	if err != nil {
		return nil, err
	}
	defer done()
	now, err := clock(l.Upper)
	if err != nil && !errors.Is(err, ErrNoClock) {
		return nil, err
	}
	r := &reader{ctx: ctx, opts: o, upper: l.Upper, view: view, now: now, set: &Set{layers: l, bases: o.Bases, now: now}, linked: make(map[uint64][]linkName)}
	if err := r.walk(); err != nil {
		return nil, err
	}
	r.finishItems()
	if !o.raw {
		r.findLinks()
	}
	slices.SortFunc(r.set.Changes, func(a, b *Change) int { return comparePaths(a.Path, b.Path) })
	if !o.raw {
		if err := r.findRenames(); err != nil {
			return nil, err
		}
	}
	if err := r.settleAll(); err != nil {
		return nil, err
	}
	if err := r.findBases(); err != nil {
		return nil, err
	}
	for _, c := range r.same {
		if c.Kind == "" {
			r.set.unchanged = append(r.set.unchanged, c)
		}
	}
	return r.set, nil
}

type reader struct {
	ctx     context.Context
	opts    Options
	upper   *beneath.Dir
	view    View
	now     Time // by the upper's clock, from before anything was read
	set     *Set
	entries int
	same    []*Change             // entries of the upper that are as in the view: Kind is empty
	linked  map[uint64][]linkName // by inode: files of the upper that have several names
	gone    []goneFile            // files of the view that are no more

	xattrSize int // of all items
}

// A readDir is a directory of the upper to be read.
type readDir struct {
	name    string
	layers  []int  // of the same directory in the view, if it has one
	opaque  bool   // what the view has in it does not show
	refused string // why nothing in it can leave
}

func (r *reader) walk() error {
	root, err := r.view.root()
	if err != nil {
		return err
	}
	if err := r.itemRoot(root); err != nil {
		return err
	}
	todo := []readDir{{name: ".", layers: root.layers}}
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		sub, err := r.dir(d)
		if err != nil {
			return err
		}
		todo = append(todo[:len(todo)-1], sub...)
	}
	return nil
}

// count counts an entry that is looked at.
func (r *reader) count() error {
	if r.entries++; r.entries > r.opts.MaxEntries {
		return fmt.Errorf("more than %d entries: %w", r.opts.MaxEntries, ErrTooMany)
	}
	if r.entries%256 == 0 {
		return r.ctx.Err()
	}
	return nil
}

// dir reads one directory of the upper, and returns those in it.
func (r *reader) dir(d readDir) ([]readDir, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	up, err := r.upper.OpenDir(d.name)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err // entry has seen to it that we may read it
	}
	defer up.Close()
	p := place{readDir: d, up: up}
	if d.layers != nil {
		p.low, err = r.view.open(d.name, d.layers)
		if err != nil && !isGone(err) {
			return nil, err
		}
		if p.low != nil {
			defer p.low.close()
		}
	}
	if p.policy, err = r.openPolicy(d.name); err != nil {
		return nil, err
	}
	defer p.policy.close()

	var sub []readDir
	seen := make(map[string]bool)
	for base, err := range up.Entries() {
		if err != nil {
			return nil, err
		}
		if err := r.count(); err != nil {
			return nil, err
		}
		seen[base] = true
		next, err := r.entry(&p, base)
		if err != nil && !isGone(err) {
			return nil, err
		}
		if next != nil {
			sub = append(sub, *next)
		}
	}
	if d.opaque && p.low != nil {
		return sub, r.hidden(&p, seen)
	}
	return sub, nil
}

// A place is where an entry is: an open directory in each of the layers.
type place struct {
	readDir
	up     *beneath.Dir
	low    *viewDir // nil if the view has no such directory
	policy policyDir
}

// hidden finds what an opaque directory hides of the view.
func (r *reader) hidden(p *place, seen map[string]bool) error {
	names, err := p.low.names()
	if err != nil {
		return err
	}
	for _, base := range names {
		if seen[base] {
			continue
		}
		if err := r.count(); err != nil {
			return err
		}
		e, err := p.low.child(base)
		if isGone(err) || err == nil && !e.exists() {
			continue
		}
		if err != nil {
			return err
		}
		c := &Change{set: r.set, Path: path.Join(p.name, base), how: byOpaque}
		if err := r.deleted(p, c, base, e); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// maxFresh is the size in bytes up to which a fresh file is hashed rather than
// waited for.
const maxFresh = 1 << 20

// settleAll makes sure that a file which changes from now on will be noticed. The
// stamp of one that changed in this very moment may stay the same when it is
// changed again: it is hashed, or waited for until its stamp is old enough.
func (r *reader) settleAll() error {
	var last int64
	var files []*Change
	for _, c := range r.set.Changes {
		if c.Kind != Deleted && c.Type == File && c.Refused == "" {
			files = append(files, c)
		}
	}
	for _, i := range r.set.items {
		if i.Type == File && i.Refused == "" && i.change.Refused != "" {
			files = append(files, i.change) // it does not leave, but is opened as an item
		}
	}
	for _, c := range files {
		if r.now.before(c.new.Ctime) {
			continue
		}
		future := c.new.Ctime > r.now.Nano+int64(time.Second) // the clock was set back
		if c.Size > maxFresh && r.now != (Time{}) && !future {
			last = max(last, c.new.Ctime)
			continue
		}
		if _, err := c.hash(r.ctx); err != nil && !isGone(err) && !errors.Is(err, ErrChanged) {
			return err
		}
	}
	for now := r.now; last != 0 && !now.before(last); {
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-time.After(Settle / 4):
		}
		var err error
		if now, err = clock(r.upper); err != nil {
			return err
		}
	}
	return nil
}

// findBases compares the bases on record with what is there now.
func (r *reader) findBases() error {
	if r.opts.Bases == nil {
		return nil
	}
	now := look{r.ctx, r.view, r.opts.Bases.asOf}
	for _, c := range r.set.Changes {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if c.Refused == tooLong {
			c.Base = BaseAbsent // no system call takes such a path: there is nothing to look at
			continue
		}
		c.base = r.opts.Bases.known(c.Path)
		reason, err := now.confirm(c.Path, c.base, c.Type != Dir || c.Kind == Deleted)
		if err == nil && reason == "" && c.Kind == Renamed && !c.fromDir {
			c.fromBase = r.opts.Bases.known(c.From)
			reason, err = now.confirm(c.From, c.fromBase, true)
		}
		if err != nil && !isGone(err) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		switch {
		case err != nil:
			c.Base, c.Conflict = BaseConflict, "cannot be looked at in the workspace"
		case reason != "":
			c.Base, c.Conflict = BaseConflict, reason
		case c.OldType == "":
			c.Base = BaseAbsent
		default:
			c.Base = BaseProved
		}
	}
	return nil
}
