package sandbox_test

import (
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// inFork runs a script in a fork of the session and returns its effects. The fork
// lives until the end of the test.
func inFork(t testing.TB, s *sandbox.Session, script string) *sandbox.Effects {
	t.Helper()
	f := fork(t, s)
	t.Cleanup(func() { f.Close() })
	try(t, f, sandbox.Envelope{}, script)
	return effects(t, f)
}

func effects(t testing.TB, f *sandbox.Session) *sandbox.Effects {
	t.Helper()
	e, err := f.Effects(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func adopt(t testing.TB, s *sandbox.Session, e *sandbox.Effects) *sandbox.Adoption {
	t.Helper()
	a, err := s.Adopt(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAdoptedEffectsAreAsIfTheyHadRunInTheSession(t *testing.T) {
	work := tree(t, map[string]string{"a": "host\n", "d/b": "host", "gone": "host", "dir/x": "x", "dir/y/z": "z", "file": "f"})
	s := sallytest.Session(t, sandbox.Settings{Workspace: work}, sandbox.Limits{})
	sh(t, s, `echo session > a; mkdir n; echo n > n/own; echo h > ~/h; echo t > /tmp/t; ln -s a link`)
	e := inFork(t, s, `
sed -i s/session/fork/ a
rm gone; rm -r dir; mkdir dir; echo new > dir/new
rm file; mkdir file; echo x > file/x
rm -r n; echo n > n
mkdir -p deep/er; echo 1 > deep/er/1; ln deep/er/1 deep/2; ln -sf d link; mkfifo fifo
chmod 4755 d/b; touch -d 2001-02-03 d/b d
echo fork >> ~/h; echo fork > ~/new; rm /tmp/t; mkdir /tmp/d`)
	adopt(t, s, e)
	got := sh(t, s, `
cat a dir/new file/x n deep/2 ~/h ~/new; ls; stat -c '%n %a %h' d/b deep/2; stat -c '%a' deep/er; stat -c %y d d/b
readlink link; stat -c %F fifo; ls -Ad /tmp/t /tmp/d dir/* 2>&1 || :; ls -A | grep sallyport || :`)
	want := `fork
new
x
n
1
h
fork
fork
a
d
deep
dir
fifo
file
link
n
d/b 4755 1
deep/2 644 2
755
2001-02-03 00:00:00.000000000 +0000
2001-02-03 00:00:00.000000000 +0000
d
fifo
ls: cannot access '/tmp/t': No such file or directory
/tmp/d
dir/new`
	if got != want {
		t.Errorf("%s\n%s", got, want)
	}
}
