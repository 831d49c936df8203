package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tree starts processes that are hard to end, says so, and waits for ever. Each
// has the mark among its arguments.
func tree(_ *report, args []string) {
	kind, mark := args[0], args[1]
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	switch kind {
	case "plain":
	case "setsid":
		start(&unix.SysProcAttr{Setsid: true}, "wait", mark)
	case "orphan": // a double fork
		child := start(&unix.SysProcAttr{Setsid: true}, "tree", "parent", mark)
		die(child.Wait())
	case "parent":
		start(&unix.SysProcAttr{Setsid: true}, "wait", mark)
		return
	case "fork-loop": // each makes the next and ends
		start(&unix.SysProcAttr{Setsid: true}, "tree", "loop", mark)
	case "loop":
		start(&unix.SysProcAttr{Setsid: true}, "tree", "loop", mark)
		return
	case "stopped":
		child := start(&unix.SysProcAttr{Setsid: true}, "wait", mark)
		die(unix.Kill(child.Process.Pid, unix.SIGSTOP))
	case "subreaper":
		die(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		start(nil, "tree", "orphan", mark)
	default:
		die(fmt.Errorf("no tree %s", kind))
	}
	fmt.Println("ready")
	forever()
}

func start(attr *unix.SysProcAttr, args ...string) *exec.Cmd {
	self, err := os.Executable()
	die(err)
	cmd := exec.Command(self, args...)
	cmd.SysProcAttr = attr
	die(cmd.Start())
	return cmd
}

// wait waits for ever, or not at all.
func wait(_ *report, args []string) {
	if len(args) > 0 && args[0] == "0" {
		return
	}
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	if len(args) > 1 {
		fmt.Println("ready")
	}
	forever()
}

func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// zombies makes orphans that end at once, and says when none is left, dead or
// alive.
func zombies(r *report, _ []string) {
	for range 20 {
		die(start(nil, "tree", "parent", "0").Wait())
	}
	for range 10_000 {
		left := 0
		for _, pid := range pids() {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if strings.Contains(string(stat), ") Z ") {
				left++
			}
		}
		if left == 0 {
			r.say("zombies", "none")
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.say("zombies", "left")
}
