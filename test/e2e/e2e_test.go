// Package e2e runs sallyport as its users do: scripts of commands, one for each
// behaviour, in testdata/script. What a script can say beside testscript's own
// commands is in commands_test.go and drive_test.go.
//
// Each script has a directory of its own, $WORK, in it a home directory and a
// state directory ($HOME, $XDG_STATE_HOME) and what the script's archive holds,
// and nothing of the real user. At its end nothing of a session may be left.
package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

func TestScripts(t *testing.T) {
	bin := sallytest.Bin(t)
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup:              func(env *testscript.Env) error { return setup(env, bin) },
		Condition:          condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sallyport": sallyport,
			"code":      code,
			"drive":     drive,
			"settle":    settle,
			"sametree":  sameTree,
			"short":     short,
			"harmless":  harmless,
		},
	})
}

// condition knows who runs the tests.
func condition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Geteuid() == 0, nil
	case "limits": // memory and processors can be limited here
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

func setup(env *testscript.Env, bin string) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	env.Setenv("HOME", home)
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
	env.Setenv("BIN", bin)
	env.Setenv("PATH", bin+":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
	env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	env.Setenv("LC_ALL", "C.UTF-8")
	env.Setenv("TERM", "xterm")
	env.Setenv("PAGER", "cat")
	env.Defer(func() {
		for _, left := range leftOf(env.WorkDir) {
			env.T().Fatal("left: " + left)
		}
	})
	return nil
}

// leftOf lists the mounts and processes that are at work in a directory.
func leftOf(dir string) []string {
	var left []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir+"/") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return []string{err.Error()}
	}
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/")) {
			left = append(left, "process "+filepath.Base(filepath.Dir(link))+" in "+cwd)
		}
	}
	return left
}
