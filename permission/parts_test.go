package permission

import (
	"slices"
	"strings"
	"testing"
)

func TestParts(t *testing.T) {
	p := &Policy{Mode: Default, Workspace: "/work", Home: "/home/agent"}
	for _, test := range []struct {
		command string
		want    []string
	}{
		{"ls", []string{"[read-only] ls"}},
		{"cd sub && cat a", []string{"[harmless] cd sub", "[read-only] cat a"}},
		{"mkdir -p build /tmp/x", []string{"[writes build, /tmp/x] mkdir -p build /tmp/x"}},
		{"touch a b c d e f", []string{"[writes a, b, c, d, e, ...] touch a b c d e f"}},
		{"curl https://example.com/x", []string{"[network: example.com] curl https://example.com/x"}},
		{"make test", []string{"[not known: make runs other programs] make test"}},
		{"sort < in > out", []string{"[read-only] sort", "[reads in] < in", "[writes out] > out"}},
		{"nonesuch", []string{"[not known: what nonesuch does is not known] nonesuch"}},
		{"PATH=/x ls", []string{"  [not known: PATH runs what is not known] PATH", "[not known: variables are set for it that may change what it does] ls", "[it sets PATH, which may change what commands do] "}},
		{"ls ((", []string{"[there may be more: it is no command of bash: "}},
		{"sudo rm a", []string{"[not known: sudo ", "  [writes a] rm a"}},
		{"touch 'x: read-only'", []string{"[writes x: read-only] touch 'x: read-only'"}},
	} {
		var got []string
		for _, part := range p.Parts(&Request{Command: test.command, HasCommand: true, Dir: "/work"}) {
			got = append(got, part.String())
		}
		if !slices.EqualFunc(got, test.want, func(got, want string) bool {
			return got == want || want != "" && strings.HasPrefix(got, want) && len(want) > 8
		}) {
			t.Errorf("%s: %q, want %q", test.command, got, test.want)
		}
	}
	if got := p.Parts(&Request{Tool: "Read"}); got != nil {
		t.Errorf("of no command: %v", got)
	}
	long := strings.Repeat("touch "+strings.Repeat("x", 1000)+"\n", 40) + strings.Repeat("ls;", 100)
	parts := p.Parts(&Request{Command: long, HasCommand: true, Dir: "/work"})
	if last := parts[len(parts)-1]; len(parts) != mostSaid+1 || last.Note != "there are more parts than are shown here" || len(parts[0].Text) > mostText+3 {
		t.Errorf("%d parts, %+v", len(parts), last)
	}
}

func TestAskedBy(t *testing.T) {
	for want, agents := range map[string][]string{
		"":                                     nil,
		"agent reviewer":                       {"reviewer"},
		"agent reviewer (of lead)":             {"reviewer", "lead"},
		"agent reviewer (of lead, of planner)": {"reviewer", "lead", "planner"},
	} {
		if got := (&Prompt{Agents: agents}).AskedBy(); got != want {
			t.Errorf("%q: %q, want %q", agents, got, want)
		}
	}
}
