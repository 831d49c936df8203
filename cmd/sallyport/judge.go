package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/pipeline/hooks"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/builtin"
)

// A fileJudge decides on calls that are not run, by the flags and the settings: it
// reads links beneath the workspace.
type fileJudge struct {
	*pipeline.Judge
	loaded *loaded
	root   *os.Root
	// unheard is how many hooks of the settings would have a say before a call, and
	// have none here.
	unheard int
}

// openJudge makes a judge for a workspace. The policy is to be completed, and
// checked, by who asks: it is of no session.
func openJudge(c *cli.Context, workspace string) (*fileJudge, error) {
	var o pipeline.Options
	err := denials(c, &o)
	if err != nil {
		return nil, err
	}
	if o.Workspace, err = sandbox.ResolveWorkspace(workspace); err != nil {
		return nil, err
	}
	// Without a state directory, nothing is trusted.
	o.Store, _ = openStore()
	p, l, err := policy(c, &o)
	if err != nil {
		return nil, err
	}
	l.say()
	p.Workspace, p.Protected = o.Workspace, permission.ProtectedBy(o.Workspace)
	if p.Home, err = os.UserHomeDir(); err != nil {
		p.Home = "/nonexistent"
	}
	for _, e := range o.ExposeNew {
		for _, dir := range e.Dirs {
			p.Exposed = append(p.Exposed, dir.Path)
		}
	}
	set := tools.NewSet(builtin.All()...)
	if err := checkTools(c, p.Rules, set); err != nil {
		return nil, err
	}
	unheard, err := unheardHooks(l.Hooks)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(p.Workspace)
	if err != nil {
		return nil, fmt.Errorf("the workspace: %w", err)
	}
	return &fileJudge{
		Judge: &pipeline.Judge{
			Tools: set, Policy: p, Dir: p.Workspace,
			Links: permission.LinksBeneath(root, p.Workspace), Traps: permission.TrapsBeneath(root, p.Workspace),
		},
		loaded: l, root: root, unheard: unheard,
	}, nil
}

// unheardHooks checks hooks as they are where calls are run, and counts those that
// take part in decisions.
func unheardHooks(list []settings.Hook) (int, error) {
	if _, err := hooks.New(list, nil, nil); err != nil {
		return 0, err
	}
	n := 0
	for _, h := range list {
		if h.Event == "PreToolUse" || h.Event == "PermissionRequest" {
			n++
		}
	}
	return n, nil
}

func (j *fileJudge) Close() error { return j.root.Close() }
