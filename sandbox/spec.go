package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/images"
	"github.com/sallyport/sallyport/seccomp"
	"github.com/sallyport/sallyport/seccomp/load"
)

// A layer is one tree that a session may write: the workspace, HOME, /tmp, or a
// directory that is exposed copy-on-write. Upper holds what was written.
type layer struct {
	name  string // also the directory's name in the session
	dest  string // where it is inside
	lower []string
	upper string
	work  string
	like  string // a directory whose mode and owner the upper begins with
	// plain: there is nothing below, so the hand has the upper itself mounted.
	plain bool
}

// hostname is the name of the machine inside every container.
const hostname = "sallyport"

// Files of /proc that tell of the host or reach into it, beside those that the
// OCI runtimes mask. /proc is read-only as a whole.
var maskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/bus", "/proc/cmdline", "/proc/driver", "/proc/interrupts", "/proc/kallsyms",
	"/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/latency_stats", "/proc/modules", "/proc/sched_debug",
	"/proc/scsi", "/proc/timer_stats",
}

// rootPaths are masked too where the agent has root's number, for whom alone
// they can be opened.
var rootPaths = []string{
	"/proc/kmsg", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags", "/proc/mtrr", "/proc/slabinfo",
	"/proc/sysrq-trigger", "/proc/timer_list", "/proc/vmallocinfo", "/proc/vmcore",
}

func (s *Session) maskedPaths() []string {
	if s.who.uid == 0 {
		return slices.Concat(maskedPaths, rootPaths)
	}
	return maskedPaths
}

// shmSize bounds /dev/shm, in bytes. What is in it counts as memory.
const shmSize = 1 << 30

// processSpec is the spec of the hand, the one description of the box that all
// drivers translate, without its filesystem.
func (s *Session) processSpec() *specs.Spec {
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: hostname,
		Process: &specs.Process{
			User:            specs.User{UID: s.who.uid, GID: s.who.gid},
			Cwd:             s.Workspace,
			Env:             s.env,
			NoNewPrivileges: true,
			Capabilities:    &specs.LinuxCapabilities{},
			Rlimits: []specs.POSIXRlimit{
				{Type: "RLIMIT_CORE"},
				{Type: "RLIMIT_RTPRIO"},
				{Type: "RLIMIT_FSIZE", Soft: uint64(s.limits.Disk), Hard: uint64(s.limits.Disk)},
			},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.UserNamespace}, {Type: specs.MountNamespace}, {Type: specs.PIDNamespace},
				{Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
				{Type: specs.CgroupNamespace},
			},
			UIDMappings: idMap(s.who.uid),
			GIDMappings: idMap(s.who.gid),
			MaskedPaths: s.maskedPaths(),
			Seccomp:     handProfile(),
			Resources:   s.resources(),
		},
	}
}

// handSpec is the spec of the hand.
func (s *Session) handSpec(root *images.Rootfs) *specs.Spec {
	spec := s.processSpec()
	spec.Root = &specs.Root{Path: root.Path, Readonly: true}
	for _, m := range root.Mounts {
		if slices.Contains(ownersOther, m.Destination) {
			m = s.inert(m.Destination)
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	spec.Mounts = append(spec.Mounts,
		specs.Mount{Type: "proc", Source: "proc", Destination: "/proc", Options: []string{"ro", "nosuid", "nodev", "noexec"}},
		specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: "/dev", Options: []string{"nosuid", "noexec", "mode=755", "size=64k"}},
		specs.Mount{Type: "devpts", Source: "devpts", Destination: "/dev/pts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: "/dev/shm", Options: []string{"nosuid", "nodev", "noexec", "mode=1777", fmt.Sprintf("size=%d", shmSize)}},
	)
	var own []specs.Mount
	for _, l := range s.layers {
		own = append(own, l.mount(s.userxattr))
	}
	if s.Mode == Direct {
		// The directories above a path that may not change, or appear, are
		// mounted on themselves too: a mount point cannot be renamed, and the
		// path with it.
		for _, path := range append([]string{s.Workspace}, parents(s.Workspace, slices.Concat(s.names.readOnly, s.names.absent))...) {
			own = append(own, specs.Mount{
				Type: "bind", Source: path, Destination: path, Options: []string{"rbind", "nosuid", "nodev"},
			})
		}
	}
	for _, e := range s.exposedDirs() {
		if !e.Cow {
			own = append(own, s.inert(e.Path))
		}
	}
	// A mount comes after those that it lies in.
	slices.SortStableFunc(own, func(a, b specs.Mount) int { return strings.Compare(a.Destination, b.Destination) })
	spec.Mounts = append(spec.Mounts, own...)
	spec.Linux.ReadonlyPaths = s.names.readOnly
	return spec
}

// ownersOther are directories of the image that not only the distribution
// writes: services may have sockets there, as Nix has.
var ownersOther = []string{"/nix", "/opt", "/usr/local"}

// inert shows a directory of the host, read-only. It goes through an overlay, in
// which a socket or FIFO is not the host's: nobody listens there, where through a
// bind mount, also a read-only one, a program inside could reach a service of the
// host.
func (s *Session) inert(dir string) specs.Mount {
	l := layer{dest: dir, lower: []string{dir, s.store.empty()}}
	m := l.mount(s.userxattr)
	m.Options = append([]string{"ro"}, m.Options...)
	return m
}

// parents are the directories between a workspace and paths in it, as far as
// they exist.
func parents(workspace string, paths []string) []string {
	var dirs []string
	for _, path := range paths {
		for dir := filepath.Dir(path); dir != workspace && within(dir, workspace); dir = filepath.Dir(dir) {
			if info, err := os.Lstat(dir); err == nil && info.IsDir() {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// mount is how the hand, or a fork, has a layer.
func (l *layer) mount(userxattr bool) specs.Mount {
	if l.plain {
		return specs.Mount{Type: "bind", Source: l.upper, Destination: l.dest, Options: []string{"bind", "nosuid", "nodev"}}
	}
	lower := make([]string, len(l.lower))
	for i, dir := range l.lower {
		lower[i] = strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(dir)
	}
	options := []string{"nosuid", "nodev", "lowerdir=" + strings.Join(lower, ":")}
	if l.upper != "" {
		options = append(options, "upperdir="+l.upper, "workdir="+l.work)
	}
	// One behaviour everywhere, whatever the kernel's defaults are.
	options = append(options, "index=off", "metacopy=off", "redirect_dir=nofollow", "xino=off")
	if userxattr {
		options = append(options, "userxattr")
	}
	return specs.Mount{Type: "overlay", Source: "overlay", Destination: l.dest, Options: options}
}

// eyeSpec derives the eye from the hand: every mount read-only, but for /dev
// and a /tmp of its own, in which writes are private.
func (s *Session) eyeSpec(hand *specs.Spec) *specs.Spec {
	eye := *hand
	eye.Mounts = slices.Clone(hand.Mounts)
	for i, m := range eye.Mounts {
		switch {
		case m.Destination == "/tmp":
			eye.Mounts[i] = s.eyeTmp().mount(s.userxattr)
		case within(m.Destination, "/dev"), slices.Contains(m.Options, "ro"):
		default:
			eye.Mounts[i].Options = append(slices.Clone(m.Options), "ro")
		}
	}
	linux := *hand.Linux
	linux.ReadonlyPaths = nil
	linux.Seccomp = eyeProfile()
	eye.Linux = &linux
	process := *hand.Process
	process.Env = append(slices.Clone(process.Env), gitReadsOnly...)
	if !slices.Contains(s.eyeWritable(), "/tmp") {
		process.Env = append(process.Env, "TMPDIR=/dev/shm")
	}
	eye.Process = &process
	return &eye
}

// gitReadsOnly keeps git from what a repository's configuration makes it do when
// it only looks: refresh the index, ask a file system monitor, run hooks. Other
// programs that a configuration may name (an external diff, a text conversion)
// have no value that turns them off; they run, and the eye holds them.
var gitReadsOnly = []string{
	"GIT_OPTIONAL_LOCKS=0",
	"GIT_CONFIG_COUNT=2",
	"GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=false",
	"GIT_CONFIG_KEY_1=core.hooksPath", "GIT_CONFIG_VALUE_1=/dev/null",
}

// eyeTmp is the eye's own layer over the session's /tmp.
func (s *Session) eyeTmp() *layer {
	tmp := s.path("layers/tmp/upper")
	return &layer{dest: "/tmp", lower: []string{tmp}, like: tmp, upper: s.path("eye/upper"), work: s.path("eye/work")}
}

// idMap maps one number to itself: no other is known inside, or can be taken.
func idMap(id uint32) []specs.LinuxIDMapping {
	return []specs.LinuxIDMapping{{ContainerID: id, HostID: id, Size: 1}}
}

// resources are the limits in the terms of the OCI runtime specification.
func (s *Session) resources() *specs.LinuxResources {
	r := &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: &s.limits.Memory},
		// The guest's own threads are not the agent's.
		Pids: &specs.LinuxPids{Limit: ptr(s.limits.Pids + guestThreads)},
	}
	if s.limits.CPUs > 0 {
		period := uint64(100_000)
		quota := int64(s.limits.CPUs * float64(period))
		r.CPU = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	return r
}

// guestThreads is how many threads init and guest may have beside the agent's
// processes.
const guestThreads = 64

func ptr[T any](v T) *T { return &v }

// Profiles are read-only once they are made, and made when first needed.
var (
	handProfile = sync.OnceValue(func() *specs.LinuxSeccomp {
		return seccomp.Supervisor(seccomp.Options{Ptrace: LandlockABI() > 0})
	})
	eyeProfile = sync.OnceValue(func() *specs.LinuxSeccomp {
		return seccomp.Supervisor(seccomp.Options{Ptrace: LandlockABI() > 0, NoUnixSockets: true})
	})
	// startedFilter is what every call takes beside.
	startedFilter = sync.OnceValues(func() ([]byte, error) {
		filter, err := seccomp.Compile(seccomp.Started(), runtime.GOARCH)
		return load.Bytes(filter), err
	})
	// changesFilter is what calls in the eye take beside.
	changesFilter = sync.OnceValues(func() ([]byte, error) {
		filter, err := seccomp.Compile(seccomp.Changes(), runtime.GOARCH)
		return load.Bytes(filter), err
	})
)

// LandlockABI is the version of Landlock that this kernel has, 0 for none.
func LandlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}
