package bash_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/permission/bash"
)

// What is too deep, too long or too much is not provable, and is refused in a
// time that is bounded.
func TestBounds(t *testing.T) {
	repeat := strings.Repeat
	for name, src := range map[string]string{
		"long":             "echo " + repeat("x", bash.MaxLength),
		"parentheses":      repeat("(", 30000) + "ls" + repeat(")", 30000),
		"some parentheses": repeat("( ", 40) + "ls" + repeat(" )", 40),
		"substitutions":    repeat("echo $(", 100) + "ls" + repeat(")", 100),
		"quoted":           repeat("echo \"$(", 100) + "ls" + repeat(")\"", 100),
		"blocks":           repeat("{ ", 100) + "ls" + repeat("; }", 100),
		"ifs":              repeat("if ", 10000) + "ls" + repeat("; then ls; fi", 3000),
		"whiles":           repeat("while ", 10000),
		"negations":        repeat("! ", 30000) + "ls",
		"expansions":       "echo " + repeat("${x:-", 10000) + repeat("}", 10000),
		"arithmetic":       "echo $((" + repeat("(", 10000) + "1" + repeat(")", 10000) + "))",
		"signs":            "echo $((" + repeat("-", 30000) + "1))",
		"backquotes":       repeat("`", 20000),
		"unclosed":         repeat("$(", 20000),
		"quotes":           repeat("\"$(\"", 10000),
		"here-documents":   repeat("cat <<E;", 5000) + "\n" + repeat("E\n", 5000),
		"parts":            repeat("ls;", 20000),
		"eval":             "eval " + repeat("eval ", 5000) + "ls",
		"wrapped":          repeat("sudo ", 10000) + "ls",
		"wrapped, unknown": repeat("strace -f ", 5000) + "ls",
		"nested unknown":   repeat("unshare strace ", 8) + "ls",
		"sh -c":            "sh -c " + repeat("\"sh -c ", 1000),
		"tests":            "[[ " + repeat("( ", 10000) + "a" + repeat(" )", 10000) + " ]]",
		"cases":            repeat("case a in a) ", 4000) + repeat(";; esac", 4000),
		"functions":        repeat("f() ", 10000) + "ls",
		"pipes":            "ls" + repeat("|ls", 10000),
		"timeouts":         repeat("timeout 5 ", 6000) + "rm x",
		"find in find":     repeat("find . -exec ", 4000),
		"continued lines":  "ls x " + repeat("a$\\\n", 15000),
		"comments":         repeat("#\\\n", 20000),
		"homes":            repeat("$HOME ", 9000),
		"quoted homes":     repeat("\"$PWD\" ~/x ", 5000),
		"comparison":       "[[ " + repeat("a && ", 10000) + "a ]]",
	} {
		start := time.Now()
		s := bash.Parse(src, inWorkspace)
		ok, _ := s.ReadOnly()
		s.Pieces(func([]bash.Word) bool { return true })
		t.Logf("%s: %v, %v, %s, %d parts", name, time.Since(start), ok, s.Bad, len(s.Parts))
		if ok {
			t.Errorf("%s: it is called read-only", name)
		}
		if len(s.Parts) > 2000 || len(s.Notes) > 20 || len(s.Redirects) > 2000 {
			t.Errorf("%s: %d parts, %d notes, %d redirections", name, len(s.Parts), len(s.Notes), len(s.Redirects))
		}
	}
}

// A parser that panics has read nothing, and takes nobody with it.
func TestWhatMakesTheParserPanicIsBad(t *testing.T) {
	defer bash.BreakParsers()()
	for _, src := range []string{"ls", "rm x", ""} {
		s := bash.Parse(src, inWorkspace)
		if ok, _ := s.ReadOnly(); ok || s.Bad != bash.Panicked {
			t.Errorf("%q: read-only %v, bad %q", src, ok, s.Bad)
		}
		if s.Source != src {
			t.Errorf("%q became %q", src, s.Source)
		}
	}
}

// Ordinary depth and length are provable.
func TestWithinBounds(t *testing.T) {
	for _, src := range []string{
		strings.Repeat("ls\n", 500),
		"for a in 1; do for b in 2; do if true; then while false; do echo \"$(cat \"$(echo \"$(ls)\")\")\"; done; fi; done; done",
		"echo " + strings.Repeat("x ", 10000),
		"ls" + strings.Repeat(" | cat", 100) + strings.Repeat(" && ls", 100),
		strings.Repeat("( ", 6) + "ls" + strings.Repeat(" )", 6),
	} {
		if ok, why := bash.Parse(src, inWorkspace).ReadOnly(); !ok {
			t.Errorf("%.60q is not seen as read-only: %s", src, why)
		}
	}
}

// FuzzParse looks for what makes it panic or take long, and holds that what is
// read-only opens no file to write.
func FuzzParse(f *testing.F) {
	for _, c := range readOnlyCases(f) {
		f.Add(c.Command)
	}
	for _, area := range areas {
		for _, src := range append(area.reads, area.holds...) {
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		s := bash.Parse(src, inWorkspace)
		s.Pieces(func([]bash.Word) bool { return true })
		if s.Bad == bash.Panicked {
			t.Errorf("%q makes it panic", src)
		}
		ok, why := s.ReadOnly()
		if ok != (why == "") {
			t.Errorf("%q: %v, %q", src, ok, why)
		}
		if !ok {
			return
		}
		for _, r := range s.Redirects {
			if r.Write {
				t.Errorf("%q is called read-only and writes by %s", src, r.Source)
			}
		}
		for _, p := range s.Parts {
			if !p.ReadOnly && p.Through == "" || !p.Command[0].Known {
				t.Errorf("%q is called read-only and runs %s", src, shown(p))
			}
			switch p.Kind {
			case bash.Search, bash.Read, bash.List, bash.Neutral, bash.Inspect:
			default:
				t.Errorf("%q is called read-only and has %s", src, shown(p))
			}
		}
		if again, _ := bash.Parse(src, inWorkspace).ReadOnly(); !again {
			t.Errorf("%q is read-only once", src)
		}
	})
}
