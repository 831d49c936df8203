package permission

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Policy is what decisions are made by. It is not changed while it is used;
// see With.
type Policy struct {
	Mode  Mode
	Rules []Rule
	// Workspace is the root of the session's workspace, Home the home directory
	// inside; absolute.
	Workspace string
	Home      string
	// Exposed are the directories beside the workspace that the session sees.
	Exposed []string
	// Protected tells of a path relative to the workspace whether it is
	// protected; see [ProtectedBy]. Nil is [Protected].
	Protected func(path string) bool
	// Sealed says that what a call changes stays in the session until it is
	// applied, and that what is denied cannot be seen. Without, there is no
	// Bypass and no denial of Read.
	Sealed bool
	// Unheld says that no session runs the calls: what is read-only only in the
	// environment of a session (git, whose repository may name programs to run) is
	// not, and what is outside of the workspace is not shown without a question.
	Unheld bool
	// AskUnproven says that a run which changes nothing proves nothing: what is not
	// known to be read-only is asked about all the same.
	AskUnproven bool

	index *index // of Rules, by Check; see indexed
}

// Check reports what is wrong with a policy: what it asks for and cannot have. It
// makes the policy ready: without, each decision looks through all rules anew.
func (p *Policy) Check() error {
	p.index = newIndex(p.Rules)
	if !slices.Contains(Modes, p.Mode) {
		return fmt.Errorf("no mode %q; use one of %s", p.Mode, strings.Join(modeNames(), ", "))
	}
	if !filepath.IsAbs(p.Workspace) {
		return errors.New("a policy needs a workspace")
	}
	for _, r := range p.Rules {
		for _, dir := range p.Exposed {
			if r.Behavior == Deny && r.Tool == "Read" && r.OfFiles() && r.path.root != anywhere && (r.path.root != ofWorkspace || r.path.dir != "") && r.path.reaches(p.locate(dir), p) {
				return fmt.Errorf("the rule %s cannot be held: %s is exposed; do not expose it", r.named(), dir)
			}
		}
	}
	if p.Sealed {
		return nil
	}
	if p.Mode == Bypass {
		return errors.New("bypassPermissions is only for sealed sessions, whose workspace is copy-on-write: use --workspace cow, or another mode")
	}
	for _, r := range p.Rules {
		if r.Behavior == Deny && r.Tool == "Read" && r.OfFiles() {
			return fmt.Errorf("the rule %s cannot be held where the workspace is the real directory: use --workspace cow", r.named())
		}
	}
	return nil
}

func modeNames() []string {
	var names []string
	for _, m := range Modes {
		names = append(names, string(m))
	}
	return names
}

// With is the policy with one rule more.
func (p *Policy) With(r Rule) *Policy {
	more := *p
	more.Rules = append(slices.Clip(p.Rules), r)
	more.index = newIndex(more.Rules)
	return &more
}

// DependsOnPath reports whether a decision about what only reads could depend on
// where its paths lead.
func (p *Policy) DependsOnPath() bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool {
		return r.Behavior != Allow && contents[r.Tool] == ofPath
	})
}

// protects reports whether a path, absolute and clean, is protected.
func (p *Policy) protects(path string) bool {
	rel, ok := below(p.Workspace, path)
	if !ok || rel == "" {
		return false
	}
	if p.Protected == nil {
		return Protected(rel) != ""
	}
	return p.Protected(rel)
}
