// Package classifier answers, in the mode auto, what would be asked about only
// because no rule allows it: by what the call did in a copy of its session.
package classifier

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/tools"
)

// Fast judges by what was seen alone, and asks no model. The zero value is ready
// to use.
type Fast struct{}

// Start implements [pipeline.Classifier].
func (Fast) Start(_ context.Context, c *pipeline.ClassifierCall) func(context.Context) (*pipeline.Verdict, error) {
	return func(ctx context.Context) (*pipeline.Verdict, error) { return Judge(c, c.Seen(ctx)), nil }
}

// How much of a user's own files a call may change before somebody is asked. What
// the session has made itself is the session's.
const (
	mostDestroyed = 3   // files of the user's that are gone, or have lost most of what they held
	mostChanged   = 100 // that are changed at all
	small         = 256 // bytes: a file that was no longer than this has not much to lose
)

// Judge is the verdict on a call by what it did in a copy of its session: Allow for
// what stays in the workspace and destroys little, Deny for what is certainly
// hostile, Ask for what cannot be told. It is nil where nothing was seen.
func Judge(c *pipeline.ClassifierCall, s *pipeline.Seen) *pipeline.Verdict {
	if s == nil {
		return nil
	}
	if why := hostile(c, s); why != "" {
		return &pipeline.Verdict{Behavior: permission.Deny, Reason: why}
	}
	if why := unclear(s); why != "" {
		return &pipeline.Verdict{Behavior: permission.Ask, Reason: why}
	}
	reason := "in a copy of the session it changed nothing"
	if n := len(s.Changes.Workspace); n > 0 {
		reason = "in a copy of the session it changed " + tools.Count(n, "path") + " of the workspace, and nothing else"
	}
	return &pipeline.Verdict{Behavior: permission.Allow, Reason: reason}
}

// ways out of a box: files by which programs have left one, or taken over a machine.
var waysOut = []string{
	"/proc/sys", "/proc/sysrq-trigger", "/proc/1", "/proc/kcore", "/sys", "/dev/mem", "/dev/kmem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/fuse",
	"/boot", "/lib/modules", "/etc/passwd", "/etc/shadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ld.so.preload", "/etc/cron.d", "/etc/crontab", "/var/spool/cron",
	"/run/docker.sock", "/var/run/docker.sock", "/run/containerd", "/run/podman",
}

// hostile says what of a call nobody means well with; "" where there is nothing.
func hostile(c *pipeline.ClassifierCall, s *pipeline.Seen) string {
	read := ""
	for _, a := range s.Outside {
		if a.Op == "read" {
			read = a.Path
			continue
		}
		for _, way := range waysOut {
			if a.Path == way || strings.HasPrefix(a.Path, way+"/") {
				return "it tried to change " + changeset.Printable(a.Path) + ", by which programs leave a box"
			}
		}
	}
	if read != "" && len(s.Network) > 0 {
		return fmt.Sprintf("it read %s, which is denied, and then wanted to reach %s", changeset.Printable(read), changeset.Printable(s.Network[0].Host))
	}
	for _, change := range s.Changes.Workspace {
		if change.Protected && !names(c.Input, change.Path) {
			return "it changed " + changeset.Printable(change.Path) + ", which is protected and which its words do not name"
		}
	}
	return ""
}

// names reports whether a call's words name a path: itself, or a directory above it.
func names(words, name string) bool {
	for ; name != "." && name != "/"; name = path.Dir(name) {
		if strings.Contains(words, name) {
			return true
		}
	}
	return false
}

// unclear says why somebody has to be asked; "" where nobody has.
func unclear(s *pipeline.Seen) string {
	switch {
	case len(s.Network) > 0:
		return "it wants to reach " + changeset.Printable(s.Network[0].Host)
	case !s.Complete:
		return s.Why
	case s.Dropped > 0:
		return "it tried more than was noted"
	case len(s.Limits) > 0:
		return "it came to a limit: " + changeset.Printable(s.Limits[0])
	case s.Processes.Running > 0:
		return "it left " + tools.Count(s.Processes.Running, "process") + " running"
	case len(s.Home) > 0:
		return "it changed ~/" + changeset.Printable(s.Home[0]) + ", by which later calls may go another way"
	case len(s.Changes.Exposed) > 0:
		return "it changed what is in " + changeset.Printable(s.Changes.Exposed[0].Dir)
	}
	for _, a := range s.Outside {
		if !a.Opportunistic {
			return fmt.Sprintf("it tried to %s %s, outside of what it may change", a.Op, changeset.Printable(a.Path))
		}
	}
	destroyed, changed, first := 0, 0, ""
	for _, change := range s.Changes.Workspace {
		switch {
		case change.Protected:
			return "it changes " + changeset.Printable(change.Path) + ", which is protected"
		case change.Refused != "":
			return changeset.Printable(change.Path) + " can never leave the session: " + change.Refused
		}
		lost := lost(s, change)
		if lost > 0 && first == "" {
			first = change.Path
		}
		destroyed += lost
		if change.Kind != changeset.Added && s.Users(change.Path) {
			changed++
		}
	}
	switch {
	case destroyed > mostDestroyed:
		return fmt.Sprintf("it destroys %s of yours, %s the first", tools.Count(destroyed, "file"), changeset.Printable(first))
	case changed > mostChanged:
		return "it changes " + tools.Count(changed, "file") + " of yours"
	}
	return ""
}

// lost is how many of the user's files a change leaves nothing, or little, of.
func lost(s *pipeline.Seen, change *changeset.Change) int {
	if !s.Users(change.Path) {
		return 0
	}
	switch {
	case change.OldType == changeset.Dir && (change.Kind == changeset.Deleted || change.Type != changeset.Dir):
		return max(1, change.Below)
	case change.Kind == changeset.Deleted, change.Kind == changeset.Modified && change.Type != change.OldType:
		return 1
	case change.Kind == changeset.Modified && change.OldSize > small && change.Size < change.OldSize/2:
		return 1
	}
	return 0
}
