package demo_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

// The script checks itself; here its last words are looked at.
func TestDemo(t *testing.T) {
	cmd := exec.Command("sh", "demo.sh", filepath.Join(sallytest.Bin(t), "sallyport"))
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"ok  \texample.org/interval", "applied   interval.go", ".vscode is a protected path", "12 calls in", "3 denied", "records, whole"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the demo does not say %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
