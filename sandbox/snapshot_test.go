package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
)

// A snapshot script lists all that is in directories, a line a name: its type,
// mode, size, time, how many names it has, which other name is the same file, the
// target of a link, the sum of what can be read. Names and targets can have any
// bytes but a newline.
const snapshotScript = `
export LC_ALL=C
case $PWD in /tmp/*) own=${PWD#/tmp/}; own=/tmp/${own%%/*};; *) own=/none;; esac
list() {
	cd "$1" || exit 1
	find . -xdev -path "./${own#/tmp/}" -prune -o -printf '%y %#m %s %T@ %n:%D:%i %P -> %l\n' | sort -t / -k 1 |
	awk -v years="$2" -v inodes="$3" '
		{ type = $1; mode = $2; size = $3; time = $4; ino = $5; name = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ /, "", name) }
		{ links = ino; sub(/:.*/, "", links) }
		type == "d" { size = links = "-"; ino = name }
		!inodes { ino = name }
		type == "l" { mode = "-" }
		years && time > 1500000000 { time = "now" }
		{ if (!(ino in first) || name < first[ino]) first[ino] = name; line[NR] = type " " mode " " size " " time " " links; inos[NR] = ino; names[NR] = name }
		END { for (i = 1; i <= NR; i++) print line[i] " " names[i] (first[inos[i]] != names[i] ? " = " first[inos[i]] : "") }' | sort -k 6
	find . -xdev -path "./${own#/tmp/}" -prune -o -type f -readable -exec md5sum {} + | sort -k 2
}`

// snapshot lists all that a session has in its workspace, its home and its /tmp.
// Times are left out that are not older than the test, if years is set: two runs
// of a script give different ones.
func snapshot(t testing.TB, s *sandbox.Session, years bool, dirs ...string) string {
	t.Helper()
	if len(dirs) == 0 {
		dirs = []string{`"$PWD"`, "~", "/tmp"}
	}
	script := snapshotScript
	for _, dir := range dirs {
		script += fmt.Sprintf("\necho '%s:'; (list %s %d %d)", strings.Trim(dir, `"`), dir, one(years), one(os.Geteuid() == 0))
	}
	return sh(t, s, script)
}

// one is 1 for true. In an overlay of an ordinary user, two names of one file can
// have different inode numbers.
func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// aged gives all in a directory of the host a time of years ago, so that it can be
// told what a script has touched.
func aged(t testing.TB, dir string) string {
	t.Helper()
	then := unix.NsecToTimespec(time.Date(2010, 1, 2, 3, 4, 5, 678, time.UTC).UnixNano())
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{then, then}, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
