package bash_test

import (
	"testing"

	"github.com/sallyport/sallyport/permission/bash"
)

// areas are commands by what is special about them: those that change nothing,
// and those that may.
var areas = []struct {
	name         string
	reads, holds []string
}{
	{"pipelines and control flow", []string{
		"ls | sort | uniq -c | sort -rn | head -5",
		"! grep -q x f",
		"while IFS= read -r line; do echo \"$line\"; done < f",
		"cat f | while read -r a b; do printf '%s\\n' \"$a\"; done",
		"until test -f f; do sleep 1; done",
		"for i in 1 2 3; do echo $i; done",
		"for ((i=0; i<3; i++)); do echo $i; done",
		"for f in $(git ls-files); do wc -l \"$f\"; done",
		"for d in */; do git -C \"$d\" status -s; done",
		"case $x in a) ls;; *) cat f;; esac",
		"if [ -f f ] && [[ $x == y* ]]; then ls; elif test -d g; then cat f; else echo no; fi",
		"{ ls; pwd; } 2>&1 | head",
		"(cd src && git log -1) || echo none",
		"time ls", "time -p ls | wc -l", "ls & wait", "set -euo pipefail; ls", "sleep 1; ls",
		"# a comment\nls", "ls # rm x", "ls;", "\n\nls\n", "",
		"cd src && pwd && cd - && pushd /tmp && popd", "exit 0", "true && false || :",
		"type ls; command -v git; which -a sed",
	}, []string{
		"ls | rm x", "ls && rm x", "ls || rm x", "ls |& tee f", "! rm x", "{ rm x; }", "(rm x)", "if rm x; then ls; fi",
		"if ls; then rm x; fi", "if ls; then ls; else rm x; fi", "while rm x; do ls; done", "while ls; do rm x; done",
		"for f in a; do rm $f; done", "for f in $(rm x); do ls; done", "for ((i=$(rm x); i<3; i++)); do ls; done",
		"case $(rm x) in a) ls;; esac", "case a in a) rm x;; esac", "case a in $(rm x)) ls;; esac",
		"time rm x", "coproc rm x", "coproc ls", "select x in a; do ls; done", "f() { ls; }; f", "function ls { :; }",
		"for PATH in .; do ls; done", "ls\n\nrm x", "ls;rm x", "ls&rm x", "ls # x\nrm x", "ls # x \\\nrm x", "ls \\\n; rm x",
		"[[ -n $(rm x) ]]", "[[ a == $(rm x) ]]", "[ $(rm x) ]",
	}},
	{"wrappers", []string{
		"timeout 5 ls", "timeout -k 1 5s git status", "timeout --signal=KILL 5 cat f", "nice ls", "nice -n 5 sort f", "nice -5 ls",
		"stdbuf -oL grep x f", "stdbuf -o0 -e L cat f", "command ls", "command -p cat f", "timeout 5 nice command git log", "\\time -p ls",
	}, []string{
		"timeout 5 rm x", "timeout 5", "timeout $x ls", "timeout \"$x\" ls", "timeout 5 \"$x\"", "timeout --foo 5 ls", "timeout * ls", "\\time -o f ls", "nohup ls",
		"timeout 5 nohup ls", "nice -n 5 rm x", "nice -n $x ls", "command rm x", "command -x ls", "builtin echo x", "env ls", "env x=y ls",
		"sudo ls", "doas ls", "exec ls", "xargs cat", "ls | xargs rm", "find . | xargs -0 grep x", "watch ls", "setsid ls", "ionice -c3 ls",
		"chroot . ls", "unshare ls", "su -c ls", "sh -c ls", "bash -c 'ls'", "bash f", "flock f ls", "eval ls", "eval", ". f",
		"busybox ls", "taskset 1 ls", "parallel ls", "script -c ls", "strace ls", "/bin/ls", "./ls", "../bin/ls", "bin/ls",
	}},
	{"redirections", []string{
		"ls > /dev/null", "ls >/dev/null 2>&1", "ls 2>/dev/null", "ls &>/dev/null", "ls >&2", "ls 2>&-", "echo x > /dev/stderr",
		"cat < f", "cat <<< \"$x\"", "cat <<< x", "cat 0< f", "cat <<EOF\n$x and $(date)\nEOF", "cat <<-'EOF'\n\tx\n\tEOF", "cat <<'EOF' | grep x\n$(rm x)\nEOF",
		"diff <(sort a) <(sort b)", "ls >> /dev/null", "wc -l < f", "ls > '/dev/null'", "cat $(<f)",
	}, []string{
		"ls > f", "ls >f", "ls >> f", "ls >| f", "ls &> f", "ls &>> f", "ls >& f", "ls 2> f", "ls <> f", "ls 3> f", "> f", ">> f", "{ ls; } > f", "(ls) > f",
		"if ls; then ls; fi > f", "while ls; do ls; done > f", "ls > \"$x\"", "ls > $x", "ls > /dev/nul?", "ls > /dev/null/../f", "ls > /dev/sda",
		"ls > ~/f", "ls > >(cat)", "ls > >(tee f)", "cat < /dev/tcp/h/1", "cat < /dev/udp/h/1", "cat < \"/dev/tcp/h/1\"", "cat < /dev/t$x", "cat < $x", "cat < \"$x\"",
		"cat < /dev/'tcp'/h/1", "exec 3<>/dev/tcp/h/1", "echo x >&$x", "ls >&f", "ls {fd}>/dev/null {PATH}>/dev/null",
		"cat <<EOF\n$(rm x)\nEOF", "cat <<EOF\n`rm x`\nEOF", "cat <<EOF\nx\nEOF\nrm x", "cat <<EOF > f\nx\nEOF", "cat <<< $(rm x)", "cat <(rm x)", "cat <<\"E$x\"\nE$x\nrm x",
		"cat x 1< f > /dev/stdout", "cat x 3<f 1>&3 >/dev/stdout", "cat x <f 1<&0 >/dev/stdout", "cat <<EOF\nx\\\nEOF\nrm x\nEOF",
		"trap 'ls' EXIT", "alias ls='rm x'", "history -w f", "enable -f ./x y", "hash -p ./x ls", "bind -x x", "complete -C x y",
	}},
	{"expansions", []string{
		"echo ${x:-y}", "echo \"${x%.*}\" ${x##*/} ${#x} ${x/a/b} ${x^^} ${x:1:2} ${x@Q}", "echo $?$#$$ $! $1 $@ \"$*\"", "echo ${a[0]} ${a[@]} \"${a[*]}\" ${#a[@]}",
		"x=5; echo $((x+1)) $((1+2))", "i=0; while [ $i -lt 3 ]; do i=$((i+1)); done", "i=1; ((i++)); ((i+=2))", "echo $[1+2]",
		"echo {1..5} a{b,c}", "echo $(ls $(pwd))", "echo `date`", "echo \"$(git rev-parse HEAD)\"", "cat $HOME/x ~/y", "ls $x \"$y\" *", "wc -l -- *",
		"cat -- \"$f\"", "sort -- \"$f\" *", "sort ./\"$f\"", "grep -n x \"$f\"", "x=$(ls); echo \"$x\"", "a=(1 2 3); echo ${a[1]}", "export LC_ALL=C; sort f", "FILE=f; cat \"$FILE\"",
		"TZ=UTC date", "LANG=en_US.UTF-8 ls", "NO_COLOR=1 ls", "LC_ALL='C' sort f", "GIT_PAGER=cat git log", "IFS=,; echo $x", "local x=1", "readonly x=1", "declare -a a=(1)",
		"echo $'a\\tb' 'a b' \"a b\" a\\ b", "\\ls", "'ls'", "l\"s\"", "l\\\ns", "echo \"\\$(rm x)\" '$(rm x)'", "echo ${x:=1}", "sort $HOME/f",
	}, []string{
		"$x", "\"$x\" ls", "$(ls)", "`ls`", "l$x", "l? x", "{ls,rm} x", "~/x", "l*", "$'\\x72m' x", "r\\\nm x", "\"r\"'m' x", "$\"ls\"",
		"echo $(rm x)", "echo `rm x`", "echo \"$(rm x)\"", "echo \"`rm x`\"", "echo ${x:-$(rm x)}", "echo ${x:=`rm x`}", "echo ${x/$(rm x)/b}", "echo ${x/b/$(rm x)}", "echo ${x:$(rm x)}",
		"echo ${a[$(rm x)]}", "echo ${a[x]}", "echo ${#a[$(rm x)]}", "echo $(( $(rm x) ))", "echo $((x))", "echo $((a[x]))", "echo $[x]", "((x))", "((x=y))", "let x=1", "let 'a[$(rm x)]'",
		"echo ${x@P}", "echo \"${x@P}\"", "echo ${x@A}", "echo ${!x}", "echo ${a[@]@P}", "echo ${PATH:=.}", "[[ -v x ]]", "[[ -R x ]]", "[[ x -eq 1 ]]", "[[ $x -gt 1 ]]", "test -v x", "[ -v x ]", "test -R x",
		"test \"$x\" y", "[ $x ]", "printf -v x y", "printf -vPATH .", "printf \"$x\" y", "printf %n x", "printf '%d%n' 1 x", "printf $x", "read PATH", "read 'a[$(rm x)]'", "read -a PATH", "read $x", "read -e x",
		"x=1 ls", "PATH=.; ls", "PATH=. true", "export PATH", "export x=1", "LD_PRELOAD=x; ls", "declare -i x=y", "declare -n x=y", "declare $x", "readonly PATH=.", "IFS=x ls", "BASH_ENV=f ls", "ENV=f", "PS4='$(rm x)'; set -x",
		"a[$(rm x)]=1", "a=([$(rm x)]=1)", "a=($(rm x))", "x=$(rm x)", "x=`rm x` true", "PROMPT_COMMAND=x", "unset PATH", "mapfile -C x", "getopts x y", "LC_ALL=ja_JP.SJIS ls", "LC_ALL=$x ls", "LC_ALL=\"$(rm x)\" ls",
		"sort $x", "sort \"$x\"", "sort *", "sort {-o,f}", "sort ?", "sort [a-z]*", "sort $(ls)", "uniq *", "uniq a*", "sort \"$@\"", "sort a$x", "sort \"a$@\"", "sort \"${x-$@}\"", "sort \"a${x-$@}\"", "sort \"a${x[@]}\"", "sort ${x}f", "sort a`ls`",
		"sort !(a)", "ls @(a|b)", "x=-o; sort $x f", "rg -e p $x", "git diff $x", "git log \"$x\"", "set -x -P", "set -a; x=1", "set -o posix", "set $x", "shopt -s expand_aliases", "shopt -s extglob", "echo ${", "echo $(", "((ls); rm x)", "echo $((ls); rm x)",
	}},
	{"sort, uniq and their like", []string{
		"sort -t, -k2,2n f", "sort -k \"$x\" ./f", "sort -u -- f", "uniq -c", "uniq -c f", "cut -d: -f1 /etc/passwd", "tr a b", "tr -d '\\n'", "paste -sd,", "column -t", "comm -12 a b", "nl f", "rev f", "od -c f", "xxd f", "xxd -l 16 f",
		"head -c 10 f", "head -20 f", "tail -n +5 f", "tail -20 f", "jq . f", "grep -rn --include=*.go x .", "gunzip -c f", "xz -dc f", "ls | tee /dev/null", "umask", "kill -l", "git remote show -n x", "jq -r '.a[]' f", "jq --arg x y '.a' f", "file f", "file ./*", "stat -c %s f", "du -sh *", "df -h", "tree -L 2", "tree -a", "date +%s", "date -d yesterday +%F", "date -u", "uname -a",
		"id", "whoami", "pwd -P", "basename \"$f\" .go", "dirname f", "realpath f", "readlink -f f", "md5sum f", "sha256sum *", "seq 1 5", "hexdump -C f", "strings f | head", "base64 -d f", "printenv", "env", "hostname", "nproc", "cmp a b", "tar tf a.tar", "tar -tzf a.tgz",
		"unzip -l a.zip", "zcat f | head", "python3 --version", "node -v", "fold -w 80 f", "expr 1 + 2", "rg --files", "rg -n 'x|y' src -g '*.go'", "rg -e \"$x\" src", "egrep -o x f", "grep -rn --include='*.go' x .", "grep -c x *", "fd x", "fd -e go",
	}, []string{
		"sort -o f f", "sort -of f", "sort f -o g", "sort --out=f", "sort --output f", "sort -uo f", "sort --compress-program=x f", "sort -T d f", "uniq a b", "uniq -c a b", "uniq - b", "xxd a b", "xxd -r a", "xxd -r a b", "tree -o f", "tree -R -L 1", "tree -H x", "tree -ao f", "date -s x", "date --set=x", "date 01010000", "date $x", "date \"$x\"",
		"hostname x", "hostname -F f", "file -C", "file -m x -C", "file -z f", "iconv -o f g", "jq -i . f", "rg --pre x y", "rg --pre=x y", "rg -z x", "rg --search-zip x", "rg --hostname-bin x y", "rg --pr=x y", "fd -x rm", "fd x -X rm", "fd --exec rm", "fd -e -x rm", "tar xf a", "tar cf a b", "tar tf a --to-command=x", "tar tf a -I x", "tar tf h:a", "unzip a", "gzip f", "gzip -d f", "tee f", "ls | tee /dev/null f", "ls | tee $x", "gzip -l -d f", "xz f", "xz -d f", "gunzip f", "kill -l; kill -9 1", "umask 0", "alias x", "mount x", "git remote show -v x", "ls --color=$x*; rm --include=* x", "ss -K", "ss dst example.com", "ps -Z; kill 1",
		"dd if=f", "mktemp", "split f", "less f", "more f", "man ls", "vi f", "make", "npm test", "go test ./...", "go run .", "go env -w A=b", "python3 x.py", "python3 -c 1 --version", "node -e 1", "curl x", "wget x", "nslookup x", "getent hosts x", "ssh h ls", "foo", "cp a b", "mv a b", "ln -s a b", "touch f", "chmod +x f", "mkdir d", "rmdir d", "truncate -s 0 f",
	}},
	{"find", []string{
		"find", "find .", "find . src -maxdepth 2 -type f -name '*.go' -o -name x", "find . \\( -name a -or -name b \\) -not -path './x/*' -print0", "find . -newer f -size +1M -printf '%p\\n'", "find -L . -type l", "find . -mtime -1 -ls", "find . -name \"$x\"", "find ./\"$x\" -type f", "find . ! -name x -prune", "find \"\"",
	}, []string{
		"find . -delete", "find . -exec ls {} \\;", "find . -execdir ls {} +", "find . -ok rm {} \\;", "find . -okdir rm {} \\;", "find . -fprint f", "find . -fprint0 f", "find . -fls f", "find . -fprintf f x", "find . -name $x", "find . -name *.go", "find $x", "find \"$x\" -type f", "find . -type f -name a -delete", "find . \"$x\"", "find . $(ls)", "find . -files0-from f", "find . -name -delete -delete", "find -D exec . -delete", "find . -newerXX f -foo",
	}},
	{"sed", []string{
		"sed -n 5p f", "sed -n '10,20p' f", "sed 's/a/b/' f", "sed 's/a/b/g; s|x/y|z|2p' f", "sed -e 's/a/b/' -e '/x/d' f", "sed -E 's/(a|b)+/\\1/gI' f", "sed '/^#/d;/^$/d' f", "sed -n '/a/,/b/p' f", "sed '$!d' f", "sed '1!G;h;$!d' f", "sed ':a;N;$!ba;s/\\n/ /g' f", "sed 'y/abc/xyz/' f", "sed -n '$=' f", "sed '1i\\\nfoo\n' f", "sed '$a foo' f", "sed '/x/{s/a/b/;p}' f", "sed -n '/x/{p;q}' f",
		"sed 10q f", "sed --expression='s/a/b/' f", "sed '# w f' f", "sed 's#[^/]*$##' f", "sed 's/[a-z]\\+/x/' f", "sed '\\,x,d' f", "sed 'r g' f", "sed -s -n 1p a b", "sed 's/w/e/' f", "sed -z 's/\\n/,/g' f", "sed '0~4d' f", "sed '2,+3d' f", "cat f | sed 's/^/  /'",
	}, []string{
		"sed -i s/a/b/ f", "sed -i.bak s/a/b/ f", "sed -ni p f", "sed --in-place s/a/b/ f", "sed --in-place=.x s/a/b/ f", "sed --in-pl s/a/b/ f", "sed s/a/b/ f -i", "sed -f x f", "sed --file=x f", "sed -n 'w f' g", "sed 'W f' g", "sed 's/a/b/w f' g", "sed 's/a/b/gw f' g", "sed 's/a/b/e' g", "sed 's/a/id/ge' g", "sed e f", "sed '1e id' f", "sed '1!e id' f", "sed '/x/e' f", "sed '{p;w f\n}' g", "sed 'p;e id' f",
		"sed -e p -e 'w f' g", "sed 's/a/b/\nw f' g", "sed '1,3w f' g", "sed '\\,x,w f' g", "sed 's,a,b,w f' g", "sed 'sxaxbxw f' g", "sed 's/[/]/x/w f' g", "sed 's/[/w f;s/]/x/' g", "sed \"$x\" f", "sed \"s/a/$x/\" f", "sed s/a/b/ $x", "sed s/a/b/ *", "sed 's/a/b' f", "sed 'i\\\nx\nw f' g", "sed '#n\nw f' g", "sed 'a x\\\ny\nw f' g", "sed ':a\nw f' g", "sed 'y/a/b/;w f' g", "sed 'y/w/e/w f' g", "sed --sandbox 'w f' g", "sed 's/\\/w f/x/w f' g", "sed -n '$!{w f\n}' g", "sed -E -e 's/(a)/b/w f' g", "sed é g", "sed 'b a;a\\\nw f' g", "sed p -e 'w f'", "sed -s --expression='w f' -e p g",
	}},
	{"awk", []string{
		"awk '{print $1}' f", "awk -F: '{print $1, $NF}' /etc/passwd", "awk '/x/' f", "awk 'NR>5 && NR<=10' f", "awk '$3 > 5 {print $1}' f", "awk '{s+=$1} END {print s/NR}' f", "awk -v x=1 '$1 == x {print}' f", "awk 'length($0) > 80' f", "awk '{print ($1 > $2)}' f",
		"awk 'BEGIN{OFS=\"|\"} {printf \"%s|%d\\n\", $1, $2}' f", "awk '{a[$1]++} END {for (k in a) print k, a[k]}' f", "awk '!seen[$0]++' f", "awk '/a|b/ {n++} END {print n}' f", "ls -l | awk '{print $5 / 1024}'", "awk '$1 ~ /^[a-z]+$/ {print $2}' f", "awk '{gsub(/\"/, \"\"); print}' f", "awk 'NR==1,/x/' f", "awk '{print > \"/dev/stderr\"}' f", "awk '# a comment > f\n{print}' f", "awk '{print (a+b)/2}' f",
	}, []string{
		"awk '{print > \"f\"}' g", "awk '{print >> \"f\"}' g", "awk '{print > $1}' g", "awk '{print $1 > $2}' g", "awk '{print | \"sh\"}' g", "awk '{\"id\" | getline x}' g", "awk '{getline x < \"f\"}' g", "awk 'BEGIN{system(\"id\")}'", "awk 'BEGIN { system (\"id\") }'", "awk -f x f", "awk -i inplace '{print}' f", "awk -l x '{print}'", "awk --load=x 1", "awk '@load \"x\"' f", "awk \"$x\" f", "awk '{print}'\"$x\" f", "awk \"{print \\$1 > $x}\" f", "awk $x f", "awk -v $x 1 f", "awk",
		"awk '{print ($1) > \"f\"}' g", "awk '{printf(\"x\") > \"f\"}' g", "awk '{print \"/dev/stderr\" > \"/dev/stderr\" x}' g", "awk 'BEGIN {x = 1 / 2; print \"/\" > \"f\"}' g", "awk 'BEGIN { if (1) /\"/ ; system(\"id\") } #\"'", "awk '/[/\"]/ { system(\"id\") } #\"]/'", "awk 'BEGIN{f=\"system\"; @f(\"id\")}'", "awk 'BEGIN { print \"a\\\\\" > \"f\" }'", "gawk --profile=f 1", "gawk -o f 1", "gawk -d f 1", "awk -W dump-variables=f 1", "awk 'BEGIN{1in/\"/;system(\"id\")}#\"'", "awk 'BEGIN { print 1,\n2 > \"f\" }'", "awk '{print | cat}' f", "awk 'BEGIN { \"date\" |& getline }'",
	}},
	{"git", []string{
		"git status -sb", "git status --porcelain=v2 --untracked-files=all", "git diff", "git diff --stat HEAD~3 -- src", "git diff --cached", "git diff --name-only main...HEAD", "git diff -U5", "git log --oneline --graph --all -20", "git log -p -S'foo' -- f", "git log --since='2 weeks ago' --author=x --pretty=format:'%h %s'", "git log --format=%H -n 1", "git log -L1,5:f", "git log @{u}..", "git show HEAD:f", "git show --stat HEAD^", "git show stash@{0}", "git blame -L 1,5 f", "git branch -a", "git branch -vv", "git branch --show-current", "git branch --merged", "git branch --merged main", "git branch --contains HEAD", "git branch --list 'x*'", "git tag", "git tag -l 'v*'", "git tag --points-at HEAD", "git tag -n5",
		"git remote -v", "git remote", "git remote get-url origin", "git rev-parse --abbrev-ref HEAD", "git rev-parse --show-toplevel", "git ls-files '*.go'", "git ls-files -o --exclude-standard", "git ls-tree -r HEAD", "git cat-file -p HEAD", "git grep -n foo", "git grep -e \"$x\" -- src", "git stash list", "git stash show -p stash@{0}", "git reflog", "git reflog -5", "git reflog show main", "git describe --tags --always", "git shortlog -sn", "git rev-list --count HEAD", "git merge-base main HEAD", "git config --get user.name", "git config user.name", "git config --list", "git config -l --show-origin", "git worktree list", "git submodule status", "git check-ignore -v f", "git count-objects -vH", "git for-each-ref --sort=-committerdate --format='%(refname)'", "git for-each-ref --count=5", "git show-ref", "git -C sub log", "git -C \"$d\" log", "git --no-pager diff", "git --version", "git symbolic-ref HEAD", "git name-rev HEAD", "git cherry -v", "git fsck",
	}, []string{
		"git", "git foo", "git $x", "git add .", "git commit -m x", "git checkout x", "git switch x", "git restore f", "git reset", "git merge x", "git rebase x", "git pull", "git push", "git fetch", "git clone x", "git init", "git rm f", "git mv a b", "git clean -fd", "git gc", "git apply f", "git am f", "git cherry-pick x", "git revert x", "git notes add", "git bisect start", "git bisect view", "git update-index --refresh", "git update-ref x y", "git hash-object -w f", "git archive HEAD", "git format-patch -1", "git help", "git difftool", "git ls-remote x", "git submodule update", "git submodule foreach ls", "git worktree add x", "git worktree prune", "git filter-branch",
		"git branch x", "git branch -d x", "git branch -D x", "git branch -m a b", "git branch -c a b", "git branch -f x", "git branch --set-upstream-to=x", "git branch --edit-description", "git branch -a x", "git branch x y", "git branch $x", "git tag x", "git tag -d x", "git tag -a x", "git tag -m y x", "git tag -s x", "git tag -v x", "git remote add x y", "git remote rm x", "git remote show origin", "git remote update", "git remote -v update", "git remote set-url x y", "git remote prune x",
		"git stash", "git stash push", "git stash pop", "git stash drop", "git stash -p show", "git stash --include-untracked list", "git stash -p", "git stash foo", "git reflog expire", "git reflog delete x", "git config x.y z", "git config --unset x.y", "git config --global x.y z", "git config -e", "git config edit", "git config set x.y z", "git config --add x.y z", "git config x.y --replace-all z", "git config $x", "git symbolic-ref HEAD refs/heads/x", "git symbolic-ref -d HEAD",
		"git -c x=y status", "git -cx=y status", "git --git-dir=x status", "git --git-dir x status", "git --work-tree=x status", "git --exec-path=x status", "git --config-env=x=y log", "git --namespace=x log", "git -C $x status", "git diff --output=f", "git diff --output f", "git diff --outp=f", "git log --output=f", "git show --output=f", "git diff -U --output=f", "git diff -U --output=f -U3", "git log --min-parents \"$x\"", "git diff --ext-diff", "git log --ext-diff", "git diff --textconv", "git show --textconv", "git log --show-signature", "git log --format=%G?", "git log --pretty=format:%GG", "git log --format=\"$x\"", "git for-each-ref --format='%(signature)'", "git grep -O", "git grep -Oless x", "git grep -nO x", "git grep --open-files-in-pager x", "git grep --open-files=x y", "git cat-file --textconv HEAD:f", "git cat-file --filters HEAD:f", "git blame --contents x f", "git log \"$(ls)\"", "git show `ls`", "git diff *", "git rev-parse --parseopt", "git bundle create f HEAD", "git var \"$x\"",
		"GIT_DIR=x git status", "GIT_CONFIG_COUNT=1 git log", "GIT_EXTERNAL_DIFF=x git diff", "GIT_PAGER=./x git log", "GIT_SSH_COMMAND=x git log",
	}},
	{"what bash reads in its own way", []string{
		"echo a\\\nb", "ls \\\n  -la", "echo 'a\nb'", "echo \"a\\\nb\"", "echo é ü 日本", "echo a#b", "echo \\#", "echo '!'", "echo $'a\\'; rm x;: '\\'", "[ ! -f f ]", "[ $? -eq 0 ] && [ $# -gt 1 ]", "[ -z \"$x\" ]", "[ \"$x\" = y ]", "[ \"$x\" = y -a -f f ]", "test -n \"$x\" -o -d f", "[[ -f f && ! -d g || $x =~ ^a.*$ ]]", "[[ 1 -lt 2 ]]", "i=0; read j; echo $((i))", "i=0; echo \"$x\" i; echo $((i))", "i=0; printf '%s\\n' \"$i\"; echo $((i))", "declare x=y", "declare x= y=''", "declare -a x", "readonly -a x=(1 2)", "declare -r x=\"a$y\"", "readonly x=5 y='b c'", "printf '%s\\n' \"$x\" *", "printf -- 'x'", "printf '%5.2f%%\\n' 1", "shopt -s nullglob; ls *.x", "unset x", "wait", "jobs",
	}, []string{
		"echo \"${x:-'}\"; rm x; echo \"'}\"", "echo \"${x:-$'}\"; rm x; echo \"'}\"", "cat <<'E'#; rm x; echo #\nE", "echo \"$\\\n(rm x)\"", "cat $HOME\\\nX", "ls >\\\n>f",
		"ls\rrm x", "ls \x00; rm x", "ls \xff", "ls \x1b[0m", "ls \x7f", "ls '", "ls (", "ls )", "ls &&", "| ls", "if ls; then", "ls `", "ls $(", "ls ${x", "ls <<EOF", "for", "echo \"`echo \\`rm x\\``\"", "ls;;", "function", "}", "a=(", "[[ a", "((1",
		"i=0; \\read i <<< 'a[$(rm x)]'; echo $((i))", "i=0; re\\ad i <<< 'a[$(rm x)]'; echo $((i))", "i=0; 'read' i; echo $((i))", "i=0; \"read\" -r i; echo $((i))", "i=0; $'read' i; echo $((i))",
		"i=0; read 'i'; echo $((i))", "i=0; read \"i\"; echo $((i))", "i=0; read $'i'; echo $((i))", "i=0; read $'\\x69'; echo $((i))", "i=0; read \\i; echo $((i))", "i=0; read ''i; echo $((i))", "i=0; read -ai; echo $((i))", "i=0; read -rai; echo $((i))", "i=0; read -a i; echo $((i))",
		"declare -a x='($(rm y))'", "declare -A x='([$(rm y)]=1)'", "x=(1); declare x='($(rm y))'", "x=(1); declare x=\"$y\"", "declare -r x=$(cat f)", "readonly -a x='($(rm y))'", "readonly x=\"$y\"", "local x=\"($y)\"", "declare x=''$y", "declare -a x; declare -r x=\\(y\\)", "declare x+='(y)'",
		"echo `\\rm x`", "ls 'a'$'\\'';rm x'", "echo \"$\"(rm x)", "echo ${x:-'}'rm x}; rm y", "declare -f ls() { rm x; }",
	}},
}

func TestReadOnly(t *testing.T) {
	for _, area := range areas {
		t.Run(area.name, func(t *testing.T) {
			for _, src := range area.reads {
				if ok, why := bash.Parse(src, inWorkspace).ReadOnly(); !ok {
					t.Errorf("%q is not seen as read-only: %s", src, why)
				}
			}
			for _, src := range area.holds {
				if ok, _ := bash.Parse(src, inWorkspace).ReadOnly(); ok {
					t.Errorf("%q is called read-only", src)
				}
			}
		})
	}
}
