package permission

import "testing"

// A name that Windows reads as another is asked about, whatever allows it, and no
// classifier can know better. What Linux alone has is no such name.
func TestNamesThatWindowsReadsDifferently(t *testing.T) {
	for _, name := range []string{
		"a.go::$DATA", "a.go:stream", "sub/x:y", "C:x", "c:", "GIT~1", "git~1/hooks/pre-commit", "PROGR~12", "SETTIN~1.JSO",
		"CON", "con", "nul.txt", "AUX.c", "COM1", "lpt9.log", "COM¹", "sub/PRN/x", "conout$",
		"a.go.", ".git.", ".git ", "sub./x", ".claude /settings.json", "...", `a\b`, `\\server\share\x`, `.git\hooks`, "nul .txt",
	} {
		for _, mode := range []string{"bypassPermissions", "acceptEdits", "auto"} {
			c := of(t, mode+" :: allow Edit :: Write x")
			c.Input["file_path"] = "/w/" + name
			d := c.policy(t).Resolve(c.request())
			if d.Behavior != Ask || d.Safety == nil || d.Safety.ClassifierApprovable {
				t.Errorf("%s: %q: %s %s %+v", mode, name, d.Behavior, d.Reason, d.Safety)
			}
		}
	}
	for _, name := range []string{
		"a.go", "console.go", "nullable.go", "com.go", "COM10", "communicate", "a~", "backup~", "a~b.go", "~1", "longname~1.go", "a..b", ".gitignore", "x.tar.gz",
		"auxiliary.c", "lpt.txt", "ünï.go", "a b.go", "-", "conf",
	} {
		c := of(t, "acceptEdits :: Write x")
		c.Input["file_path"] = "/w/" + name
		if d := c.policy(t).Resolve(c.request()); d.Behavior != Allow {
			t.Errorf("%q: %s %s", name, d.Behavior, d.Reason)
		}
	}
	// Reading is reading.
	c := of(t, "Read GIT~1/x")
	if d := c.policy(t).Resolve(c.request()); d.Behavior != Allow {
		t.Errorf("%s: %s", d.Behavior, d.Reason)
	}
}
