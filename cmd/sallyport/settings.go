package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
)

// Flags that say which settings files are read.
func settingsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "settings", Usage: "read the settings `FILE` too; its rules count as given on the command line"},
		importFlag(),
		&cli.BoolFlag{Name: "no-settings", Usage: "read no settings of the workspace and of the user, only the system's policy"},
	}
}

func importFlag() cli.Flag {
	return &cli.BoolFlag{Name: "import-settings", Usage: "read an agent's own settings too: .claude/settings.json and settings.local.json, and ~/.claude/settings.json"}
}

// placesOf says where the settings for a workspace are. Without a store, nothing
// is trusted.
func placesOf(c *cli.Context, store *sandbox.Store, workspace string) (*settings.Places, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	user := settings.UserFile(home, os.Getenv)
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real // the workspace's path has no link in it either
	}
	p := &settings.Places{
		Policy: settings.DefaultPolicy, User: user, Home: home, Workspace: workspace,
		Import: c.Bool("import-settings"), PolicyOnly: c.Bool("no-settings"),
	}
	if store != nil {
		p.State = store.Dir()
	}
	if p.Import && p.PolicyOnly {
		return nil, usageError(c, "--no-settings and --import-settings exclude each other")
	}
	for _, name := range c.StringSlice("settings") {
		abs, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		p.Files = append(p.Files, abs)
	}
	return p, nil
}

// A loaded is what the settings say for one session.
type loaded struct {
	*settings.Settings
	places *settings.Places
}

// loadSettings reads the settings for the session that the options describe, and
// has it hold what they deny and show what they name. The rules are those of the
// command line.
func loadSettings(c *cli.Context, o *pipeline.Options, rules []permission.Rule) (*loaded, error) {
	workspace, err := workspaceOf(o)
	if err != nil {
		return nil, err
	}
	places, err := placesOf(c, o.Store, workspace)
	if err != nil {
		return nil, err
	}
	places.Rules = rules
	s, err := places.Load()
	if err != nil {
		return nil, err
	}
	o.Rules = nil
	for _, r := range s.Rules {
		if r.Behavior == permission.Deny {
			o.Rules = append(o.Rules, r)
		}
	}
	for _, d := range s.Directories {
		e, err := exposedBy(d, workspace, slices.Concat(o.Expose, o.ExposeNew))
		if err != nil {
			return nil, err
		}
		if e != nil {
			o.ExposeNew = append(o.ExposeNew, *e)
		}
	}
	return &loaded{s, places}, nil
}

// workspaceOf is the workspace of the session that options describe.
func workspaceOf(o *pipeline.Options) (string, error) {
	if o.Name != "" && o.Workspace == "" && !o.New {
		s, err := o.Store.Look(o.Name)
		if err == nil {
			return s.Workspace, nil
		}
		if !errors.Is(err, sandbox.ErrNoSession) {
			return "", err
		}
	}
	return sandbox.ResolveWorkspace(o.Workspace)
}

// exposedBy is a directory that settings name as a session is to show it,
// read-only; nil if the session shows it anyway, or it is not there.
func exposedBy(d settings.Directory, workspace string, shown []sandbox.Exposed) (*sandbox.Exposed, error) {
	real, link, err := followed(d.Path, workspace)
	if errors.Is(err, os.ErrNotExist) {
		complain(fmt.Sprintf("%s: there is no directory %s", d.Origin, printed(d.Path)))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Origin, err)
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s: %s is not a directory", d.Origin, real)
	}
	if real == workspace || strings.HasPrefix(real, workspace+"/") {
		return nil, nil
	}
	if link != "" {
		return nil, fmt.Errorf("%s: %s leads out of the workspace by the link %s, which a session can change; name the directory itself: %s", d.Origin, printed(d.Path), printed(link), printed(real))
	}
	for _, e := range shown {
		if slices.ContainsFunc(e.Dirs, func(e sandbox.Expose) bool { return e.Path == real }) {
			return nil, nil
		}
	}
	return &sandbox.Exposed{Dirs: []sandbox.Expose{{Path: real}}, Origin: d.Origin}, nil
}

// mostLinks is how many links the kernel follows of a path.
const mostLinks = 40

// followed is where an absolute path leads when every link is followed, and the
// first of those that lies below a directory; "" for none.
func followed(path, dir string) (real, link string, err error) {
	real = "/"
	for rest, links := strings.Split(path, "/"), 0; len(rest) > 0; {
		next := filepath.Join(real, rest[0]) // real has no link in it: ".." is the directory above
		info, err := os.Lstat(next)
		if err != nil {
			return "", "", err
		}
		rest = rest[1:]
		if info.Mode()&os.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > mostLinks {
			return "", "", &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		if link == "" && strings.HasPrefix(next, dir+"/") {
			link = next
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", "", err
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, link, nil
}

// sayUntrusted says which files of the workspace do not count in full.
func sayUntrusted(files []*settings.File) {
	if len(files) == 0 {
		return
	}
	var names []string
	cure := "sallyport trust"
	for _, f := range files {
		names = append(names, f.Name)
		if f.Imported {
			cure = "sallyport trust --import-settings"
		}
	}
	complain(fmt.Sprintf("%s came with the workspace: what it denies holds, what it allows does not until you trust it: %s", strings.Join(names, ", "), cure))
}

// fits reports whether the session is of the workspace whose settings were read:
// it may have been made anew meanwhile.
func (l *loaded) fits(workspace string) error {
	if workspace != l.places.Workspace {
		return fmt.Errorf("the session is of %s now, and no longer of %s; try again", workspace, l.places.Workspace)
	}
	return nil
}

// say says what does not count, or is not as the settings have it.
func (l *loaded) say() {
	sayUntrusted(l.Untrusted())
	for _, r := range l.Dropped {
		if r.Source == permission.FromCLI && r.Origin == "" {
			complain(fmt.Sprintf("--allow %s does not count: by %s only the policy's own rules allow", r.String(), l.RulesLocked))
		}
	}
}

// sayHidden says which directories of the settings a session that was made before
// does not show.
func (l *loaded) sayHidden(o *pipeline.Options, s *sandbox.Stored) {
	for _, e := range o.ExposeNew {
		dir := e.Dirs[0].Path
		if !slices.ContainsFunc(s.Expose, func(e sandbox.Exposed) bool {
			return slices.ContainsFunc(e.Dirs, func(e sandbox.Expose) bool { return e.Path == dir })
		}) {
			complain(fmt.Sprintf("the session %s was made before %s named %s, and does not show it; one of its own does: --new, or --session NAME", s.Name, e.Origin, dir))
		}
	}
}

// mode is the mode that --mode asks for, or else the settings.
func (l *loaded) mode(c *cli.Context) (permission.Mode, error) {
	m, from := permission.Mode(c.String("mode")), ""
	if !c.IsSet("mode") {
		if m, from = l.Mode, l.ModeOrigin; m == "" {
			m = permission.Default
		}
	}
	if err := l.CheckMode(m); err != nil {
		if from != "" {
			err = fmt.Errorf("%s: %w", from, err)
		}
		return "", err
	}
	return m, nil
}

// save writes a rule that a person has allowed to settings, and says where it
// stands.
func (l *loaded) save(rule permission.Rule, to permission.Source) error {
	if l.RulesLocked != "" {
		return fmt.Errorf("by %s only the policy's own rules allow", l.RulesLocked)
	}
	saved, err := l.places.AddRule(to, rule)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("saved %s to %s", saved.Rule, saved.File)
	switch {
	case saved.Already:
		text = fmt.Sprintf("%s is in %s already", saved.Rule, saved.File)
	case saved.Created && saved.InGit:
		text += "; the file is yours alone: keep it out of the repository, by a line in .git/info/exclude"
	}
	if !saved.Trusted {
		text += "; the file is not trusted, so it does not count yet: sallyport trust"
	}
	complain(text)
	return nil
}

// checkTools refuses a rule whose tool is misspelt: it would be about nothing, and
// a denial that is about nothing allows. Rules for tools that other agents have
// may stand there.
func checkTools(c *cli.Context, rules []permission.Rule, set *tools.Set) error {
	for _, r := range rules {
		unknown := (*tools.UnknownToolError)(nil)
		if r.KnowsTool() {
			continue
		}
		if _, err := set.Find(r.Tool); !errors.As(err, &unknown) {
			continue
		}
		switch {
		case r.Origin != "" && r.Behavior != permission.Allow && unknown.Nearest != "":
			return fmt.Errorf("%s: the rule %s: %w", r.Origin, r.String(), unknown)
		case r.Origin != "":
			// Settings are for other agents as well.
		case unknown.Nearest != "":
			return usageError(c, "--%s %s: %w", r.Behavior, r.String(), unknown)
		default:
			complain(fmt.Sprintf("--%s %s is about nothing here: %v", r.Behavior, r.String(), unknown))
		}
	}
	return nil
}
