package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

// sh runs a script in the hand, which must succeed.
func sh(t testing.TB, s *sandbox.Session, script string) string {
	t.Helper()
	var out bytes.Buffer
	exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"bash", "-ec", "exec 2>&1; umask 022\n" + script}, Stdout: &out})
	if err != nil || exit.Status() != 0 {
		t.Fatalf("%s: %+v, %v\n%s", script, exit, err, &out)
	}
	return strings.TrimSpace(out.String())
}

// dir is a new directory whose path has no links.
func dir(t testing.TB, name string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	path := filepath.Join(real, name)
	must(t, os.Mkdir(path, 0o755))
	return path
}

// What a session keeps from programs it keeps from tools.
func TestToolsInASession(t *testing.T) {
	work := dir(t, "work")
	for name, content := range map[string]string{".env": "secret", "protected": "old\n", "open": "old\n", "run.sh": "old\n"} {
		must(t, os.WriteFile(work+"/"+name, []byte(content), 0o644))
	}
	must(t, os.Chmod(work+"/run.sh", 0o755))
	s := sallytest.Session(t, sandbox.Settings{
		Workspace: work, Denied: []string{work + "/.env"}, ReadOnly: []string{work + "/protected"},
	}, sandbox.Limits{})
	agent := sallytest.NewAgent(work, sallytest.Box{Session: s})
	eye := sallytest.NewAgent(work, sallytest.Box{Session: s, Envelope: sandbox.Envelope{Box: sandbox.Eye}})
	steps(t, agent,
		no("Read", "permission denied", "file_path", ".env"),
		do("Read", "old", "file_path", "protected"),
		no("Edit", "protected or read-only", "file_path", "protected", "old_string", "old", "new_string", "new"),
		no("Write", "protected or read-only", "file_path", "protected", "content", "new"),
		no("Write", "read-only", "file_path", "/usr/new", "content", "new"),
		no("Write", "read-only", "file_path", "/usr/none/new", "content", "new"),
		no("Write", "the kernel's", "file_path", "/proc/sys/kernel/core_pattern", "content", "|x"),
		no("Read", "it does not exist", "file_path", filepath.Dir(work)+"/none"),
		do("Read", "old", "file_path", "run.sh"),
		do("Edit", "new", "file_path", "run.sh", "old_string", "old", "new_string", "new"),
		do("Write", "created", "file_path", "made/by/tool", "content", "x"),
	)
	// The eye reads, and what it reads can be changed in the hand; nothing is
	// changed from there.
	steps(t, eye,
		do("Read", "old", "file_path", "open"),
		no("Edit", "read-only", "file_path", "open", "old_string", "old", "new_string", "new"),
		no("Write", "read-only", "file_path", "none/new", "content", "new"),
	)
	eye.Box = agent.Box
	steps(t, eye, do("Edit", "new", "file_path", "open", "old_string", "old", "new_string", "new"))

	// What a tool makes is as what a shell makes.
	sh(t, s, "mkdir -p made/by; echo x > made/by/shell")
	got := sh(t, s, "stat -c '%a %u %g' made/by/tool made/by/shell made | uniq; stat -c '%a' run.sh; ls -A . made/by | grep sallyport || true")
	if lines := strings.Split(got, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "644 ") || !strings.HasPrefix(lines[1], "755 ") || lines[2] != "755" {
		t.Errorf("modes and owners are\n%s", got)
	}
	for name, want := range map[string]string{".env": "secret", "protected": "old\n", "open": "old\n", "run.sh": "old\n"} {
		if data, err := os.ReadFile(work + "/" + name); string(data) != want || err != nil {
			t.Errorf("outside, %s holds %q, %v", name, data, err)
		}
	}
}

// A call that may write one file writes that, and not even a file beside it.
func TestToolsInANarrowEnvelope(t *testing.T) {
	if sandbox.LandlockABI() < 2 {
		t.Skip("this kernel has no Landlock to narrow what is written")
	}
	work := dir(t, "work")
	for _, name := range []string{"one", "two"} {
		must(t, os.WriteFile(work+"/"+name, []byte("old\n"), 0o644))
	}
	s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	agent := sallytest.NewAgent(work, sallytest.Box{Session: s, Envelope: sandbox.Envelope{Writable: []string{work + "/one"}}})
	steps(t, agent,
		do("Read", "old", "file_path", "one"),
		do("Read", "old", "file_path", "two"),
		do("Edit", "new", "file_path", "one", "old_string", "old", "new_string", "new and longer"),
		do("Edit", "x", "file_path", "one", "old_string", "new and longer", "new_string", "x"),
		no("Edit", "permission denied", "file_path", "two", "old_string", "old", "new_string", "new"),
		no("Write", "permission denied", "file_path", "three", "content", "new"),
		no("Write", "permission denied", "file_path", "d/three", "content", "new"),
	)
	if got := sh(t, s, "ls -A; cat one two"); got != "one\ntwo\nx\nold" {
		t.Errorf("%q", got)
	}
}

// In a tree that a program of the session made to harm whoever looks into it, a
// tool does what it was asked or says why not, and returns.
func TestHostileTree(t *testing.T) {
	work := dir(t, "work")
	s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	sh(t, s, `
		mkfifo fifo; ln -s fifo tofifo
		truncate -s 8G sparse
		{ yes 'some text' | head -n 20000 || true; } > long; truncate -s 8G long
		head -c 10000000 /dev/zero | tr '\0' x > line
		printf 'a\n\0b' > binary
		mkdir closed; echo secret > closed/file; chmod 000 closed
		echo secret > unreadable; chmod 000 unreadable
		echo text > readonly; chmod 444 readonly
		echo text > file; ln file hard; ln -s file link; ln -s none/x dangling; ln -s /usr/new away; ln -s . self
		mkdir full; for i in $(seq 3000); do : > full/name$i; done
		: > "$(printf 'new\nline\033[31m')"
		name=$(printf 'd%.0s' $(seq 200))
		for i in $(seq 30); do mkdir $name; cd $name; done; echo deep > file`)
	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 30) + "file"
	almost := strings.Repeat(strings.Repeat("d", 200)+"/", 15) + "new"
	agent := sallytest.NewAgent(work, sallytest.Box{Session: s})
	steps(t, agent,
		no("Read", "is a FIFO", "file_path", "fifo"),
		no("Read", "is a FIFO", "file_path", "tofifo"),
		no("Write", "is a FIFO", "file_path", "fifo", "content", "x"),
		no("Edit", "is a FIFO", "file_path", "tofifo", "old_string", "x", "new_string", "y"),
		no("Read", "it is not text but binary data of 8589934592 bytes", "file_path", "sparse"),
		do("Read", "read on with offset 3", "file_path", "long", "offset", 1, "limit", 2),
		no("Edit", "larger than 64 MiB", "file_path", "long", "old_string", "some", "new_string", "x"),
		do("Read", "9998000 more bytes of this line are not shown", "file_path", "line"),
		no("Read", "it is not text but binary data of 4 bytes", "file_path", "binary"),
		no("Read", "permission denied", "file_path", "closed/file"),
		no("Write", "permission denied", "file_path", "closed/new", "content", "x"),
		no("Read", "permission denied", "file_path", "unreadable"),
		do("Read", "text", "file_path", "readonly"),
		no("Edit", "it is not writable (its mode is 0444)", "file_path", "readonly", "old_string", "text", "new_string", "x"),
		do("Read", "text", "file_path", "link"),
		do("Write", "1 other names (hard links), which keep the old content", "file_path", "link", "content", "new"),
		do("Write", "created "+work+"/none/x", "file_path", "dangling", "content", "x"),
		no("Write", "read-only", "file_path", "away", "content", "x"),
		do("Read", "new", "file_path", strings.Repeat("self/", 30)+"file"),
		no("Read", "too many links", "file_path", strings.Repeat("self/", 50)+"file"),
		no("Read", "it does not exist", "file_path", "full/none"),
		do("Read", "(the file is empty)", "file_path", "new\nline\x1b[31m"),
		no("Read", "at most 4095", "file_path", deep),
		do("Write", "created", "file_path", almost, "content", "x"),
		no("Write", "too long", "file_path", "none/"+strings.Repeat("n", 256), "content", "x"),
	)
	if got := sh(t, s, "cat hard file none/x; echo; ls none; ls -A | grep sallyport || true; readlink link dangling"); got != "text\nnewx\nx\nfile\nnone/x" {
		t.Errorf("%q", got)
	}
	// The session is as good as before.
	steps(t, agent, do("Read", "new", "file_path", "file"))
}

// The names of a tree are swapped for links, directories, FIFOs and other files
// all the time, by a program of the session, while tools work on them.
func TestWhileNamesAreSwapped(t *testing.T) {
	work := dir(t, "work")
	secret := work + "/denied"
	s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	sh(t, s, `
		mkdir denied ok; echo secret > denied/file; echo public > ok/file
		ln -s $PWD/denied dirlink; mkdir d; echo public > d/file
		ln -s $PWD/denied/file filelink; mkfifo fifo; mkdir dir; echo public > file; echo public > other`)
	// Two names at a time, atomically, as fast as it goes.
	const swap = `
import ctypes, itertools
libc = ctypes.CDLL(None)
print("go", flush=True)
for a, b in itertools.cycle([("d", "dirlink"), ("file", "filelink"), ("file", "fifo"), ("file", "other"), ("file", "dir"), ("d", "dirlink")]):
    libc.renameat2(-100, a.encode(), -100, b.encode(), 2) # RENAME_EXCHANGE
`
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready := make(chan struct{})
	swapped := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, sandbox.Command{
			Args: []string{"python3", "-c", swap}, Stdout: &first{ready: ready},
		})
		swapped <- err
	}()
	select {
	case <-ready:
	case err := <-swapped:
		t.Fatal(err)
	}

	judge := func(path string, _ bool) error {
		if path == secret || strings.HasPrefix(path, secret+"/") {
			return errDenied
		}
		return nil
	}
	agent := sallytest.NewAgent(work, sallytest.Box{Session: s})
	agent.Judge = judge
	count := make(map[string]int)
	known := []string{
		errDenied.Error(), "the path changed while it was judged", "is a FIFO", "is a directory",
		"it changed since it was read", "it has not been read yet", "old_string is not in the file",
	}
	try := func(tool string, fields ...any) {
		t.Helper()
		text, err := agent.Call(t.Context(), byName[tool], object(t, fields...))
		if err == nil {
			if strings.Contains(text, "secret") {
				t.Fatalf("%s read what was denied: %q", tool, text)
			}
			count[tool]++
			return
		}
		for _, k := range known {
			if strings.Contains(err.Error(), k) {
				count[k]++
				return
			}
		}
		t.Fatalf("%s %v: %v", tool, fields, err)
	}
	enough := func() bool {
		return count["Read"] >= 100 && count["Write"] >= 30 && count["Edit"] >= 10 && count[errDenied.Error()] >= 30 && count["the path changed while it was judged"] >= 10
	}
	rounds := 0
	for ; rounds < 20_000 && !enough(); rounds++ {
		for _, path := range []string{"file", "d/file"} {
			try("Read", "file_path", path)
			try("Edit", "file_path", path, "old_string", "public", "new_string", fmt.Sprint("public ", rounds%10))
			try("Read", "file_path", path)
			try("Write", "file_path", path, "content", "public\n")
		}
		try("Write", "file_path", "d/new/er", "content", "public\n")
	}
	stop()
	if err := <-swapped; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	t.Logf("%d rounds: %v", rounds, count)
	if !enough() {
		t.Errorf("too little happened: %v", count)
	}
	if got := sh(t, s, "ls -A denied; cat denied/file; find . -name '.sallyport*'"); got != "file\nsecret" {
		t.Errorf("what was denied was changed: %q", got)
	}
	if entries, err := os.ReadDir(work); len(entries) > 0 || err != nil {
		t.Errorf("outside there is %v, %v", entries, err)
	}
}

var errDenied = errors.New("it is denied")

// first closes ready when something is written.
type first struct {
	ready chan struct{}
	done  bool
}

func (f *first) Write(p []byte) (int, error) {
	if !f.done {
		f.done = true
		close(f.ready)
	}
	return len(p), nil
}
