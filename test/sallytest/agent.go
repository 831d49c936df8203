package sallytest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools"
)

// An Agent makes calls as the pipeline does, with what is in between left out:
// its input is parsed and validated, each path is resolved and judged, the call is
// held to what was judged, and what it leaves is kept for the next.
type Agent struct {
	Workspace string
	Box       tools.Box
	State     *tools.State
	// Judge, unless it is nil, may refuse what a path leads to.
	Judge func(path string, write bool) error
}

// NewAgent is an agent that has done nothing yet.
func NewAgent(workspace string, box tools.Box) *Agent {
	return &Agent{Workspace: workspace, Box: box, State: tools.NewState(workspace)}
}

// Call makes a call with its input in JSON, and returns what a model reads.
func (a *Agent) Call(ctx context.Context, tool *tools.Tool, input string) (string, error) {
	in, unknown, err := tool.Parse(json.RawMessage(input))
	if err != nil {
		return "", err
	}
	if len(unknown) > 0 {
		return "", fmt.Errorf("unknown fields %q", unknown)
	}
	if err := tool.Validate(in); err != nil {
		return "", err
	}
	c := &tools.Context{
		Options: tools.Options{Workspace: a.Workspace, Home: "/home/agent"},
		Run:     tools.Run{State: a.State, Dir: a.Workspace, Box: a.Box},
	}
	for _, access := range tool.Access(c, in) {
		out, err := tools.Call[inside.ResolveRequest, inside.ResolveResponse](
			ctx, c, inside.ResolveName, inside.ResolveRequest{Paths: [][]byte{[]byte(access.Path)}}, nil)
		if err != nil {
			return "", err
		}
		to := out.Paths[0]
		if to.Error != "" {
			return "", fmt.Errorf("resolving: %s", to.Error)
		}
		if a.Judge != nil {
			if err := a.Judge(string(to.Path), access.Write); err != nil {
				return "", err
			}
		}
		c.Judged = append(c.Judged, tools.Judged{Path: string(to.Path), Resolved: true})
	}
	called, err := tool.Call(ctx, c, in, nil)
	if err != nil {
		return "", err
	}
	if called.Modify != nil {
		called.Modify(a.State)
	}
	text := ""
	for _, block := range called.Blocks {
		text += block.Text
	}
	return text, nil
}
