package native

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3"

	"github.com/sallyport/sallyport/sandbox"
)

// realCgroups are this machine's, where this process may use them.
func realCgroups(t *testing.T) cgroupFS {
	t.Helper()
	f := systemCgroups()
	c, err := f.newCgroup(fmt.Sprintf("test-%d", os.Getpid()), limits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	why := c.why
	if why == nil {
		for _, limit := range allLimits {
			if !strings.HasPrefix(c.held[limit], "cgroup") {
				why = fmt.Errorf("no cgroup holds %s", limit)
			}
		}
	}
	if err := c.remove(); err != nil {
		t.Fatal(err)
	}
	if why != nil {
		t.Skipf("skipped: this process (uid %d) cannot use the machine's cgroups: %v", os.Geteuid(), why)
	}
	return f
}

// The kernel has the limits, holds a process that joins, and lets the cgroup be
// removed when that has ended.
func TestRealCgroups(t *testing.T) {
	f := realCgroups(t)
	id := fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano())
	c, err := f.newCgroup(id, limits(), allLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer c.remove()
	dirs := map[string]string{}
	for _, d := range c.dirs {
		hierarchy := strings.Split(strings.TrimPrefix(d.session, f.mount+"/"), "/")[0]
		dirs[hierarchy] = d.session
	}
	if f.mode == cgroups.Unified {
		wantFiles(t, c.dir, map[string]string{"memory.max": "67108864", "pids.max": "50", "cpu.max": "50000 100000"})
		dirs["pids"] = c.dir
	} else {
		wantFiles(t, dirs["memory"], map[string]string{"memory.limit_in_bytes": "67108864"})
		wantFiles(t, dirs["pids"], map[string]string{"pids.max": "50"})
		wantFiles(t, dirs["cpu"], map[string]string{"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"})
	}
	// Joins, and then starts more than it may.
	script := `for dir; do echo $$ >$dir/cgroup.procs || exit 3; done
		i=0; while [ $i -lt 60 ]; do sleep 60 >/dev/null 2>&1 & i=$((i+1)); done`
	args := []string{"-c", script, "sh"}
	for _, dir := range dirs {
		args = append(args, dir)
	}
	cmd := exec.Command("dash", args...)
	out, err := cmd.CombinedOutput()
	if !strings.Contains(string(out), "Cannot fork") {
		t.Errorf("sixty processes were started: %v, %s", err, out)
	}
	procs, err := os.ReadFile(filepath.Join(dirs["pids"], "cgroup.procs"))
	if n := len(strings.Fields(string(procs))); err != nil || n == 0 || n > 50 {
		t.Errorf("%d processes are in it, %v", n, err)
	}
	for _, pid := range strings.Fields(string(procs)) {
		if out, err := exec.Command("kill", "-9", pid).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	if err := c.remove(); err != nil {
		t.Error(err)
	}
	for _, dir := range dirs {
		wantGone(t, dir)
	}
}

// A limit that the kernel refuses leaves no half of a cgroup.
func TestRealCgroupsThatCannotBeMadeLeaveNothing(t *testing.T) {
	f := realCgroups(t)
	id := fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano())
	r := limits()
	tooMany := int64(1) << 40
	r.Pids.Limit = &tooMany
	c, err := f.newCgroup(id, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.why == nil {
		t.Error("the kernel allows 2^40 processes")
	}
	if c.held[sandbox.LimitMemory] != "RLIMIT_DATA of each process" {
		t.Errorf("memory is held by %q", c.held[sandbox.LimitMemory])
	}
	for _, p := range f.parents() {
		wantGone(t, filepath.Join(p.dir, p.prefix+id))
	}
}
