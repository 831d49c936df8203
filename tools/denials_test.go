package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestDenials(t *testing.T) {
	s := NewState("/work")
	for range 3 {
		s.Denied("")
	}
	s.Denied("lead/reviewer")
	s.Succeeded("lead/reviewer")
	s.Succeeded("nobody")
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	kept := NewState("/")
	if err := json.Unmarshal(data, kept); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(kept.Denials()); got != "map[:{3 3} lead/reviewer:{0 1}]" {
		t.Error(got)
	}
	if got := kept.Denied(""); got != 4 {
		t.Errorf("the next is denial %d in a row", got)
	}
}

// A state that was tampered with counts what can be.
func TestHostileDenials(t *testing.T) {
	var many strings.Builder
	for i := range 2 * mostAgents {
		fmt.Fprintf(&many, `"agent%d": {"in_a_row": 1, "total": 1}, `, i)
	}
	for name, test := range map[string]struct {
		denials string
		agents  int
	}{
		"negative":       {`{"a": {"in_a_row": -1, "total": 1}}`, 0},
		"more than all":  {`{"a": {"in_a_row": 2, "total": 1}}`, 0},
		"near overflow":  {`{"": {"in_a_row": 9223372036854775807, "total": 9223372036854775807}}`, 0},
		"a long name":    {`{"` + strings.Repeat("x", longestAgent+1) + `": {"total": 1}}`, 0},
		"too many names": {`{` + many.String() + `"last": {"total": 1}}`, mostAgents},
		"none":           {`null`, 0},
	} {
		s := NewState("/")
		if err := json.Unmarshal([]byte(`{"dir": "/work", "denials": `+test.denials+`}`), s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := len(s.Denials()); got != test.agents {
			t.Errorf("%s: %d agents", name, got)
		}
		if s.Denied(""); s.Denied("") != 2 {
			t.Errorf("%s: the agent itself is not counted", name)
		}
	}
	s := NewState("/")
	for i := range 2 * mostAgents {
		s.Denied(fmt.Sprint(i))
	}
	if got := len(s.Denials()); got != mostAgents {
		t.Errorf("%d agents are counted", got)
	}
}
