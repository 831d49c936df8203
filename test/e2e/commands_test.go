package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// sallyport runs it: "exec sallyport", shorter.
func sallyport(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("sallyport", args...)
	switch {
	case err != nil && !neg:
		ts.Fatalf("sallyport: %v", err)
	case err == nil && neg:
		ts.Fatalf("sallyport succeeded")
	}
}

// code runs a command that must end with an exit code:
//
//	code 125 sallyport exec true
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command [arg...]")
	}
	checkCode(ts, args[0], ts.Exec(args[1], args[2:]...))
}

func checkCode(ts *testscript.TestScript, want string, err error) {
	got := "0"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = strconv.Itoa(exit.ExitCode())
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			got = strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
		}
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("ended with %s, want %s", got, want)
	}
}

// settle waits until the clock of the file system has moved on so far that what
// was written until now is seen to be older than what comes: a session takes
// files for changed meanwhile that changed when it began (the base rule).
func settle(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: settle")
	}
	const margin = 25 * time.Millisecond
	path := ts.MkAbs("settle.probe")
	defer os.Remove(path)
	var first time.Time
	for {
		ts.Check(os.RemoveAll(path))
		ts.Check(os.WriteFile(path, nil, 0o600))
		info, err := os.Stat(path)
		ts.Check(err)
		if first.IsZero() {
			first = info.ModTime()
		}
		if info.ModTime().Sub(first) > margin {
			return
		}
	}
}

// sametree compares two directories byte for byte: types, modes, targets,
// contents and the names of all. What is in a .git is left out.
func sameTree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sametree dir dir")
	}
	a, b := listTree(ts, ts.MkAbs(args[0])), listTree(ts, ts.MkAbs(args[1]))
	if slices.Equal(a, b) {
		return
	}
	for _, line := range a {
		if !slices.Contains(b, line) {
			ts.Logf("only in %s: %s", args[0], line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			ts.Logf("only in %s: %s", args[1], line)
		}
	}
	ts.Fatalf("%s and %s differ", args[0], args[1])
}

func listTree(ts *testscript.TestScript, root string) []string {
	var list []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
		case d.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			content = string(data)
		}
		list = append(list, fmt.Sprintf("%q %v %q", strings.TrimPrefix(path, root), info.Mode(), content))
		return err
	})
	ts.Check(err)
	return list
}

// short checks that the last command failed as a command should: one or two
// lines on standard error, the first beginning with "sallyport: ", and nothing
// on standard output.
func short(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: short")
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output is not empty: %q", out)
	}
	text := ts.ReadFile("stderr")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if !strings.HasPrefix(text, "sallyport: ") || len(lines) > 2 {
		ts.Fatalf("not an error of one or two lines: %q", text)
	}
	for _, line := range lines {
		// Not by the length of where the tests happen to run.
		if len(strings.ReplaceAll(line, ts.Getenv("WORK"), "")) > 300 {
			ts.Fatalf("a line of %d bytes: %q", len(line), line)
		}
	}
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// harmless checks that nothing on standard output would act on a terminal, except
// colours if they are asked for.
func harmless(ts *testscript.TestScript, neg bool, args []string) {
	out := ts.ReadFile("stdout")
	if slices.Equal(args, []string{"-colours"}) {
		out = colours.ReplaceAllString(out, "")
	}
	if out == "" {
		ts.Fatalf("there is no output")
	}
	for i, r := range out {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == utf8.RuneError {
			ts.Fatalf("byte %d: %q in %q", i, r, out[max(0, i-20):min(len(out), i+20)])
		}
	}
}

// untested says, also where nobody asks for details, what a script leaves out.
func untested(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: untested reason")
	}
	fmt.Fprintf(os.Stderr, "skipped: %s: %s\n", ts.Name(), args[0])
}
