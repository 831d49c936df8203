package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox/native"
	"github.com/sallyport/sallyport/test/sallytest"
)

// The program is built as a part of its test, which runs itself as the program.
const envRun = "EMBED_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(envRun) != "" {
		main()
		return
	}
	os.Exit(sallytest.Run(m))
}

// What embedding takes fits on a page, and needs nothing that others cannot
// import.
func TestProgramIsShort(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), "\n"); n > 60 {
		t.Errorf("it has %d lines", n)
	}
	for _, path := range regexp.MustCompile(`"github.com/sallyport/sallyport/[^"]*"`).FindAllString(string(source), -1) {
		if strings.Contains(path, "/internal/") || strings.Contains(path, "/test/") {
			t.Errorf("it imports %s", path)
		}
	}
}

func TestProgramRuns(t *testing.T) {
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(work+"/hello", []byte("hello, world\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", filepath.Join(sallytest.Bin(t), native.GuestName), dir+"/state", work)
	cmd.Env = append(os.Environ(), envRun+"=1")
	out, err := cmd.CombinedOutput()
	want := `hello, agent
yes: context canceled
 hello |    2 +-
 1 path changed, 1 insertion(+), 1 deletion(-)
report: &{Applied:[hello] Refused:[] Conflicts:[] Failed:[] Left:[]}
`
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
	if got, err := os.ReadFile(work + "/hello"); err != nil || string(got) != "hello, agent\n" {
		t.Errorf("%q, %v", got, err)
	}
}
