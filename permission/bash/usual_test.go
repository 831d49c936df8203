package bash_test

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/permission/bash"
	"github.com/sallyport/sallyport/permission/bash/bashtest"
)

func TestUsualCommandsAreSeenAsReadOnly(t *testing.T) {
	for _, src := range bashtest.Usual {
		if ok, why := bash.Parse(src, inWorkspace).ReadOnly(); !ok {
			t.Errorf("%q is not seen as read-only: %s", src, why)
		}
	}
}

func TestLookalikesAreNotCalledReadOnly(t *testing.T) {
	for _, kind := range bashtest.Lookalikes {
		t.Run(kind.Name, func(t *testing.T) {
			for _, src := range kind.Commands {
				s := bash.Parse(src, inWorkspace)
				if ok, _ := s.ReadOnly(); ok {
					t.Errorf("%q is called read-only", src)
				}
				if ok, _ := s.Inspect(); ok {
					t.Errorf("%q is said to look at processes only", src)
				}
			}
		})
	}
}

func TestWhatLooksAtProcessesOnly(t *testing.T) {
	for _, src := range []string{
		"ps", "ps aux", "ps -ef | grep x", "ps aux | grep \"$x\" | head", "pgrep -fl x", "pidof bash", "pstree -p", "ss -tlnp", "ss -tlnp 'sport = :80'", "ss -tn state established dst 192.0.2.1:443", "ss -tn '( dport = :https or sport = :22 ) and dst [2001:db8::1]'", "ss -tn 'src 10.0.0.0/8'", "lsof -i :8080", "lsof -i TCP@192.0.2.1:443", "lsof -i6@'[::1]:80'", "lsof f", "fuser -n tcp 80", "fuser 80/tcp", "lsof -nP -iTCP -sTCP:LISTEN", "netstat -tulpn",
		"top -b -n 1", "top -bn1 | head -20", "w", "fuser -v f", "pmap -x 1", "lsns", "ipcs -a", "ps aux; ls", "timeout 5 ps", "LC_ALL=C ps", "ps -p 1 -o pid,comm 2>/dev/null", "if pgrep x; then echo up; fi",
	} {
		s := bash.Parse(src, inWorkspace)
		if ok, why := s.Inspect(); !ok {
			t.Errorf("%q: %s", src, why)
		}
		if ok, _ := s.ReadOnly(); ok {
			t.Errorf("%q is called read-only", src)
		}
	}
	for _, src := range []string{
		"", "ls", "ps $x", "ps \"$x\"", "pgrep $(cat f)", "ps *", "/bin/ps", "./ps", "ps > f", "ps | tee f", "ps; rm f", "ps &> f", "sudo ps", "watch ps", "sh -c ps", "nohup ps", "env ps", "x=$((y)); ps", "PATH=. ps", "LD_PRELOAD=x ps", "ps() { rm f; }; ps",
		"kill 1", "pkill x", "fuser -k f", "fuser -kv f", "fuser --kill f", "ss -K", "ss -tK dst x", "ss -D f", "ss --kill", "top", "top -b", "top -n 1", "htop", "lsof -Db", "lsof -r", "ps --foo", "ps | sh", "ps | xargs kill", "kill $(pgrep x)", "\"ps\"$x",
	} {
		if ok, _ := bash.Parse(src, inWorkspace).Inspect(); ok {
			t.Errorf("%q is said to look at processes only", src)
		}
	}
}

// Every command of the tables has a use that is read-only, or looks at processes, and
// one that is neither.
func TestEveryCommandOfTheTables(t *testing.T) {
	uses := make(map[string]bool)
	for _, use := range bashtest.Uses {
		uses[use.Name] = true
		if !slices.Contains(bash.Known(), use.Name) {
			t.Errorf("%s is in no table", use.Name)
		}
		if use.Reads != "" {
			s := bash.Parse(use.Reads, inWorkspace)
			reads, why := s.ReadOnly()
			if looks, _ := s.Inspect(); !reads && !looks {
				t.Errorf("%q is not seen as read-only: %s", use.Reads, why)
			}
		}
		s := bash.Parse(use.Holds, inWorkspace)
		reads, _ := s.ReadOnly()
		if looks, _ := s.Inspect(); reads || looks {
			t.Errorf("%q is called read-only", use.Holds)
		}
	}
	for _, name := range bash.Known() {
		if !uses[name] {
			t.Errorf("the table test has no use of %s", name)
		}
	}
}
