package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/approval"
	"github.com/sallyport/sallyport/sandbox"
)

// The test binary is also a program "asker", which scripts find in their PATH:
//
//	asker [-within TIME] SESSION FILE
//
// asks the permission.Prompt in a file, as a call in the session would, and
// prints the question's ID and, when it is there, the answer.
const askerName = "asker"

func runAsker(args []string) error {
	flags := flag.NewFlagSet(askerName, flag.ContinueOnError)
	within := flags.Duration("within", time.Hour, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, err := sandbox.OpenStore("")
	if err != nil {
		return err
	}
	s, err := store.Look(flags.Arg(0))
	if err != nil {
		return err
	}
	data, err := os.ReadFile(flags.Arg(1))
	if err != nil {
		return err
	}
	var p permission.Prompt
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	q := approval.Queue{Session: s.Dir(), Within: *within, Asked: func(w approval.Waiting) { fmt.Println(w.ID) }}
	a, err := q.Ask(context.Background(), &p)
	if err != nil {
		fmt.Println("error:", err)
		return nil
	}
	fmt.Printf("allow=%v session=%v why=%q by=%s\n", a.Allow, a.Session, a.Why, a.By)
	return nil
}

// linkAsker puts the program into a directory.
func linkAsker(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Symlink(self, filepath.Join(dir, askerName))
}

// An askerRun is an asker that waits.
type askerRun struct {
	cmd  *exec.Cmd
	out  *bufio.Reader
	errs bytes.Buffer
}

// askers are those of a script, by name.
type askers map[string]*askerRun

type askersKey struct{}

// asks begins and ends askers:
//
//	asks NAME [-within TIME] SESSION FILE   starts one; $NAME is its question's ID
//	asks -answer NAME                       waits for its end; what it said is standard output
//	asks -kill NAME                         kills it
func asks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: asks NAME [-within TIME] SESSION FILE, asks -answer NAME, asks -kill NAME")
	}
	all := ts.Value(askersKey{}).(askers)
	if args[0] == "-answer" || args[0] == "-kill" {
		a := all[args[1]]
		if a == nil {
			ts.Fatalf("there is no asker %s", args[1])
		}
		delete(all, args[1])
		if args[0] == "-kill" {
			a.cmd.Process.Kill()
			a.cmd.Wait()
			return
		}
		timeout := time.AfterFunc(patience, func() { a.cmd.Process.Kill() })
		line, _ := a.out.ReadString('\n')
		err := a.cmd.Wait()
		timeout.Stop()
		fmt.Fprint(ts.Stdout(), line)
		if err != nil {
			ts.Fatalf("the asker: %v: %s", err, a.errs.String())
		}
		return
	}
	path, err := lookPath(ts, askerName)
	ts.Check(err)
	a := &askerRun{cmd: exec.Command(path, args[1:]...)}
	a.cmd.Dir, a.cmd.Env, a.cmd.Stderr = ts.MkAbs("."), environ(ts), &a.errs
	out, err := a.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(a.cmd.Start())
	a.out = bufio.NewReader(out)
	id, err := a.out.ReadString('\n')
	if err != nil {
		a.cmd.Process.Kill()
		a.cmd.Wait()
		ts.Fatalf("the asker: %v: %s", err, a.errs.String())
	}
	all[args[0]] = a
	ts.Setenv(args[0], strings.TrimSpace(id))
}

// end kills those that still wait.
func (all askers) end() {
	for _, a := range all {
		a.cmd.Process.Kill()
		a.cmd.Wait()
	}
}
