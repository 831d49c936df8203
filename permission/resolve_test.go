package permission

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A testCase is a line of testdata/permission.jsonl.
type testCase struct {
	Mode             Mode
	Allow, Ask, Deny []string
	Tool             string
	Input            map[string]any
	Want             Behavior
	Why              string
}

// workspace is the one that the cases are about: a.go, main.go, src/a.go,
// src/link -> /etc, sub/, lib/src/a.go, .env, and .git.
const workspace = "/w"

// links follows src/link, the only link there is.
func links(paths []string) ([]string, error) {
	var real []string
	for _, path := range paths {
		if rest, ok := below(workspace+"/src/link", path); ok {
			path = filepath.Join("/etc", rest)
		}
		real = append(real, path)
	}
	return real, nil
}

func (c *testCase) policy(t testing.TB) *Policy {
	p := &Policy{Mode: c.Mode, Workspace: workspace, Home: "/home/agent", Sealed: true}
	for b, texts := range map[Behavior][]string{Allow: c.Allow, Ask: c.Ask, Deny: c.Deny} {
		for _, text := range texts {
			r, err := ParseRule(text, b, FromCLI)
			if err != nil {
				t.Fatal(err)
			}
			p.Rules = append(p.Rules, r)
		}
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// request is what the pipeline makes of the tools' own words.
func (c *testCase) request() Request {
	r := Request{Tool: c.Tool, Dir: workspace, Input: c.Input, Links: links}
	text := func(field string) string { s, _ := c.Input[field].(string); return s }
	path := func(name string, write, tree bool) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(workspace, name)
		}
		name = filepath.Clean(name)
		real, _ := links([]string{name})
		r.Paths = []Path{{Name: name, Real: real[0], Write: write, Tree: tree}}
	}
	switch c.Tool {
	case "Bash":
		r.ReadOnly, r.HasCommand, r.Command = true, true, text("command")
	case "Read":
		r.ReadOnly = true
		path(text("file_path"), false, false)
	case "Grep", "Glob":
		r.ReadOnly = true
		path(text("path"), false, true)
	case "Edit", "Write":
		path(text("file_path"), true, false)
	}
	return r
}

func TestCases(t *testing.T) {
	f, err := os.Open("testdata/permission.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	n := 0
	for lines.Scan() {
		var c testCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		n++
		if d := c.policy(t).Resolve(c.request()); d.Behavior != c.Want {
			t.Errorf("%s\n\tgot %s: %s", lines.Text(), d.Behavior, d.Reason)
		}
	}
	if lines.Err() != nil || n < 50 {
		t.Fatal(n, "cases", lines.Err())
	}
}

// of writes a case shortly: "mode :: allow a :: deny b :: Tool input" with the input
// being the command, path or URL.
func of(t testing.TB, line string) *testCase {
	c := &testCase{Mode: Default}
	parts := strings.Split(line, " :: ")
	for _, part := range parts[:len(parts)-1] {
		word, rest, _ := strings.Cut(part, " ")
		switch word {
		case "allow":
			c.Allow = append(c.Allow, rest)
		case "ask":
			c.Ask = append(c.Ask, rest)
		case "deny":
			c.Deny = append(c.Deny, rest)
		default:
			c.Mode = Mode(word)
		}
	}
	tool, rest, _ := strings.Cut(parts[len(parts)-1], " ")
	c.Tool = tool
	field := map[string]string{"Bash": "command", "Grep": "path", "Glob": "path", "WebFetch": "url", "Agent": "subagent_type"}[tool]
	if field == "" {
		field = "file_path"
	}
	c.Input = map[string]any{field: rest}
	return c
}

func TestResolve(t *testing.T) {
	for _, test := range []struct {
		line string
		want Behavior
	}{
		// What is read.
		{"Read /etc/hosts", Allow},
		{"deny Read :: Read a.go", Deny},
		{"deny Read(~/.ssh/**) :: Read /home/agent/.ssh/id", Deny},
		{"deny Read(~/.ssh) :: Read /home/agent/.ssh/id", Deny},
		{"deny Read(.ENV) :: Read .env", Deny},
		{"deny Read(.env) :: Read .env.example", Allow},
		{"deny Read(.env*) :: Read .env.example", Deny},
		{"deny Read(/.env) :: Read sub/.env", Allow},
		{"deny Read(sub/.env) :: Read sub/.env", Deny},
		{"deny Read(./sub) :: Read sub/x/y", Deny},
		{"deny Read(//etc/**) :: Read /etc/hosts", Deny},
		{"deny Read(//etc/**) :: Read src/link/hosts", Deny},
		{"deny Read(/src/link/**) :: Read src/link/hosts", Deny},
		{"deny Read(/**/secret/*) :: Read a/b/secret/c/d", Deny},
		{"deny Read(.env) :: Grep .", Allow},
		{"ask Read(.env) :: Grep .", Ask},
		{"ask Read(/src/secret) :: Grep lib", Allow},
		{"ask Read(/src/secret) :: Grep src", Ask},
		{"ask Read(/src/**/secret) :: Grep src/a", Ask},
		{"ask Read(//etc/secret) :: Grep src/link", Ask},
		{"deny Read(//etc/secret) :: Grep src/link", Ask},
		{"deny Read(.env) :: Bash cat ./.env", Deny},
		{"deny Read(.env) :: Bash cat < .env", Deny},
		{"deny Read(.env) :: Bash cat .en*", Ask},
		{"deny Read(.env) :: Bash cat *.go", Allow},
		{"deny Read(.env) :: Bash cat $F", Ask},
		{"deny Read(.env) :: Bash cd sub && cat .env", Deny},
		{"deny Read(.env) :: allow Bash(make *) :: Bash make x", Allow},
		{"ask Read(.env) :: allow Bash(make *) :: Bash make x", Ask},
		{"deny Read(.env) :: Edit .env", Deny},
		{"dontAsk :: Read a.go", Allow},
		{"plan :: Read a.go", Allow},

		// What is written.
		{"Write new.go", Ask},
		{"allow Edit :: Write new.go", Allow},
		{"allow Edit :: Write /etc/x", Allow},
		{"allow Edit(*.go) :: Write x/new.go", Allow},
		{"allow Edit(*.go) :: Write /etc/new.go", Ask},
		{"allow Edit(/src/**) :: Edit src/link/passwd", Ask},
		{"allow Edit(/SRC/**) :: Edit src/a.go", Ask},
		{"allow Write(/src/**) :: Edit src/a.go", Ask},
		{"allow Write(/src/**) :: Write src/a.go", Allow},
		{"deny Write(/src/**) :: allow Edit :: Edit src/a.go", Deny},
		{"deny Edit :: bypassPermissions :: Write a.go", Deny},
		{"deny Edit :: bypassPermissions :: Bash echo x > a.go", Deny},
		{"deny Edit(/src/**) :: bypassPermissions :: Bash echo x > src/a.go", Deny},
		{"deny Edit(/src/**) :: bypassPermissions :: Bash rm src/a.go", Deny},
		{"deny Edit(/src/**) :: bypassPermissions :: Bash python3 x.py", Ask},
		{"deny Edit(.env) :: bypassPermissions :: Bash rm a.go", Allow},
		{"deny Edit(.env) :: bypassPermissions :: Bash rm -r sub", Ask},
		{"allow Edit(/.git/**) :: Edit .git/hooks/pre-commit", Ask},
		{"allow Bash :: Bash echo x > .git/hooks/pre-commit", Ask},
		{"allow Bash :: Bash cp x .git/hooks/pre-commit", Ask},
		{"bypassPermissions :: Edit .GIT/hooks/x", Ask},
		{"acceptEdits :: Write .bashrc", Ask},
		{"acceptEdits :: Write src/link/x", Ask},
		{"acceptEdits :: Write ../x", Ask},
		{"acceptEdits :: Bash touch sub/x", Allow},
		{"acceptEdits :: Bash mkdir -p sub/y && touch sub/y/x", Allow},
		{"acceptEdits :: Bash echo x > sub/x", Allow},
		{"acceptEdits :: Bash touch src/link/x", Ask},
		{"acceptEdits :: Bash touch ../x", Ask},
		{"acceptEdits :: Bash touch $X", Ask},
		// src/link is a link: what is above it is not src.
		{"acceptEdits :: Bash echo x > src/link/../a.go", Ask},
		{"acceptEdits :: Bash cd src/link && echo x > ../a.go", Ask},
		{"acceptEdits :: Bash touch src/link/../a.go", Ask},
		{"acceptEdits :: Bash cd src/link && cd .. && touch a.go", Ask},
		{"acceptEdits :: Bash mv src/link l && echo x > l/passwd", Ask},
		{"acceptEdits :: Bash cp -P src/link l && touch l/passwd", Ask},
		{"acceptEdits :: Bash ln -s .git l; cd l && echo x > config", Ask},
		{"acceptEdits :: Bash mv lib/src l && echo x > l/link/y", Ask},
		{"acceptEdits :: Bash cp -P - l && touch l/passwd", Ask},
		{"acceptEdits :: Bash mv a.go b.go && touch c.go", Allow},
		{"allow Edit(/l) :: allow Bash(cp *) :: Bash cp -r a b; echo x > l", Allow},
		{"allow Edit(/l/**) :: allow Bash(mv *) :: Bash mv $X $Y; echo x > l/y", Ask},
		{"allow Edit(/src/*.go) :: Bash echo x > src/link/../a.go", Ask},
		{"allow Edit(/src/*.go) :: Bash echo x > ./src/a.go", Allow},
		{"deny Edit(//etc/**) :: bypassPermissions :: Bash echo x > src/link/../a.go", Ask},
		{"deny Edit(/src/**) :: bypassPermissions :: Bash echo x > sub/../src/a.go", Deny},
		{"deny Read(//passwd) :: Bash cat src/link/../passwd", Ask},
		{"deny Read(//passwd) :: Bash cat < src/link/../passwd", Ask},
		{"allow Bash :: Bash echo x > sub/../.git/hooks/pre-commit", Ask},
		{"acceptEdits :: Bash touch x; make", Ask},
		{"dontAsk :: Write a.go", Deny},

		// Commands.
		{"allow Bash(git *) :: Bash git", Allow},
		{"allow Bash(git:*) :: Bash git push", Allow},
		{"allow Bash(git push) :: Bash git push -f", Ask},
		{"allow Bash(git * main) :: Bash git push main", Allow},
		{"allow Bash(git * main) :: Bash git push main2", Ask},
		{"allow Bash(git *) :: Bash git push $X", Allow},
		{"allow Bash(git push *) :: Bash git $X", Ask},
		{"allow Bash(npm run test) :: Bash 'npm run' test", Ask},
		{"allow Bash(git commit -m \"a b\") :: Bash git commit -m \"a b\"", Allow},
		{"allow Bash(git *) :: Bash GIT_SSH=./x git push", Ask},
		{"allow Bash(git *) :: Bash git() { rm x; }; git push", Ask},
		{"allow Bash(git *) :: Bash nice -n 5 git push", Allow},
		{"allow Bash(git *) :: Bash ls && git push | cat", Allow},
		{"allow Bash(git *) :: Bash git push; (touch x)", Ask},
		{"allow Bash(git *) :: Bash git push > log", Ask},
		{"allow Bash(git *) :: acceptEdits :: Bash git push > log", Ask},
		{"allow Bash(git *) :: Bash git push > /dev/null 2>&1", Allow},
		{"allow Bash(git *) :: Bash git push &", Allow},
		{"allow Bash(git *) :: Bash git push (", Ask},
		{"allow Bash :: Bash git push (", Allow},
		{"deny Bash(rm *) :: allow Bash :: Bash git push (", Ask},
		{"deny Bash(rm *) :: allow Bash :: Bash rm x (", Deny},
		{"deny Bash(rm *) :: allow Bash :: Bash git push", Allow},
		{"deny Bash(rm *) :: allow Bash :: Bash git commit -m \"$X\"", Allow},
		{"deny Bash(rm *) :: Bash r\\m x", Deny},
		{"deny Bash(rm *) :: Bash 'rm' x", Deny},
		{"deny Bash(rm *) :: Bash sudo -u x env A=b nice rm x", Deny},
		{"deny Bash(rm *) :: Bash ls | xargs rm", Deny},
		{"deny Bash(rm *) :: Bash if true; then rm x; fi", Deny},
		{"deny Bash(rm *) :: Bash echo $(rm x)", Deny},
		{"deny Bash(rm *) :: Bash cat <(rm x)", Deny},
		{"deny Bash(rm -rf *) :: Bash rm -r -f x", Ask},
		{"deny Bash(rm *) :: bypassPermissions :: Bash x='a[$(rm y)]'; echo $((x))", Ask},
		{"deny Bash(rm *) :: bypassPermissions :: Bash test -v \"x[$X]\"", Ask},
		{"deny Bash(rm *) :: bypassPermissions :: Bash x='$(rm y)'; echo ${x@P}", Ask},
		{"deny Bash(rm *) :: bypassPermissions :: Bash PS4='$(rm y)'; set -x; ls", Deny},
		{"deny Bash(rm *) :: bypassPermissions :: Bash git bisect run rm y", Deny},
		{"deny Bash(rm *) :: bypassPermissions :: Bash git -c alias.x='!rm y' x", Deny},
		{"deny Bash(rm *) :: bypassPermissions :: Bash git lfs pull", Ask},
		{"deny Bash(rm *) :: bypassPermissions :: Bash su -c'rm y'", Deny},
		{"deny Bash(rm *) :: bypassPermissions :: Bash /lib64/ld-linux-x86-64.so.2 /bin/rm y", Deny},
		{"deny Bash(rm y) :: bypassPermissions :: Bash rm {y,}", Ask},
		{"deny Bash(rm y) :: bypassPermissions :: Bash rm {,y}", Ask},
		{"deny Bash(rm y) :: bypassPermissions :: Bash rm {x,}{y,}", Ask},
		{"deny Bash(rm y) :: bypassPermissions :: Bash rm {\"y\",}", Ask},
		{"deny Bash(rm -f y) :: bypassPermissions :: Bash rm {-f,y}", Ask},
		{"deny Bash(rm x2) :: bypassPermissions :: Bash rm x{2..2}", Ask},
		{"deny Bash(rm y) :: bypassPermissions :: Bash rm x{y,z}", Allow},
		{"allow Bash(rm *) :: Bash rm {x,y}", Allow},
		{"deny Bash(rm y) :: bypassPermissions :: Bash echo rm | xargs rm y", Ask},
		{"deny Bash(rm *) :: bypassPermissions :: Bash hash -p /bin/rm ls; ls y", Ask},
		{"deny Bash(rm *) :: bypassPermissions :: Bash x=1; echo $((x+1))", Allow},
		{"deny Bash(git push *) :: allow Bash :: Bash git -C /x -c a=b push origin", Deny},
		{"deny Bash(git push *) :: allow Bash :: Bash git $X", Ask},
		{"deny Bash(git commit -m \"a b\") :: allow Bash :: Bash git commit -m 'a b'", Allow},
		{"ask Bash(git push *) :: allow Bash(git *) :: Bash git push", Ask},
		{"ask Bash(git push *) :: dontAsk :: Bash git push", Deny},
		{"ask Bash(ls *) :: plan :: Bash ls -l", Ask},
		{"plan :: allow Bash :: Bash make", Deny},
		{"deny Bash :: Bash ls", Deny},
		{"bypassPermissions :: Bash rm -rf /", Allow},

		// Hosts, servers, agents.
		{"WebFetch https://example.com", Ask},
		{"bypassPermissions :: WebFetch https://example.com", Allow},
		{"allow WebFetch(domain:example.com) :: WebFetch https://EXAMPLE.com.:443/x", Allow},
		{"allow WebFetch(domain:example.com) :: WebFetch https://a.example.com", Ask},
		{"allow WebFetch(domain:*.example.com) :: WebFetch https://a.b.example.com", Allow},
		{"allow WebFetch(domain:*.example.com) :: WebFetch https://example.com", Ask},
		{"allow WebFetch(domain:*.example.com) :: WebFetch https://xexample.com", Ask},
		{"allow WebFetch(domain:example.com) :: WebFetch https://evil.test\\@example.com", Ask},
		{"allow WebFetch(domain:example.com) :: WebFetch ftp://example.com", Ask},
		{"allow WebFetch(domain:example.com) :: WebFetch https://ex\u00e4mple.com", Ask},
		{"allow WebFetch(domain:[::1]) :: WebFetch http://[::1]:80/", Allow},
		{"deny WebFetch(domain:evil.test) :: allow WebFetch :: WebFetch https://evil.test/x", Deny},
		{"deny WebFetch(domain:evil.test) :: allow WebFetch :: WebFetch https:\\\\evil.test", Ask},
		{"deny mcp__x :: bypassPermissions :: mcp__x__y z", Deny},
		{"deny mcp__x__* :: bypassPermissions :: mcp__x__y z", Deny},
		{"deny mcp__x__z :: bypassPermissions :: mcp__x__y z", Allow},
		{"allow Agent(reviewer) :: Agent reviewer", Allow},
		{"allow Agent(reviewer) :: Agent other", Ask},
		{"allow Task(reviewer) :: Agent reviewer", Allow},
		{"Unknown x", Ask},
		{"plan :: Unknown x", Deny},
		{"allow Unknown :: Unknown x", Allow},
	} {
		t.Run(test.line, func(t *testing.T) {
			c := of(t, test.line)
			if d := c.policy(t).Resolve(c.request()); d.Behavior != test.want {
				t.Errorf("%s: %s %+v", d.Behavior, d.Reason, d.Chain)
			}
		})
	}
}

// Hooks and tools have their say, but not against rules.
func TestHookAndTool(t *testing.T) {
	for _, test := range []struct {
		line       string
		hook, tool Behavior
		want       Behavior
	}{
		{"Write a.go", Allow, "", Allow},
		{"Write a.go", "", Allow, Allow},
		{"Write a.go", Allow, Ask, Ask},
		{"Read a.go", Ask, "", Ask},
		{"Read a.go", Deny, "", Deny},
		{"Read a.go", "", Deny, Deny},
		{"bypassPermissions :: Write a.go", Deny, "", Deny},
		{"deny Write :: Write a.go", Allow, Allow, Deny},
		{"ask Write :: Write a.go", Allow, Allow, Ask},
		{"plan :: Write a.go", Allow, Allow, Deny},
		{"Write .bashrc", Allow, Allow, Ask},
		{"dontAsk :: Write a.go", Ask, "", Deny},
	} {
		c := of(t, test.line)
		r := c.request()
		r.Hook.Answer, r.Check.Answer = test.hook, test.tool
		if d := c.policy(t).Resolve(r); d.Behavior != test.want {
			t.Errorf("%s, hook %q, tool %q: %s: %s", test.line, test.hook, test.tool, d.Behavior, d.Reason)
		}
	}
}

// The reason is about the part of a command that no rule allows, and not about
// one that a rule does allow.
func TestReasonIsAboutWhatIsNotAllowed(t *testing.T) {
	for line, want := range map[string]string{
		"touch x; make all": "no rule allows a part of it, make all, and it is not known to be read-only: make runs other programs",
		"FOO=1 touch x":     "no rule allows all of it, and it is not known to be read-only: it sets FOO, which may change what commands do",
		"touch x > y":       "no rule allows writing to " + workspace + "/y",
		"make":              "no rule allows it, and it is not known to be read-only: make runs other programs",
	} {
		c := of(t, "allow Bash(touch *) :: Bash "+line)
		if d := c.policy(t).Resolve(c.request()); d.Behavior != Ask || d.Reason != want {
			t.Errorf("%s: %s: %s\nwant %s", line, d.Behavior, d.Reason, want)
		}
	}
}

// A call that is judged read-only is granted no more, whatever allows it, and
// one that goes on in the background is not judged so.
func TestGrant(t *testing.T) {
	for line, want := range map[string]bool{
		"Bash ls":                           true,
		"allow Bash :: Bash ls":             true,
		"bypassPermissions :: Bash ls":      true,
		"bypassPermissions :: Bash touch x": false,
		"allow Bash :: Bash make":           false,
		"Read a.go":                         true,
		"ask Read :: Read a.go":             true,
		"allow Edit :: Write a.go":          false,
	} {
		c := of(t, line)
		if d := c.policy(t).Resolve(c.request()); d.Grant.ReadOnly != want {
			t.Errorf("%s: read-only %v, want %v", line, d.Grant.ReadOnly, want)
		}
	}
	c := of(t, "Bash ls")
	r := c.request()
	r.ReadOnly = false
	if d := c.policy(t).Resolve(r); d.Behavior != Ask || d.Grant.ReadOnly {
		t.Errorf("in the background: %+v", d)
	}
}

// What is offered for the rest of a session allows the call, and nothing wider.
func TestOfferedRule(t *testing.T) {
	for line, want := range map[string]string{
		"Bash make test":                            "Bash(make test)",
		"Bash ls && make test | cat":                "Bash(make test)",
		"Bash make test; make test":                 "Bash(make test)",
		"Bash make a; make b":                       "",
		"allow Bash(make a) :: Bash make a; make b": "Bash(make b)",
		"Bash echo 'a b' | xargs -n1 touch":         "Bash(xargs -n1 touch)",
		"Bash git commit -m 'a b'":                  "Bash(git commit -m 'a b')",
		"Bash touch '*'":                            "",
		"Bash rm -r '~'":                            "",
		"Bash rm '?'":                               "",
		"Bash rm '{a,b}'":                           "",
		"Bash rm '[ab]'":                            "",
		"Bash touch $X":                             "",
		"Bash make > out":                           "",
		"Bash ls > out":                             "Edit(/out)",
		"Bash echo a > o; ls >> ./o 2>/dev/null":    "Edit(/o)",
		"Bash ls > /etc/x":                          "Edit(//etc/x)",
		"Bash ls > a > b":                           "",
		"Bash ls > \"$X\"":                          "",
		"Bash ls > 'a[1]'":                          "",
		"allow Bash(make) :: Bash make > out":       "Edit(/out)",
		"allow Edit(/a) :: Bash ls > a > b":         "Edit(/b)",
		"Bash sudo make":                            "Bash(sudo make)",
		"Bash eval \"$X\"":                          "",
		"ask Bash(make *) :: Bash make":             "",
		"Bash X=1 make":                             "",
		"Write a.go":                                "Edit(/a.go)",
		"Write sub/x[1].go":                         "",
		"Write .":                                   "",
		"Write /":                                   "",
		"Write /etc/x":                              "Edit(//etc/x)",
		"Write .bashrc":                             "",
		"Write src/link/x":                          "",
		"mcp__x__y z":                               "mcp__x__y",
		"WebFetch https://example.com":              "",
	} {
		c := of(t, line)
		p, r := c.policy(t), c.request()
		d := p.Resolve(r)
		if d.Behavior != Ask || d.Rule != want {
			t.Errorf("%s: %s, %q is offered, want %q (%s)", line, d.Behavior, d.Rule, want, d.Reason)
		}
		if d.Rule == "" {
			continue
		}
		rule, err := ParseRule(d.Rule, Allow, FromSession)
		if err != nil {
			t.Fatal(err)
		}
		if d := p.With(rule).Resolve(r); d.Behavior != Allow {
			t.Errorf("%s: with %s it is still %s", line, rule.String(), d.Behavior)
		}
		if len(p.Rules) != len(c.Allow)+len(c.Ask)+len(c.Deny) {
			t.Error("the policy was changed")
		}
	}
}

// A denial never becomes less by another rule, and a wrapper hides nothing.
func TestDenialsStay(t *testing.T) {
	for _, wrap := range []string{
		"%s", "timeout 5 %s", "sudo %s", "env A=1 %s", "nohup %s", "bash -c '%s'", "sh -c \"%s\"", "eval %s", "exec %s",
		"xargs %s", "find . -exec %s ';'", "( %s )", "{ %s; }", "true && %s", "%s &", "! %s", "$(%s)", "`%s`", "cat <(%s)",
		"if %s; then :; fi", "while %s; do :; done", "f() { %s; }; f", "command %s", "time %s", "watch %s", "setsid %s", "ionice -c3 %s",
		"sudo timeout 3 env -i bash -c 'nice %s'", "[[ -n $(%s) ]]", "cat <<E\n$(%s)\nE", "a=$(%s)", "echo \"${x:-$(%s)}\"", "builtin %s", "coproc %s",
	} {
		for _, extra := range []string{"allow Bash", "allow Bash(*)", "bypassPermissions", "ask Bash", "deny Read(x)"} {
			command := fmt.Sprintf(wrap, "rm x")
			c := of(t, extra+" :: deny Bash(rm *) :: Bash ls")
			c.Input["command"] = command
			if d := c.policy(t).Resolve(c.request()); d.Behavior != Deny {
				t.Errorf("%s with %s: %s (%s)", command, extra, d.Behavior, d.Reason)
			}
		}
	}
}

// What a command touches by a link is what the link leads to, for every rule, for
// protection and in every mode.
func TestCommandsFollowLinks(t *testing.T) {
	lead := func(paths []string) ([]string, error) {
		real := slices.Clone(paths)
		for i := range real {
			for link, to := range map[string]string{"/l": "/src", "/hooks": "/.git/hooks"} {
				if rest, ok := below(workspace+link, real[i]); ok {
					real[i] = filepath.Join(workspace+to, rest)
				}
			}
		}
		return real, nil
	}
	for line, want := range map[string]Behavior{
		"deny Edit(/src/**) :: bypassPermissions :: Bash echo x > l/a":           Deny,
		"deny Edit(/src/**) :: acceptEdits :: Bash rm l/a":                       Deny,
		"ask Edit(/src/**) :: acceptEdits :: Bash echo x > l/a":                  Ask,
		"ask Edit(/src/**) :: allow Edit(/**) :: Bash echo x > l/a":              Ask,
		"ask Edit(/src/**) :: allow Bash :: Bash touch l/a":                      Ask,
		"deny Read(/src/**) :: allow Bash :: Bash touch l/a":                     Deny,
		"allow Edit(/**) :: Bash echo x > hooks/pre-commit":                      Ask,
		"allow Bash :: Bash cp x hooks/pre-commit":                               Ask,
		"bypassPermissions :: Bash touch hooks/pre-commit":                       Ask,
		"bypassPermissions :: deny Edit(/src/**) :: Bash touch other/pre-commit": Allow,
		"allow Edit(/**) :: Bash echo x > l/a":                                   Allow,
		"ask Read(/src/**) :: Bash cat l/a":                                      Ask,
		"ask Read(/src/**) :: Bash cat < l/a":                                    Ask,
		"ask Read(/src/secret) :: Bash grep -r x l":                              Ask,
		"ask Read(/src/**) :: Bash cat other/a":                                  Allow,
	} {
		c := of(t, line)
		r := c.request()
		r.Links = lead
		if d := c.policy(t).Resolve(r); d.Behavior != want {
			t.Errorf("%s: %s: %s", line, d.Behavior, d.Reason)
		}
	}
	c := of(t, "bypassPermissions :: Bash touch a")
	r := c.request()
	r.Links = func([]string) ([]string, error) { return nil, errors.New("no") }
	if d := c.policy(t).Resolve(r); d.Behavior != Ask {
		t.Errorf("where it leads is not known: %s: %s", d.Behavior, d.Reason)
	}
}

// A word that an expansion leaves nothing of hides nothing from a denial.
func TestExpansionToNothing(t *testing.T) {
	for _, command := range []string{"rm $X y", "rm y $X", "$X rm y", "rm \"$@\" y", "rm $X $Y y", "rm $(true) y", "sudo rm $X y", "rm $X y $Y"} {
		c := of(t, "bypassPermissions :: deny Bash(rm y) :: Bash "+command)
		if d := c.policy(t).Resolve(c.request()); d.Behavior != Ask {
			t.Errorf("%s: %s: %s", command, d.Behavior, d.Reason)
		}
	}
	for _, command := range []string{`rm "$X" y`, "rm $X z", "rmx $X y"} {
		c := of(t, "bypassPermissions :: deny Bash(rm y) :: Bash "+command)
		if d := c.policy(t).Resolve(c.request()); d.Behavior != Allow {
			t.Errorf("%s: %s: %s", command, d.Behavior, d.Reason)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	for name, line := range map[string]string{
		"bash": "allow Bash(go test *) :: deny Read(.env) :: Bash git status && ls -la | grep x",
		"read": "allow Bash(go test *) :: deny Read(.env) :: Read src/a.go",
	} {
		b.Run(name, func(b *testing.B) {
			c := of(b, line)
			p, r := c.policy(b), c.request()
			b.ReportAllocs()
			for b.Loop() {
				p.Resolve(r)
			}
		})
	}
}
