// Package doctor finds out what a machine can do for a session, by doing it,
// and says what each lack means and how to cure it. It also makes the changes
// to a machine that need root ([Setup]).
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native"
)

// A Status says how a check came out.
type Status string

const (
	OK   Status = "ok"
	Less Status = "less" // sessions start, with less than all
	Fail Status = "fail" // no session starts
	Info Status = "info" // nothing depends on it
)

// A Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`           // what there is
	Means  string `json:"means,omitempty"` // what the lack of it means
	Cure   string `json:"cure,omitempty"`
}

// Options say what is looked at.
type Options struct {
	Store     *sandbox.Store
	Workspace string // a directory to be the base of an overlay
	Driver    native.Driver
}

// Run makes all checks. It takes a fraction of a second.
func Run(ctx context.Context, o Options) []Check {
	var checks []Check
	checks = append(checks, kernel(kernelCalls)...)
	guest := guestCheck(o.Driver)
	checks = append(checks, guest)
	if guest.Status == OK {
		probe, err := o.Driver.Probe(ctx, o.Store.Dir(), o.Workspace)
		checks = append(checks, namespaces(probe, err)...)
		if err == nil {
			checks = append(checks, overlay(probe, o.Store.Dir(), o.Workspace)...)
		}
	}
	checks = append(checks, landlock(sandbox.LandlockABI()), seccompCheck(seccompHas(unix.SECCOMP_RET_ERRNO)))
	held, kind, err := native.TryCgroup()
	checks = append(checks, cgroups(held, kind, err)...)
	checks = append(checks, disk(o.Store.Dir()))
	if guest.Status == OK {
		checks = append(checks, session(ctx, o)...)
	}
	return append(append(checks, ripgrep()), engines(ctx)...)
}

// Healthy reports whether sessions start.
func Healthy(checks []Check) bool {
	for _, c := range checks {
		if c.Status == Fail {
			return false
		}
	}
	return true
}

// A call of the kernel that sessions cannot do without.
type kernelCall struct {
	name  string
	since string
	probe func() error // ENOSYS means that it is missing
}

var kernelCalls = []kernelCall{
	{"openat2", "5.6", func() error {
		fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
	{"close_range", "5.9", func() error { return unix.CloseRange(1<<30, 1<<30, 0) }},
	{"mount_setattr", "5.12", func() error {
		return unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{})
	}},
	{"pidfd_open", "5.3", func() error {
		fd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
	{"fsopen", "5.2", func() error {
		fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
}

func kernel(calls []kernelCall) []Check {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return []Check{{Name: "kernel", Status: Fail, Found: err.Error()}}
	}
	release := unix.ByteSliceToString(name.Release[:])
	c := Check{Name: "kernel", Status: OK, Found: "Linux " + release}
	var missing []string
	for _, call := range calls {
		if errors.Is(call.probe(), unix.ENOSYS) {
			missing = append(missing, fmt.Sprintf("%s (Linux %s)", call.name, call.since))
		}
	}
	if len(missing) > 0 {
		c.Status, c.Found = Fail, c.Found+", without "+strings.Join(missing, ", ")
		c.Means, c.Cure = "no session starts", "use Linux 5.13 or newer; in a container, its seccomp profile may hide these calls"
	}
	return []Check{c}
}

func guestCheck(d native.Driver) Check {
	path, err := d.FindGuest()
	if err != nil {
		return Check{Name: "guest", Status: Fail, Found: err.Error(), Means: "no session starts", Cure: "make install puts sallyport and sallyport-guest beside each other"}
	}
	return Check{Name: "guest", Status: OK, Found: path}
}

func namespaces(p *native.Probe, err error) []Check {
	c := Check{Name: "namespaces", Status: OK, Found: "user, mount and PID namespaces can be made, and mounted in"}
	if err != nil {
		c.Status, c.Found, c.Means = Fail, err.Error(), "no session starts"
		return []Check{c, subordinate(os.Geteuid(), "/etc/subuid", "/etc/subgid")}
	}
	fail := func(what string, errno unix.Errno, cure string) {
		if errno != 0 && c.Status == OK {
			c.Status, c.Found, c.Means, c.Cure = Fail, fmt.Sprintf("%s: %v", what, errno), "no session starts", cure
		}
	}
	fail("namespaces can be made, but the first mount in them is refused", p.Private, native.WhyNoNamespaces())
	fail("mounting a tmpfs", p.Tmpfs, native.WhyNoNamespaces())
	fail("mounting a new /proc", p.Proc, "this machine's or container's /proc is partly covered; start the container with --security-opt systempaths=unconfined")
	fail("mounting devpts", p.Devpts, native.WhyNoNamespaces())
	fail("making mounts read-only", p.Attributes, "use Linux 5.12 or newer")
	fail("a user namespace inside another", p.UserNS, "raise the sysctl user.max_user_namespaces")
	return []Check{c, subordinate(os.Geteuid(), "/etc/subuid", "/etc/subgid")}
}

// subordinate says whether the user has subordinate ids. Sessions need none.
func subordinate(uid int, files ...string) Check {
	c := Check{Name: "subordinate ids", Status: Info, Found: "not needed"}
	if uid == 0 {
		return c
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !hasEntry(string(data), uid) {
			c.Found = fmt.Sprintf("%s has none for you; sessions need none, but files of other groups cannot be changed in one", file)
			return c
		}
	}
	c.Found = "there are some; sessions do not use them"
	return c
}

func hasEntry(data string, uid int) bool {
	name := ""
	if u, err := user.LookupId(fmt.Sprint(uid)); err == nil {
		name = u.Username
	}
	for line := range strings.Lines(data) {
		who, _, _ := strings.Cut(line, ":")
		if who == name && name != "" || who == fmt.Sprint(uid) {
			return true
		}
	}
	return false
}

func overlay(p *native.Probe, state, workspace string) []Check {
	c := Check{Name: "overlay", Status: OK, Found: fmt.Sprintf("layers in %s work above %s", state, workspace)}
	switch {
	case p.Overlay == 0:
	case p.OverlayTmp == 0 && p.Overlay == unix.EINVAL:
		c.Status, c.Found = Fail, fmt.Sprintf("the file system of %s (%s) cannot hold a layer", state, fsName(state))
		c.Means = "no session starts"
		c.Cure = "set XDG_STATE_HOME to a directory on a local file system such as ext4, xfs or btrfs; overlays, NFS and FUSE cannot be written as a layer"
	case p.OverlayTmp == unix.ENODEV:
		c.Status, c.Found, c.Means, c.Cure = Fail, "this kernel has no overlay file system", "no session starts with --workspace cow", "load it: modprobe overlay"
	case p.OverlayTmp != 0 && os.Geteuid() != 0:
		c.Status, c.Found = Fail, fmt.Sprintf("mounting an overlay as an ordinary user: %v", p.OverlayTmp)
		c.Means = "no session starts with --workspace cow"
		c.Cure = fmt.Sprintf("use Linux 5.11 or newer; if %s is itself on overlays, they are stacked too deep: choose another workspace", workspace)
	default:
		c.Status, c.Found = Fail, fmt.Sprintf("mounting an overlay of %s: %v", workspace, p.Overlay)
		c.Means = "no session starts with --workspace cow"
		c.Cure = fmt.Sprintf("%s is on %s; if it is on overlays, or has others mounted in it, choose another workspace", workspace, fsName(workspace))
	}
	return []Check{c}
}

// Names of file systems by their magic number (statfs(2)).
var fsNames = map[int64]string{
	0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x01021994: "tmpfs", 0x794c7630: "overlay", 0x6969: "nfs",
	0x65735546: "fuse", 0xf2f52010: "f2fs", 0xff534d42: "cifs", 0xfe534d42: "smb", 0x2fc12fc1: "zfs", 0xf15f: "ecryptfs",
	0x01021997: "9p",
}

func fsName(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err.Error()
	}
	if name := fsNames[int64(uint32(st.Type))]; name != "" {
		return name
	}
	return fmt.Sprintf("file system %#x", uint32(st.Type))
}

func landlock(abi int) Check {
	switch {
	case abi >= 2:
		return Check{Name: "Landlock", Status: OK, Found: fmt.Sprintf("ABI %d", abi)}
	case abi == 1:
		return Check{
			Name: "Landlock", Status: Less, Found: "ABI 1, which forbids every rename from one directory to another and is not used",
			Means: "what a call may write cannot be narrowed; debuggers cannot trace", Cure: "use Linux 5.19 or newer",
		}
	}
	return Check{
		Name: "Landlock", Status: Less, Found: "none",
		Means: "what a call may write cannot be narrowed; debuggers cannot trace",
		Cure:  "use Linux 5.19 or newer, built with Landlock and with landlock among the lsm= of its command line",
	}
}

func seccompCheck(has bool) Check {
	if !has {
		return Check{Name: "seccomp", Status: Fail, Found: "no filters", Means: "no session starts", Cure: "use a kernel built with CONFIG_SECCOMP_FILTER"}
	}
	return Check{Name: "seccomp", Status: OK, Found: "filters"}
}

func cgroups(held []string, kind string, err error) []Check {
	c := Check{Name: "cgroups", Status: OK}
	if err != nil {
		c.Status, c.Found = Less, err.Error()
		c.Means = "limits on memory and processes hold for each process, not for the session; --memory, --cpus and --pids are refused"
		c.Cure = native.CgroupCure()
		return []Check{c}
	}
	c.Found = kind + " holds " + strings.Join(held, ", ")
	return []Check{c}
}

func disk(state string) Check {
	var st unix.Statfs_t
	if err := unix.Statfs(state, &st); err != nil {
		return Check{Name: "disk", Status: Fail, Found: err.Error()}
	}
	free := int64(st.Bavail) * st.Bsize
	c := Check{Name: "disk", Status: OK, Found: fmt.Sprintf("%d MiB free for sessions in %s", free>>20, state)}
	if free < sandbox.DiskReserve {
		c.Status, c.Means, c.Cure = Fail, "no session starts", "make room, or set XDG_STATE_HOME to a directory elsewhere"
	}
	return c
}

// session starts a session for real, and runs a command in each of its boxes.
func session(ctx context.Context, o Options) []Check {
	c := Check{Name: "session", Status: OK}
	start := time.Now()
	mechanisms, err := trySession(ctx, o)
	if err != nil {
		c.Status, c.Found, c.Means = Fail, err.Error(), "no session starts"
		return []Check{c}
	}
	c.Found = fmt.Sprintf("started, ran a command in both boxes and ended in %v", time.Since(start).Round(100*time.Microsecond))
	return []Check{c, notification(mechanisms[sandbox.AttemptsMechanism])}
}

// notification says whether it is seen what a call that should only read tries to
// change.
func notification(mechanism string) Check {
	c := Check{Name: "notification", Status: OK, Found: mechanism}
	if mechanism != sandbox.AttemptsSeen {
		c.Status = Less
		c.Means = "what a call that only reads tries to change is stopped, but not seen"
		c.Cure = "use Linux 5.5 or newer; in a container or under a tracer that answers system calls itself, run outside of it"
	}
	return c
}

func trySession(ctx context.Context, o Options) (mechanisms map[string]string, err error) {
	dir, err := os.MkdirTemp("", "sallyport-doctor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	workspace := filepath.Join(dir, "workspace")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return nil, err
	}
	s, err := o.Store.Create(sandbox.Settings{
		Name: fmt.Sprintf("doctor-%d", os.Getpid()), Workspace: workspace, Mode: sandbox.Cow, Image: "host", Driver: o.Driver.Name(),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Remove()) }()
	live, err := s.Start(ctx, sandbox.StartOptions{Driver: o.Driver, Env: os.Environ()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, live.Close()) }()
	for _, box := range []sandbox.Box{sandbox.Hand, sandbox.Eye} {
		exit, err := live.Exec(ctx, sandbox.Command{Args: []string{"true"}, Envelope: sandbox.Envelope{Box: box}})
		if err != nil {
			return nil, fmt.Errorf("the %v: %w", box, err)
		}
		if exit.Status() != 0 {
			return nil, fmt.Errorf("the %v: true ended with %d", box, exit.Status())
		}
	}
	return live.Mechanisms(), nil
}

func ripgrep() Check {
	path, err := exec.LookPath("rg")
	if err != nil {
		return Check{Name: "ripgrep", Status: Info, Found: "not found; a search of our own is used", Cure: "install ripgrep for faster searches"}
	}
	return Check{Name: "ripgrep", Status: Info, Found: path}
}

// engines names other ways to run containers. The native driver needs none.
func engines(ctx context.Context) []Check {
	var checks []Check
	for _, name := range []string{"docker", "podman", "containerd", "runc", "crun"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		cancel()
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if err != nil || line == "" {
			line = path
		}
		checks = append(checks, Check{Name: name, Status: Info, Found: line})
	}
	if len(checks) == 0 {
		checks = append(checks, Check{Name: "engines", Status: Info, Found: "none; the native driver needs none"})
	}
	return checks
}
