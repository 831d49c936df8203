package sallytest_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

func TestSessionRuns(t *testing.T) {
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	var out bytes.Buffer
	exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "echo $((6*7)); exit 3"}, Stdout: &out})
	if err != nil || exit.Code != 3 || out.String() != "42\n" {
		t.Fatalf("%+v, %q, %v", exit, out.String(), err)
	}
}
