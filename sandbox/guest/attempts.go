package guest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/sandbox/wire"
)

// newAttempts is an empty list, nil where nobody asks for one.
func (g *Guest) newAttempts() *attempts {
	if !g.watch.asked {
		return nil
	}
	a := &attempts{}
	for _, kv := range g.env {
		if home, ok := strings.CutPrefix(kv, "HOME="); ok {
			a.home = home
		}
	}
	return a
}

// suspicion is who hears what a program writes to its standard error, or to its
// terminal, nil for nobody: where programs are watched there is no need.
func (g *Guest) suspicion(a *attempts, out *output) func([]byte) {
	if a == nil || g.watch.filter != nil || !out.stderr && !out.terminal {
		return nil
	}
	return a.said
}

// attempts are what the programs of one call tried to change, each thing once.
// They are bounded whatever the programs do.
type attempts struct {
	home string // of the session

	mu            sync.Mutex
	list          []*wire.Attempt
	opportunistic int // of list
	dropped       uint64
	over          bool // the call has ended
	// wake is an eventfd(2) that can be read when the call has ended; listeners is
	// how many poll it, the last of whom closes it.
	wake, listeners int
	refused         bool // where nothing is watched: a program spoke of it
}

// mostOpportunistic is how many attempts may be opportunistic. They must not take
// the room of the others: a program that writes its caches has many.
const mostOpportunistic = wire.MaxAttempts / 4

func (a *attempts) add(t try, program string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	for _, old := range a.list {
		if old.Op == t.op && string(old.Path) == t.path {
			return
		}
	}
	o := inside.Opportunistic(t.path, a.home)
	if len(a.list) == wire.MaxAttempts || o && a.opportunistic == mostOpportunistic {
		a.dropped++
		return
	}
	if o {
		a.opportunistic++
	}
	a.list = append(a.list, &wire.Attempt{Op: t.op, Path: []byte(t.path), Program: []byte(program), Opportunistic: o})
}

// join begins a listener's time, leave ends it.
func (a *attempts) join() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listeners == 0 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return fmt.Errorf("an eventfd: %w", err)
		}
		a.wake = fd
	}
	a.listeners++
	return nil
}

func (a *attempts) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listeners--; a.listeners == 0 {
		unix.Close(a.wake)
	}
}

// ended reports whether the call has ended, so that nobody will hear of more.
func (a *attempts) ended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// end ends the list, and returns what the host is told, nil for nothing. It may be
// called again.
func (a *attempts) end() *wire.Attempts {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over && a.listeners > 0 {
		unix.Write(a.wake, binary.NativeEndian.AppendUint64(nil, 1))
	}
	a.over = true
	if len(a.list) == 0 && a.dropped == 0 {
		return nil
	}
	return &wire.Attempts{Attempts: a.list, Dropped: a.dropped}
}

// refusals are what programs say when they were kept from writing.
var refusals = [][]byte{[]byte("Read-only file system"), []byte("Permission denied")}

// said notes what a program writes to its standard error, where nothing is
// watched. A message that comes in two pieces may be missed.
func (a *attempts) said(piece []byte) {
	for _, r := range refusals {
		if bytes.Contains(piece, r) {
			a.mu.Lock()
			a.refused = true
			a.mu.Unlock()
		}
	}
}

// failed notes that a program has failed, and makes of what it said a suspicion.
func (a *attempts) failed() {
	a.mu.Lock()
	refused := a.refused
	a.mu.Unlock()
	if refused {
		a.add(try{op: wire.Op_OP_SUSPECTED}, "")
	}
}
