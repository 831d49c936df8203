package bashtest

import "strings"

// A Use is a command of the tables, with a use of it that changes nothing, where there
// is one, and one that may change something, or is not known not to.
type Use struct{ Name, Reads, Holds string }

// Uses are all commands that the tables know; git's own as "git log".
var Uses = func() []Use {
	var uses []Use
	for line := range strings.Lines(table) {
		if fields := strings.Split(strings.TrimSpace(line), " | "); len(fields) == 3 {
			uses = append(uses, Use{fields[0], strings.TrimPrefix(fields[1], "-"), fields[2]})
		}
	}
	return uses
}()

// A line is: command | a use that reads, or - for none | one that does not.
const table = `
: | : x | : ${x:=$(rm f)}
[ | [ -f f ] | [ -v x ]
ag | ag -l foo src | ag --pager ./x foo
apropos | apropos x | apropos --foo x
arch | arch | arch --foo
awk | awk '{print $1}' f | awk '{print > "o"}' f
b2sum | b2sum f | b2sum --foo f
base32 | base32 f | base32 --foo f
base64 | base64 -d f | base64 f > g
basename | basename a/b | basename --foo a
basenc | basenc --base16 f | basenc --foo f
bat | bat -p f | bat --pager=./x f
batcat | batcat f | batcat cache --build
bc | bc -l f | bc --foo f
break | for i in 1; do break; done | break $(rm f)
bunzip2 | bunzip2 -c f.bz2 | bunzip2 f.bz2
bzcat | bzcat f.bz2 | bzcat -f f.bz2
bzip2 | bzip2 -c f | bzip2 f
c++filt | c++filt x | c++filt @f --foo
cal | cal -3 | cal --foo
cat | cat -n f | cat f > g
cd | cd src | cd $(rm f)
chgrp | - | chgrp x f
chmod | - | chmod +x f
chown | - | chown x f
cksum | cksum f | cksum --foo f
cmp | cmp a b | cmp --foo a b
column | column -t f | column --foo f
comm | comm -12 a b | comm --foo a b
command | command -v ls | command -x ls
continue | for i in 1; do continue; done | continue $(rm f)
cp | - | cp a b
cut | cut -d: -f1 f | cut --foo f
date | date +%s | date -s now
df | df -h | df --foo
diff | diff -u a b | diff --foo a b
diff3 | diff3 a b c | diff3 --diff-program=./x a b c
dir | dir -l | dir --foo
dirname | dirname a/b | dirname --foo a
dirs | dirs | dirs -c -v
dpkg | dpkg -l bash | dpkg -i x.deb
dpkg-query | dpkg-query -W -f='${Package}' | dpkg-query --admindir=x -W
du | du -sh . | du --foo
echo | echo x | echo x > f
egrep | egrep -n x f | egrep --foo x f
env | env | env ls
exa | exa -la | exa --foo
exit | exit 1 | exit $(rm f)
expand | expand -t 4 f | expand --foo f
expr | expr 1 + 2 | expr $(rm f)
eza | eza --tree | eza --foo
factor | factor 12 | factor --foo 12
false | false | false $(rm f)
fd | fd -e go | fd -x rm
fdfind | fdfind x src | fdfind --exec rm
fgrep | fgrep x f | fgrep --foo x f
file | file -b f | file -C -m f
find | find . -name x | find . -delete
findmnt | findmnt -T . | findmnt --poll
fmt | fmt -w 72 f | fmt --foo f
fold | fold -w 80 f | fold --foo f
free | free -h | free --foo
fuser | fuser -v f | fuser -k f
gawk | gawk '{print}' f | gawk -i inplace '{print}' f
getconf | getconf PAGE_SIZE | getconf --foo
getfacl | getfacl f | getfacl --foo f
getfattr | getfattr -d f | getfattr --foo f
git | git --version | git foo
git annotate | git annotate f | git annotate --contents x f
git bisect log | git bisect log | git bisect log --foo
git blame | git blame f | git blame --contents x f
git branch | git branch -a | git branch x
git cat-file | git cat-file -p HEAD | git cat-file --textconv HEAD:f
git check-attr | git check-attr -a f | git check-attr --foo f
git check-ignore | git check-ignore -v f | git check-ignore --foo f
git check-mailmap | git check-mailmap x | git check-mailmap --foo x
git check-ref-format | git check-ref-format --branch x | git check-ref-format --foo x
git cherry | git cherry -v | git cherry --foo
git config | git config --get a.b | git config a.b c
git config get | git config get a.b | git config set a.b c
git config list | git config list | git config unset a.b
git count-objects | git count-objects -v | git count-objects --foo
git describe | git describe --tags | git describe --foo
git diff | git diff HEAD | git diff --output=f
git diff-files | git diff-files | git diff-files --output=f
git diff-index | git diff-index HEAD | git diff-index --ext-diff HEAD
git diff-tree | git diff-tree HEAD | git diff-tree --output f HEAD
git for-each-ref | git for-each-ref refs/heads | git for-each-ref --format='%(signature)'
git fsck | git fsck | git fsck --lost-found
git grep | git grep -n x | git grep -O./x x
git hash-object | git hash-object f | git hash-object -w f
git log | git log -p | git log --output=f
git ls-files | git ls-files -o | git ls-files --foo
git ls-tree | git ls-tree -r HEAD | git ls-tree --foo HEAD
git merge-base | git merge-base a b | git merge-base --foo a b
git name-rev | git name-rev HEAD | git name-rev --foo HEAD
git notes list | git notes list | git notes add
git notes show | git notes show HEAD | git notes remove
git patch-id | git patch-id --stable | git patch-id --foo
git range-diff | git range-diff a...b | git range-diff --output=f a...b
git reflog | git reflog -5 | git reflog expire
git reflog exists | git reflog exists main | git reflog delete main@{0}
git reflog show | git reflog show main | git reflog show --output=f
git remote | git remote -v | git remote add a b
git remote get-url | git remote get-url origin | git remote set-url origin x
git remote show | git remote show -n origin | git remote show origin
git rev-list | git rev-list --count HEAD | git rev-list --output=f HEAD
git rev-parse | git rev-parse HEAD | git rev-parse --parseopt
git shortlog | git shortlog -sn | git shortlog --output=f
git show | git show HEAD | git show --textconv HEAD
git show-branch | git show-branch --list | git show-branch --foo
git show-ref | git show-ref --tags | git show-ref --foo
git sparse-checkout list | git sparse-checkout list | git sparse-checkout set x
git stash list | git stash list | git stash
git stash show | git stash show -p | git stash show --output=f
git status | git status -sb | git status --foo
git submodule | git submodule | git submodule update
git submodule status | git submodule status | git submodule init
git symbolic-ref | git symbolic-ref HEAD | git symbolic-ref HEAD refs/heads/x
git tag | git tag -l | git tag v1
git var | git var GIT_EDITOR | git var --foo
git version | git version | git version --foo
git whatchanged | git whatchanged -3 | git whatchanged --output=f
git worktree list | git worktree list | git worktree add x
go | go version | go build
gofmt | gofmt -l . | gofmt -w .
grep | grep -rn x . | grep --foo x
groups | groups | groups --foo
gunzip | gunzip -c f.gz | gunzip f.gz
gzip | gzip -l f.gz | gzip f
hd | hd f | hd --foo f
head | head -20 f | head f > g
hexdump | hexdump -C f | hexdump --foo f
history | history 20 | history -w f
hostname | hostname | hostname x
iconv | iconv -f latin1 -t utf-8 f | iconv -o g f
id | id -u | id --foo
iostat | iostat -x | iostat --foo
ipcs | ipcs -a | ipcs --foo
jobs | jobs -l | jobs -x rm f
join | join a b | join --foo a b
jq | jq .x f | jq --foo .x f
last | last -n 5 | last -f "$x"
lastlog | lastlog | lastlog -C
ln | - | ln -s a b
locale | locale -a | locale --foo
logname | logname | logname --foo
look | look x | look "$x"
ls | ls -la | ls --foo
lsattr | lsattr f | lsattr --foo
lsblk | lsblk -f | lsblk --foo
lscpu | lscpu -J | lscpu --foo
lsd | lsd -la | lsd --foo
lsmod | lsmod | lsmod x
lsns | lsns -l | lsns --foo
lsof | lsof -i :80 | lsof -Db
lspci | lspci -v | lspci -q
lsusb | lsusb -t | lsusb --foo
lzcat | lzcat f | lzcat --foo f
mawk | mawk '{print}' f | mawk 'BEGIN{system("id")}'
md5sum | md5sum f | md5sum --foo f
mkdir | - | mkdir d
mountpoint | mountpoint / | mountpoint --foo /
mv | - | mv a b
namei | namei -l a/b | namei --foo a
nawk | nawk '{print}' f | nawk 'BEGIN{system(1)}'
ncal | ncal | ncal --foo
netstat | netstat -tulpn | netstat --foo
nice | nice -n 5 ls | nice rm f
nl | nl -ba f | nl --foo f
nm | nm -D f | nm --plugin=./x f
nohup | - | nohup ls
nproc | nproc | nproc --foo
numfmt | numfmt --to=iec 1 | numfmt --foo 1
objdump | objdump -d f | objdump --plugin=./x f
od | od -c f | od --foo f
openssl | openssl x509 -in f -noout -text | openssl x509 -in f -out g
paste | paste a b | paste --foo a
pgrep | pgrep -fl x | pgrep --foo x
pidof | pidof bash | pidof --foo bash
pmap | pmap -x 1 | pmap --foo 1
popd | pushd src && popd | popd $(rm f)
pr | pr -t f | pr --foo f
printenv | printenv PATH | printenv --foo
printf | printf '%s' x | printf -v x y
ps | ps aux | ps --foo
pstree | pstree -p | pstree --foo
pushd | pushd src | pushd $(rm f)
pwd | pwd -P | pwd --foo
pwdx | pwdx 1 | pwdx --foo
read | read -r x < f | read PATH < f
readelf | readelf -h f | readelf --foo f
readlink | readlink -f f | readlink --foo f
realpath | realpath f | realpath --foo f
return | return 0 | return $(rm f)
rev | rev f | rev --foo f
rg | rg -n x | rg --pre ./x y
rm | - | rm f
rmdir | - | rmdir d
rpm | rpm -qa | rpm -i x
scc | scc --by-file | scc -o f
sdiff | sdiff -s a b | sdiff -o f a b
sed | sed -n 5p f | sed -i s/a/b/ f
seq | seq 1 5 | seq --foo
set | set -euo pipefail | set -o history
sha1sum | sha1sum f | sha1sum --foo f
sha224sum | sha224sum f | sha224sum --foo f
sha256sum | sha256sum -c f | sha256sum --foo f
sha384sum | sha384sum f | sha384sum --foo f
sha512sum | sha512sum f | sha512sum --foo f
shasum | shasum -a 256 f | shasum --foo f
shellcheck | shellcheck f | shellcheck --foo f
shift | shift | shift $(rm f)
shopt | shopt -s nullglob | shopt -s expand_aliases
shuf | shuf -n 5 f | shuf -o g f
size | size f | size --foo f
sleep | sleep 1 | sleep --foo
sort | sort -u f | sort -o f f
ss | ss -tlnp | ss -K
stat | stat -c %s f | stat --foo f
stdbuf | stdbuf -oL cat f | stdbuf -oL rm f
strings | strings -n 8 f | strings --foo f
sum | sum f | sum --foo f
sysctl | sysctl -n a.b | sysctl -w a.b=c
tac | tac f | tac --foo f
tail | tail -n 5 f | tail --foo f
tar | tar tzf f | tar xzf f
tee | tee /dev/null | tee f
test | test -f f | test -v x
time | \time ls | \time -o f ls
timeout | timeout 5 ls | timeout 5 rm f
times | times | times $(rm f)
tokei | tokei src | tokei --foo
top | top -b -n 1 | top
touch | - | touch f
tr | tr a b | tr --foo a b
tree | tree -L 2 | tree -o f
true | true | true $(rm f)
truncate | - | truncate -s 0 f
tsort | tsort f | tsort --foo f
tty | tty | tty --foo
type | type -a ls | type --foo ls
uname | uname -a | uname --foo
unexpand | unexpand -a f | unexpand --foo f
uniq | uniq -c f | uniq f g
unset | unset x | unset PATH
unxz | unxz -c f.xz | unxz f.xz
unzip | unzip -l f | unzip f
uptime | uptime | uptime --foo
users | users | users --foo
vdir | vdir | vdir --foo
vmstat | vmstat 1 2 | vmstat --foo
w | w -h | w --foo
wait | wait | wait -p x
wc | wc -l f | wc --foo f
whatis | whatis ls | whatis --foo ls
whereis | whereis ls | whereis --foo ls
which | which -a ls | which --foo ls
who | who -b | who --foo
whoami | whoami | whoami --foo
xmllint | xmllint --noout f | xmllint --output g f
xxd | xxd -l 64 f | xxd f g
xz | xz -l f | xz f
xzcat | xzcat f | xzcat --foo f
yes | yes x | yes --foo
yq | yq .x f | yq -i .x=1 f
zcat | zcat f | zcat --foo f
zegrep | zegrep x f | zegrep --foo x f
zfgrep | zfgrep x f | zfgrep --foo x f
zgrep | zgrep x f | zgrep --foo x f
zipinfo | zipinfo -1 f | zipinfo -x "$x"
zstdcat | zstdcat f | zstdcat --rm f
`
