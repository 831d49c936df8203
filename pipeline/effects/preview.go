// Package effects is what a call has done in a copy of its session, as plain
// data, and how people are shown it: on a terminal, in a prompt, as JSON.
//
// Nothing is run here, and nothing decided. Whatever a program may have chosen
// (names, contents, addresses) is shown so that it acts on no terminal, and
// bounded.
package effects

import (
	"time"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// A Preview is what a call did in a throwaway copy of its session.
type Preview struct {
	Output  Output  `json:"output"`
	Exit    *Exit   `json:"exit"` // nil if no program's end was seen
	Changes Changes `json:"changes"`
	// Outside are what it tried to change outside of the copy. Nothing was changed.
	Outside []Attempt `json:"outside"`
	// Network are whom it tried to reach. Nobody was reached.
	Network []Dial `json:"network"`
	// Dropped is how many more of both there were than are listed.
	Dropped   int           `json:"more_tried,omitempty"`
	Processes Processes     `json:"processes"`
	Limits    []string      `json:"limits"` // that were hit, in words
	Time      time.Duration `json:"time_ns"`
	// Complete says that this is all that the call would do, so that it need not
	// run again; Why says why not.
	Complete bool   `json:"complete"`
	Why      string `json:"why,omitempty"`
}

// Output is what was printed.
type Output struct {
	Stdout   string `json:"stdout"`
	Stdout64 []byte `json:"stdout_base64,omitempty"` // all of it, when it is no UTF-8
	Stderr   string `json:"stderr"`
	Stderr64 []byte `json:"stderr_base64,omitempty"`
	Cut      bool   `json:"truncated,omitempty"`
}

// An Exit is how a program ended.
type Exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"` // that ended it
}

// Changes are what was changed, layer by layer.
type Changes struct {
	Workspace []*changeset.Change `json:"workspace"`
	// Exposed are the changes in other directories that the session may write.
	Exposed []Exposed `json:"exposed,omitempty"`
	// Box is how many paths were changed in the session's own home and /tmp.
	Box int `json:"box"`

	layers []sandbox.LayerEffects // whose contents can be shown until they are closed
}

// Exposed are the changes in a directory that the session may write to beside its
// workspace.
type Exposed struct {
	Dir     string              `json:"dir"` // as it is inside
	Changes []*changeset.Change `json:"changes"`
}

// An Attempt is something that was tried outside.
type Attempt struct {
	Op      string `json:"op"`
	Path    string `json:"path"`
	Program string `json:"program,omitempty"`
	// Opportunistic attempts are what programs do beside their work, and do without.
	Opportunistic bool `json:"opportunistic,omitempty"`
}

// A Dial is an attempt to reach somebody.
type Dial struct {
	Host    string `json:"host"` // an address, or the name that was looked up
	Port    int    `json:"port,omitempty"`
	Op      string `json:"op"`
	Program string `json:"program,omitempty"`
}

// Processes are what was started.
type Processes struct {
	Started  int      `json:"started,omitempty"` // that ended by themselves; 0 if it is not known
	Programs []string `json:"programs,omitempty"`
	Running  int      `json:"running"`        // when the call had ended
	Left     []string `json:"left,omitempty"` // their command lines
}

// SetEffects says what was changed and, where the fork has noticed that itself, what
// was tried, what ran and which limits were reached. Contents are read when they are
// shown, until the effects are closed; nil is none.
func (p *Preview) SetEffects(e *sandbox.Effects) {
	p.Changes = Changes{Workspace: []*changeset.Change{}}
	if e == nil {
		return
	}
	p.Changes.layers = e.Layers
	p.Changes.Box = e.Box()
	for _, l := range p.shown() {
		if l.Name == "workspace" {
			p.Changes.Workspace = l.Set.Changes
		} else {
			p.Changes.Exposed = append(p.Changes.Exposed, Exposed{l.Dir, l.Set.Changes})
		}
	}
	p.Processes.Running = max(p.Processes.Running, len(e.Left))
	for _, process := range e.Left {
		p.Processes.Left = append(p.Processes.Left, process.Command)
	}
}

// SetAttempts says what was tried, and how much more there was.
func (p *Preview) SetAttempts(attempts []sandbox.Attempt, dropped int) {
	p.Outside, p.Network, p.Dropped = []Attempt{}, []Dial{}, dropped
	for _, a := range attempts {
		if !a.Network() {
			p.Outside = append(p.Outside, Attempt{Op: a.Op, Path: a.Path, Program: a.Program, Opportunistic: a.Opportunistic})
			continue
		}
		d := Dial{Host: a.Host, Port: int(a.Port), Op: a.Op, Program: a.Program}
		if d.Host == "" {
			d.Host = a.Path
		}
		p.Network = append(p.Network, d)
	}
}

// Changed reports whether anything was changed that outlives the session's box.
func (p *Preview) Changed() bool { return len(p.Changes.Workspace)+len(p.Changes.Exposed) > 0 }

// None reports whether nothing was changed of that, and nothing tried.
func (p *Preview) None() bool {
	return !p.Changed() && len(p.Outside)+len(p.Network)+p.Dropped == 0
}

// shown are the layers whose changes are listed one by one.
func (p *Preview) shown() (list []sandbox.LayerEffects) {
	for _, l := range p.Changes.layers {
		if l.Changes != nil && len(l.Set.Changes) > 0 && l.Name != "home" && l.Name != "tmp" {
			list = append(list, l)
		}
	}
	return list
}
