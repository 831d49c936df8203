package guest

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/wire"
	"github.com/sallyport/sallyport/seccomp/load"
)

// confined runs f on an operating system thread of its own that is held to an
// envelope, and waits for it. The thread is thrown away afterwards, or when the
// call ends whose list it fills: what it took on cannot be taken off. What f starts inherits it. The filter is one that
// the thread takes beside the envelope's; nil is none. What it tries is put on
// the list, unless that is nil. When the thread is ready,
// around is called with what makes it run f; nil adds nothing around it.
//
// The main goroutine must be locked to the main thread, so that f never runs
// there: the main thread cannot end.
func (g *Guest) confined(env *wire.Envelope, filter []byte, on *attempts, f func() error, around func(func() error) error) error {
	ruleset, err := g.ruleset(env)
	if err != nil {
		return err
	}
	if ruleset >= 0 && ruleset != g.defaultRuleset {
		defer unix.Close(ruleset)
	}
	ready, done := make(chan error, 1), make(chan error, 1)
	wanted := make(chan bool, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := confine(ruleset, filter)
		var l *listener
		if err == nil && on != nil && g.watch.filter != nil {
			l, err = g.watched(on)
		}
		if err == nil {
			err = confine(-1, env.GetSeccomp()) // the last one: it may forbid to take more
		}
		ready <- err
		if err == nil && <-wanted {
			done <- f()
			if l != nil {
				l.during()
			}
		}
		if l != nil {
			l.on.leave()
			go l.after()
		}
	}()
	if err := <-ready; err != nil {
		return err
	}
	ran := false
	run := func() error {
		ran = true
		wanted <- true
		return <-done
	}
	if around == nil {
		return run()
	}
	err = around(run)
	if !ran {
		wanted <- false
	}
	return err
}

// function runs a function of the guest, held to the call's envelope.
func (g *Guest) function(env *wire.Envelope, f func() error) error {
	if !env.GetNarrow() && len(env.GetSeccomp()) == 0 {
		return f() // held to the default envelope, as all threads are; see Hello
	}
	return g.confined(env, nil, nil, f, nil)
}

// confine holds the calling thread to a Landlock ruleset, unless that is -1, and
// to filters.
func confine(ruleset int, filters ...[]byte) error {
	if ruleset >= 0 {
		if err := restrict(ruleset); err != nil {
			return err
		}
	}
	for _, program := range filters {
		if len(program) == 0 {
			continue
		}
		if _, err := load.Install(program, 0); err != nil {
			return err
		}
	}
	return nil
}

// ruleset returns the Landlock ruleset of an envelope, -1 for none. A program
// takes the default one too, although PID 1 is held to it: what takes a ruleset
// is in a domain of its own, and no other call can reach into it.
func (g *Guest) ruleset(env *wire.Envelope) (int, error) {
	if !env.GetNarrow() {
		return g.defaultRuleset, nil
	}
	var paths [][]byte
	for _, path := range env.Writable {
		if at, ok := g.existing(string(path)); ok {
			paths = append(paths, []byte(at))
		}
	}
	return newRuleset(g.landlock, paths, true)
}

// existing is a path that a call may write, or where there is none yet, the
// directory that it would be made in: as far up as any call may write. What leads
// through a link is not the path that was judged.
func (g *Guest) existing(path string) (string, bool) {
	for {
		fd, err := openReal(path)
		if err == nil {
			unix.Close(fd)
			return path, true
		}
		path = filepath.Dir(path)
		if err != unix.ENOENT || !slices.ContainsFunc(g.writable, func(root string) bool {
			return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
		}) {
			return "", false
		}
	}
}
