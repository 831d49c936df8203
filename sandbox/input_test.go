package sandbox_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// Input is sent as soon as there is any, which may be before the guest has begun
// the call: none of it is lost, nor its end.
func TestInputReachesACallThatHasOnlyBegun(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	for i := range 200 {
		var out bytes.Buffer
		exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"cat"}, Stdin: strings.NewReader("in"), Stdout: &out})
		if err != nil || exit.Code != 0 || out.String() != "in" {
			t.Fatalf("call %d: %+v, %q, %v", i, exit, out.String(), err)
		}
	}
}
