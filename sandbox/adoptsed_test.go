package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// sedPrograms are run in a directory that has sedFiles.
var sedPrograms = []string{
	`sed -i s/two/2/ a`,
	`sed -i.bak s/two/2/ a`,
	`sed -i.old -e s/o/0/g -e s/e/3/g a b`,
	`sed -i'bak_*' s/one/1/ a`,
	`sed --in-place=~ 's/^/> /' a b sub/c`,
	`sed -i 's/no such thing/x/' a`,
	`sed -n -i /two/p a`,
	`sed -n -i.all '2,3p' a b`,
	`sed -i -n '$=' a`,
	`sed -E -i 's/(o)(n|w)/\2\1/' a`,
	`sed -E -i 's/([a-z]+) ([a-z]+)/\u\1 \U\2\E!/' words`,
	`sed -i 's/\([a-z]*\) \([a-z]*\)/\2 \1/' words`,
	`sed -s -i 1d a b`,
	`sed -s -n -i '$p' a b sub/c`,
	`sed -s -i 'F' a b`,
	`sed -z -i 's/\n/,/g' a`,
	`sed -z -i 's/nul/NUL/2' nul`,
	`sed -z -i.z 's/^./X/mg' nul`,
	`sed -i 2d a`,
	`sed -i '2,4d' a`,
	`sed -i '/two/,/four/d' a`,
	`sed -i '0,/o/s//O/' a`,
	`sed -i '1~2d' a`,
	`sed -i '2,~4s/$/!/' a`,
	`sed -i '2,+1s/^/+/' a`,
	`sed -i '$!d' a`,
	`sed -i '/t/!s/$/ (no t)/' a`,
	`sed -i '\,o/n,s,/,:,g' paths`,
	`sed -i 's|/usr/bin|/opt|g' paths`,
	`sed -i 's#o\#n#x#' paths`,
	`sed -i 's,a\,b,c,' paths`,
	`sed -i 's/one/&-&/' a`,
	`sed -i 's/o/0/2' words`,
	`sed -i 's/o/0/2g' words`,
	`sed -i 's/TWO/2/I' a`,
	`sed -i 's/two/second\nline/' a`,
	`sed -i -n 's/two/2/p' a`,
	`sed -i 's/o/0/w written' a`,
	`sed -i -e '/t/w with-t' -e '/t/d' a`,
	`sed 's/o/0/w /dev/stdout' a > out`,
	`sed -i 'y/abcdef/ABCDEF/' a b`,
	`sed -i 'y/o\n/0 /' a`,
	`sed -i '1!G;h;$!d' a`,
	`sed -n -i 'H;${x;s/\n/,/g;s/^,//;p}' a`,
	`sed -i 'x;p;x' a`,
	`sed -i '$!N;s/\n/ /' a`,
	`sed -i '$!N;P;D' twice`,
	`sed -i ':a;s/^\(\s*\)x/\1y/;ta' words`,
	`sed -i ':again; s/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/; t again' numbers`,
	`sed -i -e ':a' -e '/\\$/N; s/\\\n//; ta' continued`,
	`sed -i '/two/{n;d}' a`,
	`sed -i '/two/{s//2/;b};s/$/./' a`,
	`sed -i 's/o/0/;T;s/$/ (had o)/' a`,
	`sed -i '2a\appended' a`,
	`sed -i '2a appended' a`,
	`sed -i -e '2i\' -e 'inserted\' -e 'twice' a`,
	`sed -i '2c\changed' a`,
	`sed -i '2,4c changed' a`,
	`sed -i '$a\  kept blanks' a`,
	`sed -i 2rb a`,
	`sed -i '1R b' a`,
	`sed -i 'R b' a`,
	`sed -i '$r /dev/stdin' a < b`,
	`sed -i 2q a`,
	`sed -i '2Q' a`,
	`sed -i 3q5 a`,
	`sed -i l a`,
	`sed -i 'l 5' words`,
	`sed -i -f script a`,
	`sed --posix -i 's/a*/x/g' words`,
	`sed -i --follow-symlinks s/two/2/ link`,
	`sed -i s/two/2/ link`,
	`sed -i s/two/2/ hard1`,
	`sed -i s/two/2/ program readonly private`,
	`sed -i.b s/x/y/ program private`,
	`sed -i s/x/y/ none`,
	`sed -i s/two/2/ a none b`,
	`sed -i 's/x' a`,
	`sed -i s/./X/ empty noeol`,
	`sed -i '$s/$/\n/' noeol`,
	`sed -i d a`,
	`sed -i 's/caf\xc3\xa9/coffee/;s/\x00/nul/' bytes`,
	`sed -i -u s/two/2/ a; sed -i s/2/two/ a`,
	`sed -i s/two/2/ *`,
	`sed -i 's/two/2/;W first' a`,
	`sed s/two/2/ a > t && mv t a`,
	`sed s/two/2/ a b | sed -n 2p >> b`,
	`find . -type f -exec sed -i 's/o/0/g' {} +`,
}

var sedFiles = map[string]string{
	"a": "one\ntwo\nthree\nfour\nfive\n", "b": "six\nseven\ntwo\n", "sub/c": "one two\nthree\n",
	"words": "hello world foo\nxxx boo  too\n  xx\n", "nul": "nul one\x00nul two nul\x00three", "paths": "/usr/bin:/usr/lib\no/n\no#n a,b\n",
	"twice": "a\na\nb\nb\nb\nc\n", "numbers": "1234567\n12\n", "continued": "a\\\nb\\\nc\nd\n", "script": "s/one/1/\n/three/d\n",
	"program": "#!/bin/sh\n# two x\n", "readonly": "two\n", "private": "two x\n", "empty": "", "noeol": "no end", "bytes": "caf\xc3\xa9\x00\xff\n",
	"hard1": "one\ntwo\n",
}

func TestAdoptedSedIsSed(t *testing.T) {
	base := func() string {
		files := make(map[string]string)
		for i := range sedPrograms {
			for name, content := range sedFiles {
				files[fmt.Sprintf("%02d/%s", i, name)] = content
			}
		}
		work := tree(t, files)
		for i := range sedPrograms {
			dir := filepath.Join(work, fmt.Sprintf("%02d", i))
			for name, mode := range map[string]os.FileMode{"program": 0o755, "readonly": 0o444, "private": 0o600} {
				if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(filepath.Join(dir, "hard1"), filepath.Join(dir, "hard2")); err != nil {
				t.Fatal(err)
			}
		}
		return aged(t, work)
	}
	adopts := sallytest.Session(t, sandbox.Settings{Workspace: base()}, sandbox.Limits{})
	runs := sallytest.Session(t, sandbox.Settings{Workspace: base()}, sandbox.Limits{})
	for i, program := range sedPrograms {
		t.Run(program, func(t *testing.T) {
			dir := fmt.Sprintf("%02d", i)
			script := "cd " + dir + "\n" + program
			f := fork(t, adopts)
			defer closeSession(t, f)
			said, code := try(t, f, sandbox.Envelope{}, script)
			adopt(t, adopts, effects(t, f))
			saidThere, codeThere := try(t, runs, sandbox.Envelope{}, script)
			if code != codeThere || said != saidThere {
				t.Errorf("%d, %q; there %d, %q", code, said, codeThere, saidThere)
			}
			if diff := cmp.Diff(snapshot(t, runs, true, dir), snapshot(t, adopts, true, dir)); diff != "" {
				t.Errorf("(-run +adopted)\n%s", diff)
			}
			if diff := cmp.Diff(snapshot(t, f, false, dir), snapshot(t, adopts, false, dir)); diff != "" {
				t.Errorf("(-fork +adopted)\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(short(changes(t, runs)), short(changes(t, adopts))); diff != "" {
		t.Errorf("changes (-run +adopted)\n%s", diff)
	}
}
