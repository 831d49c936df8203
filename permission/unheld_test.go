package permission

import (
	"errors"
	"testing"
)

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

// Where nothing hides what a rule does not name, what is outside of the workspace is
// asked about; where nothing protects it, what a command changes must be known.
func TestWhereNothingHoldsACall(t *testing.T) {
	for line, want := range map[string]Behavior{
		"Bash cat ~/.ssh/id_rsa": Ask, "Bash cat /etc/shadow": Ask, "Bash cat src/link/passwd": Ask, "Bash cat $f": Ask, "Bash cat ../*": Ask, "Bash cat /proc/1/environ": Ask,
		"Bash cat a.go": Allow, "Bash ls -la src": Allow, "Bash cat lib/*": Allow, "Bash cat lib/*.go | wc -l": Allow, "Bash ls *": Allow, "Bash cat /usr/include/*.h": Allow, "Bash cat < lib/*": Allow,
		"Bash cat src/*": Ask, "Bash cat src/l?nk": Ask, "Bash cat lib/*/a.go": Ask, "Bash ls .*": Ask, "Bash cat dash/*": Ask, "Bash cat many/*": Ask, "Bash cat < src/*": Ask, "Bash cat {a,.}.": Ask,
		"Bash grep -r x .": Allow, "Bash grep -R x .": Ask, "Bash rg x": Allow, "Bash rg -L x": Ask, "Bash rg -nL x src": Ask, "Bash find . -name x": Allow, "Bash find -L . -name x": Ask,
		"Bash find . -follow": Ask, "Bash ls -LR": Ask, "Bash ls -L": Allow, "Bash diff -r lib src": Ask, "Bash diff a.go main.go": Allow, "Bash tree -l": Ask, "Bash tree": Allow, "Bash du -L": Ask, "Bash du -sh": Allow, "Bash fd --follow x": Ask, "Bash ag -f x": Ask,
		"Bash cat /usr/include/stdio.h": Allow, "Bash ls > /dev/null": Allow,
		"Read /etc/shadow": Ask, "Read a.go": Allow, "Read /usr/include/x.h": Allow,
		"allow Bash(touch *) :: Bash touch $(echo .git/hooks/x)": Ask, "allow Bash(touch *) :: Bash touch .git/hook[s]/x": Ask, "allow Bash(touch *) :: Bash touch new": Allow,
		"allow Bash(cat *) :: Bash cat /etc/hosts": Ask, "allow Read(//etc/hosts) :: Read /etc/hosts": Allow,
		"acceptEdits :: Bash mvn -v": Ask, "Bash node --version": Allow,
	} {
		c := of(t, line)
		p := c.policy(t)
		p.Sealed, p.Unheld = false, true
		r := c.request()
		r.Traps = traps
		if d := p.Resolve(r); d.Behavior != want {
			t.Errorf("%s: %s: %s", line, d.Behavior, d.Reason)
		}
	}
}

// traps are those of a workspace in which src/link is the only link.
func traps(dir string) ([]string, error) {
	switch dir {
	case workspace + "/src":
		return []string{"link"}, nil
	case workspace + "/dash":
		return []string{"-R"}, nil
	case workspace + "/many":
		return nil, errors.New("too many")
	}
	return nil, nil
}

// Where it cannot be told what a pattern may match, it is asked about.
func TestPatternsWithoutTraps(t *testing.T) {
	c := of(t, "Bash cat lib/*")
	p := c.policy(t)
	p.Sealed, p.Unheld = false, true
	if d := p.Resolve(c.request()); d.Behavior != Ask {
		t.Errorf("%s: %s", d.Behavior, d.Reason)
	}
}
