package permission

import "testing"

// Where nothing holds a call, git is not read-only: a repository may have it run
// anything. Other commands are what they are.
func TestGitIsNotReadOnlyWhereNothingHoldsIt(t *testing.T) {
	for command, want := range map[string]Behavior{
		"git status": Ask, "ls; git log": Ask, "timeout 5 git diff": Ask, "echo $(git status)": Ask, "cat a.go": Allow, "ls | grep git": Allow,
	} {
		c := of(t, "Bash "+command)
		p := c.policy(t)
		p.Sealed, p.Unheld = false, true
		if d := p.Resolve(c.request()); d.Behavior != want {
			t.Errorf("%s: %s: %s", command, d.Behavior, d.Reason)
		}
		p.Unheld = false
		if d := p.Resolve(c.request()); d.Behavior != Allow {
			t.Errorf("in a session, %s: %s: %s", command, d.Behavior, d.Reason)
		}
	}
}
