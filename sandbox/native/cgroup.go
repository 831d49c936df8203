package native

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native/starter"
)

// The directory, in a cgroup that is ours, that holds the sessions' cgroups.
const cgroupParent = "sallyport"

// A cgroup holds a session's processes to its limits. Where there is none that
// may be used, limits that were not asked for are held by rlimits instead, and
// one that was is an error.
type cgroup struct {
	v1   cgroup1.Cgroup
	dirs []moveV1 // of v1: where a thread joins, and where it goes back to
	own  []claim  // the directories
	v2   *cgroup2.Manager
	dir  string                   // of v2
	why  error                    // why there is none
	held map[sandbox.Limit]string // by what each limit is held
	left specs.LinuxResources     // limits that rlimits must hold
}

// A cgroupFS is where the cgroup file systems are.
type cgroupFS struct {
	mode  cgroups.CGMode
	mount string // of the file system, or of all v1 hierarchies
	self  string // the file that names this process's cgroups
	root  bool   // whether this process is root
	// nested says, of v1, which cgroups this process is in.
	nested func() (cgroup1.Path, error)
}

var systemCgroups = sync.OnceValue(func() cgroupFS {
	return cgroupFS{
		mode: cgroups.Mode(), mount: "/sys/fs/cgroup", self: "/proc/self/cgroup", root: os.Geteuid() == 0,
		nested: nestedV1,
	}
})

// newCgroup makes the cgroup of a session.
func (f cgroupFS) newCgroup(id string, r *specs.LinuxResources, required []sandbox.Limit) (*cgroup, error) {
	c := &cgroup{held: make(map[sandbox.Limit]string)}
	switch f.mode {
	case cgroups.Unified:
		c.why = f.newV2(c, id, r)
	case cgroups.Legacy, cgroups.Hybrid:
		c.why = f.newV1(c, id, r)
	default:
		c.why = fmt.Errorf("no cgroup file system is mounted on %s", f.mount)
	}
	for _, limit := range required {
		if c.held[limit] == "" {
			why := c.why
			if why == nil {
				why = errors.New("there is no controller for it where a cgroup could be made")
			}
			err := fmt.Errorf("the limit on %s cannot be held: %w; %s", limit, why, f.cure())
			return nil, errors.Join(err, c.remove())
		}
	}
	c.byRlimit(r)
	return c, nil
}

// cure says what makes cgroups usable.
func (f cgroupFS) cure() string {
	switch {
	case f.mode == cgroups.Unified && !f.root:
		return "start it with: systemd-run --user --scope -p Delegate=yes sallyport ..., or run: sallyport setup"
	case !f.root:
		return "run it as root, or give your user a cgroup of its own"
	}
	return "make the cgroup file system writable (a container needs it mounted read-write)"
}

// newV1 makes a cgroup below this process's own in every hierarchy that has a
// limit, so that limits which this process is under stay in force.
func (f cgroupFS) newV1(c *cgroup, id string, r *specs.LinuxResources) error {
	var subsystems []cgroup1.Subsystem
	var held []sandbox.Limit
	have := func(name string) bool {
		_, err := os.Stat(filepath.Join(f.mount, name, "cgroup.procs"))
		return err == nil
	}
	want := *r
	if have("memory") {
		memory := *r.Memory
		if _, err := os.Stat(filepath.Join(f.mount, "memory", "memory.memsw.limit_in_bytes")); err == nil {
			memory.Swap = memory.Limit // memory and swap together: no swap beyond the limit
		}
		want.Memory = &memory
		subsystems = append(subsystems, cgroup1.NewMemory(f.mount))
		held = append(held, sandbox.LimitMemory)
	}
	if have("pids") {
		subsystems = append(subsystems, cgroup1.NewPids(f.mount))
		held = append(held, sandbox.LimitPids)
	}
	if r.CPU != nil && have("cpu") {
		subsystems = append(subsystems, cgroup1.NewCpu(f.mount))
		held = append(held, sandbox.LimitCPUs)
	}
	if len(subsystems) == 0 {
		return errors.New("none of the cgroup v1 hierarchies memory, pids, cpu is mounted")
	}
	nested, err := f.nested()
	if err != nil {
		return err
	}
	var dirs []moveV1
	for _, sub := range subsystems {
		own, err := nested(sub.Name())
		if err != nil {
			return err
		}
		own = filepath.Join(f.mount, string(sub.Name()), own)
		dirs = append(dirs, moveV1{session: filepath.Join(own, cgroupParent, id), own: own})
	}
	at := func(name cgroup1.Name) (string, error) {
		own, err := nested(name)
		return path.Join(own, cgroupParent, id), err
	}
	for _, d := range dirs {
		if err := c.claim(d.session); err != nil {
			return fmt.Errorf("cgroup v1: %w", errors.Join(err, c.abandon()))
		}
	}
	cg, err := cgroup1.New(at, &want, cgroup1.WithHierarchy(func() ([]cgroup1.Subsystem, error) { return subsystems, nil }))
	if err != nil {
		return fmt.Errorf("cgroup v1: %w", errors.Join(err, c.abandon()))
	}
	c.v1, c.dirs = cg, dirs
	for _, limit := range held {
		c.held[limit] = "cgroup v1"
	}
	return nil
}

// nestedV1 says which cgroup this process is in. Finding out reads the mount
// table once for every hierarchy, so it is done once.
var nestedV1 = sync.OnceValues(func() (cgroup1.Path, error) {
	p := cgroup1.NestedPath("")
	_, err := p(cgroup1.Pids)
	if errors.Is(err, cgroup1.ErrControllerNotActive) {
		err = nil
	}
	return p, err
})

// newV2 makes a cgroup where this user may: root at the top, others beside
// their own, in what systemd has delegated to them. (Below one's own it cannot
// be: a cgroup with processes has no limits to hand down.)
func (f cgroupFS) newV2(c *cgroup, id string, r *specs.LinuxResources) error {
	group, err := f.groupV2(id)
	if err != nil {
		return err
	}
	parent := path.Dir(group)
	if f.root {
		parent = "/"
	}
	controllers, err := os.ReadFile(filepath.Join(f.mount, parent, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("cgroup v2: %w", err)
	}
	have := strings.Fields(string(controllers))
	want := &cgroup2.Resources{}
	var held []sandbox.Limit
	if slices.Contains(have, "memory") {
		want.Memory = &cgroup2.Memory{Max: r.Memory.Limit}
		held = append(held, sandbox.LimitMemory)
	}
	if slices.Contains(have, "pids") {
		want.Pids = &cgroup2.Pids{Max: *r.Pids.Limit}
		held = append(held, sandbox.LimitPids)
	}
	if r.CPU != nil && slices.Contains(have, "cpu") {
		want.CPU = &cgroup2.CPU{Max: cgroup2.NewCPUMax(r.CPU.Quota, r.CPU.Period)}
		held = append(held, sandbox.LimitCPUs)
	}
	if len(held) == 0 {
		return fmt.Errorf("the cgroup %s has none of the controllers memory, pids, cpu", parent)
	}
	dir := filepath.Join(f.mount, group)
	if err := c.claim(dir); err != nil {
		return fmt.Errorf("cgroup v2: %w", errors.Join(err, c.abandon()))
	}
	m, err := cgroup2.NewManager(f.mount, group, want)
	if err == nil && want.Memory != nil {
		err = noSwap(dir)
	}
	if err != nil {
		return fmt.Errorf("cgroup v2: %w", errors.Join(err, c.abandon()))
	}
	c.v2, c.dir = m, dir
	for _, limit := range held {
		c.held[limit] = "cgroup v2"
	}
	return nil
}

// groupV2 is the path of a session's cgroup, below the mount.
func (f cgroupFS) groupV2(id string) (string, error) {
	if f.root {
		return "/" + cgroupParent + "/" + id, nil
	}
	_, own, err := cgroups.ParseCgroupFileUnified(f.self)
	if err != nil {
		return "", err
	}
	if own == "" || own == "/" {
		return "", errors.New("this process is in no cgroup of its own")
	}
	return path.Join(path.Dir(own), cgroupParent+"-"+id), nil
}

// noSwap forbids a cgroup to swap: the limit would be one on what is in memory
// only. A kernel that does not swap has no such file.
func noSwap(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "memory.swap.max"), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("0")
	return errors.Join(err, f.Close())
}

const nprocRlimit = "RLIMIT_NPROC"

// byRlimit notes what rlimits must hold instead. They bound each process and
// each user, not the session: less, but not nothing.
func (c *cgroup) byRlimit(r *specs.LinuxResources) {
	if c.held[sandbox.LimitMemory] == "" && r.Memory != nil {
		c.left.Memory = r.Memory
		c.held[sandbox.LimitMemory] = "RLIMIT_DATA of each process"
	}
	if c.held[sandbox.LimitPids] == "" {
		c.held[sandbox.LimitPids] = nprocRlimit
	}
}

// dataLimit is the RLIMIT_DATA of what runs in the session, in bytes.
func (c *cgroup) dataLimit() uint64 {
	if m := c.left.Memory; m != nil && m.Limit != nil {
		return uint64(*m.Limit)
	}
	return math.MaxUint64
}

// A moveV1 is a cgroup directory of a session, and that of this process.
type moveV1 struct{ session, own string }

// forStarter says what the containers are to be born into.
func (c *cgroup) forStarter() *starter.Cgroup {
	g := &starter.Cgroup{V2: []byte(c.dir)}
	for _, d := range c.dirs {
		g.V1 = append(g.V1, []byte(d.session), []byte(d.own))
	}
	return g
}

// outOfMemory counts the processes that were killed at the memory limit.
func (c *cgroup) outOfMemory() int {
	switch {
	case c.v1 != nil:
		stat, err := c.v1.Stat(cgroup1.IgnoreNotExist)
		if err != nil {
			return 0
		}
		return int(stat.GetMemoryOomControl().GetOomKill())
	case c.v2 != nil:
		stat, err := c.v2.StatFiltered(cgroup2.StatMemoryEvents)
		if err != nil {
			return 0
		}
		return int(stat.GetMemoryEvents().GetOomKill())
	}
	return 0
}

// refusedForks counts the processes that were not made at the limit of them.
func (c *cgroup) refusedForks() int {
	dir := c.dir
	for _, d := range c.dirs {
		if strings.Contains(d.session, "/"+string(cgroup1.Pids)+"/") {
			dir = d.session
		}
	}
	if dir == "" {
		return 0
	}
	data, err := os.ReadFile(filepath.Join(dir, "pids.events"))
	if err != nil {
		return 0
	}
	n := 0
	fmt.Sscanf(string(data), "max %d", &n)
	return n
}

// mechanisms names what holds each limit.
func (c *cgroup) mechanisms() map[string]string {
	m := make(map[string]string)
	for limit, by := range c.held {
		m["limits."+string(limit)] = by
	}
	return m
}

// claim makes a directory of the cgroup's.
func (c *cgroup) claim(dir string) error {
	got, err := newClaim(dir)
	if err == nil {
		c.own = append(c.own, got)
	}
	return err
}

// release lets go of the cgroup's directories.
func (c *cgroup) release() {
	for _, own := range c.own {
		own.release()
	}
	c.own = nil
}

// abandon removes the directories of a cgroup that could not be made.
func (c *cgroup) abandon() error {
	defer c.release()
	var errs []error
	for _, own := range c.own {
		if err := os.Remove(own.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// remove removes the cgroup, which no process is in any more. The kernel may
// take a moment to see that.
func (c *cgroup) remove() error {
	defer c.release()
	remove := func() error { return nil }
	switch {
	case c.v1 != nil:
		remove = c.v1.Delete
	case c.v2 != nil:
		remove = c.v2.Delete
	}
	gone := func(err error) bool {
		return err == nil || errors.Is(err, cgroup1.ErrCgroupDeleted) || errors.Is(err, fs.ErrNotExist)
	}
	err := remove()
	for wait := time.Millisecond; !gone(err) && wait < time.Second; wait *= 2 {
		time.Sleep(wait)
		err = remove()
	}
	if gone(err) {
		c.removeParents()
		return nil
	}
	return err
}

// removeParents removes the directories that sessions' cgroups lie in, unless
// there are others.
func (c *cgroup) removeParents() {
	dirs := []string{c.dir}
	for _, d := range c.dirs {
		dirs = append(dirs, d.session)
	}
	for _, dir := range dirs {
		if parent := filepath.Dir(dir); filepath.Base(parent) == cgroupParent {
			unix.Rmdir(parent)
		}
	}
}
