#!/bin/sh
# The main job, on a copy of a small repository with a failing test: find the
# bug, fix it and prove it, all inside a session; see that what is forbidden is
# stopped; look at the changes and let them out.
#
#	sh test/demo/demo.sh bin/sallyport
set -eu

sallyport=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
fixture=$(cd "$(dirname "$0")/../fixtures/interval" && pwd)

tmp=$(mktemp -d)
tmp=$(cd "$tmp" && pwd -P)
trap 'chmod -R u+rwX "$tmp" && rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT PIPE TERM # else dash does not come to the above
XDG_STATE_HOME=$tmp/state
GOROOT=$(go env GOROOT)
export XDG_STATE_HOME GOROOT
cache=$(go env GOCACHE)

cp -R "$fixture" "$tmp/interval"
echo "the key to everything" >"$tmp/secret"
cd "$tmp/interval"
git init -q
git add .
git -c user.name=demo -c user.email=demo@localhost commit -qm "a set of intervals"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# in_box ok|fails ARG... shows a command, runs it in the session, and checks how
# it ends. 125 is never right: the box itself failed.
in_box() {
	want=$1
	shift
	printf '$ sallyport exec'
	for arg; do
		case $arg in
		*[!A-Za-z0-9_./:=-]*) printf " '%s'" "$arg" ;;
		*) printf ' %s' "$arg" ;;
		esac
	done
	echo
	code=0
	"$sallyport" exec "$@" || code=$?
	case $want:$code in
	ok:0) ;;
	ok:* | fails:0 | fails:125)
		echo "demo: exit code $code" >&2
		exit 1
		;;
	esac
}

say "A test fails. The session sees the workspace, Go and its build cache; nothing else of the home directory."
export CGO_ENABLED=0 GOFLAGS=-trimpath
in_box fails --expose go --expose "$cache:cow" --env CGO_ENABLED=0 --env GOFLAGS=-trimpath --env "GOCACHE=$cache" -- go test -count=1 ./...

say "Find the bug ..."
in_box ok --read-only -- grep -n 'x.from >= to' interval.go

say "... fix it ..."
in_box ok -- sed -i 's/x.from >= to/x.from > to/' interval.go

say "... and prove it."
in_box ok --env CGO_ENABLED=0 --env GOFLAGS=-trimpath --env "GOCACHE=$cache" -- go test -count=1 ./...

say "What is outside is not there."
in_box fails -- cat "$tmp/secret"

say "There is no network."
in_box fails -- bash -c 'exec 3<>/dev/tcp/192.0.2.1/80'

say "What only looks cannot write, whatever it is."
in_box fails --read-only -- sed -i s/set/sett/ README.md

say "A git hook would run outside later: none can be made."
in_box fails -- sh -c 'echo "rm -rf /" > .git/hooks/pre-commit'

say "So would a task of an editor. This repository has none; one that the session makes does not leave."
in_box ok -- sh -c 'mkdir .vscode && echo "{}" > .vscode/tasks.json'

say "Nothing has reached the real directory so far:"
git status --short
echo "(no changes)"

say "The changes:"
echo '$ sallyport diff'
"$sallyport" diff

say "Let them out. The task stays behind, as nobody has named it."
echo '$ sallyport apply'
"$sallyport" apply || [ $? = 1 ]
test ! -e .vscode

say "The real directory now:"
git diff --stat
go test -count=1 ./...

say "What happened, and that the record is whole:"
echo '$ sallyport audit'
"$sallyport" audit | cut -c 1-150
echo '$ sallyport audit verify'
"$sallyport" audit verify
