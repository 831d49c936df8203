package starter

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What the kernel does, as containers rely on it. Each fact is a scene that a
// copy of this program plays in a mount namespace of its own; an ordinary
// user's is in a user namespace too.

const envScene, envDir = "STARTER_TEST_SCENE", "STARTER_TEST_DIR"

var scenes = map[string]func(dir string) error{
	"OverlayTakesExplicitOptions":             overlayTakesExplicitOptions,
	"RedirectIsNotFollowed":                   redirectIsNotFollowed,
	"LowerByDescriptorMayHaveAColon":          lowerByDescriptorMayHaveAColon,
	"300LowersMountBut200Descriptors":         manyLowersMount,
	"OverlaysStackTwiceOnly":                  overlaysStackTwiceOnly,
	"WithoutCapabilitiesNothingIsMounted":     withoutCapabilitiesNothingIsMounted,
	"MountSetattrIsRecursive":                 mountSetattrIsRecursive,
	"ReconfiguredOverlayShowsWhatWasReplaced": reconfiguredOverlayShowsWhatWasReplaced,
	"RenameOfALowerDirectoryIsEXDEV":          renameOfALowerDirectory,
	"HardLinksOfTheLowerSplitOnWrite":         hardLinksSplit,
	"CopyUpOfAnUnmappedGroupIsEOVERFLOW":      copyUpOfAnUnmappedGroup,
	"MountOfAColonByNameFails":                colonByNameFails,
}

func TestMain(m *testing.M) {
	if scene := scenes[os.Getenv(envScene)]; scene != nil {
		runtime.LockOSThread()
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err == nil {
			err = scene(os.Getenv(envDir))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestKernel(t *testing.T) {
	for name := range scenes {
		t.Run(name, func(t *testing.T) {
			uid, gid := os.Getuid(), os.Getgid()
			dir := t.TempDir()
			attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
			if name == "CopyUpOfAnUnmappedGroupIsEOVERFLOW" {
				if uid != 0 {
					t.Skip("skipped: only root can make a file of a group that is not its own")
				}
				uid, gid = 60777, 60777
				prepareUnmappedGroup(t, dir, uid, gid)
			}
			if uid != 0 {
				attr.Cloneflags |= unix.CLONE_NEWUSER
				attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
				attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
				attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true}
				for c := range Capabilities() {
					attr.AmbientCaps = append(attr.AmbientCaps, uintptr(c))
				}
			}
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), envScene+"="+name, envDir+"="+dir)
			cmd.SysProcAttr = attr
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			// An overlay's work directory has no mode.
			if out, err := exec.Command("chmod", "-R", "u+rwX", dir).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// options are those of all overlays (package sandbox).
func options(userxattr bool) string {
	o := "index=off,metacopy=off,redirect_dir=nofollow,xino=off"
	if userxattr {
		o += ",userxattr"
	}
	return o
}

func isUser() bool { return os.Getuid() != 0 }

// dirs makes directories.
func dirs(dir string, names ...string) error {
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// overlayOn mounts one at dir/merged, of dir/lower, dir/upper and dir/work.
func overlayOn(dir string, userxattr bool) error {
	if err := dirs(dir, "lower", "upper", "work", "merged"); err != nil {
		return err
	}
	return unix.Mount("overlay", dir+"/merged", "overlay", 0, fmt.Sprintf("lowerdir=%s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work,%s", dir, options(userxattr)))
}

func write(path, content string) error { return os.WriteFile(path, []byte(content), 0o644) }

func wantContent(path, want string) error {
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		return fmt.Errorf("%s: %q, %v; want %q", path, got, err, want)
	}
	return nil
}

func overlayTakesExplicitOptions(dir string) error {
	kinds := []bool{true}
	if !isUser() {
		kinds = append(kinds, false)
	}
	for _, userxattr := range kinds {
		at := fmt.Sprintf("%s/%v", dir, userxattr)
		if err := errors.Join(dirs(at, "lower/d"), write(at+"/lower/d/f", "below")); err != nil {
			return err
		}
		if err := overlayOn(at, userxattr); err != nil {
			return fmt.Errorf("userxattr %v: %w", userxattr, err)
		}
		if err := errors.Join(write(at+"/merged/d/f", "above"), wantContent(at+"/upper/d/f", "above"), wantContent(at+"/lower/d/f", "below"), os.RemoveAll(at+"/merged/d")); err != nil {
			return err
		}
		if info, err := os.Lstat(at + "/upper/d"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return fmt.Errorf("what was removed is no whiteout: %v, %v", info, err)
		}
	}
	return nil
}

// Nobody can lead an overlay elsewhere in its lower by an attribute.
func redirectIsNotFollowed(dir string) error {
	if err := errors.Join(dirs(dir, "lower/secret", "upper/d"), write(dir+"/lower/secret/f", "secret")); err != nil {
		return err
	}
	attr := "trusted.overlay.redirect"
	if isUser() {
		attr = "user.overlay.redirect"
	}
	if err := unix.Setxattr(dir+"/upper/d", attr, []byte("/secret"), 0); err != nil {
		return fmt.Errorf("%s: %w", attr, err)
	}
	if err := overlayOn(dir, isUser()); err != nil {
		return err
	}
	if got, err := os.ReadFile(dir + "/merged/d/f"); err == nil {
		return fmt.Errorf("the redirect was followed: %s", got)
	}
	if isUser() {
		return nil // redirect_dir=on is not for a user's overlays
	}
	// It would be, otherwise.
	if err := unix.Unmount(dir+"/merged", 0); err != nil {
		return err
	}
	if err := unix.Mount("overlay", dir+"/merged", "overlay", 0, fmt.Sprintf("lowerdir=%s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work,redirect_dir=on", dir)); err != nil {
		return err
	}
	return wantContent(dir+"/merged/d/f", "secret")
}

func mountByDescriptors(dir string, lowers []string) error {
	if err := dirs(dir, "upper", "work", "merged"); err != nil {
		return err
	}
	var names []string
	for _, lower := range lowers {
		fd, err := unix.Open(lower, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		names = append(names, fdPath(fd))
	}
	return unix.Mount("overlay", dir+"/merged", "overlay", 0, "lowerdir="+strings.Join(names, ":")+
		",upperdir="+dir+"/upper,workdir="+dir+"/work,"+options(isUser()))
}

func lowerByDescriptorMayHaveAColon(dir string) error {
	lower := dir + `/a:b,c\d`
	if err := errors.Join(dirs(lower, "."), write(lower+"/f", "x"), mountByDescriptors(dir, []string{lower})); err != nil {
		return err
	}
	return wantContent(dir+"/merged/f", "x")
}

func colonByNameFails(dir string) error {
	if err := dirs(dir, "a:b", "upper", "work", "merged"); err != nil {
		return err
	}
	err := unix.Mount("overlay", dir+"/merged", "overlay", 0, "lowerdir="+dir+"/a:b,upperdir="+dir+"/upper,workdir="+dir+"/work,"+options(isUser()))
	if err == nil {
		return errors.New("a colon by name means nothing any more")
	}
	return nil
}

// mount(2) takes a page of options: 300 names if they are short, but not as
// many descriptors.
func manyLowersMount(dir string) error {
	var lowers, names []string
	for i := range 300 {
		lower := fmt.Sprintf("%s/%d", dir, i)
		if err := errors.Join(dirs(lower, "."), write(fmt.Sprintf("%s/f%d", lower, i), "x")); err != nil {
			return err
		}
		lowers, names = append(lowers, lower), append(names, fmt.Sprint(i))
	}
	if err := errors.Join(dirs(dir, "upper", "work", "merged"), os.Chdir(dir)); err != nil {
		return err
	}
	if err := unix.Mount("overlay", "merged", "overlay", 0, "lowerdir="+strings.Join(names, ":")+",upperdir=upper,workdir=work,"+options(isUser())); err != nil {
		return fmt.Errorf("by short names: %w", err)
	}
	if err := errors.Join(wantContent("merged/f0", "x"), wantContent("merged/f299", "x"), unix.Unmount("merged", 0)); err != nil {
		return err
	}
	if err := mountByDescriptors(dir, lowers); !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("300 descriptors: %v, want EINVAL", err)
	}
	if err := mountByDescriptors(dir, lowers[100:]); err != nil {
		return fmt.Errorf("200 descriptors: %w", err)
	}
	return errors.Join(wantContent(dir+"/merged/f100", "x"), wantContent(dir+"/merged/f299", "x"))
}

func overlaysStackTwiceOnly(dir string) error {
	lower := dir + "/0"
	if err := dirs(lower, "."); err != nil {
		return err
	}
	for i := 1; ; i++ {
		at := fmt.Sprintf("%s/%d", dir, i)
		// The uppers must lie on no overlay.
		err := dirs(at, ".")
		if err == nil {
			err = mountByDescriptors(at, []string{lower})
		}
		switch {
		case i <= 2 && err != nil:
			return fmt.Errorf("depth %d: %w", i, err)
		case i == 3 && err == nil:
			return errors.New("a third one was mounted")
		case i == 3 && !errors.Is(err, unix.EINVAL):
			return fmt.Errorf("depth 3: %w, want EINVAL", err)
		case i == 3:
			return nil
		}
		lower = at + "/merged"
	}
}

func withoutCapabilitiesNothingIsMounted(dir string) error {
	for what, add := range map[string]func(p *program){
		"mount":   func(p *program) { p.do("mounting", unix.SYS_MOUNT, "tmpfs", dir, "tmpfs", 0, 0) },
		"umount":  func(p *program) { p.do("mounting", unix.SYS_UMOUNT2, "/proc", unix.MNT_DETACH) },
		"fsopen":  func(p *program) { p.do("mounting", unix.SYS_FSOPEN, "tmpfs", 0) },
		"unshare": func(p *program) { p.do("mounting", unix.SYS_UNSHARE, unix.CLONE_NEWNS) },
		"clone the tree": func(p *program) {
			p.do("mounting", unix.SYS_OPEN_TREE, unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
		},
	} {
		p, err := newProgram()
		if err != nil {
			return err
		}
		p.dropCapabilities()
		add(p)
		pid, err := p.fork(0, nil)
		if err != nil {
			return err
		}
		_, err = p.wait()
		reap(pid)
		if !errors.Is(err, unix.EPERM) || !strings.HasPrefix(err.Error(), "mounting") {
			return fmt.Errorf("%s: %v, want EPERM", what, err)
		}
	}
	return nil
}

func mountSetattrIsRecursive(dir string) error {
	for _, at := range []string{dir, dir + "/in", dir + "/in/in"} {
		if err := errors.Join(dirs(at, "."), unix.Mount("tmpfs", at, "tmpfs", 0, "")); err != nil {
			return err
		}
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, attr); err != nil {
		return err
	}
	if err := write(dir+"/in/in/f", ""); err != nil {
		return fmt.Errorf("without AT_RECURSIVE: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, dir, unix.AT_RECURSIVE, attr); err != nil {
		return err
	}
	for _, at := range []string{dir, dir + "/in", dir + "/in/in"} {
		if err := write(at+"/g", ""); !errors.Is(err, unix.EROFS) {
			return fmt.Errorf("%s: %v, want EROFS", at, err)
		}
	}
	return nil
}

func reconfiguredOverlayShowsWhatWasReplaced(dir string) error {
	if err := errors.Join(dirs(dir, "lower"), write(dir+"/lower/f", "old"), overlayOn(dir, isUser())); err != nil {
		return err
	}
	if err := wantContent(dir+"/merged/f", "old"); err != nil {
		return err
	}
	// As an editor saves.
	if err := errors.Join(write(dir+"/lower/f~", "new"), os.Rename(dir+"/lower/f~", dir+"/lower/f")); err != nil {
		return err
	}
	if err := wantContent(dir+"/merged/f", "old"); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	fd, err := unix.Fspick(unix.AT_FDCWD, dir+"/merged", unix.FSPICK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fspick: %w", err)
	}
	if err := unix.FsconfigReconfigure(fd); err != nil {
		return fmt.Errorf("reconfiguring: %w", err)
	}
	return wantContent(dir+"/merged/f", "new")
}

func renameOfALowerDirectory(dir string) error {
	if err := errors.Join(dirs(dir, "lower/d/e"), overlayOn(dir, isUser())); err != nil {
		return err
	}
	if err := os.Rename(dir+"/merged/d", dir+"/merged/x"); !errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("%v, want EXDEV", err)
	}
	// One of the upper is like any other.
	return errors.Join(os.Mkdir(dir+"/merged/new", 0o755), os.Rename(dir+"/merged/new", dir+"/merged/newer"))
}

func hardLinksSplit(dir string) error {
	if err := errors.Join(dirs(dir, "lower"), write(dir+"/lower/a", "one"), os.Link(dir+"/lower/a", dir+"/lower/b"), overlayOn(dir, isUser())); err != nil {
		return err
	}
	if err := errors.Join(wantContent(dir+"/merged/b", "one"), write(dir+"/merged/a", "two")); err != nil {
		return err
	}
	return errors.Join(wantContent(dir+"/merged/a", "two"), wantContent(dir+"/merged/b", "one"), wantContent(dir+"/lower/a", "one"))
}

// prepareUnmappedGroup makes, by root, files of a user, one of them of a group
// that the user's namespace does not know.
func prepareUnmappedGroup(t *testing.T, dir string, uid, gid int) {
	t.Helper()
	for at := dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(dirs(dir, "lower"), write(dir+"/lower/own", ""), write(dir+"/lower/other", ""),
		os.Chown(dir, uid, gid), os.Chown(dir+"/lower", uid, gid),
		os.Chown(dir+"/lower/own", uid, gid), os.Chown(dir+"/lower/other", uid, gid+1))
	if err != nil {
		t.Fatal(err)
	}
}

func copyUpOfAnUnmappedGroup(dir string) error {
	if err := overlayOn(dir, true); err != nil {
		return err
	}
	if err := write(dir+"/merged/own", "x"); err != nil {
		return err
	}
	if err := write(dir+"/merged/other", "x"); !errors.Is(err, unix.EOVERFLOW) {
		return fmt.Errorf("%v, want EOVERFLOW", err)
	}
	return nil
}

// Sessions are started from one thread that lives as long as the process.
func TestDeathSignalFollowsTheThread(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	var start func()
	start = func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if unix.Gettid() == os.Getpid() {
			// But not the main one.
			other := make(chan struct{})
			go func() { defer close(other); start() }()
			<-other
			return
		}
		started <- cmd.Start()
	}
	go start()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait() // ends although this process does not
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("%v", err)
	}
}

// RLIMIT_NPROC binds users, and not uid 0, without any capability in the host's
// user namespace. So cgroups hold root's sessions.
func TestProcessLimitDoesNotBindUID0(t *testing.T) {
	cmd := exec.Command("bash", "-c", "ulimit -u 1 && /bin/true && echo forked")
	uid := os.Getuid()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if forked := err == nil && strings.Contains(string(out), "forked"); forked != (uid == 0) {
		t.Errorf("uid %d: forked %v: %v, %s", uid, forked, err, out)
	}
}
