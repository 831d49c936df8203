package bash_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sallyport/sallyport/permission/bash"
	"github.com/sallyport/sallyport/permission/bash/bashtest"
)

// A sandbox is a directory in which commands are run that are called read-only.
type sandbox struct{ dir string }

func newSandbox(t testing.TB) sandbox {
	t.Helper()
	s := sandbox{t.TempDir()}
	if err := bashtest.Tree(s.dir); err != nil {
		t.Fatal(err)
	}
	s.run(t, "git init -q -b main && git add f src && git commit -qm one && echo z >> f && git stash -q && git tag v1")
	return s
}

// run runs a command as a session does: with nothing on its standard input, and
// git without what a user's configuration adds.
func (s sandbox) run(t testing.TB, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "LC_ALL=C.UTF-8", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	cmd.WaitDelay = time.Second
	_ = cmd.Run() // how it ends does not matter
	if ctx.Err() != nil {
		t.Errorf("%q does not end", command)
	}
}

// own are directories in which programs keep for themselves what nobody asked them to:
// that they count how often they are called, a cache.
var own = map[string]bool{".config": true, ".cache": true, ".npm": true, ".cargo": true, ".rustup": true, ".local": true}

// state is every file, and what it holds.
func (s sandbox) state(t testing.TB) map[string]string {
	t.Helper()
	state := make(map[string]string)
	err := filepath.WalkDir(s.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && own[d.Name()] {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := []byte(nil)
		if info.Mode().IsRegular() {
			if content, err = os.ReadFile(name); err != nil {
				return err
			}
		}
		state[name] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(content))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestWhatIsCalledReadOnlyChangesNoFile(t *testing.T) {
	s := newSandbox(t)
	before := s.state(t)
	check := func(src string) {
		if endless(src) {
			return
		}
		if ok, _ := bash.Parse(src, bash.Env{Dir: s.dir, Home: s.dir}).ReadOnly(); !ok {
			return
		}
		s.run(t, src)
		if diff := cmp.Diff(before, s.state(t)); diff != "" {
			t.Fatalf("%q changed files:\n%s", src, diff)
		}
	}
	for _, c := range readOnlyCases(t) {
		check(c.Command)
	}
	for _, area := range areas {
		for _, src := range append(area.reads, area.holds...) {
			check(src)
		}
	}
	for _, use := range bashtest.Uses {
		check(use.Reads)
	}
}

func TestUsualCommandsChangeNoFile(t *testing.T) {
	s := newSandbox(t)
	before := s.state(t)
	var since []string // the last look
	for i, src := range bashtest.Usual {
		if !endless(src) && !strings.Contains(src, " /") && !strings.Contains(src, "version") {
			s.run(t, src)
			since = append(since, src)
		}
		if i%50 != 0 && i < len(bashtest.Usual)-1 {
			continue
		}
		if diff := cmp.Diff(before, s.state(t)); diff != "" {
			t.Fatalf("one of these changed files: %q\n%s", since, diff)
		}
		since = nil
	}
}

func TestCommandsDrawnFromTheTablesChangeNoFileWhenReadOnly(t *testing.T) {
	s := newSandbox(t)
	before := s.state(t)
	ran := 0
	rapid.Check(t, func(r *rapid.T) {
		src := bashtest.Command(r)
		if ok, _ := bash.Parse(src, bash.Env{Dir: s.dir, Home: s.dir}).ReadOnly(); !ok || endless(src) {
			return
		}
		ran++
		s.run(t, src)
		if diff := cmp.Diff(before, s.state(t)); diff != "" {
			r.Fatalf("%q changed files:\n%s", src, diff)
		}
	})
	if ran < 5 {
		t.Errorf("only %d commands were read-only", ran)
	}
}

// endless reports whether a command may read what does not come, or write without
// end.
func endless(src string) bool {
	return strings.Contains(src, "yes") || strings.Contains(src, "tail") || strings.Contains(src, "while") || strings.Contains(src, "vmstat") || strings.Contains(src, "iostat") || strings.Contains(src, "sleep") || strings.Contains(src, "free")
}

// soups are what commands are made of at random: every way to quote, to expand
// and to end a command, around one that leaves a file.
var soups = [][]string{
	strings.Fields("touch PWNED ls cat f echo x a=1 y ; & | && || ! { } ( ) (( )) [[ ]] [ ] $( ) ` $(( )) ${ } ${x:- ${x# <( >( $[ ' \" $' \\ # < > >> << <<< >| >& &> 2>&1 >/dev/null << 'E' E - -- = + * ? , ~ ;; esac if then fi while do done for in case function time coproc $x \"$x\" \"\" -v -o == =~ 1 IFS= read $@ [0] x[0] += \\' sed awk sort test printf"),
	strings.Split("'|'|\"|\"|\\|`|$|{|}|}|(|)|#|x|:-|/|%|\n; touch PWNED;|; touch PWNED;|; touch PWNED #| |\n|echo |<<E|\nE\n|$(|)|${x:-|${x#|${x/|${y:=|${x[|$'|$\"|((|))|$((|$[|]|[[ |]]|<(|case x in |;;|esac|<<'E'|<<-E|\t|!|*|?|@(|&|é|[|=|a=(|\\\n|<<<|~|{a,|^^|@Q|,,", "|"),
}

func TestCommandsMadeAtRandomChangeNoFileWhenReadOnly(t *testing.T) {
	s := newSandbox(t)
	before := s.state(t)
	random := rand.New(rand.NewPCG(1, 2))
	tries, ran := 15000, 0
	if n := os.Getenv("SALLYPORT_SOUP"); n != "" { // more, and others
		fmt.Sscan(n, &tries)
		random = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	}
	seen := make(map[string]bool)
	for range tries {
		var b strings.Builder
		letters, gaps := soups[0], []string{" ", " ", "", "\n", "\\\n", ""}
		if random.IntN(2) == 0 {
			letters, gaps = soups[1], []string{""}
			b.WriteString("echo ")
		}
		// A few of them, so that what belongs together meets.
		few := []string{"touch PWNED", "; touch PWNED; echo "}
		for range 3 + random.IntN(4) {
			few = append(few, letters[random.IntN(len(letters))])
		}
		for range 5 + random.IntN(9) {
			b.WriteString(few[random.IntN(len(few))])
			b.WriteString(gaps[random.IntN(len(gaps))])
		}
		src := b.String()
		if !strings.Contains(src, "touch") && !strings.Contains(src, ">") || seen[src] {
			continue
		}
		if ok, _ := bash.Parse(src, bash.Env{Dir: s.dir, Home: s.dir}).ReadOnly(); !ok {
			continue
		}
		seen[src] = true
		ran++
		s.run(t, src)
		if diff := cmp.Diff(before, s.state(t)); diff != "" {
			t.Fatalf("%q changed files:\n%s", src, diff)
		}
	}
	if ran < 20 {
		t.Errorf("only %d of %d commands were read-only", ran, tries)
	}
}
