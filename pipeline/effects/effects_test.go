package effects

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// layer is a layer whose upper and lower directory hold these files: a name that
// ends in "/" is a directory, a content that begins with "-> " a link, and one that
// begins with "+x " an executable.
func layer(t *testing.T, name, dir string, lower, upper map[string]string) sandbox.LayerEffects {
	t.Helper()
	open := func(files map[string]string) *beneath.Dir {
		root := t.TempDir()
		for path, content := range files {
			path = filepath.Join(root, path)
			target, link := strings.CutPrefix(content, "-> ")
			text, executable := strings.CutPrefix(content, "+x ")
			mode := os.FileMode(0o644)
			if executable {
				mode = 0o755
			}
			err := os.MkdirAll(filepath.Dir(path), 0o755)
			if link {
				err = errors.Join(err, os.Symlink(target, path))
			} else {
				err = errors.Join(err, os.WriteFile(path, []byte(text), mode))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		d, err := beneath.OpenReal(root)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	l := changeset.Layers{Upper: open(upper)}
	l.Lower.UserXattr = true
	l.Lower.Layers = []changeset.Layer{{Dir: open(lower)}}
	set, err := changeset.Read(t.Context(), l, changeset.Options{Protected: func(path string) bool { return path == ".envrc" }})
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.LayerEffects{Name: name, Dir: dir, Changes: &sandbox.Changes{Set: set}}
}

func preview(layers ...sandbox.LayerEffects) *Preview {
	p := &Preview{Exit: &Exit{}, Time: 1200 * time.Microsecond, Complete: true}
	p.SetEffects(&sandbox.Effects{Layers: layers})
	p.SetAttempts(nil, 0)
	return p
}

func TestWhatIsShown(t *testing.T) {
	workspace := func(lower, upper map[string]string) sandbox.LayerEffects {
		return layer(t, "workspace", "/w", lower, upper)
	}
	incomplete := preview()
	incomplete.Complete, incomplete.Why, incomplete.Exit = false, "it was ended\n: a lie", nil
	incomplete.Limits = []string{"time: 1s"}
	incomplete.Processes = Processes{Started: 3, Running: 1}
	tried := preview()
	tried.SetAttempts([]sandbox.Attempt{
		{Op: "utime", Path: "/usr/lib/x.pyc", Program: "/usr/bin/python3", Opportunistic: true},
		{Op: "write", Path: "/etc/pass\x1b[2Jwd", Program: "/w/a\u202eb"},
		{Op: "write", Path: "/etc/pass\x1b[2Jwd", Program: "/w/a\u202eb"},
		{Op: "remove"},
		{Op: "connect", Path: "192.0.2.7:443", Host: "192.0.2.7", Port: 443, Program: "/usr/bin/curl"},
		{Op: "send", Path: "[2001:db8::1]:53", Host: "2001:db8::1", Port: 53},
		{Op: "lookup", Path: "evil\x1b.example", Host: "evil\x1b.example"},
	}, 4)
	for _, test := range []struct {
		name    string
		p       *Preview
		summary string
		diff    string
	}{
		{"nothing", preview(), `
ran in a copy of the session: exit 0, 1.2ms
nothing changed, nothing tried
`, ""},
		{"a line", preview(workspace(map[string]string{"a": "one\ntwo\n"}, map[string]string{"a": "one\nzwei\n"})), `
ran in a copy of the session: exit 0, 1.2ms
 a |    2 +-
 1 path changed, 1 insertion(+), 1 deletion(-)
`, `
diff --git a/a b/a
--- a/a
+++ b/a
@@ -1,2 +1,2 @@
 one
-two
+zwei
`},
		{"odd names and contents", preview(workspace(map[string]string{"m": "x\n"}, map[string]string{
			"+a b": "\x1b[2J\u202e\u200b\xff\r\n\ttab\n", "n\nl": "-> /etc\x1b/x", "m": "+x x\n", "bin": "\x00", ".envrc": "x\n",
		})), `
ran in a copy of the session: exit 0, 1.2ms
 +a b   |    2 ++ new
 .envrc |    1 + new, protected: name it to apply it
 bin    | new, 1 bytes
 m      | mode 0755, was 0644
 n\nl   | link to /etc^[/x, which leads out of the workspace, or nowhere
 5 paths changed, 3 insertions(+), 0 deletions(-)
`, `
diff --git a/+a b b/+a b
new file mode 100644
--- /dev/null
+++ b/+a b	
@@ -0,0 +1,2 @@
+^[[2J\u202e\u200b\xff^M
+	tab
diff --git a/.envrc b/.envrc
new file mode 100644
--- /dev/null
+++ b/.envrc
@@ -0,0 +1 @@
+x
diff --git a/bin b/bin
new file mode 100644
Binary files /dev/null and b/bin differ (1 bytes, were 0)
diff --git a/m b/m
old mode 100644
new mode 100755
link: n\nl leads out of the workspace, or nowhere: /etc^[/x
diff --git "a/n\\nl" "b/n\\nl"
new file mode 120000
--- /dev/null
+++ "b/n\\nl"
@@ -0,0 +1 @@
+/etc^[/x
\ No newline at end of file
`},
		{"elsewhere", preview(
			layer(t, "home", "/home/x", nil, map[string]string{"c": "1", "d": "2"}),
			layer(t, "expose-0", "/opt/x\n", nil, map[string]string{"e": "3\n"}),
		), `
ran in a copy of the session: exit 0, 1.2ms
in /opt/x\n:
 e |    1 + new
 1 path changed, 1 insertion(+), 0 deletions(-)
in its own home and /tmp: 2 paths changed
`, `
in /opt/x\n:
diff --git a/e b/e
new file mode 100644
--- /dev/null
+++ b/e
@@ -0,0 +1 @@
+3
`},
		{"what was tried", tried, `
ran in a copy of the session: exit 0, 1.2ms
tried outside: write /etc/pass^[[2Jwd, by /w/a\u202eb (2 times)
tried outside: remove it is not known what
tried outside: utime /usr/lib/x.pyc, by /usr/bin/python3, beside its work
wanted the network: 192.0.2.7 port 443, by /usr/bin/curl
wanted the network: 2001:db8::1 port 53
wanted the network: evil^[.example
tried more: 4 attempts not kept
`, ""},
		{"not complete", incomplete, `
in a copy of the session, 1.2ms, 3 processes started
not complete: it was ended\n: a lie
left running: 1 process
limit hit: time: 1s
`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var summary, diff bytes.Buffer
			if err := test.p.WriteSummary(t.Context(), &summary, OnTerminal(false)); err != nil {
				t.Fatal(err)
			}
			if err := test.p.WriteDiff(t.Context(), &diff, OnTerminal(false)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.TrimPrefix(test.summary, "\n"), summary.String()); d != "" {
				t.Errorf("summary: -want +got\n%s", d)
			}
			if d := cmp.Diff(strings.TrimPrefix(test.diff, "\n"), diff.String()); d != "" {
				t.Errorf("diff: -want +got\n%s", d)
			}
		})
	}
}

// What is shown in a prompt is bounded, and says what is left out.
func TestPromptsAreBounded(t *testing.T) {
	files := map[string]string{"long": strings.Repeat("x", 5000) + "\n", "many": strings.Repeat("y\n", 3000), "huge": strings.Repeat("z\n", 200<<10)}
	for i := range 60 {
		files["f"+string(rune('A'+i/10))+string(rune('0'+i%10))] = "x\n"
	}
	p := preview(layer(t, "workspace", "/w", nil, files))
	var attempts []sandbox.Attempt
	for i := range 25 {
		attempts = append(attempts, sandbox.Attempt{Op: "write", Path: "/etc/" + string(rune('a'+i))})
	}
	p.SetAttempts(attempts, 0)
	sections := p.Sections(t.Context())
	if len(sections) != 2 || sections[0].Diff || !sections[1].Diff {
		t.Fatalf("%+v", sections)
	}
	for _, want := range []string{" 63 paths changed, 23 of them not shown; of the others", "not shown: 15 more attempts outside"} {
		if !strings.Contains(sections[0].Text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, sections[0].Text)
		}
	}
	for _, want := range []string{" [4601 more bytes]", "Large files /dev/null and b/huge differ (409600 bytes, were 0)", "more lines of many]"} {
		if !strings.Contains(sections[1].Text, want) {
			t.Errorf("the diff lacks %q:\n%.3000s", want, sections[1].Text)
		}
	}
	if n := strings.Count(sections[1].Text, "\n"); n > 1001 {
		t.Errorf("the diff has %d lines", n)
	}
}

func TestColours(t *testing.T) {
	p := preview(layer(t, "workspace", "/w", map[string]string{"a": "x\n"}, map[string]string{"a": "y\n"}))
	p.SetAttempts([]sandbox.Attempt{{Op: "write", Path: "/etc/x"}}, 0)
	var out bytes.Buffer
	if err := p.WriteSummary(t.Context(), &out, OnTerminal(true)); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[31mtried outside: write /etc/x\x1b[m\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q", out.String())
	}
}

// The names are others' to rely on.
func TestJSON(t *testing.T) {
	p := preview(layer(t, "workspace", "/w", nil, map[string]string{"a": "x"}))
	p.Limits = []string{}
	p.SetAttempts([]sandbox.Attempt{{Op: "connect", Path: "192.0.2.7:443", Host: "192.0.2.7", Port: 443, Program: "/p"}, {Op: "write", Path: "/etc/x"}}, 0)
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"output":{"stdout":"","stderr":""},"exit":{"code":0},` +
		`"changes":{"workspace":[{"path":"a","kind":"added","type":"file","mode":"0644","size":1,"base":""}],"box":0},` +
		`"outside":[{"op":"write","path":"/etc/x"}],"network":[{"host":"192.0.2.7","port":443,"op":"connect","program":"/p"}],` +
		`"processes":{"running":0},"limits":[],"time_ns":1200000,"complete":true}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

func TestCapture(t *testing.T) {
	var then bytes.Buffer
	floods := 0
	c := Capture{Then: &then, Flooded: func() { floods++ }}
	block := bytes.Repeat([]byte("x"), mostCaptured-1)
	for range 3 {
		if n, err := c.Write(block); n != len(block) || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(c.String()) != mostCaptured || then.Len() != mostCaptured || !c.Cut || floods != 0 {
		t.Errorf("%d kept, %d handed on, cut %v, %d floods", len(c.String()), then.Len(), c.Cut, floods)
	}
	for range Flood / mostCaptured {
		c.Write(block)
	}
	if floods == 0 {
		t.Error("no flood")
	}
}
