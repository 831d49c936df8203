package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
)

// A Judge decides on calls that are not run: what a pipeline would say before
// anybody is asked.
type Judge struct {
	// Tools are those that are known; a call of another one counts as writing.
	Tools  *tools.Set
	Policy *permission.Policy
	// Dir is the working directory, absolute; "" is the workspace.
	Dir string
	// Links tells where paths lead, see [permission.Request]. A path that it cannot
	// tell of is an error.
	Links func(paths []string) ([]string, error)
	Traps func(dir string) ([]string, error) // see [permission.Request]
}

// A Judgement is a decision on a call that is not run.
type Judgement struct {
	Tool string // its own name, for an alias
	*permission.Decision
	// Envelope is what the call would be held to, if it is allowed now or when
	// somebody is asked; nil when it is denied, or does not run in the session.
	Envelope *sandbox.Envelope
}

// Judge decides on a call. Its error is an input that is none of the tool's.
func (j *Judge) Judge(name string, input json.RawMessage) (*Judgement, error) {
	request, tool, in, err := j.request(name, input)
	if err != nil {
		return nil, err
	}
	d := j.Policy.Resolve(*request)
	result := &Judgement{Tool: request.Tool, Decision: d}
	if d.Behavior != permission.Deny {
		result.Envelope = envelopeFor(d, tool, in)
	}
	return result, nil
}

// Request is what is decided on of a call of any tool, known or not.
func (j *Judge) Request(name string, input json.RawMessage) (*permission.Request, error) {
	r, _, _, err := j.request(name, input)
	return r, err
}

func (j *Judge) request(name string, input json.RawMessage) (r *permission.Request, tool *tools.Tool, in any, err error) {
	dir := j.Dir
	if dir == "" {
		dir = j.Policy.Workspace
	}
	context := tools.Context{
		Options: tools.Options{Workspace: j.Policy.Workspace, Home: j.Policy.Home},
		Run:     tools.Run{State: tools.NewState(j.Policy.Workspace), Dir: dir},
	}
	var access []tools.Access
	tool, err = j.Tools.Find(name)
	if err != nil {
		tool = nil
		if r, access, err = foreign(&context, name, input); err != nil {
			return nil, nil, nil, err
		}
	} else {
		if in, _, err = tool.Parse(input); err != nil {
			return nil, nil, nil, err
		}
		if err := tool.Validate(in); err != nil {
			return nil, nil, nil, &tools.InputError{Tool: tool.Name, Reason: err.Error()}
		}
		filled := tool.Backfill(&context, in)
		access = tool.Access(&context, filled)
		r = requestOf(tool, &context, filled)
	}
	r.Dir, r.Links, r.Traps, r.Paths = dir, j.Links, j.Traps, pathsOf(access)
	names := make([]string, len(r.Paths))
	for i, p := range r.Paths {
		names[i] = p.Name
	}
	if len(names) == 0 || j.Links == nil {
		return r, tool, in, nil
	}
	real, err := j.Links(names)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range r.Paths {
		r.Paths[i].Real = real[i]
	}
	return r, tool, in, nil
}

// requestOf is what a tool says itself of a call.
func requestOf(tool *tools.Tool, c *tools.Context, filled any) *permission.Request {
	r := &permission.Request{Tool: tool.Name, ReadOnly: tool.ReadOnly(filled)}
	r.Command, r.HasCommand = tool.Command(filled)
	check := tool.Check(c, filled)
	r.Check = permission.Check{Answer: permission.Behavior(check.Answer), Reason: check.Reason}
	return r
}

func pathsOf(access []tools.Access) []permission.Path {
	paths := make([]permission.Path, len(access))
	for i, a := range access {
		paths[i] = permission.Path{Name: a.Path, Write: a.Write, Tree: a.Tree}
	}
	return paths
}

// foreigners are tools of other agents that touch the file which a field of their
// input names.
var foreigners = map[string]struct {
	field             string
	write, tree, must bool
}{
	"MultiEdit":    {field: "file_path", write: true, must: true},
	"NotebookEdit": {field: "notebook_path", write: true, must: true},
	"NotebookRead": {field: "notebook_path", must: true},
	"LS":           {field: "path", tree: true},
}

// foreign is what can be said of a call of a tool that is not here.
func foreign(c *tools.Context, name string, input json.RawMessage) (*permission.Request, []tools.Access, error) {
	r := &permission.Request{Tool: name}
	if err := json.Unmarshal(input, &r.Input); err != nil || r.Input == nil {
		if err == nil {
			err = errors.New("it is no object")
		}
		return nil, nil, &tools.InputError{Tool: name, Reason: fmt.Sprintf("not valid JSON of an object: %v", err)}
	}
	f, ok := foreigners[name]
	if !ok {
		return r, nil, nil
	}
	r.ReadOnly = !f.write
	path, _ := r.Input[f.field].(string)
	if path == "" && f.must {
		return nil, nil, &tools.InputError{Tool: name, Reason: "it has no " + f.field}
	}
	return r, []tools.Access{{Path: c.Abs(path), Write: f.write, Tree: f.tree}}, nil
}

// envelopeFor compiles what a decision grants into what the kernel holds the call
// to. A tool that is nil is one that is not here.
func envelopeFor(d *permission.Decision, tool *tools.Tool, in any) *sandbox.Envelope {
	e := &sandbox.Envelope{Time: tools.DefaultTimeout}
	if tool != nil {
		if tool.Site != tools.Container {
			return nil
		}
		e.Time = tool.Timeout(in) + graceForTool
	}
	if d.Grant.ReadOnly {
		e.Box = sandbox.Eye
	} else {
		e.Writable = d.Grant.Writable
	}
	return e
}
