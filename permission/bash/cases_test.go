package bash_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/sallyport/sallyport/permission/bash"
)

type readOnlyCase struct {
	Command  string `json:"command"`
	ReadOnly bool   `json:"read_only"`
	Why      string `json:"why"`
}

func readOnlyCases(t testing.TB) []readOnlyCase {
	t.Helper()
	f, err := os.Open("testdata/bash-read-only.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []readOnlyCase
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c readOnlyCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 80 {
		t.Fatalf("%d cases only", len(cases))
	}
	return cases
}

var inWorkspace = bash.Env{Dir: "/workspace", Home: "/home/user"}

func TestCasesAreJudgedAsTheyAre(t *testing.T) {
	for _, c := range readOnlyCases(t) {
		if got, why := bash.Parse(c.Command, inWorkspace).ReadOnly(); got != c.ReadOnly {
			t.Errorf("%q is read-only: %v (%s), want %v %s", c.Command, got, why, c.ReadOnly, c.Why)
		}
	}
}
