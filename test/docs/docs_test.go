// Package docs tries what the documents say: every block of shell commands is
// run, and every link leads somewhere.
package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

func documents(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, name := range append(names, more...) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(data)
	}
	if len(more) < 4 {
		t.Fatalf("only %d documents", len(more))
	}
	return texts
}

var block = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// The blocks of a document follow one another in one directory. A command that
// begins with "!" must fail; any other must not.
func TestCommands(t *testing.T) {
	bin := sallytest.Bin(t)
	for name, text := range documents(t) {
		script := new(strings.Builder)
		script.WriteString("set -eux\nnot() { if \"$@\"; then echo 'it did not fail' >&2; exit 1; fi; }\n")
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			script.WriteString(regexp.MustCompile(`(?m)^! `).ReplaceAllString(m[1], "not "))
		}
		if !strings.Contains(script.String(), "sallyport") {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			dir := t.TempDir()
			work, home := filepath.Join(dir, "work", "here"), filepath.Join(dir, "home")
			for _, d := range []string{work, home} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			sh := exec.Command("sh", "-c", script.String())
			sh.Dir = work
			sh.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "XDG_STATE_HOME="+filepath.Join(dir, "state"),
				"XDG_CONFIG_HOME=", "GOMODCACHE=", "GOROOT=", "GIT_CONFIG_GLOBAL=/dev/null")
			if out, err := sh.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestLinks(t *testing.T) {
	for name, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
	}
}

// The README names every command that there is.
func TestReadmeNamesEveryCommand(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(sallytest.Bin(t), "sallyport"), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(out), "COMMANDS:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	n := 0
	for line := range strings.Lines(list) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimRight(name, ",")
		if name == "" || name == "help" {
			continue
		}
		n++
		if !strings.Contains(string(readme), fmt.Sprintf("`%s", name)) {
			t.Errorf("README.md does not name the command %s", name)
		}
	}
	if n < 8 {
		t.Errorf("only %d commands in the help", n)
	}
}
