package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// An identity is who the agent is: the same numbers inside and out.
type identity struct {
	uid, gid    uint32
	name, group string
	home        string
	// switched: the session is started by root for somebody else, or for root
	// itself; capabilities exist to change ids with.
	switched bool
}

// whoRuns decides who the agent is: the caller, or for root the owner of the
// workspace, so that nothing in a user's tree ends up owned by root. home is the
// caller's home directory; the caller's own agent has its home at the same path,
// where programs look for what is exposed of it.
func whoRuns(workspace, home string) (identity, error) {
	id := identity{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if id.uid == 0 {
		var st unix.Stat_t
		if err := unix.Stat(workspace, &st); err != nil {
			return identity{}, fmt.Errorf("the workspace %s: %w", workspace, err)
		}
		id.uid, id.gid, id.switched = st.Uid, st.Gid, true
	}
	id.name, id.group, id.home = "agent", "agent", "/home/agent"
	if u, err := user.LookupId(strconv.Itoa(int(id.uid))); err == nil && plainName(u.Username) {
		id.name = u.Username
		id.home = filepath.Join("/home", u.Username)
	}
	if g, err := user.LookupGroupId(strconv.Itoa(int(id.gid))); err == nil && plainName(g.Name) {
		id.group = g.Name
	}
	if id.uid == 0 {
		id.home = "/root"
	}
	if id.uid == uint32(os.Geteuid()) && canBeHome(home, workspace) {
		id.home = home
	}
	return id, nil
}

// canBeHome reports whether the session's home directory can be at a path: it
// may hide nothing else.
func canBeHome(home, workspace string) bool {
	if !filepath.IsAbs(home) || filepath.Clean(home) != home || within(home, workspace) || strings.Contains(home, ":") {
		return false
	}
	for _, p := range systemPaths {
		if p != "/root" && within(p, home) {
			return false
		}
	}
	return !slices.ContainsFunc([]string{"/dev", "/etc", "/proc", "/sys", "/usr", "/opt", "/nix"}, func(p string) bool { return within(home, p) })
}

// plainName reports whether a name can stand in a line of /etc/passwd.
func plainName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsAny(s, ":/\n\x00")
}

// gitIdentity returns the user's name and e-mail address as a gitconfig, or
// nothing. The user's own configuration is asked, never a repository's. What
// git says is kept until the configuration's files change.
func (st *Store) gitIdentity() string {
	type cached struct{ Stamp, Config string }
	stamp := gitConfigStamp()
	if stamp == "" {
		return ""
	}
	file := filepath.Join(st.dir, "git-identity.json")
	var c cached
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &c) == nil && c.Stamp == stamp {
		return c.Config
	}
	c = cached{stamp, askGit()}
	if data, err := json.Marshal(c); err == nil {
		renameio.WriteFile(file, data, 0o600)
	}
	return c.Config
}

func askGit() string {
	cmd := exec.Command("git", "config", "--global", "--null", "--get-regexp", `^user\.(name|email)$`)
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		return "" // no git, or nothing set
	}
	var b strings.Builder
	for entry := range strings.SplitSeq(string(out), "\x00") {
		key, value, ok := strings.Cut(entry, "\n")
		if !ok || len(value) > 1000 {
			continue
		}
		fmt.Fprintf(&b, "\t%s = %s\n", strings.TrimPrefix(key, "user."), gitQuote(value))
	}
	if b.Len() == 0 {
		return ""
	}
	return "[user]\n" + b.String()
}

// gitQuote writes a value as git-config(1) reads it.
func gitQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

// gitConfigStamp identifies the state of the files in which the user's own git
// configuration lies; it is empty where there is none.
func gitConfigStamp() string {
	home, xdg := os.Getenv("HOME"), os.Getenv("XDG_CONFIG_HOME")
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	files := []string{filepath.Join(home, ".gitconfig"), filepath.Join(xdg, "git", "config")}
	if global := os.Getenv("GIT_CONFIG_GLOBAL"); global != "" {
		files = []string{global}
	}
	stamp := ""
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			stamp += fmt.Sprintln(file, info.Size(), info.ModTime().UnixNano())
		}
	}
	return stamp
}
