package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/permission"
)

// A File is what one settings file says.
type File struct {
	// Name is how messages name it: its path, in the workspace relative to that.
	Name   string
	Source permission.Source
	// OfWorkspace says that it came with the workspace: it must be trusted before
	// what it allows counts.
	OfWorkspace bool
	// Imported says that it is another agent's.
	Imported bool
	Trusted  bool

	Rules       []permission.Rule
	Mode        permission.Mode // "" for none
	ModeOrigin  string
	Directories []Directory
	Hooks       []Hook

	noBypass  string // where it forbids bypassPermissions, or ""
	forbidden []forbidden
	onlyRules string // where it locks the lists of rules, or ""
	onlyHooks string
	bytes     []byte
	based     string // relative directories are read from here
	home      string
}

// A Directory is one that a session shows beside its workspace.
type Directory struct {
	Path   string // absolute and clean
	Origin string // the file and line
}

// A Hook is a command that takes part in calls.
type Hook struct {
	Event   string // one of Events
	Matcher string // of tool names; "" for all
	If      string // a rule that the call must match; "" for none
	Command string
	Timeout time.Duration // 0 for the default
	Source  permission.Source
	Origin  string // the file and line
}

// Events are those that hooks take part in.
var Events = []string{
	"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied", "SessionStart", "SessionEnd",
}

// foreignEvents are events of agents' own, that an agent's file may speak of.
var foreignEvents = []string{
	"Notification", "UserPromptSubmit", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "Setup",
	"TeammateIdle", "TaskCreated", "TaskCompleted", "ConfigChange", "InstructionsLoaded", "WorktreeCreate", "WorktreeRemove",
	"Elicitation", "ElicitationResult", "CwdChanged", "FileChanged",
}

type forbidden struct {
	mode   permission.Mode
	origin string
}

// mostTimeout is the longest that a hook may ask for.
const mostTimeout = 24 * time.Hour

// Keys that mean something, by the object that they stand in. A key that differs
// from one in case alone is an error: it would be about nothing.
var (
	topKeys        = []string{"permissions", "hooks", "allowManagedHooksOnly"}
	permissionKeys = []string{"allow", "ask", "deny", "defaultMode", "additionalDirectories", "disableBypassPermissionsMode", "forbidModes", "allowManagedRulesOnly"}
	// foreignKeys stand in agents' files and mean nothing here.
	foreignKeys = []string{"skipDangerousModePermissionPrompt", "disableAutoMode"}
	policyKeys  = []string{"forbidModes", "allowManagedRulesOnly", "allowManagedHooksOnly"}
)

// parse reads the bytes of a file. An error names its line.
func (f *File) parse(data []byte) error {
	f.bytes = data
	root, err := read(data)
	if err == nil {
		err = f.top(root)
	}
	if wrong := (*lineError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s:%d: %w", f.Name, lineOf(data, wrong.offset), err)
	}
	return err
}

func (f *File) origin(n *node) string { return fmt.Sprintf("%s:%d", f.Name, lineOf(f.bytes, n.start)) }

func (f *File) top(root *node) error {
	if err := f.keys(root, "the file", topKeys, nil); err != nil {
		return err
	}
	if n := root.member("permissions"); n != nil {
		if err := f.permissions(n); err != nil {
			return err
		}
	}
	if n := root.member("allowManagedHooksOnly"); n != nil {
		if err := f.flag(n, "allowManagedHooksOnly", &f.onlyHooks); err != nil {
			return err
		}
	}
	if n := root.member("hooks"); n != nil {
		return f.hooks(n)
	}
	return nil
}

// keys checks those of an object: that it is one, that no key looks like a known
// one, that only the policy has its own; and, where others may not stand, that
// there are none.
func (f *File) keys(n *node, what string, known, others []string) error {
	if n.value != object {
		return wrongAt(n.start, "%s must be an object", what)
	}
	for _, m := range n.members {
		if slices.Contains(known, m.key) {
			if slices.Contains(policyKeys, m.key) && f.Source != permission.FromPolicy && !f.Imported {
				return wrongAt(m.start, "%q is for the system's policy file alone", m.key)
			}
			continue
		}
		for _, k := range known {
			if strings.EqualFold(k, m.key) {
				return wrongAt(m.start, "there is no key %q; did you mean %q?", m.key, k)
			}
		}
		if others != nil && !f.Imported && !slices.Contains(others, m.key) {
			return wrongAt(m.start, "%s has no key %q; there are %s", what, m.key, strings.Join(known, ", "))
		}
	}
	return nil
}

func (f *File) permissions(n *node) error {
	if err := f.keys(n, "permissions", permissionKeys, foreignKeys); err != nil {
		return err
	}
	for _, b := range []permission.Behavior{permission.Deny, permission.Ask, permission.Allow} {
		err := f.list(n, string(b), func(item *node, text string) error {
			rule, err := permission.ParseRule(text, b, f.Source)
			if err != nil {
				return wrongAt(item.start, "%w", err)
			}
			rule.Origin = f.origin(item)
			f.Rules = append(f.Rules, f.rooted(rule))
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := f.list(n, "additionalDirectories", func(item *node, text string) error {
		path, err := f.directory(text)
		if err != nil {
			return wrongAt(item.start, "the directory %q: %w", text, err)
		}
		f.Directories = append(f.Directories, Directory{path, f.origin(item)})
		return nil
	})
	if err != nil {
		return err
	}
	if v := n.member("defaultMode"); v != nil {
		if f.Mode, err = mode(v); err != nil {
			return err
		}
		f.ModeOrigin = f.origin(v)
	}
	if v := n.member("disableBypassPermissionsMode"); v != nil {
		if v.value != "disable" {
			return wrongAt(v.start, `disableBypassPermissionsMode must be "disable"`)
		}
		f.noBypass = f.origin(v)
	}
	if f.Source != permission.FromPolicy {
		return nil
	}
	if list := n.member("forbidModes"); list != nil {
		if list.value != json.Delim('[') {
			return wrongAt(list.start, "forbidModes must be a list of modes")
		}
		for _, item := range list.items {
			m, err := mode(item)
			if err != nil {
				return err
			}
			f.forbidden = append(f.forbidden, forbidden{m, f.origin(item)})
		}
	}
	if v := n.member("allowManagedRulesOnly"); v != nil {
		return f.flag(v, "allowManagedRulesOnly", &f.onlyRules)
	}
	return nil
}

// rooted makes a leading slash of a rule mean what it does in this file.
func (f *File) rooted(r permission.Rule) permission.Rule {
	switch f.Source {
	case permission.FromPolicy:
		return r.RootedAt("/")
	case permission.FromUser:
		return r.RootedAt(f.home)
	}
	return r
}

func mode(n *node) (permission.Mode, error) {
	text, ok := n.value.(string)
	if m := permission.Mode(text); ok && slices.Contains(permission.Modes, m) {
		return m, nil
	}
	var names []string
	for _, m := range permission.Modes {
		names = append(names, string(m))
	}
	if !ok {
		return "", wrongAt(n.start, "a mode is one of %s", strings.Join(names, ", "))
	}
	return "", wrongAt(n.start, "no mode %q; use one of %s", text, strings.Join(names, ", "))
}

// flag reads a boolean of the policy, and notes where it is true.
func (f *File) flag(n *node, key string, where *string) error {
	on, ok := n.value.(bool)
	if !ok {
		return wrongAt(n.start, "%s must be true or false", key)
	}
	if on && f.Source == permission.FromPolicy {
		*where = f.origin(n)
	}
	return nil
}

// list reads a list of strings.
func (f *File) list(in *node, key string, each func(item *node, text string) error) error {
	n := in.member(key)
	if n == nil {
		return nil
	}
	if n.value != list {
		return wrongAt(n.start, "%s must be a list of strings", key)
	}
	for _, item := range n.items {
		text, ok := item.value.(string)
		if !ok {
			return wrongAt(item.start, "%s must be a list of strings", key)
		}
		if err := each(item, text); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) directory(text string) (string, error) {
	switch {
	case text == "" || strings.ContainsAny(text, "\x00\n"):
		return "", errors.New("it is no path")
	case text == "~" || strings.HasPrefix(text, "~/"):
		if f.home == "" {
			return "", errors.New("the home directory is not known")
		}
		return filepath.Join(f.home, text[1:]), nil
	case filepath.IsAbs(text):
		return filepath.Clean(text), nil
	case f.based == "":
		return "", errors.New("write an absolute path")
	}
	return filepath.Join(f.based, text), nil
}

func (f *File) hooks(n *node) error {
	if n.value != object {
		return wrongAt(n.start, "hooks must be an object")
	}
	for _, event := range n.members {
		if !slices.Contains(Events, event.key) {
			if f.Imported && slices.Contains(foreignEvents, event.key) {
				continue // it is not ours to run
			}
			return wrongAt(event.start, "there is no hook event %q; there are %s", event.key, strings.Join(Events, ", "))
		}
		if event.value.value != list {
			return wrongAt(event.value.start, "%s must be a list", event.key)
		}
		for _, group := range event.value.items {
			if err := f.hookGroup(event.key, group); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *File) hookGroup(event string, n *node) error {
	if err := f.keys(n, "a hook", []string{"matcher", "hooks"}, nil); err != nil {
		return err
	}
	matcher, err := text(n, "matcher")
	if err != nil {
		return err
	}
	hooks := n.member("hooks")
	if hooks == nil || hooks.value != list {
		return wrongAt(n.start, "a hook needs a list of hooks: {\"matcher\": ..., \"hooks\": [{\"type\": \"command\", \"command\": ...}]}")
	}
	for _, item := range hooks.items {
		h := Hook{Event: event, Matcher: matcher, Source: f.Source, Origin: f.origin(item)}
		if err := f.hook(&h, item); err != nil {
			return err
		}
		f.Hooks = append(f.Hooks, h)
	}
	return nil
}

func (f *File) hook(h *Hook, n *node) (err error) {
	if err := f.keys(n, "a hook", []string{"type", "command", "timeout", "if"}, nil); err != nil {
		return err
	}
	if t, err := text(n, "type"); err != nil || t != "command" {
		return errors.Join(err, wrongAt(n.start, "a hook of type %q: only those of type \"command\" are run, and without this one more may be allowed than was meant; take it out, or write it as a command", t))
	}
	if h.If, err = text(n, "if"); err != nil {
		return err
	}
	if h.Command, err = text(n, "command"); err != nil {
		return err
	}
	if strings.TrimSpace(h.Command) == "" || strings.Contains(h.Command, "\x00") {
		return wrongAt(n.start, "a hook needs a command")
	}
	if t := n.member("timeout"); t != nil {
		number, _ := t.value.(json.Number)
		seconds, err := number.Float64()
		if err != nil || !(seconds > 0 && seconds <= mostTimeout.Seconds()) {
			return wrongAt(t.start, "timeout is a number of seconds, more than 0 and at most %d", int(mostTimeout.Seconds()))
		}
		h.Timeout = max(time.Duration(seconds*float64(time.Second)), 1)
	}
	return nil
}

// text is the string of a key, "" without one.
func text(in *node, key string) (string, error) {
	n := in.member(key)
	if n == nil {
		return "", nil
	}
	s, ok := n.value.(string)
	if !ok {
		return "", wrongAt(n.start, "%s must be a string", key)
	}
	return s, nil
}

// Loosens lists what a file would allow, a line each. What it denies and asks
// about is not among it.
func (f *File) Loosens() []string {
	var lines []string
	for _, r := range f.Rules {
		if r.Behavior == permission.Allow {
			lines = append(lines, fmt.Sprintf("allow %s", r.String()))
		}
	}
	for _, h := range f.Hooks {
		on := h.Event
		if h.Matcher != "" {
			on += " " + h.Matcher
		}
		if h.If != "" {
			on += " if " + h.If
		}
		lines = append(lines, fmt.Sprintf("run at %s: %s", on, h.Command))
	}
	if f.Mode != "" && !tightens(f.Mode) {
		lines = append(lines, fmt.Sprintf("mode %s", f.Mode))
	}
	for _, d := range f.Directories {
		lines = append(lines, "show "+d.Path)
	}
	return lines
}

// tightens reports whether a mode counts that an untrusted file asks for.
func tightens(m permission.Mode) bool { return m == permission.Plan || m == permission.DontAsk }
