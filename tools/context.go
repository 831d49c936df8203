package tools

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sallyport/sallyport/sandbox/inside"
)

// A Context is what a call has beside its input. Each call gets a copy; what it
// points to is shared as its fields say.
type Context struct {
	Options
	Run
	UI
	Agent
}

// Options do not change while a session is live.
type Options struct {
	Workspace string // absolute; the same path inside and outside
	Home      string // inside
	Driver    string
	Session   string // its name
}

// Run is the state of the calls so far, and what this one is held to.
type Run struct {
	// State is shared by all calls of one agent.
	State *State
	// Dir is the working directory in which the call was judged.
	Dir string
	// Judged are the paths that the call was judged by: as many, and in the same
	// order, as the tool's Access lists.
	Judged []Judged
	// Box runs the tool's function where the call was judged to run; nil for a
	// tool whose site is the host.
	Box Box
}

// JudgedPath is the path of a call that has one.
func (r *Run) JudgedPath() (Judged, error) {
	if len(r.Judged) != 1 {
		return Judged{}, errors.New("the path of the call was not judged")
	}
	return r.Judged[0], nil
}

// A Judged path is one that a decision was made on.
type Judged struct {
	// Path is absolute. When Resolved is set, it leads through no link, and must
	// be opened so that it is followed through none: it is the very path that was
	// judged. Otherwise the decision does not depend on where it leads.
	Path     string
	Resolved bool
}

// UI is what a call can show meanwhile; its parts are nil without a person.
type UI struct {
	// Status says in a few words what is being done.
	Status func(string)
}

// Agent is who makes the call.
type Agent struct {
	ID     string
	Parent string // of a sub-agent
}

// A Box runs functions of the guest, under the envelope of the call.
type Box interface {
	// Call runs a function inside. What it returns comes from inside, and is not
	// to be trusted. An error may come with a result: that of a call which was
	// stopped.
	Call(ctx context.Context, function string, input []byte, progress func([]byte)) ([]byte, error)
}

// Call runs a function of the guest with values in JSON. out is nil when nothing
// was returned, which is an error.
func Call[In, Out any](ctx context.Context, c *Context, function string, in In, progress func([]byte)) (out *Out, err error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	got, err := c.Box.Call(ctx, function, data, progress)
	if got == nil && err != nil {
		return nil, err
	}
	out = new(Out)
	if jsonErr := inside.Result(got, out); jsonErr != nil {
		return nil, errors.Join(err, fmt.Errorf("the container returned what is no result of %s: %w", function, jsonErr))
	}
	return out, err
}

// Abs is the absolute path of one that a model named: relative ones are to the
// workspace, as ~ is to the home directory.
func (c *Context) Abs(path string) string {
	switch {
	case path == "~":
		return c.Home
	case strings.HasPrefix(path, "~/"):
		return filepath.Join(c.Home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(c.Workspace, path)
}

// Rel is a path as people read it: relative to the workspace where it is in it.
func (c *Context) Rel(path string) string {
	if rel, ok := strings.CutPrefix(path, strings.TrimSuffix(c.Workspace, "/")+"/"); ok {
		return rel
	}
	return path
}

// A State is what one agent's calls leave to those after them. It may be used by
// several goroutines at once.
type State struct {
	mu    sync.Mutex
	dir   string
	reads map[string]*list.Element
	order *list.List // of *read, the newest first
	// denials are counted per agent: see Denied.
	denials map[string]Denials
}

// read is a file as it was last seen by the agent.
type read struct {
	Path string `json:"path"`
	Hash string `json:"hash"`
}

// mostReads is how many files are remembered as read.
const mostReads = 1000

// NewState is the state of an agent that has done nothing, in a working
// directory.
func NewState(dir string) *State {
	return &State{dir: dir, reads: make(map[string]*list.Element), order: list.New(), denials: make(map[string]Denials)}
}

// Dir is the working directory of shell commands.
func (s *State) Dir() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dir
}

// SetDir changes the working directory.
func (s *State) SetDir(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir = dir
}

// Saw notes that the agent has seen a file, or written it: what its content's
// SHA-256 is, in hex.
func (s *State) Saw(path, hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.reads[path]; e != nil {
		e.Value.(*read).Hash = hash
		s.order.MoveToFront(e)
		return
	}
	s.reads[path] = s.order.PushFront(&read{path, hash})
	if s.order.Len() > mostReads {
		oldest := s.order.Back()
		s.order.Remove(oldest)
		delete(s.reads, oldest.Value.(*read).Path)
	}
}

// Seen returns the hash of a file as the agent has last seen it.
func (s *State) Seen(path string) (hash string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.reads[path]
	if e == nil {
		return "", false
	}
	s.order.MoveToFront(e)
	return e.Value.(*read).Hash, true
}

// stateJSON is how a state is kept.
type stateJSON struct {
	Dir     string             `json:"dir"`
	Reads   []read             `json:"reads,omitempty"` // the oldest first
	Denials map[string]Denials `json:"denials,omitempty"`
}

// MarshalJSON makes a State something that can be kept.
func (s *State) MarshalJSON() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := stateJSON{Dir: s.dir, Denials: s.denials}
	for e := s.order.Back(); e != nil; e = e.Prev() {
		kept.Reads = append(kept.Reads, *e.Value.(*read))
	}
	return json.Marshal(kept)
}

// UnmarshalJSON reads what MarshalJSON made.
func (s *State) UnmarshalJSON(data []byte) error {
	var kept stateJSON
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	fresh := NewState(kept.Dir)
	for _, r := range kept.Reads {
		fresh.Saw(r.Path, r.Hash)
	}
	for agent, d := range kept.Denials {
		if d.InARow < 0 || d.InARow > d.Total || d.Total > mostDenials || len(agent) > longestAgent {
			continue
		}
		fresh.setDenials(agent, d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir, s.reads, s.order, s.denials = fresh.dir, fresh.reads, fresh.order, fresh.denials
	return nil
}
