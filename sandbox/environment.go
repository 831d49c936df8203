package sandbox

import (
	"path/filepath"
	"slices"
	"strings"
)

// The variables of the user's environment that a session takes over. All
// others stay outside: they hold tokens, sockets and addresses.
var environment = []string{
	"COLORTERM", "COLUMNS", "FORCE_COLOR", "LANG", "LANGUAGE", "LINES", "NO_COLOR", "TERM", "TZ",
}

// systemPath is the PATH of a session before what the user's adds to it.
var systemPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// sessionEnv is the environment of what runs inside: the variables that may
// come along, who and where the user is, and the directories of the user's
// PATH that exist inside.
func sessionEnv(host []string, u identity, exposed []Exposed) []string {
	var env, path []string
	for _, e := range exposed {
		path = append(path, e.Path...)
	}
	for _, kv := range host {
		name, value, ok := strings.Cut(kv, "=")
		switch {
		case !ok:
		case name == "PATH":
			for _, dir := range filepath.SplitList(value) {
				if dir = filepath.Clean(dir); filepath.IsAbs(dir) && visible(dir, exposed) {
					path = append(path, dir)
				}
			}
		case slices.Contains(environment, name), strings.HasPrefix(name, "LC_"):
			env = append(env, kv)
		}
	}
	path = append(path, systemPath...)
	var once []string
	for _, dir := range path {
		// One with a colon would be read as two others.
		if !slices.Contains(once, dir) && !strings.Contains(dir, ":") {
			once = append(once, dir)
		}
	}
	env = append(env,
		"PATH="+strings.Join(once, ":"),
		"HOME="+u.home, "USER="+u.name, "LOGNAME="+u.name, "SHELL=/bin/bash",
	)
	for _, e := range exposed {
		env = append(env, e.Env...)
	}
	return env
}

// variable returns the value of a variable of an environment.
func variable(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// visible reports whether a directory of the host is in the session.
func visible(dir string, exposed []Exposed) bool {
	if inImage(dir) || within(dir, "/bin") || within(dir, "/sbin") {
		return true
	}
	for _, e := range exposed {
		for _, d := range e.Dirs {
			if within(dir, d.Path) {
				return true
			}
		}
	}
	return false
}
