package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func write(t *testing.T, path string, kinds ...Kind) {
	t.Helper()
	l, err := Open(path, Record{Session: "s", Name: "n", Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, k := range kinds {
		if err := l.Write(Record{Kind: k, Event: strings.Repeat("x", i*3000)}, i%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
}

func verify(path string) (*Report, error) {
	return ReadFile(path, func(*Record) error { return nil })
}

func TestChainGoesOnAcrossOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	write(t, path, KindOpen, KindDecision, KindResult)
	if r, err := verify(path); err != nil || r.Records != 3 || !r.Open {
		t.Fatalf("%+v, %v", r, err)
	}
	write(t, path, KindOpen, KindClose)
	r, err := verify(path)
	if err != nil || r.Records != 5 || r.Open {
		t.Fatalf("%+v, %v", r, err)
	}
}

// Whatever is done to a line, or to the order of lines, is found.
func TestTamperingBreaksTheChain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	write(t, path, KindOpen, KindDecision, KindResult, KindClose)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	join := func(l ...string) string { return strings.Join(l, "") }
	for name, tampered := range map[string]string{
		"a byte changed":     strings.Replace(string(whole), `"kind":"decision"`, `"kind":"decisiom"`, 1),
		"a space added":      strings.Replace(string(whole), `"kind":"open"`, `"kind": "open"`, 1),
		"the first removed":  join(lines[1:]...),
		"a middle removed":   join(lines[0], lines[2], lines[3]),
		"two swapped":        join(lines[0], lines[2], lines[1], lines[3]),
		"one twice":          join(lines[0], lines[1], lines[1], lines[2], lines[3]),
		"a line of no JSON":  join(lines[0], "x\n", lines[1]),
		"an empty line":      join(lines[0], "\n", lines[1]),
		"another first line": join(strings.Replace(lines[0], `"name":"n"`, `"name":"m"`, 1), lines[1]),
	} {
		_, err := Read(strings.NewReader(tampered), func(*Record) error { return nil })
		if !errors.As(err, new(*BrokenError)) {
			t.Errorf("%s: %v, want a BrokenError", name, err)
		}
	}
	// The end cut off leaves a chain that is not closed.
	r, err := Read(strings.NewReader(join(lines[:3]...)), func(*Record) error { return nil })
	if err != nil || !r.Open {
		t.Errorf("the end cut off: %+v, %v", r, err)
	}
}

func TestTornLineIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	write(t, path, KindOpen, KindDecision)
	whole, _ := os.ReadFile(path)
	for _, cut := range []int{1, 10, 100} {
		if err := os.WriteFile(path, whole[:len(whole)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, path, KindResult)
		if r, err := verify(path); err != nil || r.Records != 2 {
			t.Errorf("cut by %d: %+v, %v", cut, r, err)
		}
	}
	// Nothing but a torn line.
	if err := os.WriteFile(path, whole[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, path, KindOpen)
	if r, err := verify(path); err != nil || r.Records != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestWritersAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	l, err := Open(path, Record{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				if err := l.Write(Record{Kind: KindEvent, Event: fmt.Sprint(i, j)}, j%10 == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if r, err := verify(path); err != nil || r.Records != 400 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// A write that fails is an error, and so is every one after it.
func TestFailedWriteIsFinal(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "a.jsonl"), Record{})
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.f.Close()
	l.f = full
	for range 2 {
		if err := l.Write(Record{Kind: KindEvent}, false); err == nil {
			t.Fatal("writing to a full disk was no error")
		}
	}
}

func TestSecretsAreMarked(t *testing.T) {
	for _, c := range []struct {
		input any
		keep  string // must still be there
		hide  string // must not
	}{
		{[]string{"sh", "-c", "API_KEY=hunter2hunter2 ./x"}, "./x", "hunter2"},
		{[]string{"curl", "--token", "hunter2"}, "curl", "hunter2"},
		{[]string{"curl", "-H", "Authorization: Bearer abcdefghijkl"}, "curl", "abcdefghijkl"},
		{map[string]any{"command": "git clone https://me:sesame@example.com/x"}, "example.com/x", "sesame"},
		{"export GH=ghp_abcdefghijklmnopqrstuvwxyz0123456789", "export GH", "ghp_abc"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END", "BEGIN RSA", "MIIEabc"},
	} {
		var r Record
		if err := r.SetInput(c.input); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(r.Input, []byte(c.keep)) || bytes.Contains(r.Input, []byte(c.hide)) || r.Secrets == 0 {
			t.Errorf("%v: recorded as %s, %d secrets", c.input, r.Input, r.Secrets)
		}
	}
	var r Record
	r.SetInput([]string{"grep", "-rn", "token", "src/token.go", "--max-count", "5"})
	if r.Secrets != 0 {
		t.Errorf("%s: %d secrets found where there is none", r.Input, r.Secrets)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("{\"seq\":1,\"prev\":\"\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		Read(bytes.NewReader(data), func(*Record) error { return nil })
	})
}
