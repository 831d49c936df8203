package inside

import (
	"strings"
	"testing"
)

func TestOpportunistic(t *testing.T) {
	for path, want := range map[string]bool{
		"/w/__pycache__/a.cpython-313.pyc.1234": true,
		"/w/__pycache__":                        true,
		"/w/a.pyc":                              true,
		"/w/.git/index.lock":                    true,
		"/w/.git/worktrees/x/index":             true,
		"/w/.git/config":                        false,
		"/w/.git/refs/heads/index2":             false,
		"/w/index.lock":                         false,
		"/home/u/.cache/go-build/00/x":          true,
		"/home/u/.cachet/x":                     false,
		"/w/.cache/x":                           false,
		"/w/node_modules/.cache/x":              true,
		"/home/u/.config/go/telemetry/local/x":  true,
		"/home/u/.bash_history":                 true,
		"/home/u/.bash_history-01234.tmp":       true,
		"/home/u/.bashrc":                       false,
		"/w/.bash_history":                      false,
		"":                                      false,
	} {
		if got := Opportunistic(path, "/home/u"); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	for _, path := range append(homeCaches, "/") {
		if Opportunistic("/"+strings.TrimPrefix(path, "/"), "") {
			t.Errorf("%s is in no home directory", path)
		}
	}
}
