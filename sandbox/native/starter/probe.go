package starter

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// ArgProbe is the argument by which the guest's executable becomes the probe.
// It is followed by a directory to put layers in and by one to put below them.
const ArgProbe = "probe"

// A Probe is what the kernel did when it was asked to, in new namespaces: an
// errno for each thing that was tried, 0 for success.
type Probe struct {
	Private    unix.Errno `json:"private"`     // the first mount of all
	Tmpfs      unix.Errno `json:"tmpfs"`       //
	Proc       unix.Errno `json:"proc"`        // a new /proc
	Devpts     unix.Errno `json:"devpts"`      //
	Overlay    unix.Errno `json:"overlay"`     // with its upper in the state directory, the workspace below
	OverlayTmp unix.Errno `json:"overlay_tmp"` // with its upper on a tmpfs: whether it is the directory
	Attributes unix.Errno `json:"attributes"`  // mount_setattr
	UserNS     unix.Errno `json:"userns"`      // another user namespace in the first
}

// ProbeMain tries what a session needs, in the mount and PID namespace that it
// was started in, and prints a Probe as JSON.
func ProbeMain(state, workspace string, out io.Writer) int {
	runtime.LockOSThread()
	var p Probe
	err := p.run(state, workspace)
	if err == nil {
		err = json.NewEncoder(out).Encode(p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sallyport-guest:", err)
		return 1
	}
	return 0
}

func errnoFrom(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e := errnoOf(err); e != 0 {
		return e
	}
	return unix.EIO
}

func (p *Probe) run(state, workspace string) error {
	dir, err := os.MkdirTemp(state, ".probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at := func(name string) string {
		path := filepath.Join(dir, name)
		os.Mkdir(path, 0o700)
		return path
	}
	mount := func(source, target, kind, options string) unix.Errno {
		err := unix.Mount(source, target, kind, 0, options)
		if err == nil {
			unix.Unmount(target, unix.MNT_DETACH)
		}
		return errnoFrom(err)
	}
	if p.Private = errnoFrom(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); p.Private != 0 {
		return nil // nor will any other be allowed
	}
	merged := at("merged")
	p.Tmpfs = mount("tmpfs", merged, "tmpfs", "")
	p.Proc = mount("proc", merged, "proc", "")
	p.Devpts = mount("devpts", merged, "devpts", "newinstance,ptmxmode=0666")
	options := "index=off,metacopy=off,redirect_dir=nofollow,xino=off"
	if os.Geteuid() != 0 {
		options += ",userxattr"
	}
	overlay := func(upper, work string) unix.Errno {
		// Descriptors, as sessions do it: a colon in a path means nothing.
		var fds [3]int
		for i, d := range []string{workspace, upper, work} {
			var err error
			if fds[i], err = unix.Open(d, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return errnoFrom(err)
			}
			defer unix.Close(fds[i])
		}
		return mount("overlay", merged, "overlay", fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,%s", fdPath(fds[0]), fdPath(fds[1]), fdPath(fds[2]), options))
	}
	p.Overlay = overlay(at("upper"), at("work"))
	memory := at("memory")
	if err := unix.Mount("tmpfs", memory, "tmpfs", 0, ""); err == nil {
		p.OverlayTmp = overlay(at("memory/upper"), at("memory/work"))
		p.Attributes = errnoFrom(unix.MountSetattr(unix.AT_FDCWD, memory, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
		unix.Unmount(memory, unix.MNT_DETACH)
	}
	program, err := newProgram()
	if err != nil {
		return err
	}
	program.do("a user namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	pid, err := program.fork(0, nil)
	if err != nil {
		return err
	}
	_, err = program.wait()
	reap(pid)
	p.UserNS = errnoFrom(err)
	return nil
}
