package escape

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
)

// testOverlayAttributes marks files, from inside, in the way that an overlay
// marks those that lie elsewhere or are deleted, in every layer that the session
// can write. The layers are the lowers of the eye's /tmp and of forks.
func testOverlayAttributes(t *testing.T, s *suite) {
	workspace := s.workspace(t)
	before := describeTree(t, workspace)
	live := s.session(t, workspace, sandbox.Limits{})
	home := try(t.Context(), live, sandbox.Hand, "sh", "-c", "echo $HOME")
	dirs := []string{"work=" + workspace, "home=" + home, "tmp=/tmp"}
	args := append([]string{"attempt", "xattr"}, dirs...)
	// What root's overlays believe, only root can set. What an ordinary user's do
	// can be set: in the plain layers as it is, in the workspace under another
	// name.
	want := "ok: work-user-redirect work-user-opaque work-user-origin work-user-metacopy work-user-redirect work-user-whiteout home-user-redirect home-user-opaque home-user-origin home-user-metacopy home-user-redirect home-user-whiteout tmp-user-redirect tmp-user-opaque tmp-user-origin tmp-user-metacopy tmp-user-redirect tmp-user-whiteout; EPERM: work-trusted-redirect work-trusted-opaque work-trusted-origin work-trusted-metacopy work-trusted-redirect work-trusted-whiteout home-trusted-redirect home-trusted-opaque home-trusted-origin home-trusted-metacopy home-trusted-redirect home-trusted-whiteout tmp-trusted-redirect tmp-trusted-opaque tmp-trusted-origin tmp-trusted-metacopy tmp-trusted-redirect tmp-trusted-whiteout"
	if got := try(t.Context(), live, sandbox.Hand, args...); got != want {
		t.Errorf("setting:\ngot  %s\nwant %s", got, want)
	}

	look, readTraps := []string{"attempt", "list"}, []string{"attempt", "read"}
	for _, dir := range dirs {
		look, readTraps = append(look, dir+"/trap"), append(readTraps, dir+"/trapfile")
	}
	fork, err := live.Fork(t.Context(), sandbox.ForkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []struct {
		name string
		in   *sandbox.Session
		box  sandbox.Box
		user string // what an ordinary user reads
	}{
		{"hand", live, sandbox.Hand, "ok: work home tmp"},
		{"eye", live, sandbox.Eye, "ok: work home; EPERM: tmp"},
		{"fork", fork, sandbox.Hand, "ok: work; EPERM: home tmp"},
	} {
		if got, want := try(t.Context(), place.in, place.box, look...), "[]: work home tmp"; got != want {
			t.Errorf("in the %s:\ngot  %s\nwant %s", place.name, got, want)
		}
		want := "ok: work home tmp" // the file's own content; see attempt's xattr
		if s.kind.name == "user" {
			want = place.user
		}
		if got := try(t.Context(), place.in, place.box, readTraps...); got != want {
			t.Errorf("in the %s, files:\ngot  %s\nwant %s", place.name, got, want)
		}
	}
	if err := fork.Close(); err != nil {
		t.Error(err)
	}

	changes, err := live.Changes(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()
	var paths []string
	for _, c := range changes.Changes {
		paths = append(paths, c.Path)
	}
	if got, want := strings.Join(paths, " "), "trap trapfile"; got != want {
		t.Errorf("the changes are %q, want %q", got, want)
	}
	report, err := live.Apply(t.Context(), changes, sandbox.ApplyOptions{})
	if err != nil || len(report.Failed) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	after := describeTree(t, workspace)
	for _, line := range strings.Split(before, "\n") {
		if !strings.Contains(after, line) {
			t.Errorf("of the workspace %q is missing in\n%s", line, after)
		}
	}
	for _, name := range []string{"trap", "trapfile"} {
		buf := make([]byte, 4096)
		n, err := unix.Llistxattr(filepath.Join(workspace, name), buf)
		if err != nil || strings.Contains(string(buf[:n]), "overlay") {
			t.Errorf("%s has left with the attributes %q, %v", name, buf[:n], err)
		}
	}
}
