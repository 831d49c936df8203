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
	// Those that are not put into each other.
	for _, src := range []string{
		"env - rm y", "env - A=b rm y", "bash -oc errexit 'rm y'", "bash -ooc errexit nounset 'rm y'", "bash +O extglob -c 'rm y'", "bash +c 'rm y'", "bash -c - 'rm y'", "bash -c -- 'rm y'", "dash -c - 'rm y'",
		"strace -e a -e b -e c -e d -e e -e f rm y", "strace -o 'a b' rm y", "/lib64/ld-linux-x86-64.so.2 /bin/rm y", "ld-musl-x86_64.so.1 rm y", "ld.so rm y", "choom -n 0 -- rm y", "coreutils --coreutils-prog=rm y",
		"eatmydata rm y", "cpulimit -l 50 rm y", "hyperfine 'rm y'", "logsave f rm y", "torsocks rm y", "proxychains -q rm y", "proxychains4 rm y", "gosu x rm y", "chpst -u x rm y", "tini -- rm y", "dumb-init rm y",
		"su -c'rm y'", "su -c 'rm y' x", "su --command='rm y'", "script -qc'rm y' f", "script -qc 'rm y' f", "runuser -ux -c'rm y'", "flock f -c'rm y'", "parallel 'rm {}' ::: y", "gdb -ex 'shell rm y'",
		"npx rm y", "npx -p x rm y", "npm exec rm y", "npm exec -- rm y", "npm x -c 'rm y'", "uv run rm y", "uv --quiet run -- rm y", "bundle exec rm y", "pyenv exec rm y", "conda run -n e rm y", "kubectl exec p -- rm y",
		"lxc exec c -- rm y", "cmake -E rm y", "cmake -E env rm y", "ssh h rm y", "ssh h 'cd x; rm y'", "sqlite3 x '.shell rm y'", "socat - EXEC:'rm y'", "socat - system:rm", "nc -e 'rm y' h 1", "make SHELL='rm y'", "nix-shell --run 'rm y'", "poetry run sh -c 'rm y'", "sudo npx rm y",
		"csh -c 'rm y'", "tcsh -fc 'rm y'", "fish -c 'begin; rm y; end'", "zsh -c '=rm y'", "ksh -c 'rm y'",
		"git bisect run rm y", "git rebase -x 'rm y' main", "git rebase -ix'rm y'", "git rebase --exec='rm y'", "git rebase --exec 'rm y'", "git submodule foreach 'rm y'", "git submodule --quiet foreach --recursive rm y", "git -c alias.x='!rm y' x", "git -C d -c core.pager='rm y' log",
		"git --exec-path=d x", "git --config-env=a=b x", "git x", "git $x", "git config alias.x '!rm y'", "git config --global core.editor 'rm y'", "git config set alias.x '!rm y'", "git difftool -x 'rm y'", "git difftool --extcmd='rm y'", "git filter-branch --tree-filter 'rm y'",
		"git fetch --upload-pack='rm y' x", "git clone -u 'rm y' x", "git push --receive-pack 'rm y'", "git ls-remote --upload-p='rm y' x", "git grep -O'rm y' x", "git grep --open-files-in-pager='rm y' x", "git fetch 'ext::rm y'", "git clone -c core.fsmonitor='rm y' x", "sudo git bisect run rm y",
	} {
		if !rmMayRun(bash.Parse(src, inWorkspace)) {
			t.Errorf("%q: rm is not found", src)
		}
	}
	for _, src := range []string{"git push", "git -C d commit -m \"it's\"", "git -c user.name=x -c color.ui=false commit", "git rebase -i main", "git clean -fdx", "git submodule update", "git bisect good", "git config user.name x", "git config user.email", "git clone -q x", "git grep x"} {
		if s := bash.Parse(src, inWorkspace); rmMayRun(s) {
			t.Errorf("%q is said to run anything: %+v", src, s.Parts)
		}
	}
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
			if !rmMayRun(s) {
				t.Errorf("%q: rm is not found", src)
			}
		}
	}
}

// rmMayRun reports whether a script is known to run rm, or to run what is not
// known.
func rmMayRun(s *bash.Script) bool {
	return s.Bad != "" || slices.ContainsFunc(s.Parts, func(p bash.Part) bool {
		return p.Command[0].Value == "rm" || p.Command[0].Value == "/bin/rm" || !p.Command[0].Known
	})
}

// What is evaluated may run anything, wherever it is evaluated.
func TestNoEvaluationHidesACommand(t *testing.T) {
	for name, commands := range map[string][]string{
		"arithmetic":   {"x='a[$(rm y)]'; echo $((x))", "((x))", "let 'x[$(rm y)]=1'", "command let 'x[$(rm y)]'", "echo $[x]", "[[ x -eq 1 ]]", "echo ${a[x]}", "echo ${a:x}", "a[x]=1", "for ((;x;)); do ls; done"},
		"subscripts":   {"[[ -v 'x[$(rm y)]' ]]", "[[ -v $x ]]", "test -v 'x[$(rm y)]'", "[ -v 'x[$(rm y)]' ]", "[ $x ]", "printf -v 'x[$(rm y)]' z", "printf -v \"$x\" z", "printf \"$x\" z", "read 'x[$(rm y)]' <<< z", "read \"$x\"", "unset 'x[$(rm y)]'", "wait -n -p 'x[$(rm y)]'", "mapfile 'x[$(rm y)]'", "getopts a 'x[$(rm y)]'", "ls {x[1]}>f"},
		"declarations": {"declare -a 'x[$(rm y)]=1'", "declare x[$(rm y)]", "declare x[y]", "declare -i x=y", "declare -n x=y", "declare -a x='($(rm y))'", "declare 'x=($(rm y))'", "declare \"$x\"", "command declare -i x=y", "builtin declare x='($(rm y))'", "x=(1); export -a TZ='($(rm y))'"},
		"code": {"sed '1e rm y' f", "sed 's/a/rm y/e' f", "sed \"$x\" f", "sed -i \"s/a/$x/\" f", "sed -f x f", "awk 'BEGIN{system(\"rm y\")}'", "awk \"$x\" f", "gawk -f x", "perl -e 'system q(rm y)'", "perl -pie x f", "python3 -c x", "python -Ic x", "node --eval=x", "node -p x", "ruby -ne x", "php -r x", "python3 $x",
			"dc -e '!rm y'", "m4", "at now", "crontab f", "make --eval=x", "vim -c '!rm y'", "vim +x f", "man -P 'rm y' x", "less +x f"},
		"values of flags": {"fd -x rm y", "fd . --exec-batch rm", "rg --pre rm x", "rg --pre=rm x", "sort --compress-program=rm f", "sort --compress-p rm f", "tar cf x y --to-command='rm y'", "tar cf x --checkpoint-action=exec='rm y' .", "tar -cf x -I 'rm y' y", "tar tf \"$x\"",
			"split --filter='rm y' f", "rsync -e 'rm y' a b", "rsync -ave 'rm y' a b", "ssh -o ProxyCommand='rm y' h", "zip x y -T -TT 'rm y'"},
		"expansions": {"x='$(rm y)'; echo ${x@P}", "echo \"${x@P}\"", "echo ${!x}", "echo `\\rm y`", "ls @($(rm y))", "[[ x == @(`rm y`) ]]", "echo $\"x\""},
		"variables":  {"PS4='$(rm y)'; set -x; ls", "PS4=$x; ls", "export PS4=\"$(cat f)\"", "PS4='$'; PS4+='(rm y)'", "read PS4 <<< x", "printf -v PS4 x", "mapfile PS4", "for PS4 in x; do ls; done", "echo ${PS4:=x}", "PROMPT_COMMAND='rm y'", "PROMPT_COMMAND=(ls 'rm y')", "BASH_ENV=f bash -c ls", "ENV=f sh -c ls", "PAGER='rm y' git log", "GIT_SSH_COMMAND='rm y' git fetch", "EDITOR=rm git commit", "export VISUAL='rm y'", "env PAGER='rm y' git log", "sudo EDITOR='rm y' visudo", "LD_PRELOAD=f ls", "PATH=x ls", "X=\"it's rm\" make"},
		"names":      {"hash -p /bin/rm ls; ls y", "enable -f x y", "alias ls=rm; ls y", "alias \"$x\"", "mapfile -C 'rm y' x", "mapfile -tC rm x", "fc -s ls=rm"},
	} {
		for _, src := range commands {
			if !rmMayRun(bash.Parse(src, inWorkspace)) {
				t.Errorf("%s: %q runs nothing that is not known", name, src)
			}
		}
	}
	for _, src := range []string{
		"x=1; echo $((x+1)) $# ${#x}", "((1+2))", "[[ -v x && -n $y ]]", "[ -n \"$x\" ]", "printf '%s\\n' \"$x\"", "read -r x y", "declare -a x", "local x=1", "echo ${x@Q} ${x:-y}", "ls @(a|b)",
		"sed -i s/a/b/ f", "sed -n 5p f", "sed -i.bak s/a/b/ f", "awk '{print $1}' f", "python3 x.py a", "perl x", "make all", "vim f", "tar xzf f", "tar -xf f -C d", "rsync -av a b", "ssh h ls", "split f", "sort -o f f", "fd x",
		"NODE_ENV=test npm test", "CFLAGS='-O2 -g' make", "export FOO=bar", "env A=b make", "mapfile -t lines", "hash -r", "unset PATH", "[[ -v PATH ]]",
	} {
		if s := bash.Parse(src, inWorkspace); rmMayRun(s) {
			t.Errorf("%q is said to run anything: %+v", src, s.Parts)
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
		"cd /x && cd y && cat ../f":         {"read /x/f", "open"},
		"cat link/../f":                     {"read /workspace/f", "open"},
		"cat ./../f .././../g":              {"read /f", "read /g"},
		"cat /x/../f":                       {"read /f", "open"},
		"cat ~/../f":                        {"read /home/f", "open"},
		"cat link/../*.go":                  {"glob /workspace/*.go", "open"},
		"cd link && cat ../*.go":            {"glob /workspace/*.go", "open"},
		"cd link/.. && cat f":               {"open"},
		"cd link && cd .. && cat f":         {"open"},
		"cd ~ && cat ../f":                  {"read /home/f", "open"},
		"cd /workspace && cat ../f":         {"read /f"},
		"cd .. && cd workspace && cat ../f": {"read /f"},
		"cd link && touch ../f":             {"write /workspace/f", "open"},
		"touch link/../f":                   {"write /workspace/f", "open"},
		// What is moved, or linked, may be a link.
		"mv a b; cat b/f c":                  {"write /workspace/a tree", "write /workspace/b", "write /workspace/b/a tree", "read /workspace/b/f", "read /workspace/c", "open"},
		"cat b/f; ln -s a b":                 {"read /workspace/b/f", "open", "write /workspace/b", "write /workspace/b/a tree"},
		"cp a b; cat b/f":                    {"read /workspace/a tree", "write /workspace/b", "write /workspace/b/a tree", "read /workspace/b/f"},
		"cp -d a b; cat bb":                  {"read /workspace/a tree", "write /workspace/b", "write /workspace/b/a tree", "read /workspace/bb"},
		"cp a link/..":                       {"read /workspace/a tree", "write /workspace", "write /workspace/a tree", "open"},
		"cp -r .. b/c":                       {"read / tree", "write /workspace/b/c", "write /workspace/b/c tree", "open"},
		"sed -i s/a/b/ link/../f":            {"write /workspace/f", "open"},
		"git -C link show -- ../f":           {"read /workspace/f tree", "open"},
		"git -C link/.. diff -- f":           {"open"},
		"cd \"$x\" && cat f":                 {"open"},
		"cd $x; cat /f":                      {"read /f"},
		"cd - && cat f":                      {"open"},
		"cat \"$x\"":                         {"open"},
		"rm -r a b":                          {"write /workspace/a tree", "write /workspace/b tree"},
		"cp a b":                             {"read /workspace/a tree", "write /workspace/b", "write /workspace/b/a tree"},
		"cp -r a b":                          {"read /workspace/a tree", "write /workspace/b", "write /workspace/b/a tree", "open"},
		"mv a b":                             {"write /workspace/a tree", "write /workspace/b", "write /workspace/b/a tree"},
		"mkdir -p a/b":                       {"write /workspace/a/b"},
		"touch a ../b":                       {"write /workspace/a", "write /b"},
		"grep -r x src":                      {"read /workspace/src tree"},
		"grep -f p x f":                      {"read /workspace/p", "read /workspace/x", "read /workspace/f"},
		"find src -name x":                   {"read /workspace/src tree"},
		"sed -i s/a/b/ f":                    {"write /workspace/f"},
		"sed 'r g' f":                        {"read /workspace/g", "read /workspace/f"},
		"while cd ..; do cat f; done":        {"open"},
		"git -C sub show -- f":               {"read /workspace/sub/f tree"},
		"if cd a; then cat f; else cat g;fi": {"read /workspace/a/f", "read /workspace/g", "read /workspace/a/g"},
		"diff <(cat a) b":                    {"read /workspace/a", "read /workspace/b"},
		"wc --files0-from=f":                 {"read /workspace/f", "open"},
		"sort --files0-from=-":               {"open"},
		"sha256sum -c f":                     {"read /workspace/f", "open"},
		"shellcheck -x f":                    {"read /workspace/f", "open"},
		"jq .a f":                            {"read /workspace/f"},
		"jq -n --argfile a f '$a'":           {"read /workspace/f"},
		"jq -R -f p f":                       {"read /workspace/p", "read /workspace/f", "open"},
		"jq 'import \"f\" as $f; $f' g":      {"read /workspace/g", "open"},
		"jq \"$x\" f":                        {"read /workspace/f", "open"},
		"yq f":                               {"read /workspace/f"},
		"yq e 'load_str(\"f\")' g":           {"read /workspace/e", "read /workspace/load_str(\"f\")", "read /workspace/g", "open"},
		"git grep --no-index x":              {"read /workspace tree", "read /workspace/x tree"},
		"git diff --no-index f g":            {"read /workspace/f tree", "read /workspace/g tree"},
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
		"mv a b; ls > b/f":     "write [/workspace/b/f]write []",
		"ls > b; ln -s a b":    "write [/workspace/b]write []",
		"mv a b; ls > c":       "write [/workspace/c]",
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
		"cp -r a b": false, "cp -aT a b": false, "cp --parents a/b c": false, "cp -b a b": false, "mv --suffix=x a b": false,
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
