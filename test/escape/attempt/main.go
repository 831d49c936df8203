// Command attempt tries things that must not work in a sealed session, and
// prints what came of each. The escape suite (test/escape) runs it inside.
//
//	attempt NAME [ARG...]
//
// The output is one line: the outcomes, each with the steps that had it, as
// "EPERM: mount umount; ok: getpid". An outcome is the name of an errno, "ok",
// or a word of the step's own.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempts are what can be tried, by name.
var attempts = map[string]func(r *report, args []string){
	// files.go
	"read": read, "write": write, "list": list, "alter": alter, "xattr": overlayXattrs,
	// kernel.go
	"mount": mount, "newmount": newMount, "namespaces": namespaces, "doors": doors, "describe": describe,
	// pid1.go
	"signal": signalFirst, "tune": tune, "reach": reach, "trace": traceChild, "processes": processes,
	// devices.go
	"nodes": nodes, "terminal": terminal,
	// sockets.go
	"connect": connect, "families": families, "network": network, "rights": rights,
	// identity.go
	"privileges": privileges, "ids": ids, "setuid": setuid, "euid": euid, "personality": personality, "foreign": foreign,
	// crowd.go
	"forks": forks, "watchers": watchers, "memory": memory, "fill": fill, "files": files, "descriptors": descriptors,
	// tree.go
	"tree": tree, "wait": wait, "zombies": zombies,
	// peer.go
	"serve": serve, "peer": peer,
}

func main() {
	if len(os.Args) < 2 || attempts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: attempt NAME [ARG...]")
		os.Exit(2)
	}
	r := &report{}
	attempts[os.Args[1]](r, os.Args[2:])
	if len(r.outcomes) > 0 {
		fmt.Println(r)
	}
}

// A report gathers what came of the steps of an attempt.
type report struct {
	outcomes []string // in the order of their first step
	steps    map[string][]string
}

// step notes the error of a step.
func (r *report) step(name string, err error) { r.say(name, outcome(err)) }

// say notes a step's outcome.
func (r *report) say(name, outcome string) {
	if r.steps == nil {
		r.steps = make(map[string][]string)
	}
	if r.steps[outcome] == nil {
		r.outcomes = append(r.outcomes, outcome)
	}
	r.steps[outcome] = append(r.steps[outcome], name)
}

func (r *report) String() string {
	var parts []string
	for _, o := range r.outcomes {
		parts = append(parts, o+": "+strings.Join(r.steps[o], " "))
	}
	return strings.Join(parts, "; ")
}

// outcome names what an error says.
func outcome(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, io.EOF):
		return "EOF"
	case errors.As(err, &errno):
		if errno == 0 {
			return "ok"
		}
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// call makes a system call by its number.
func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// fixed returns the address of bytes for the kernel: they stay where they are.
func fixed(b []byte) uintptr {
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

var kept [][]byte

// named splits arguments of the form name=value, and calls f with each.
func named(args []string, f func(name, value string)) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		f(name, value)
	}
}

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "attempt:", err)
		os.Exit(3)
	}
}
