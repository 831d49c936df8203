#!/bin/sh
# The main job, on a copy of a small repository with a failing test: an agent's
# recorded tool calls find the bug, fix it and prove it, all inside a session;
# what is forbidden is stopped; then a person looks at the changes and lets them
# out.
#
#	sh test/demo/demo.sh bin/sallyport
set -eu

sallyport=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)

tmp=$(mktemp -d)
tmp=$(cd "$tmp" && pwd -P)
trap 'chmod -R u+rwX "$tmp" && rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT PIPE TERM # else dash does not come to the above
XDG_STATE_HOME=$tmp/state
GOROOT=$(go env GOROOT)
export XDG_STATE_HOME GOROOT
cache=$(go env GOCACHE)

cp -R "$here/../fixtures/interval" "$tmp/interval"
echo "the key to everything" >"$tmp/secret"
cd "$tmp/interval"
git init -q
git add .
git -c user.name=demo -c user.email=demo@localhost commit -qm "a set of intervals"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "A session that shows Go and its build cache; nothing else of the home directory."
echo '$ sallyport exec --expose go --expose GOCACHE:cow -- go env -w GOFLAGS=-trimpath CGO_ENABLED=0 GOCACHE=...'
"$sallyport" exec --expose go --expose "$cache:cow" -- go env -w GOFLAGS=-trimpath CGO_ENABLED=0 "GOCACHE=$cache"

say "An agent works in it. It may edit files and run the tests, as its user has said; nobody is there to ask."
echo "\$ sallyport agent --script session.jsonl --mode acceptEdits --allow 'Bash(go test *)' --allow 'Bash(gofmt *)'"
"$sallyport" agent --script "$here/session.jsonl" --mode acceptEdits --allow 'Bash(go test *)' --allow 'Bash(gofmt *)' </dev/null

say "Nothing has reached the real directory so far:"
git status --short
echo "(no changes)"

say "The changes:"
echo '$ sallyport diff'
"$sallyport" diff

say "Let them out."
echo '$ sallyport apply'
"$sallyport" apply

say "The real directory now:"
git diff --stat
go test -count=1 ./...

say "What happened, and that the record is whole:"
echo '$ sallyport audit'
"$sallyport" audit | cut -c 1-160
echo '$ sallyport audit verify'
"$sallyport" audit verify
