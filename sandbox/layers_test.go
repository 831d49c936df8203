package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

// What a session writes stays with it, over its ends, and nowhere else.
func TestLayersOutliveTheProcesses(t *testing.T) {
	work := tree(t, map[string]string{"a": "host", "d/b": "host"})
	s := stored(t, sandbox.Settings{Workspace: work})
	live := start(t, s)
	sh(t, live, `echo session > a; rm -r d; echo new > new; echo home > ~/h; echo tmp > /tmp/t`)
	closeSession(t, live)
	for range 2 {
		live = start(t, s)
		if got := sh(t, live, `cat a new ~/h /tmp/t; ls`); got != "session\nnew\nhome\ntmp\na\nnew" {
			t.Errorf("%q", got)
		}
		closeSession(t, live)
	}
	expect(t, work+"/a", "host")
	expect(t, work+"/d/b", "host")
	missing(t, work+"/new")
	missing(t, "/tmp/t")
}

// The eye sees all three layers, writes none, and has a /tmp to itself that is
// empty again at the next start; unless something else is mounted below it.
func TestEyesOwnTmp(t *testing.T) {
	outside, err := os.MkdirTemp("/var/tmp", "sallyport-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(outside) })
	if err := os.WriteFile(outside+"/a", []byte("host"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, work := range []string{outside, tree(t, map[string]string{"a": "host"})} {
		s := stored(t, sandbox.Settings{Workspace: work})
		live := start(t, s)
		sh(t, live, `echo w > b; echo h > ~/h; echo t > /tmp/t`)
		out, status := try(t, live, eye, `cat a b ~/h /tmp/t && echo mine > /tmp/t && echo new > /tmp/new && cat /tmp/t /tmp/new`)
		below := strings.HasPrefix(work, "/tmp/") || strings.HasPrefix(sh(t, live, `echo ~`), "/tmp/")
		switch {
		case below && (status == 0 || !strings.HasPrefix(out, "hostw\nh\nt\n") || !strings.Contains(out, "ermission denied")):
			t.Errorf("with a mount below: %d %q", status, out)
		case !below && (status != 0 || out != "hostw\nh\nt\nmine\nnew"):
			t.Errorf("%d %q", status, out)
		}
		if got := sh(t, live, `cat /tmp/t; ! ls /tmp/new 2>&1`); !strings.HasPrefix(got, "t\nls: cannot access") {
			t.Errorf("the hand sees of it %q", got)
		}
		for _, path := range []string{".", "a", "~", "~/h", "/usr/x", "/etc/passwd"} {
			fails(t, live, eye, `f=`+path+`; [ -d $f ] && f=$f/x; echo x >> $f`, "Read-only file system")
		}
		closeSession(t, live)
		live = start(t, s)
		if out, _ := try(t, live, eye, `cat /tmp/t; ls /tmp/new`); !strings.HasPrefix(out, "t\nls: cannot access") {
			t.Errorf("after a restart: %q", out)
		}
		closeSession(t, live)
	}
}

// Whatever a name has in it, it is that directory and no other, and no option of
// a mount.
func TestAwkwardNames(t *testing.T) {
	for _, name := range []string{"a:b", "a,upperdir=x", `a\b`, `a\:b`, "a b", "a\nb", "a\"'$(x)", "-rf", "é\xff"} {
		t.Run("", func(t *testing.T) {
			dir := tree(t, map[string]string{name + "/f": "host", "sdk" + name + "/p": "program", "cache" + name + "/c": "cached"})
			st, err := sandbox.OpenStore(filepath.Join(dir, "state"+name))
			if err != nil {
				t.Fatal(err)
			}
			s := sallytest.Create(t, st, sandbox.Settings{
				Workspace: dir + "/" + name,
				Expose: []sandbox.Exposed{{Dirs: []sandbox.Expose{
					{Path: dir + "/sdk" + name}, {Path: dir + "/cache" + name, Cow: true},
				}}},
			})
			live := sallytest.Start(t, s, sandbox.Limits{})
			got := sh(t, live, `cat f; echo session > f; cd ..; cat sdk*/p cache*/c; echo mine > cache*/c; ! echo x > sdk*/p`)
			if !strings.Contains(got, "hostprogramcached") || !strings.Contains(got, "Read-only file system") {
				t.Errorf("%q: %q", name, got)
			}
			expect(t, dir+"/"+name+"/f", "host")
			expect(t, dir+"/cache"+name+"/c", "cached")
			if got := short(changes(t, live)); got != "modified f" {
				t.Errorf("%q: %s", name, got)
			}
		})
	}
}

// Root starts sessions for whoever owns the workspace: the agent has the owner's
// numbers, and what leaves the session is the owner's too.
func TestRootsSessionForAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a session for somebody else")
	}
	work := tree(t, map[string]string{"a": "host", "d/b": "host"})
	for _, path := range []string{"", "/a", "/d", "/d/b"} {
		if err := os.Chown(work+path, 54321, 54322); err != nil {
			t.Fatal(err)
		}
	}
	live := start(t, stored(t, sandbox.Settings{Workspace: work}))
	defer closeSession(t, live)
	got := sh(t, live, `id -u; id -g; echo x > a; mkdir n; echo y > n/y; echo z > ~/z; stat -c %u:%g a n/y ~/z .`)
	if got != "54321\n54322\n54321:54322\n54321:54322\n54321:54322\n54321:54322" {
		t.Errorf("%q", got)
	}
	if _, err := live.Apply(t.Context(), changes(t, live), sandbox.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/a", "/n", "/n/y"} {
		info, err := os.Stat(work + path)
		if err != nil {
			t.Fatal(err)
		}
		if uid, gid := ownerOf(info); uid != 54321 || gid != 54322 {
			t.Errorf("%s is of %d:%d", path, uid, gid)
		}
	}
}

// What the agent puts where a mount point must be does not lead the mounts of
// the next start elsewhere.
func TestMountpointsInsideLayers(t *testing.T) {
	work := tree(t, map[string]string{"f": "host"})
	if !strings.HasPrefix(work, "/tmp/") {
		t.Skip("the temporary directory is not below /tmp, where the workspace would lie in a layer")
	}
	s := stored(t, sandbox.Settings{Workspace: work})
	closeSession(t, start(t, s))
	upper := s.Dir() + "/layers/tmp/upper"
	rel := strings.TrimPrefix(work, "/tmp/")
	first, _, _ := strings.Cut(rel, "/")
	target := t.TempDir()
	if err := os.RemoveAll(filepath.Join(upper, first)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(upper, first)); err != nil {
		t.Fatal(err)
	}
	live := start(t, s)
	defer closeSession(t, live)
	if got := sh(t, live, `cat f; pwd -P`); got != "host"+work {
		t.Errorf("%q", got)
	}
	if left, err := os.ReadDir(target); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}
