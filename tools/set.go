package tools

import (
	"fmt"
	"slices"
	"strings"
)

// A Set is the tools that there are for an agent.
type Set struct {
	list []*Tool // sorted by name
	name map[string]*Tool
}

// NewSet makes a set of the tools that are enabled. It panics when two have a
// name in common.
func NewSet(list ...*Tool) *Set {
	s := &Set{name: make(map[string]*Tool)}
	for _, t := range list {
		if !t.Enabled() {
			continue
		}
		s.list = append(s.list, t)
		for _, name := range append([]string{t.Name}, t.Aliases...) {
			if s.name[name] != nil {
				panic("tools: two tools are called " + name)
			}
			s.name[name] = t
		}
	}
	slices.SortFunc(s.list, func(a, b *Tool) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// All are the tools, sorted by name.
func (s *Set) All() []*Tool { return s.list }

// An UnknownToolError says that there is no tool of a name, and which is like it.
type UnknownToolError struct {
	Name    string
	Nearest string // "" when none is near
	All     []string
}

func (e *UnknownToolError) Error() string {
	name := e.Name
	if len(name) > 80 {
		name = name[:80] + "..."
	}
	if e.Nearest != "" {
		return fmt.Sprintf("there is no tool %q; did you mean %s?", name, e.Nearest)
	}
	return fmt.Sprintf("there is no tool %q; there are %s", name, strings.Join(e.All, ", "))
}

// Find returns the tool of a name or an alias, or an [*UnknownToolError].
func (s *Set) Find(name string) (*Tool, error) {
	if t := s.name[name]; t != nil {
		return t, nil
	}
	e := &UnknownToolError{Name: name}
	best := 3 // changes of a letter that still count as near
	for _, t := range s.list {
		e.All = append(e.All, t.Name)
		for _, known := range append([]string{t.Name}, t.Aliases...) {
			if d := distance(strings.ToLower(name), strings.ToLower(known), best); d < best && d < len(known)/2+1 {
				best, e.Nearest = d, t.Name
			}
		}
	}
	return nil, e
}

// distance is how many letters have to be changed, added or left out to come
// from one word to the other, or most when it is no less.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above, to the left
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], most)
}
