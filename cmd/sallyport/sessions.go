package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native"
	"github.com/sallyport/sallyport/tools"
)

func sessionsCommand() *cli.Command {
	return &cli.Command{
		Name:  "sessions",
		Usage: "list, show and remove sessions",
		Description: "A session is a directory: its layers, settings and record. It is live while a process holds it; its\n" +
			"processes end with that one, and the next command starts it again.",
		Subcommands: []*cli.Command{
			{Name: "ls", Usage: "list the sessions", Flags: []cli.Flag{jsonFlag()}, Action: atMost(0, listSessions)},
			{Name: "show", Usage: "show all of one session", ArgsUsage: "[NAME]", Flags: append(sessionFlags()[:1], jsonFlag()), Action: atMost(1, showSession), BashComplete: completeNames},
			{
				Name: "rm", Usage: "remove sessions", ArgsUsage: "NAME...",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "also if they have changes that were not applied, or paths in quarantine"}, jsonFlag()},
				Action: removeSessions, BashComplete: completeNames,
			},
			{
				Name: "prune", Usage: "remove all sessions that nobody uses and that have no changes",
				Flags: []cli.Flag{
					&cli.DurationFlag{Name: "older", Usage: "only those made longer than `TIME` ago"},
					&cli.BoolFlag{Name: "changed", Usage: "also those with changes that were not applied, or paths in quarantine"},
					&cli.BoolFlag{Name: "n", Aliases: []string{"dry-run"}, Usage: "only say what would be removed"},
					jsonFlag(),
				},
				Action: atMost(0, pruneSessions),
			},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError(c, "no command %q", c.Args().First())
			}
			return listSessions(c)
		},
	}
}

// sessionInfo is what is shown of a session.
type sessionInfo struct {
	Name      string                `json:"name"`
	ID        string                `json:"id"`
	Workspace string                `json:"workspace"`
	Bytes     []byte                `json:"workspace_base64,omitempty"` // when it is no UTF-8
	Mode      sandbox.WorkspaceMode `json:"mode"`
	Driver    string                `json:"driver"`
	Image     string                `json:"image"`
	Created   time.Time             `json:"created"`
	Live      bool                  `json:"live"`
	Owner     *sandbox.Owner        `json:"owner,omitempty"`
	Changes   int                   `json:"changes"`         // -1 when they cannot be read
	Error     string                `json:"error,omitempty"` // why not
	// Quarantined is how many paths were moved out of a direct workspace.
	Quarantined int `json:"quarantined,omitempty"`
}

func infoOf(c *cli.Context, s *sandbox.Stored) sessionInfo {
	info := sessionInfo{
		Name: s.Name, ID: s.ID, Workspace: s.Workspace, Mode: s.Mode,
		Driver: s.Driver, Image: s.Image, Created: s.Created,
	}
	if !utf8.ValidString(s.Workspace) {
		info.Bytes = []byte(s.Workspace)
	}
	if owner, live := s.Owner(); live {
		info.Live, info.Owner = true, &owner
	}
	if s.Mode != sandbox.Cow {
		n, err := s.QuarantineCount()
		if info.Quarantined = n; err != nil {
			info.Error = err.Error()
		}
		return info
	}
	changes, err := s.Changes(c.Context, permission.ProtectedBy(s.Workspace))
	if err != nil {
		info.Changes, info.Error = -1, err.Error()
		return info
	}
	defer changes.Close()
	info.Changes = len(changes.Set.Changes)
	return info
}

func listSessions(c *cli.Context) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	list, err := store.List()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		for _, s := range list {
			if err := printJSON(infoOf(c, s)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		fmt.Fprintln(os.Stderr, "sallyport: no sessions; begin one with sallyport exec -- COMMAND")
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tWORKSPACE\tMODE\tCHANGES\tSTATE\tCREATED")
	for _, s := range list {
		info := infoOf(c, s)
		state := "idle"
		if info.Live {
			state = fmt.Sprintf("live (process %d)", info.Owner.PID)
		}
		changes := fmt.Sprint(info.Changes)
		if info.Changes < 0 {
			changes = "?"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", info.Name, printed(info.Workspace), info.Mode, changes, state, age(info.Created))
	}
	return w.Flush()
}

func age(t time.Time) string {
	switch d := time.Since(t); {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd ago", int(d.Hours()/24))
	}
}

func showSession(c *cli.Context) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	name := c.Args().First()
	if name == "" {
		if name, err = sessionName(&pipeline.Options{Workspace: c.String("w")}); err != nil {
			return err
		}
	}
	s, err := store.Look(name)
	if err != nil {
		return explainNone(err, c, store, name)
	}
	info := infoOf(c, s)
	usage, err := s.Usage()
	if err != nil {
		return err
	}
	denials, err := pipeline.Denials(s)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(struct {
			sessionInfo
			Directory string            `json:"directory"`
			Expose    []sandbox.Exposed `json:"expose,omitempty"`
			Denied    []string          `json:"denied,omitempty"`
			ReadOnly  []string          `json:"read_only,omitempty"`
			Usage     sandbox.Usage     `json:"usage"`
			// Denials are of calls, by sub-agent; "" is the agent itself.
			Denials map[string]tools.Denials `json:"denials,omitempty"`
		}{info, s.Dir(), s.Expose, s.Denied, s.ReadOnly, usage, denials})
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, printed(fmt.Sprintf(format, args...)))
	}
	row("name", "%s", s.Name)
	row("id", "%s", s.ID)
	row("workspace", "%s (%s)", s.Workspace, s.Mode)
	row("driver", "%s, image %s", s.Driver, s.Image)
	row("created", "%s (%s)", s.Created.Local().Format(time.DateTime), age(s.Created))
	if info.Live {
		row("state", "live: process %d (%s), since %s", info.Owner.PID, info.Owner.Command, info.Owner.Since.Local().Format(time.DateTime))
	} else {
		row("state", "idle")
	}
	if info.Changes >= 0 {
		row("changes", "%d", info.Changes)
	} else {
		row("changes", "unknown: %s", info.Error)
	}
	if info.Quarantined > 0 {
		row("quarantine", "%s in %s", tools.Count(info.Quarantined, "path"), filepath.Join(s.Dir(), sandbox.QuarantineDir))
	}
	for _, l := range usage.Layers {
		row("layer "+l.Name, "%s, %s", tools.Count(int(l.Files), "file"), bytesText(l.Bytes))
	}
	for _, e := range s.Expose {
		for _, d := range e.Dirs {
			how := "read-only"
			if d.Cow {
				how = "with a private layer"
			}
			row("exposed", "%s, %s", d.Path, how)
		}
	}
	for _, path := range s.Denied {
		row("denied", "%s", path)
	}
	for _, path := range s.ReadOnly {
		row("read-only", "%s", path)
	}
	for _, agent := range slices.Sorted(maps.Keys(denials)) {
		who := ""
		if agent != "" {
			who = " of agent " + agent
		}
		row("calls denied", "%d%s, %d of them since the last that was carried out", denials[agent].Total, who, denials[agent].InARow)
	}
	row("directory", "%s", s.Dir())
	return w.Flush()
}

func bytesText(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// removed is one line of what rm and prune --json print.
type removed struct {
	Name    string `json:"name"`
	Removed bool   `json:"removed"`
	Why     string `json:"why,omitempty"` // it was not
}

func (r removed) print(c *cli.Context) error {
	if c.Bool("json") {
		return printJSON(r)
	}
	if r.Removed {
		fmt.Println("removed", r.Name)
	}
	return nil
}

func removeSessions(c *cli.Context) error {
	if !c.Args().Present() {
		return usageError(c, "name the sessions to remove")
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range c.Args().Slice() {
		err := removeSession(c, store, name, c.Bool("force"))
		if err != nil {
			errs = append(errs, err)
		}
		r := removed{Name: name, Removed: err == nil}
		if err != nil {
			r.Why = err.Error()
		}
		if err := r.print(c); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// errHasChanges is why a session is not removed.
var errHasChanges = errors.New("has changes that were not applied")

// errQuarantine is another: what was moved out of the user's directory is
// nowhere else.
var errQuarantine = errors.New("has paths in quarantine")

func removeSession(c *cli.Context, store *sandbox.Store, name string, changed bool) error {
	s, err := pipeline.Hold(pipeline.Options{Store: store, Name: name, Existing: true, Driver: native.Driver{}})
	if err != nil {
		return explainNone(err, c, store, name)
	}
	if !changed {
		info := infoOf(c, s.Stored)
		if info.Changes != 0 {
			return errors.Join(fmt.Errorf("the session %s %w: see sallyport diff --session %s, or use --force", name, errHasChanges, name), s.Close())
		}
		if info.Quarantined > 0 {
			return errors.Join(fmt.Errorf("the session %s %w in %s: take what you want from there, or use --force",
				name, errQuarantine, filepath.Join(s.Dir(), sandbox.QuarantineDir)), s.Close())
		}
	}
	return s.Remove()
}

func pruneSessions(c *cli.Context) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	if err := store.Sweep(); err != nil {
		return err
	}
	list, err := store.List()
	if err != nil {
		return err
	}
	inUse, changed, quarantined := 0, 0, 0
	for _, s := range list {
		if time.Since(s.Created) < c.Duration("older") {
			continue
		}
		r, info := removed{Name: s.Name}, infoOf(c, s)
		switch _, live := s.Owner(); {
		case live:
			r.Why = "in use"
			inUse++
		case !c.Bool("changed") && info.Changes != 0:
			r.Why = errHasChanges.Error()
			changed++
		case !c.Bool("changed") && info.Quarantined > 0:
			r.Why = errQuarantine.Error()
			quarantined++
		case c.Bool("n"):
			r.Why = "would be removed"
			if !c.Bool("json") {
				fmt.Println("would remove", s.Name)
			}
		default:
			if err := removeSession(c, store, s.Name, c.Bool("changed")); err != nil {
				r.Why = err.Error()
			} else {
				r.Removed = true
			}
		}
		if err := r.print(c); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return nil
	}
	if inUse > 0 {
		fmt.Fprintf(os.Stderr, "sallyport: kept %s in use\n", tools.Count(inUse, "session"))
	}
	if quarantined > 0 {
		fmt.Fprintf(os.Stderr, "sallyport: kept %s with paths in quarantine; see sallyport sessions show, --changed removes those too\n", tools.Count(quarantined, "session"))
	}
	if changed > 0 {
		fmt.Fprintf(os.Stderr, "sallyport: kept %s with changes that were not applied; --changed removes those too\n", tools.Count(changed, "session"))
	}
	return nil
}
