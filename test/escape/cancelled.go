package escape

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/sandbox"
)

// Trees of processes that are hard to end (see attempt's tree).
var trees = []string{"plain", "setsid", "orphan", "fork-loop", "stopped", "subreaper"}

// testCancelled ends calls that have made such trees, and looks for what is
// left, from inside and from the host. What an earlier call left in the
// background must go on.
func testCancelled(t *testing.T, s *suite) {
	live := s.session(t, "", sandbox.Limits{})
	earlier := "mark-" + rand.Text()
	if got := try(t.Context(), live, sandbox.Hand, "sh", "-c", "attempt wait "+earlier+" >/dev/null 2>&1 &"); got != "" {
		t.Fatal(got)
	}
	for _, kind := range trees {
		for _, b := range []sandbox.Box{sandbox.Hand, sandbox.Eye} {
			t.Run(kind+"/"+b.String(), func(t *testing.T) {
				mark := "mark-" + rand.Text()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				_, err := live.Exec(ctx, sandbox.Command{
					Args: []string{"attempt", "tree", kind, mark}, Envelope: sandbox.Envelope{Box: b},
					Stdout: onWrite(cancel), // it is ready
				})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the call ended with %v", err)
				}
				s.nothingLeft(t, live, mark, earlier)
			})
		}
	}
	t.Run("too long", func(t *testing.T) {
		mark := "mark-" + rand.Text()
		_, err := live.Exec(t.Context(), sandbox.Command{
			Args:     []string{"attempt", "tree", "orphan", mark},
			Envelope: sandbox.Envelope{Time: 300 * time.Millisecond},
		})
		if !errors.Is(err, sandbox.ErrTime) {
			t.Errorf("the call ended with %v", err)
		}
		s.nothingLeft(t, live, mark, earlier)
	})
	if err := live.Close(); err != nil {
		t.Error(err)
	}
	if left := processesWith(t, earlier); len(left) > 0 {
		t.Errorf("the closed session has left %q", left)
	}
}

// nothingLeft checks that nothing with a mark runs, and that something with
// another one does.
func (s *suite) nothingLeft(t *testing.T, live *sandbox.Session, mark, goesOn string) {
	t.Helper()
	list, err := live.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || !strings.Contains(list[0].Command, goesOn) {
		t.Errorf("inside there are %+v, want the earlier call's alone", list)
	}
	if left := processesWith(t, mark); len(left) > 0 {
		t.Errorf("on the host there are %q", left)
	}
	if left := processesWith(t, goesOn); len(left) != 1 {
		t.Errorf("of the earlier call there are %q", left)
	}
	answers(t, live, "the end of a call")
}

// onWrite calls a function when something is written.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// processesWith returns the command lines, of all processes of the machine,
// that have a word as an argument.
func processesWith(t *testing.T, word string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00")
		if slices.Contains(args, word) {
			found = append(found, strings.Join(args, " "))
		}
	}
	return found
}
