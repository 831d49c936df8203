package native

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/native/starter"
)

// fakeStarter is an executable in the starter's place.
func fakeStarter(t *testing.T, script string) string {
	t.Helper()
	guest := filepath.Join(t.TempDir(), GuestName)
	put(t, guest, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(guest, 0o755); err != nil {
		t.Fatal(err)
	}
	return guest
}

func end() *starter.Request {
	return &starter.Request{Session: "s", Body: &starter.Request_End{End: &starter.End{}}}
}

// Every request to a starter that dies is answered: those that wait, and later
// ones.
func TestStarterThatDies(t *testing.T) {
	c, err := newControl(fakeStarter(t, "read go; exit 1"))
	if err != nil {
		t.Fatal(err)
	}
	// It waits on its standard input, which is empty: it ends at once, before or
	// after it is asked.
	var asking sync.WaitGroup
	for range 10 {
		asking.Go(func() {
			if fds, err := c.ask(end()); !errors.Is(err, errStarterEnded) || fds != nil {
				t.Errorf("%v, %v", fds, err)
			}
		})
	}
	asking.Wait()
	if c.alive() {
		t.Error("it is taken to be alive")
	}
	if _, err := c.ask(end()); !errors.Is(err, errStarterEnded) {
		t.Errorf("%v", err)
	}
}

// One that is shut down is no zombie of this process's parent.
func TestStarterIsWaitedFor(t *testing.T) {
	c, err := newControl(fakeStarter(t, "cat <&3"))
	if err != nil {
		t.Fatal(err)
	}
	c.shutdown()
	select {
	case <-c.reaped:
	default:
		t.Error("it has not been waited for")
	}
}

// The next session gets a new one.
func TestStarterIsStartedAgain(t *testing.T) {
	guest := fakeStarter(t, "exit 1")
	first, err := starterOf(guest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.ask(end()); !errors.Is(err, errStarterEnded) {
		t.Errorf("%v", err)
	}
	second, err := starterOf(guest)
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Error("the dead starter is used again")
	}
	second.ask(end())
	starters.Lock()
	delete(starters.byGuest, guest)
	starters.Unlock()
}

// An answer that is none ends the channel rather than being waited for, and the
// starter.
func TestStarterThatTalksNonsense(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newControl(fakeStarter(t, `exec 5>'`+fifo+`'; printf 'nonsense' >&3; cat <&3`))
	if err != nil {
		t.Fatal(err)
	}
	alive, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if _, err := c.ask(end()); !errors.Is(err, errStarterEnded) {
		t.Errorf("%v", err)
	}
	// Its end closes the pipe.
	if n, err := alive.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
}

func TestStarterThatCannotBeExecuted(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	put(t, plain, "#!/bin/sh\n")
	for guest, want := range map[string]unix.Errno{filepath.Join(dir, "gone"): unix.ENOENT, plain: unix.EACCES} {
		c, err := newControl(guest)
		if c != nil || !errors.Is(err, want) || !strings.Contains(err.Error(), "starting "+guest) {
			t.Errorf("%s: %v", guest, err)
		}
	}
}

func TestRequestThatIsTooLarge(t *testing.T) {
	c, err := newControl(fakeStarter(t, "cat <&3"))
	if err != nil {
		t.Fatal(err)
	}
	create := &starter.Create{Stage: make([]byte, starter.MaxMessage)}
	_, err = c.ask(&starter.Request{Body: &starter.Request_Create{Create: create}})
	if err == nil || !strings.Contains(err.Error(), "too many mounts") {
		t.Errorf("%v", err)
	}
	if !c.alive() {
		t.Error("the starter is not used any more")
	}
	unix.Shutdown(c.fd, unix.SHUT_RDWR) // ends it
	if _, err := c.ask(end()); !errors.Is(err, errStarterEnded) {
		t.Errorf("%v", err)
	}
}

// The real one answers what it cannot do.
func TestStarterFailures(t *testing.T) {
	failure := (&starter.Response{Error: "making it: no", Errno: int32(unix.EXDEV)}).Err()
	if !errors.Is(failure, unix.EXDEV) || failure.Error() != "making it: no" {
		t.Errorf("%v", failure)
	}
	if err := (&starter.Response{Error: "no errno"}).Err(); err == nil || errors.Unwrap(err) != nil {
		t.Errorf("%v", err)
	}
	if err := (&starter.Response{}).Err(); err != nil {
		t.Errorf("%v", err)
	}
}
