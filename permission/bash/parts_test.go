package bash_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/permission/bash"
)

// shown is a part in a line: the command, of which kind it is, and what it was
// found in.
func shown(p bash.Part) string {
	words := make([]string, len(p.Command))
	for i, word := range p.Command {
		words[i] = strings.ReplaceAll(word.Value, bash.Any, "…")
	}
	line := strings.Join(words, " ") + " [" + string(p.Kind) + "]"
	if p.Through != "" {
		line += " in " + p.Through
	}
	return line
}

func TestCommandsAreFoundInWhatRunsThem(t *testing.T) {
	for src, want := range map[string][]string{
		"timeout 5 nice rm x":                {"rm x [write]"},
		"sudo -u root rm x":                  {"sudo -u root rm x [executes-other]", "rm x [write] in sudo"},
		"sudo -u root -- rm x":               {"sudo -u root -- rm x [executes-other]", "rm x [write] in sudo"},
		"sudo A=b rm x":                      {"sudo A=b rm x [executes-other]", "rm x [write] in sudo"},
		"env -i A=b rm x":                    {"env -i A=b rm x [executes-other]", "rm x [write] in env"},
		"env -S 'rm x'":                      {"env -S rm x [executes-other]", "rm x [write] in env"},
		"exec rm x":                          {"exec rm x [executes-other]", "rm x [write] in exec"},
		"xargs -n 1 rm -f":                   {"xargs -n 1 rm -f [executes-other]", "rm -f … [write] in xargs"},
		"xargs -t rm":                        {"xargs -t rm [executes-other]", "rm … [write] in xargs"},
		"xargs -I{} rm {}":                   {"xargs -I{} rm {} [executes-other]", "rm … [write] in xargs"},
		"find . -exec rm {} \\;":             {"find . -exec rm {} ; [search]", "rm … [write] in find"},
		"find . -execdir rm {} + -o -ok ls;": {"find . -execdir rm {} + -o -ok ls [search]", "rm … [write] in find", "ls [list] in find"},
		"watch -n 1 'rm x'":                  {"watch -n 1 rm x [executes-other]", "rm x [write] in watch"},
		"setsid rm x":                        {"setsid rm x [executes-other]", "rm x [write] in setsid"},
		"ionice -c 3 rm x":                   {"ionice -c 3 rm x [executes-other]", "rm x [write] in ionice"},
		"sh -c 'rm x; ls'":                   {"sh -c rm x; ls [executes-other]", "rm x [write] in sh", "ls [list] in sh"},
		"bash -exc 'rm x'":                   {"bash -exc rm x [executes-other]", "rm x [write] in bash"},
		"eval rm x":                          {"eval rm x [executes-other]", "rm x [write] in eval"},
		"sudo env sh -c 'xargs rm'":          {"sudo env sh -c xargs rm [executes-other]", "env sh -c xargs rm [executes-other] in sudo", "sh -c xargs rm [executes-other] in env", "xargs rm [executes-other] in sh", "rm … [write] in xargs"},
		"/bin/rm x":                          {"/bin/rm x [write]"},
		"sudo /bin/rm x":                     {"sudo /bin/rm x [executes-other]", "/bin/rm x [write] in sudo"},
		"trap 'rm x' EXIT":                   {"trap rm x EXIT [executes-other]", "rm x [write] in trap"},
		"sh -c \"$x\"":                       {"sh -c … [executes-other]", "… [unknown] in sh"},
		"$x y":                               {"… y [unknown]", "… [unknown] in a name that is not known"},
		"echo $(rm x) <(rm y)":               {"rm x [write]", "rm y [write]", "echo … /dev/fd/… [neutral]"},
	} {
		s := bash.Parse(src, inWorkspace)
		var got []string
		for _, p := range s.Parts {
			got = append(got, shown(p))
		}
		if diff := cmp.Diff(want, got); diff != "" || s.Bad != "" {
			t.Errorf("%q (%s): -want +got\n%s", src, s.Bad, diff)
		}
	}
}

// A wrapper, however it is written, leaves a command to be found.
func TestNoWrapperHidesACommand(t *testing.T) {
	wrappers := []string{"timeout 5 ", "nice -n 5 ", "nohup ", "stdbuf -oL ", "command ", "time ", "sudo ", "sudo -E -u root ", "doas ", "env ", "env A=b ", "exec ", "xargs ", "xargs -0 -n 1 ", "find . -exec ",
		"watch ", "setsid ", "ionice -c2 -n0 ", "chroot /x ", "flock f ", "taskset 1 ", "busybox ", "strace -f ", "unshare -r ", "parallel ", "eval ", "sh -c '", "bash -c \"", "(", "{ ", "! ", "ls; ", "ls | ", "echo $(", "if ", "f() { "}
	ends := map[string]string{"find . -exec ": " {} +", "sh -c '": "'", "bash -c \"": "\"", "(": ")", "{ ": "; }", "echo $(": ")", "if ": "; then ls; fi", "f() { ": "; }"}
	for _, outer := range append(wrappers, "") {
		for _, inner := range wrappers {
			if strings.ContainsAny(outer, "'\"") && strings.ContainsAny(inner, "'\"") || outer != "" && inner == "! " {
				continue
			}
			src := outer + inner + "rm -rf x" + ends[inner] + ends[outer]
			s := bash.Parse(src, inWorkspace)
			if ok, _ := s.ReadOnly(); ok {
				t.Errorf("%q is called read-only", src)
			}
			found := s.Bad != "" || slices.ContainsFunc(s.Parts, func(p bash.Part) bool {
				return p.Command[0].Value == "rm" || !p.Command[0].Known
			})
			if !found {
				t.Errorf("%q: rm is not found", src)
			}
		}
	}
}

func TestPathsAreThoseOfTheDirectoryTheCommandRunsIn(t *testing.T) {
	for src, want := range map[string][]string{
		"cat f ~/g /etc/passwd":    {"read /workspace/f", "read /home/user/g", "read /etc/passwd"},
		"cd src && cat f":          {"read /workspace/src/f"},
		"cd src; cat f":            {"read /workspace/f", "read /workspace/src/f"},
		"(cd src; ls); cat f":      {"read /workspace", "read /workspace/src", "read /workspace/f"}, // of ls: either
		"cd .. && cat w/../f ../g": {"read /f", "read /g", "open"},
		// Where what is gone up from may be a link, the name is not all that it may be.
		"cd /x && cd y && cat ../f":          {"read /x/f", "open"},
		"cat link/../f":                      {"read /workspace/f", "open"},
		"cat ./../f .././../g":               {"read /f", "read /g"},
		"cat /x/../f":                        {"read /f", "open"},
		"cat ~/../f":                         {"read /home/f", "open"},
		"cat link/../*.go":                   {"glob /workspace/*.go", "open"},
		"cd link && cat ../*.go":             {"glob /workspace/*.go", "open"},
		"cd link/.. && cat f":                {"open"},
		"cd link && cd .. && cat f":          {"open"},
		"cd ~ && cat ../f":                   {"read /home/f", "open"},
		"cd /workspace && cat ../f":          {"read /f"},
		"cd .. && cd workspace && cat ../f":  {"read /f"},
		"cd link && touch ../f":              {"write /workspace/f", "open"},
		"touch link/../f":                    {"write /workspace/f", "open"},
		"cp a link/..":                       {"read /workspace/a tree", "write /workspace", "write /workspace/a tree", "open"},
		"cp -r .. b/c":                       {"read / tree", "write /workspace/b/c", "write /workspace/b/c tree"},
		"sed -i s/a/b/ link/../f":            {"write /workspace/f", "open"},
		"git -C link diff -- ../f":           {"read /workspace/f tree", "open"},
		"git -C link/.. diff -- f":           {"open"},
		"cd \"$x\" && cat f":                 {"open"},
		"cd $x; cat /f":                      {"read /f"},
		"cd - && cat f":                      {"open"},
		"cat \"$x\"":                         {"open"},
		"rm -r a b":                          {"write /workspace/a tree", "write /workspace/b tree"},
		"cp -r a b":                          {"read /workspace/a tree", "write /workspace/b", "write /workspace/b/a tree"},
		"mv a b":                             {"write /workspace/a tree", "write /workspace/b", "write /workspace/b/a tree"},
		"mkdir -p a/b":                       {"write /workspace/a/b"},
		"touch a ../b":                       {"write /workspace/a", "write /b"},
		"grep -r x src":                      {"read /workspace/src tree"},
		"grep -f p x f":                      {"read /workspace/p", "read /workspace/x", "read /workspace/f"},
		"find src -name x":                   {"read /workspace/src tree"},
		"sed -i s/a/b/ f":                    {"write /workspace/f"},
		"sed 'r g' f":                        {"read /workspace/g", "read /workspace/f"},
		"while cd ..; do cat f; done":        {"open"},
		"git -C sub diff -- f":               {"read /workspace/sub/f tree"},
		"if cd a; then cat f; else cat g;fi": {"read /workspace/a/f", "read /workspace/g", "read /workspace/a/g"},
		"diff <(cat a) b":                    {"read /workspace/a", "read /workspace/b"},
		"cat *.go":                           {"glob /workspace/*.go"},
		"cd src && cat *.go":                 {"glob /workspace/src/*.go"},
	} {
		var got []string
		for _, p := range bash.Parse(src, inWorkspace).Parts {
			for _, path := range p.Paths {
				line := "read " + path.Name
				if path.Write {
					line = "write " + path.Name
				}
				if path.Tree {
					line += " tree"
				}
				got = append(got, line)
			}
			for _, glob := range p.Globs {
				got = append(got, "glob "+glob)
			}
			if p.Open && p.Kind != bash.Neutral {
				got = append(got, "open")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -want +got\n%s", src, diff)
		}
	}
}

func TestRedirectionsSayWhatTheyOpen(t *testing.T) {
	for src, want := range map[string]string{
		"ls > f":               "write [/workspace/f]",
		"cat < f":              "read [/workspace/f]",
		"ls > ../f":            "write [/f]",
		"cd src && ls >> ../f": "write [/workspace/f]write []", // src may be a link
		"ls > link/../f":       "write [/workspace/f]write []",
		"cat < link/../f":      "read [/workspace/f]read []",
		"cat < link/../*":      "read [/workspace/*]read []",
		"cd link; ls > ../f":   "write [/f /workspace/f]write []",
		"cd src; ls > f":       "write [/workspace/f /workspace/src/f]",
		"ls > \"$x\"":          "write []",
		"sudo sh -c 'ls > f'":  "write [/workspace/f]",
		"cat < *.go":           "read [/workspace/*.go]",
		"ls 2> /dev/null":      "",
	} {
		got := ""
		for _, r := range bash.Parse(src, inWorkspace).Redirects {
			got += map[bool]string{true: "write ", false: "read "}[r.Write] + fmt.Sprint(append(r.Paths, r.Globs...))
		}
		if got != want {
			t.Errorf("%q opens %q, want %q", src, got, want)
		}
	}
}

func TestWhatChangesFilesAndNoMore(t *testing.T) {
	for src, want := range map[string]bool{
		"mkdir a": true, "rm -rf a": true, "cp a b": true, "mv a b": true, "ln a b": true, "ln -s a b": true, "touch a": true, "rmdir a": true, "sed -i s/a/b/ f": true,
		"mkdir $x": false, "rm *": false, "rm \"$x\"": false, "ln -s ../a b": false, "cp --foo a b": false, "sed -i.bak s/a/b/ f": false, "sed -i 's/a/b/w g' f": false, "sed -i e f": false, "sed -i s/a/b/ $x": false,
		"touch ../a": true, "touch link/../a": false, "rm -r link/..": false, "cp link/../a b": false, "mv a link/../b": false, "sed -i s/a/b/ link/../f": false,
		"chmod +x a": false, "ls": false, "tee a": false, "foo": false,
	} {
		s := bash.Parse(src, inWorkspace)
		if got := len(s.Parts) == 1 && s.Parts[0].Edits; got != want {
			t.Errorf("%q only changes its paths: %v, want %v", src, got, want)
		}
	}
}

func TestHostsAreNamed(t *testing.T) {
	for src, want := range map[string][]string{
		"curl -s https://user@example.com:8080/x": {"example.com"},
		"ssh user@example.com ls":                 {"example.com"},
		"git clone https://example.com/x.git":     {"example.com"},
		"ping -c 1 EXAMPLE.com":                   {"example.com"},
	} {
		s := bash.Parse(src, inWorkspace)
		if s.Parts[0].Kind != bash.Network {
			t.Errorf("%q is %s", src, s.Parts[0].Kind)
		}
		got := slices.DeleteFunc(s.Parts[0].Hosts, func(h string) bool { return !strings.Contains(h, "example") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -want +got\n%s", src, diff)
		}
	}
}

// What cannot be read still has pieces, for rules that forbid.
func TestWhatIsBadHasPieces(t *testing.T) {
	for _, src := range []string{"ls \"; rm x", "rm x <<", "(rm x", "ls\rrm x", "echo $(sudo rm x"} {
		s := bash.Parse(src, inWorkspace)
		if s.Bad == "" {
			t.Errorf("%q is no command, and read as one", src)
		}
		found := false
		s.Pieces(func(words []bash.Word) bool {
			found = found || words[0].Value == "rm"
			return !found
		})
		if !found {
			t.Errorf("%q: rm is in no piece", src)
		}
	}
}
