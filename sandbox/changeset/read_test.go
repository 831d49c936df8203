package changeset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	b := newBox(t)
	for _, test := range []struct {
		name, base, policy, session, want string
		root                              bool // needs to be root
	}{
		{
			name:    "a link where something protected may be below",
			session: "mkdir x d; ln -s x above; ln -s x other; mkdir d/above",
			want: `
				added symlink "above" to "x" protected
				added dir "d"
				added dir "d/above"
				added symlink "other" to "x"
				added dir "x"`,
		},
		{
			name:    "nothing",
			base:    `echo a > a`,
			session: `cat a`,
		}, {
			name:    "added",
			session: `echo a > a; mkdir -p d/e; ln -s a l; mkfifo p; echo b > ./-rf; printf 'x\0' > bin`,
			want: `
				added file "-rf"
				added file "a"
				added file "bin" binary
				added dir "d"
				added dir "d/e"
				added symlink "l" to "a"
				added fifo "p" refused: fifo`,
		}, {
			name:    "modified",
			base:    `echo a > a; mkdir d; echo b > d/b; ln -s a l`,
			session: `echo aa > a; echo B > d/b; ln -sfn d l`,
			want: `
				modified file "a"
				modified file "d/b"
				modified symlink "l" to "d"`,
		}, {
			name:    "copied up but the same",
			base:    `echo a > a; mkdir -p d/e; echo b > d/e/b; chmod 750 d`,
			session: `touch a; echo b > d/e/b; touch d; chmod 700 d; chmod 750 d`,
		}, {
			name:    "deleted",
			base:    `echo a > a; mkdir -p d/e; echo b > d/e/b; echo c > d/c; ln -s a l; mkfifo p`,
			session: `rm -r a d l p`,
			want: `
				deleted file "a"
				deleted dir "d" below 3
				deleted symlink "l"
				deleted fifo "p"`,
		}, {
			name:    "mode",
			base:    `echo a > a; mkdir d; echo b > d/b`,
			session: `chmod 755 a; chmod 1711 d; chmod 600 d/b; echo c > d/b`,
			want: `
				mode file "a" 644>755
				mode dir "d" 755>1711
				modified file "d/b" 644>600`,
		}, {
			name:    "removed and made again",
			base:    `mkdir -p d/e/f d/g; echo a > d/a; echo b > d/e/b; echo c > d/e/f/c; echo x > d/x`,
			session: `rm -r d; mkdir -p d/e; echo a > d/a; echo new > d/n; echo bb > d/e/b`,
			want: `
				modified file "d/e/b"
				deleted dir "d/e/f" below 1
				deleted dir "d/g"
				added file "d/n"
				deleted file "d/x"`,
		}, {
			name:    "types replaced",
			base:    `mkdir d e; echo b > d/b; echo f > f; echo g > g; ln -s f l; echo e > e/e`,
			session: `rm -r d; echo d > d; rm f; mkdir f; echo x > f/x; rm g; ln -s f g; rm l; echo l > l; rm -r e; mkfifo e`,
			want: `
				modified file "d" was dir 755>644 below 1
				modified fifo "e" was dir 755>644 below 1 refused: fifo
				modified dir "f" was file 644>755
				added file "f/x"
				modified symlink "g" was file 644>777 to "f"
				modified file "l" was symlink 777>644`,
		}, {
			name:    "renames",
			base:    `echo aaaa > a; echo bbbb > b; mkdir d e; echo dddd > d/f; echo dddd > d/g; echo dddd > h; : > empty; seq 9999 > long`,
			session: `mv a a2; rm b; echo bbbx > b2; cp -r d d2; rm -r d; mv h e/h; mv empty empty2; mv long e/long; chmod 755 e/long`,
			want: `
				renamed file "a2" from "a"
				deleted file "b"
				added file "b2"
				deleted dir "d" below 2
				added dir "d2"
				renamed file "d2/f" from "d/f"
				renamed file "d2/g" from "d/g"
				renamed file "e/h" from "h"
				renamed file "e/long" from "long" 644>755
				deleted file "empty"
				added file "empty2"`,
		}, {
			name:    "links",
			base:    `echo a > a; echo b > b; echo c > c; echo x > x; ln x y`,
			session: `ln a a2; ln b b2; echo bb > b; echo n > n; ln n n2; mkdir -p m m-m; ln n m/n3; ln n m-m/n4; ln -f a c; echo z >> x`,
			want: `
				link file "a2" from "a"
				modified file "b"
				link file "b2" from "b"
				link file "c" from "a"
				added dir "m"
				added file "m/n3"
				added dir "m-m"
				link file "m-m/n4" from "m/n3"
				link file "n" from "m/n3"
				link file "n2" from "m/n3"
				modified file "x"`,
		}, {
			name:    "links out of the workspace",
			base:    `mkdir d; echo a > d/a`,
			session: `ln -s /etc/passwd 1; ln -s ../x d/2; ln -s ../../x d/3; ln -s none 4; ln -s d/a 5; ln -s a d/6; ln -s 5 7; ln -s d/8/x 8; ln -s . 9; ln -s .. 10`,
			want: `
				added symlink "1" to "/etc/passwd" outside
				added symlink "10" to ".." outside
				added symlink "4" to "none" outside
				added symlink "5" to "d/a"
				added symlink "7" to "5"
				added symlink "8" to "d/8/x" outside
				added symlink "9" to "."
				added symlink "d/2" to "../x" outside
				added symlink "d/3" to "../../x" outside
				added symlink "d/6" to "a"`,
		}, {
			name: "names",
			session: `touch "$(printf 'a\nb')" "$(printf '\377')" '.sallyport-x' '..a' 'a b' .sallyport
				mkdir -p .sallyport-d/e`,
			want: `
				added file "..a"
				added file ".sallyport"
				added dir ".sallyport-d" refused: the name is reserved
				added dir ".sallyport-d/e" refused: the name is reserved
				added file ".sallyport-x" refused: the name is reserved
				added file "a\nb"
				added file "a b"
				added file "\xff"`,
		}, {
			name:    "privileged modes",
			base:    `echo a > a; echo b > b; chmod 4755 b`,
			session: `chmod 4755 a; touch b; echo c > c; chmod 2755 c; echo d > d; chmod 1644 d; mkdir s; chmod 2775 s`,
			want: `
				mode file "a" 644>4755 refused: setuid, setgid or sticky file
				added file "c" refused: setuid, setgid or sticky file
				added file "d" refused: setuid, setgid or sticky file
				added dir "s"`,
		}, {
			name:    "protected",
			base:    `mkdir -p .git/hooks d; echo a > .git/config; echo a > .git/hooks/a; mkdir k; mv .git d; echo c > k/c`,
			session: `rm -r d; mkdir .git; echo x > .git/x; mv k/c c`,
			want: `
				added dir ".git" protected
				added file ".git/x" protected
				renamed file "c" from "k/c"
				deleted dir "d" below 4 protected`,
		}, {
			name:   "denied",
			base:   `echo secret > .env; mkdir d s; echo secret > d/.env; echo d > d/d; echo s > s/s`,
			policy: `: > .env; mkdir d; : > d/.env; mknod s c 0 0; chmod 000 .env d/.env; mknod gone c 0 0`,
			session: `rm -f .env; echo mine > .env; rm -r d; mkdir -p d s; echo x > s/x; echo g > gone; echo e > d/e
				echo n > n`,
			want: `
				modified file ".env" 0>644 refused: denied by policy
				deleted file "d/.env" refused: denied by policy
				deleted file "d/d"
				added file "d/e"
				added file "gone" refused: denied by policy
				added file "n"
				added dir "s" refused: denied by policy
				added file "s/x" refused: denied by policy`,
		}, {
			name:    "a directory with what is denied",
			base:    `mkdir -p d/e; echo secret > d/e/.env`,
			policy:  `mkdir -p d/e; : > d/e/.env; chmod 000 d/e/.env`,
			session: `rm -rf d`,
			want:    `deleted dir "d" below 2 refused: holds what is denied by policy`,
		}, {
			name:    "owner",
			root:    true,
			base:    `echo a > a; echo b > b`,
			session: `chown 1:2 a; chown 3:4 b; echo c > b`,
			want: `
				mode file "a" owner
				modified file "b" owner`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.root && !asRoot() {
				t.Skip("needs root")
			}
			l := newLab(t, b)
			l.host(test.base + "\n:")
			if test.policy != "" {
				if !asRoot() {
					t.Skip("an ordinary user cannot make whiteouts by mknod(1)")
				}
				l.withPolicy(test.policy)
			}
			l.mount()
			l.session(test.session)
			got := describe(l.read(Options{Protected: func(name string) bool { return strings.Contains(name+"/", ".git/") || name == "above/" }}))
			if diff := cmp.Diff(trim(test.want), got); diff != "" {
				t.Error("(-want +got)\n", diff)
			}
		})
	}
}

// trim removes the indentation of a want.
func trim(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
