package tools

import "maps"

// Denials are how often calls of an agent were denied.
type Denials struct {
	// InARow are those since the last call that was carried out.
	InARow int `json:"in_a_row"`
	Total  int `json:"total"`
}

// Bounds of what is counted: a sub-agent that goes beyond is not counted.
const (
	mostAgents   = 200
	longestAgent = 1 << 10 // bytes of an ID
	mostDenials  = 1 << 30 // what a kept count may be
)

// Denied counts a denial of a call of an agent, "" for the one whose state it
// is, and returns how many there were in a row.
func (s *State) Denied(agent string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.denials[agent]
	d.InARow++
	d.Total++
	s.setDenials(agent, d)
	return d.InARow
}

// Succeeded notes that a call of an agent was carried out.
func (s *State) Succeeded(agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.denials[agent]; d.InARow > 0 {
		d.InARow = 0
		s.setDenials(agent, d)
	}
}

// Denials returns the counts of all agents that had any, by their IDs.
func (s *State) Denials() map[string]Denials {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.denials)
}

// setDenials is for those who hold the lock, or have the state alone.
func (s *State) setDenials(agent string, d Denials) {
	if _, known := s.denials[agent]; !known && agent != "" && (len(s.denials) >= mostAgents || len(agent) > longestAgent) {
		return
	}
	s.denials[agent] = d
}
