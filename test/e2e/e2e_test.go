// Package e2e runs sallyport as its users do: scripts of commands, one for each
// behaviour, in testdata/script. What a script can say beside testscript's own
// commands is in commands_test.go, drive_test.go and asker_test.go.
//
// Each script has a directory of its own, $WORK, in it a home directory and a
// state directory ($HOME, $XDG_STATE_HOME) and what the script's archive holds,
// and nothing of the real user. At its end nothing of a session may be left.
package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sallyport/sallyport/test/sallytest"
)

// TestMain gives testscript a directory for its own: it leaves one behind when
// only some of the scripts are run.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == askerName {
		if err := runAsker(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "sallyport-e2e-")
	if err == nil {
		err = os.Setenv("GOTMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Who ignores it, as nohup does, hands that down to all that is started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	code := sallytest.Run(m)
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func TestScripts(t *testing.T) {
	bin := sallytest.Bin(t)
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup:              func(env *testscript.Env) error { return setup(env, bin) },
		Condition:          conditions(bin),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sallyport": sallyport,
			"code":      code,
			"drive":     drive,
			"settle":    settle,
			"sametree":  sameTree,
			"short":     short,
			"harmless":  harmless,
			"untested":  untested,
			"jq":        jq,
			"asks":      asks,
		},
	})
}

// conditions are what scripts can ask about, beside testscript's own.
func conditions(bin string) func(string) (bool, error) {
	limits := sync.OnceValues(func() (bool, error) { return canLimit(bin) })
	return func(cond string) (bool, error) {
		switch cond {
		case "root":
			return os.Geteuid() == 0, nil
		case "limits": // memory and processes can be limited here
			return limits()
		case "inspector": // a client of the Model Context Protocol is here
			path, err := sallytest.Client(inspector)
			return path != "", err
		}
		return false, fmt.Errorf("unknown condition %q", cond)
	}
}

// canLimit asks doctor.
func canLimit(bin string) (bool, error) {
	state, err := os.MkdirTemp("", "sallyport-state-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(state)
	cmd := exec.Command(filepath.Join(bin, "sallyport"), "doctor", "--json")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
	out, err := cmd.Output()
	if err != nil {
		return false, fmt.Errorf("sallyport doctor: %w: %s", err, out)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var check struct{ Name, Status string }
		if err := d.Decode(&check); err != nil {
			return false, fmt.Errorf("sallyport doctor says nothing of cgroups: %w", err)
		}
		if check.Name == "cgroups" {
			return check.Status == "ok", nil
		}
	}
}

// inspector is the client of another make that scripts drive sallyport mcp by:
// @modelcontextprotocol/inspector.
const inspector = "mcp-inspector"

func setup(env *testscript.Env, bin string) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	env.Setenv("HOME", home)
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
	env.Setenv("BIN", bin)
	own := filepath.Join(env.WorkDir, ".bin")
	if err := linkAsker(own); err != nil {
		return err
	}
	client, err := sallytest.Client(inspector)
	if err != nil {
		return err
	}
	if client != "" {
		if err := os.Symlink(client, filepath.Join(own, inspector)); err != nil {
			return err
		}
	}
	env.Setenv("PATH", own+":"+bin+":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
	env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	env.Setenv("LC_ALL", "C.UTF-8")
	env.Setenv("TERM", "xterm")
	env.Setenv("PAGER", "cat")
	waiting := make(askers)
	env.Values[askersKey{}] = waiting
	env.Defer(func() {
		waiting.end()
		// What was killed may still be dying.
		left := leftOf(env.WorkDir)
		for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); left = leftOf(env.WorkDir) {
			time.Sleep(10 * time.Millisecond)
		}
		if len(left) > 0 {
			env.T().Fatal("left: " + strings.Join(left, "\n"))
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
