package native

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sallyport/sallyport/sandbox"
)

// limits are those of all tests here: 64 MiB, 50 processes, half a processor.
func limits() *specs.LinuxResources {
	memory, pids := int64(64<<20), int64(50)
	period, quota := uint64(100_000), int64(50_000)
	return &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: &memory}, Pids: &specs.LinuxPids{Limit: &pids},
		CPU: &specs.LinuxCPU{Period: &period, Quota: &quota},
	}
}

var allLimits = []sandbox.Limit{sandbox.LimitMemory, sandbox.LimitPids, sandbox.LimitCPUs}

// fakeV2 is a cgroup v2 file system in a temporary directory: what the kernel
// makes with each directory is there already, for a session with the ID "s".
func fakeV2(t *testing.T, own, controllers string) cgroupFS {
	t.Helper()
	f := cgroupFS{mode: cgroups.Unified, mount: t.TempDir(), root: own == ""}
	f.self = filepath.Join(t.TempDir(), "cgroup")
	put(t, f.self, "0::"+own+"\n")
	group, err := f.groupV2("s")
	if err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(group); ; dir = filepath.Dir(dir) {
		at := filepath.Join(f.mount, dir)
		put(t, filepath.Join(at, "cgroup.controllers"), controllers+"\n")
		put(t, filepath.Join(at, "cgroup.subtree_control"), "")
		if dir == "/" {
			break
		}
	}
	return f
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// wantFiles checks what is in the files of a directory.
func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name, content := range want {
		path := filepath.Join(dir, name)
		got, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrPermission) {
			// A file that the kernel has not made has no mode.
			os.Chmod(path, 0o600)
			got, err = os.ReadFile(path)
		}
		if err != nil || strings.TrimSpace(string(got)) != content {
			t.Errorf("%s: %q, %v; want %q", filepath.Join(dir, name), got, err, content)
		}
	}
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left (%v)", path, err)
	}
}

func TestCgroupV2(t *testing.T) {
	for name, test := range map[string]struct {
		own, dir string
		enabled  []string // where the controllers are handed down
	}{
		"root makes it at the top": {
			dir: "sallyport/s", enabled: []string{"", "sallyport"},
		},
		"a user beside its own, in what was delegated": {
			own: "/user.slice/app.slice/run-1.scope", dir: "user.slice/app.slice/sallyport-s",
			enabled: []string{"user.slice/app.slice"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fakeV2(t, test.own, "cpuset cpu io memory pids")
			put(t, filepath.Join(f.mount, test.dir, "memory.swap.max"), "")
			c, err := f.newCgroup("s", limits(), allLimits)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(f.mount, test.dir)
			if c.dir != dir || string(c.forStarter().V2) != dir || len(c.forStarter().V1) != 0 {
				t.Errorf("%s, %v; want %s", c.dir, c.forStarter(), dir)
			}
			wantFiles(t, dir, map[string]string{
				"memory.max": "67108864", "memory.swap.max": "0", "pids.max": "50", "cpu.max": "50000 100000",
			})
			for _, at := range test.enabled {
				got, _ := os.ReadFile(filepath.Join(f.mount, at, "cgroup.subtree_control"))
				for _, controller := range []string{"+memory", "+pids", "+cpu"} {
					if !strings.Contains(string(got), controller) {
						t.Errorf("%q does not hand down %s: %q", at, controller, got)
					}
				}
			}
			for _, limit := range allLimits {
				if by := c.mechanisms()["limits."+string(limit)]; by != "cgroup v2" {
					t.Errorf("%s is held by %q", limit, by)
				}
			}
			if c.dataLimit() != math.MaxUint64 {
				t.Errorf("memory is limited by RLIMIT_DATA too: %d", c.dataLimit())
			}
			put(t, filepath.Join(dir, "memory.events"), "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n")
			if n := c.outOfMemory(); n != 2 {
				t.Errorf("%d processes were killed for want of memory, want 2", n)
			}
			if err := c.remove(); err != nil {
				t.Error(err)
			}
			wantGone(t, dir)
			if err := c.remove(); err != nil {
				t.Errorf("removing it again: %v", err)
			}
		})
	}
}

func TestCgroupV2KernelWithoutSwap(t *testing.T) {
	f := fakeV2(t, "", "memory pids")
	group, _ := f.groupV2("s")
	swap := filepath.Join(f.mount, group, "memory.swap.max")
	c, err := f.newCgroup("s", limits(), []sandbox.Limit{sandbox.LimitMemory})
	if err != nil {
		t.Fatal(err)
	}
	wantGone(t, swap) // only the kernel makes files there
	if err := c.remove(); err != nil {
		t.Error(err)
	}
}

// What cannot be held by a cgroup is held by rlimits, or refused by name when it
// was asked for.
func TestCgroupMissing(t *testing.T) {
	for name, test := range map[string]struct {
		fs        func(t *testing.T) cgroupFS
		byCgroup  []sandbox.Limit
		refusal   string // of what is not held, when it is required
		cure      string
		dataLimit bool
	}{
		"no memory controller": {
			fs:       func(t *testing.T) cgroupFS { return fakeV2(t, "", "cpu pids") },
			byCgroup: []sandbox.Limit{sandbox.LimitPids, sandbox.LimitCPUs},
			refusal:  "no controller", cure: "read-write", dataLimit: true,
		},
		"no pids controller": {
			fs:       func(t *testing.T) cgroupFS { return fakeV2(t, "", "cpu memory") },
			byCgroup: []sandbox.Limit{sandbox.LimitMemory, sandbox.LimitCPUs},
			refusal:  "no controller", cure: "read-write",
		},
		"no controller": {
			fs:      func(t *testing.T) cgroupFS { return fakeV2(t, "/a/b", "io misc") },
			refusal: "the cgroup /a has none of the controllers", cure: "Delegate=yes", dataLimit: true,
		},
		"a user in the root cgroup": {
			fs: func(t *testing.T) cgroupFS {
				f := fakeV2(t, "", "memory pids")
				f.root = false
				return f
			},
			refusal: "in no cgroup of its own", cure: "Delegate=yes", dataLimit: true,
		},
		"a user to whom nothing was delegated": {
			fs: func(t *testing.T) cgroupFS {
				f := fakeV2(t, "/a/b", "memory pids cpu")
				f.mount = filepath.Join(f.mount, "hidden")
				return f
			},
			refusal: "no such file", cure: "Delegate=yes", dataLimit: true,
		},
		"not mounted": {
			fs: func(t *testing.T) cgroupFS {
				return cgroupFS{mode: cgroups.Unavailable, mount: "/sys/fs/cgroup", root: true}
			},
			refusal: "no cgroup file system is mounted on /sys/fs/cgroup", dataLimit: true,
		},
		"no v1 hierarchy": {
			fs:      func(t *testing.T) cgroupFS { return fakeV1(t) },
			refusal: "none of the cgroup v1 hierarchies", cure: "read-write", dataLimit: true,
		},
		"no pids in v1": {
			fs:       func(t *testing.T) cgroupFS { return fakeV1(t, "memory", "cpu") },
			byCgroup: []sandbox.Limit{sandbox.LimitMemory, sandbox.LimitCPUs},
			refusal:  "no controller", cure: "read-write",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := test.fs(t)
			c, err := f.newCgroup("s", limits(), test.byCgroup)
			if err != nil {
				t.Fatal(err)
			}
			held := make(map[sandbox.Limit]bool)
			for _, limit := range test.byCgroup {
				held[limit] = true
				if !strings.HasPrefix(c.held[limit], "cgroup") {
					t.Errorf("%s is held by %q", limit, c.held[limit])
				}
			}
			if got := c.dataLimit() == 64<<20; got != test.dataLimit {
				t.Errorf("RLIMIT_DATA is %d", c.dataLimit())
			}
			if !held[sandbox.LimitMemory] && !strings.Contains(c.held[sandbox.LimitMemory], "RLIMIT_DATA") {
				t.Errorf("memory is held by %q", c.held[sandbox.LimitMemory])
			}
			if !held[sandbox.LimitPids] && c.held[sandbox.LimitPids] != "RLIMIT_NPROC" {
				t.Errorf("processes are held by %q", c.held[sandbox.LimitPids])
			}
			if !held[sandbox.LimitCPUs] && c.held[sandbox.LimitCPUs] != "" {
				t.Errorf("processors are said to be held by %q", c.held[sandbox.LimitCPUs])
			}
			if err := c.remove(); err != nil {
				t.Error(err)
			}
			for _, limit := range allLimits {
				if held[limit] {
					continue
				}
				_, err := f.newCgroup("s", limits(), []sandbox.Limit{limit})
				if err == nil {
					t.Errorf("started without the limit on %s", limit)
					continue
				}
				for _, want := range []string{"the limit on " + string(limit) + " cannot be held", test.refusal, test.cure} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
				if strings.Contains(err.Error(), "%!") {
					t.Errorf("%q", err)
				}
				for _, p := range f.parents() {
					wantGone(t, filepath.Join(p.dir, p.prefix+"s"))
				}
			}
		})
	}
}

func TestCgroupReadOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("skipped: root may write whatever a directory's mode is; asuser runs this")
	}
	f := fakeV2(t, "/a/b", "memory pids cpu")
	if err := os.Chmod(filepath.Join(f.mount, "a"), 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(f.mount, "a"), 0o755)
	c, err := f.newCgroup("s", limits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(c.why, fs.ErrPermission) || c.held[sandbox.LimitPids] != "RLIMIT_NPROC" {
		t.Errorf("%v, %v", c.why, c.held)
	}
	if _, err := f.newCgroup("s", limits(), []sandbox.Limit{sandbox.LimitMemory}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v", err)
	}
}

// fakeV1 has cgroup v1 hierarchies in a temporary directory, and this process
// in /own of each.
func fakeV1(t *testing.T, hierarchies ...string) cgroupFS {
	t.Helper()
	f := cgroupFS{mode: cgroups.Hybrid, mount: t.TempDir(), root: true}
	f.nested = func() (cgroup1.Path, error) { return cgroup1.StaticPath("/own"), nil }
	for _, name := range hierarchies {
		put(t, filepath.Join(f.mount, name, "cgroup.procs"), "")
		put(t, filepath.Join(f.mount, name, "own/sallyport/s/cgroup.procs"), "")
	}
	return f
}

func TestCgroupV1(t *testing.T) {
	for name, swap := range map[string]bool{"accounting swap": true, "not accounting swap": false} {
		t.Run(name, func(t *testing.T) {
			f := fakeV1(t, "memory", "pids", "cpu")
			if swap {
				put(t, filepath.Join(f.mount, "memory/memory.memsw.limit_in_bytes"), "")
			}
			c, err := f.newCgroup("s", limits(), allLimits)
			if err != nil {
				t.Fatal(err)
			}
			at := func(hierarchy string) string { return filepath.Join(f.mount, hierarchy, "own/sallyport/s") }
			wantFiles(t, at("memory"), map[string]string{"memory.limit_in_bytes": "67108864"})
			if swap {
				wantFiles(t, at("memory"), map[string]string{"memory.memsw.limit_in_bytes": "67108864"})
			} else {
				wantGone(t, filepath.Join(at("memory"), "memory.memsw.limit_in_bytes"))
			}
			wantFiles(t, at("pids"), map[string]string{"pids.max": "50"})
			wantFiles(t, at("cpu"), map[string]string{"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"})
			var pairs []string
			for _, dir := range c.forStarter().V1 {
				pairs = append(pairs, strings.TrimPrefix(string(dir), f.mount))
			}
			want := "/memory/own/sallyport/s /memory/own /pids/own/sallyport/s /pids/own /cpu/own/sallyport/s /cpu/own"
			if got := strings.Join(pairs, " "); got != want {
				t.Errorf("born into %s, want %s", got, want)
			}
			if err := c.remove(); err != nil {
				t.Error(err)
			}
			for _, hierarchy := range []string{"memory", "pids", "cpu"} {
				wantGone(t, at(hierarchy))
			}
		})
	}
}

// A session that may use no processor time limit needs no hierarchy for it.
func TestCgroupV1WithoutProcessors(t *testing.T) {
	f := fakeV1(t, "memory", "pids", "cpu")
	r := limits()
	r.CPU = nil
	c, err := f.newCgroup("s", r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.remove()
	if len(c.dirs) != 2 || c.held[sandbox.LimitCPUs] != "" {
		t.Errorf("%v, %v", c.dirs, c.held)
	}
}

func TestCgroupCure(t *testing.T) {
	for want, f := range map[string]cgroupFS{
		"Delegate=yes":         {mode: cgroups.Unified},
		"run it as root":       {mode: cgroups.Legacy},
		"mounted read-write":   {mode: cgroups.Unified, root: true},
		"needs it mounted rea": {mode: cgroups.Unavailable, root: true},
	} {
		if got := f.cure(); !strings.Contains(got, want) {
			t.Errorf("%+v: %q does not say %q", f, got, want)
		}
	}
}
