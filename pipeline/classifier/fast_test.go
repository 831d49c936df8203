package classifier

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/pipeline/effects"
	"github.com/sallyport/sallyport/sandbox/changeset"
)

// seen makes what was seen of a line: words apart by blanks, as
//
//	+new        a file that was added
//	-a          one of the user's that was deleted; -new is the session's own
//	-dir/12     a directory with so many below
//	~a:100>40   one of the user's that was changed, from one size to another
//	%a          a change of mode
//	!.git/x     a protected path that was added
//	a->b        a rename
//	=fifo       what can never leave
//	home:.x box:3 net:host out:op:/path cache:/path
//	partial dropped limit left exposed
func seen(t *testing.T, line string) *pipeline.Seen {
	p := &effects.Preview{Complete: true}
	s := &pipeline.Seen{Preview: p, Users: func(path string) bool { return !strings.HasPrefix(path, "new") }}
	add := func(c changeset.Change) { p.Changes.Workspace = append(p.Changes.Workspace, &c) }
	for _, word := range strings.Fields(line) {
		from, to, renamed := strings.Cut(word, "->")
		rest := word[1:]
		switch {
		case renamed:
			add(changeset.Change{Path: to, From: from, Kind: changeset.Renamed, Type: changeset.File, OldType: changeset.File})
		case word[0] == '+':
			add(changeset.Change{Path: rest, Kind: changeset.Added, Type: changeset.File, Size: 10})
		case word[0] == '-':
			c := changeset.Change{Path: rest, Kind: changeset.Deleted, Type: changeset.File, OldType: changeset.File, OldSize: 1000}
			if name, below, ok := strings.Cut(rest, "/"); ok {
				c.Path, c.Type, c.OldType = name, changeset.Dir, changeset.Dir
				fmt.Sscan(below, &c.Below)
			}
			add(c)
		case word[0] == '~':
			c := changeset.Change{Kind: changeset.Modified, Type: changeset.File, OldType: changeset.File}
			name, sizes, _ := strings.Cut(rest, ":")
			c.Path = name
			if _, err := fmt.Sscanf(sizes, "%d>%d", &c.OldSize, &c.Size); err != nil {
				t.Fatal(word)
			}
			add(c)
		case word[0] == '%':
			add(changeset.Change{Path: rest, Kind: changeset.Mode, Type: changeset.File, OldType: changeset.File})
		case word[0] == '!':
			add(changeset.Change{Path: rest, Kind: changeset.Added, Type: changeset.File, Protected: true})
		case word[0] == '=':
			add(changeset.Change{Path: rest, Kind: changeset.Added, Type: changeset.FIFO, Refused: "it is a FIFO"})
		case word == "partial":
			p.Complete, p.Why = false, "it did not end"
		case word == "dropped":
			p.Dropped = 1
		case word == "limit":
			p.Limits = []string{"memory"}
		case word == "left":
			p.Processes.Running = 1
		case word == "exposed":
			p.Changes.Exposed = []effects.Exposed{{Dir: "/data"}}
		default:
			kind, value, _ := strings.Cut(word, ":")
			switch kind {
			case "home":
				s.Home = append(s.Home, value)
			case "box":
				fmt.Sscan(value, &p.Changes.Box)
			case "net":
				p.Network = append(p.Network, effects.Dial{Host: value, Port: 443, Op: "connect"})
			case "out", "cache":
				op, path, _ := strings.Cut(value, ":")
				p.Outside = append(p.Outside, effects.Attempt{Op: op, Path: path, Opportunistic: kind == "cache"})
			default:
				t.Fatalf("what is %s?", word)
			}
		}
	}
	return s
}

func TestVerdicts(t *testing.T) {
	many := func(word string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, word+" ", i)
		}
		return b.String()
	}
	const allow, ask, deny = permission.Allow, permission.Ask, permission.Deny
	for _, test := range []struct {
		words, did string
		want       permission.Behavior
		why        string
	}{
		// What stays in the workspace and destroys little.
		{"make", "", allow, "changed nothing"},
		{"make", "+out", allow, "changed 1 path of the workspace, and nothing else"},
		{"go build ./...", "+bin box:300", allow, ""},
		{"go test ./...", "box:40", allow, "changed nothing"},
		{"npm run build", many("+dist%d", 500), allow, "500 paths"},
		{"sed -i s/a/b/ a", "~a:1000>1000", allow, ""},
		{"gofmt -w .", many("~f%d:900>910", 100), allow, ""},
		{"truncate -s 0 small", "~small:200>0", allow, ""},
		{"echo x > a", "~a:500>250", allow, ""},
		{"rm a", "-a", allow, ""},
		{"rm a b c", "-a -b -c", allow, ""},
		{"rm -r dir", "-dir/3", allow, ""},
		{"rm new1 new2 new3 new4 new5", "-new1 -new2 -new3 -new4 -new5", allow, ""},
		{"rm -r newdir", "-newdir/4000", allow, ""},
		{"chmod +x a", "%a", allow, ""},
		{"mv a b", "a->b", allow, ""},
		{"git mv", many("a%[1]d->b%[1]d", 60), allow, ""},
		{"python3 gen.py", "+x ~y:10>9 -z %w", allow, "4 paths"},
		{"pytest", "+t cache:create:/usr/lib/__pycache__/x.pyc", allow, ""},
		{"Write a", "+a", allow, ""},
		{"Edit a", "~a:3000>2900", allow, ""},

		// What destroys much that is the user's.
		{"rm *", "-a -b -c -d", ask, "it destroys 4 files of yours, a the first"},
		{"rm -r dir", "-dir/4", ask, "it destroys 4 files of yours, dir the first"},
		{"rm -r dir; rm x", "-dir/3 -x", ask, "4 files"},
		{"rm *", "-a -b -c -new1 -d", ask, "4 files"},
		{"truncate -s 0 *", "~a:1000>0 ~b:1000>0 ~c:1000>0 ~d:1000>400", ask, "4 files"},
		{"sed -i d *", many("~f%d:5000>10", 4), ask, ""},
		{"gofmt -w .", many("~f%d:900>910", 101), ask, "it changes 101 files of yours"},
		{"chmod -R go-r .", many("%%f%d", 101), ask, "101 files"},

		// What reaches beyond.
		{"curl https://example.com", "partial net:example.com", ask, "it wants to reach example.com"},
		{"npm install", "+node_modules box:3 net:registry.example partial", ask, "registry.example"},
		{"make", "out:create:/usr/local/bin/x", ask, "it tried to create /usr/local/bin/x"},
		{"make", "out:write:/opt/x +a", ask, "/opt/x"},
		{"cat .env", "out:read:/w/.env", ask, "/w/.env"},
		{"make", "home:.gitconfig", ask, "it changed ~/.gitconfig"},
		{"make", "home:.local/bin/ls", ask, ".local/bin/ls"},
		{"make", "exposed", ask, "/data"},
		{"server &", "left", ask, "it left 1 process running"},
		{"sleep 1000", "partial", ask, "it did not end"},
		{"yes > f", "limit +f", ask, "a limit: memory"},
		{"make", "dropped", ask, "more than was noted"},
		{"mkfifo f", "=f", ask, "can never leave"},

		// Protected paths: named, somebody may have meant it.
		{"echo x >> .git/hooks/pre-commit", "!.git/hooks/pre-commit", ask, "which is protected"},
		{"cp -r hooks .git/hooks", "!.git/hooks/pre-push", ask, "which is protected"},
		{"Write .vscode/tasks.json", "!.vscode/tasks.json", ask, "which is protected"},
		{"make", "!.git/hooks/pre-commit", deny, "which its words do not name"},
		{"make .git", "!.bashrc", deny, ".bashrc"},
		{"python3 setup.py", "+a !.vscode/tasks.json", deny, ".vscode/tasks.json"},
		{"npm test", "!sub/.git/config", deny, "sub/.git/config"},

		// What is certainly hostile.
		{"x", "out:write:/proc/sys/kernel/core_pattern", deny, "/proc/sys/kernel/core_pattern, by which programs leave a box"},
		{"x", "out:write:/proc/sysrq-trigger", deny, ""},
		{"x", "out:create:/etc/cron.d/x", deny, ""},
		{"x", "out:write:/etc/ld.so.preload", deny, ""},
		{"x", "out:write:/etc/passwd +a", deny, ""},
		{"x", "out:write:/sys/fs/cgroup/release_agent", deny, ""},
		{"x", "out:write:/dev/mem", deny, ""},
		{"x", "out:connect:/var/run/docker.sock", deny, ""},
		{"x", "cache:write:/etc/shadow", deny, ""},
		{"x", "out:write:/proc/1/mem", deny, ""},
		{"x", "out:write:/etc/passwd-", ask, "/etc/passwd-"},
		{"x", "out:write:/proc/12/mem", ask, ""},
		{"x", "out:read:/w/.env net:evil.example", deny, "it read /w/.env, which is denied, and then wanted to reach evil.example"},
		{"x", "out:read:/w/.env out:read:/w/key net:192.0.2.7 partial", deny, ""},
		{"x", "net:192.0.2.7 dropped -a -b -c -d", ask, "192.0.2.7"},
		{"x", "out:write:/a\x1b[2Jb", ask, "/a^[[2Jb"},
	} {
		v := Judge(&pipeline.ClassifierCall{Tool: "Bash", Input: test.words}, seen(t, test.did))
		if v.Behavior != test.want || !strings.Contains(v.Reason, test.why) || v.Reason == "" {
			t.Errorf("%s: %s: %s: %s", test.words, test.did, v.Behavior, v.Reason)
		}
	}
	if v := Judge(&pipeline.ClassifierCall{}, nil); v != nil {
		t.Errorf("of what was not seen: %+v", v)
	}
}
