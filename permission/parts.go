package permission

import (
	"strings"

	"github.com/sallyport/sallyport/permission/bash"
)

// A PromptPart is a part of a command, and what is known of it.
type PromptPart struct {
	Text string `json:"text"`
	// Kind is as of [bash.Kind]; a redirection reads or writes.
	Kind string `json:"kind"`
	// Note says what is known: that it is read-only, what it writes, where it
	// connects, or why that is not known.
	Note string `json:"note"`
	// Depth is 1 for what another part may run, and otherwise 0.
	Depth int `json:"depth,omitempty"`
}

// String is a part in a line. What is known comes first: the text, which an agent
// has written, might look as if it said so itself.
func (p *PromptPart) String() string {
	return strings.Repeat("  ", p.Depth) + "[" + p.Note + "] " + p.Text
}

// AskedBy names the sub-agent that makes the call, and those between it and the
// agent itself; "" when that one makes it.
func (p *Prompt) AskedBy() string {
	if len(p.Agents) == 0 {
		return ""
	}
	by := "agent " + p.Agents[0]
	if above := p.Agents[1:]; len(above) > 0 {
		by += " (of " + strings.Join(above, ", of ") + ")"
	}
	return by
}

// Bounds of what is said of a command.
const (
	mostSaid  = 100
	mostNamed = 5 // paths or hosts of a part
	mostText  = 400
)

// Parts are what is known of a request's command, for a prompt; nil without one.
func (p *Policy) Parts(r *Request) (parts []PromptPart) {
	if !r.HasCommand {
		return nil
	}
	script := bash.Parse(r.Command, bash.Env{Dir: r.Dir, Home: p.Home})
	for i := range script.Parts {
		part := &script.Parts[i]
		said := PromptPart{Text: cutTo(part.Text, mostText), Kind: string(part.Kind), Note: p.known(part)}
		if part.Through != "" {
			said.Depth = 1
		}
		parts = append(parts, said)
	}
	for _, r := range script.Redirects {
		said := PromptPart{Text: cutTo(r.Source, mostText), Kind: string(bash.Read), Note: "reads "}
		if r.Write {
			said.Kind, said.Note = string(bash.Write), "writes "
		}
		names := p.relative(r.Paths)
		if len(names) == 0 {
			names = "a file that is not known"
		}
		said.Note += names
		parts = append(parts, said)
	}
	for _, note := range script.Notes {
		parts = append(parts, PromptPart{Kind: string(bash.Unknown), Note: cutTo(note, mostText)})
	}
	if script.Bad != "" {
		parts = append(parts, PromptPart{Kind: string(bash.Unknown), Note: "there may be more: " + cutTo(script.Bad, mostText)})
	}
	if len(parts) > mostSaid {
		parts = append(parts[:mostSaid], PromptPart{Kind: string(bash.Unknown), Note: "there are more parts than are shown here"})
	}
	return parts
}

// known says what is known of a part.
func (p *Policy) known(part *bash.Part) string {
	var writes []string
	for _, path := range part.Paths {
		if path.Write {
			writes = append(writes, path.Name)
		}
	}
	switch {
	case part.ReadOnly && part.Kind == bash.Neutral:
		return "harmless"
	case part.ReadOnly:
		return "read-only"
	case part.Kind == bash.Network && len(part.Hosts) > 0:
		return "network: " + few(part.Hosts)
	case part.Kind == bash.Network:
		return "network: to where is not known"
	case part.Kind == bash.Write && len(writes) > 0 && part.Open:
		return "writes " + p.relative(writes) + ", and it may be more"
	case part.Kind == bash.Write && len(writes) > 0:
		return "writes " + p.relative(writes)
	case part.Why == "":
		return string(part.Kind)
	}
	return "not known: " + cutTo(part.Why, mostText)
}

// relative lists paths as people read them.
func (p *Policy) relative(paths []string) string {
	names := make([]string, 0, mostNamed)
	for _, path := range paths[:min(len(paths), mostNamed+1)] {
		if rel, ok := below(p.Workspace, path); ok && rel != "" {
			path = rel
		}
		names = append(names, path)
	}
	return few(names)
}

// few lists names, but not too many.
func few(names []string) string {
	var short []string
	for _, name := range names[:min(len(names), mostNamed)] {
		short = append(short, cutTo(name, mostText))
	}
	if len(names) > mostNamed {
		short = append(short, "...")
	}
	return strings.Join(short, ", ")
}
