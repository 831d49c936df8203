package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// The session's directory:
//
//	session.json   Settings
//	lock           Owner; held by OFD lock
//	audit.jsonl    the record
//	layers/NAME/   upper and work of a layer: workspace, home, tmp, expose-N
//	layers/policy  what the session must not see, between upper and base
//	eye/           the private /tmp of the eye; emptied at each start
//	forks/ID/      layers of forks; emptied at each start
//	driver/        the driver's own
//	absent.json    what must not appear in a direct workspace, while it is live
//	quarantine/    what appeared there
//
// All of it is 0700 and never visible in a container; what the agent writes
// comes to lie in the uppers and is hostile to whoever reads it.

// describeLayers says which layers the session has.
func (s *Session) describeLayers() {
	s.layers = []layer{
		{name: "home", dest: s.who.home, plain: true},
		{name: "tmp", dest: "/tmp", plain: true},
	}
	if s.Mode == Cow {
		ws := layer{name: "workspace", dest: s.Workspace, like: s.Workspace, lower: []string{s.Workspace}}
		if len(s.Denied) > 0 {
			ws.lower = []string{s.path(policyDir), s.Workspace}
		}
		s.layers = append(s.layers, ws)
	}
	for i, e := range s.exposedDirs() {
		if e.Cow {
			s.layers = append(s.layers, layer{name: fmt.Sprintf("expose-%d", i), dest: e.Path, like: e.Path, lower: []string{e.Path}})
		}
	}
	for i := range s.layers {
		l := &s.layers[i]
		l.upper, l.work = s.path("layers/"+l.name+"/upper"), s.path("layers/"+l.name+"/work")
	}
}

// prepareLayers makes the directories that the session's mounts need.
func (s *Session) prepareLayers() error {
	root, err := beneath.Open(s.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := removeScratch(root); err != nil {
		return fmt.Errorf("removing what the last run left: %w", err)
	}
	for _, name := range []string{"layers", "driver"} {
		if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("preparing the layers: %w", err)
		}
	}
	for i := range s.layers {
		if err := s.prepareLayer(&s.layers[i]); err != nil {
			return fmt.Errorf("preparing the layer %s: %w", s.layers[i].name, err)
		}
	}
	if s.Mode == Cow && len(s.Denied) > 0 {
		if err := s.writePolicy(root); err != nil {
			return fmt.Errorf("hiding denied paths: %w", err)
		}
	}
	return s.makeMountpoints()
}

// removeScratch removes what is of one run only: of forks, and the eye's own.
func removeScratch(root *beneath.Dir) error {
	return errors.Join(root.RemoveAll("eye"), root.RemoveAll("forks"))
}

// prepareLayer makes a layer's directories, unless it has them. The upper
// begins with the mode, the owner and the times of what it comes to lie on: an
// overlay shows those of the topmost directory.
func (s *Session) prepareLayer(l *layer) error {
	if _, err := os.Lstat(l.upper); err == nil {
		return nil
	}
	mode, uid, gid := uint32(0o700), s.who.uid, s.who.gid
	var times []unix.Timespec
	if l.dest == "/tmp" {
		mode = 0o1777
	}
	if l.like != "" {
		var st unix.Stat_t
		if err := unix.Stat(l.like, &st); err != nil {
			return err
		}
		mode, uid, gid, times = st.Mode&0o7777, st.Uid, st.Gid, []unix.Timespec{st.Atim, st.Mtim}
	}
	if err := os.MkdirAll(filepath.Dir(l.upper), 0o700); err != nil {
		return err
	}
	if !l.plain {
		if err := os.Mkdir(l.work, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	// Complete before it has its name.
	tmp := l.upper + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	if s.who.switched {
		if err := os.Lchown(tmp, int(uid), int(gid)); err != nil {
			return err
		}
	}
	if err := unix.Chmod(tmp, mode); err != nil {
		return err
	}
	if times != nil {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, tmp, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return os.Rename(tmp, l.upper)
}

// makeMountpoints makes the directories, in the layers, on which other layers
// and exposed directories are mounted: a workspace below /tmp, for one. What
// the agent has put in their place is removed.
func (s *Session) makeMountpoints() error {
	for _, point := range s.mountpoints() {
		l := s.layerAbove(point)
		if l == nil || !l.plain {
			continue // on the root filesystem, or on what the host has there
		}
		upper, err := beneath.Open(l.upper)
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(point, l.dest+"/")
		err = s.makeMountpoint(upper, rel)
		upper.Close()
		if err != nil {
			return fmt.Errorf("a place to mount %s: %w", point, err)
		}
	}
	return nil
}

// layerAbove returns the innermost layer that a path lies in, other than as its
// root.
func (s *Session) layerAbove(path string) *layer {
	var above *layer
	for i := range s.layers {
		l := &s.layers[i]
		if path != l.dest && within(path, l.dest) && (above == nil || len(l.dest) > len(above.dest)) {
			above = l
		}
	}
	return above
}

func (s *Session) makeMountpoint(upper *beneath.Dir, rel string) error {
	for i := 0; i <= len(rel); i++ {
		if i < len(rel) && rel[i] != '/' {
			continue
		}
		name := rel[:i]
		if st, err := upper.Lstat(name); err == nil {
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				continue
			}
			if err := upper.RemoveAll(name); err != nil {
				return err
			}
		}
		if err := upper.Mkdir(name, 0o755); err != nil {
			return err
		}
		if s.who.switched {
			if err := chown(upper, name, s.who.uid, s.who.gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// writePolicy makes the layer that hides the denied paths: an unreadable empty
// file where a file is, a whiteout where nothing is or a directory. It is made
// anew at each start; the directories above a denied path look like the
// workspace's own.
func (s *Session) writePolicy(root *beneath.Dir) error {
	if err := root.RemoveAll(policyDir); err != nil {
		return err
	}
	if err := root.Mkdir(policyDir, 0o700); err != nil {
		return err
	}
	policy, err := root.OpenDir(policyDir)
	if err != nil {
		return err
	}
	defer policy.Close()
	return s.denyAll(policy, slices.Sorted(slices.Values(s.Denied)))
}

// denyAppeared hides the denied paths whose directories the user has made since
// the session started. It is done before the view is made fresh.
func (s *Session) denyAppeared() error {
	if len(s.unplaced) == 0 {
		return nil
	}
	policy, err := beneath.Open(s.path(policyDir))
	if err != nil {
		return err
	}
	defer policy.Close()
	return s.denyAll(policy, s.unplaced)
}

func (s *Session) denyAll(policy *beneath.Dir, denied []string) error {
	base, err := beneath.OpenReal(s.Workspace)
	if err != nil {
		return err
	}
	defer base.Close()
	if err := likeBase(base, policy, "."); err != nil {
		return err
	}
	s.unplaced = nil
	for _, path := range denied {
		rel, ok := strings.CutPrefix(path, s.Workspace+"/")
		if !ok || !beneath.Valid(rel) {
			return fmt.Errorf("%s is not in the workspace", path)
		}
		placed, err := deny(base, policy, rel)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !placed {
			s.unplaced = append(s.unplaced, path)
		}
	}
	return nil
}

// refuse says why a path of the workspace may never leave: what the session made
// under a denied name is its own, and hides nothing of the user's.
func (s *Stored) refuse(path string) string {
	for _, denied := range s.Denied {
		if within(s.Workspace+"/"+path, denied) {
			return "denied by policy"
		}
	}
	return ""
}

// deny puts into the policy layer what hides one path. It reports false where the
// path's directory does not exist, so that there is no place for it yet.
func deny(base, policy *beneath.Dir, rel string) (placed bool, err error) {
	for i := range len(rel) {
		if rel[i] != '/' {
			continue
		}
		dir := rel[:i]
		st, err := base.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return false, errors.New("a symbolic link leads there; deny what it points to")
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return false, nil
		}
		if over, err := policy.Lstat(dir); err == nil {
			if over.Mode&unix.S_IFMT != unix.S_IFDIR {
				return true, nil // a directory above is denied as a whole
			}
			continue
		}
		if err := policy.Mkdir(dir, 0o700); err != nil {
			return false, err
		}
		if err := likeBase(base, policy, dir); err != nil {
			return false, err
		}
	}
	st, err := base.Lstat(rel)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		if st.Nlink > 1 {
			return false, errors.New("it has other names (hard links), which the session would still see; deny a file with one name, or copy it")
		}
		f, err := policy.OpenFile(rel, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0)
		if errors.Is(err, fs.ErrExist) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		return true, f.Close()
	}
	if err := policy.Whiteout(rel); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return true, nil
}

// likeBase gives a directory of the policy layer the mode and owner that the
// workspace's has.
func likeBase(base, policy *beneath.Dir, dir string) error {
	st, err := base.Lstat(dir)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := chown(policy, dir, st.Uid, st.Gid); err != nil {
			return err
		}
	}
	f, err := policy.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fchmod(int(f.Fd()), st.Mode&0o7777)
}

func chown(d *beneath.Dir, name string, uid, gid uint32) error {
	n, err := d.Hold(name)
	if err != nil {
		return err
	}
	defer n.Close()
	return n.Chown(int(uid), int(gid))
}
