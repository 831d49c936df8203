package native

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"
)

func TestSweepRemovesWhatNobodyHas(t *testing.T) {
	f := fakeV2(t, "/a/own", "memory")
	dir := filepath.Join(f.mount, "a")
	for _, name := range []string{"sallyport-dead", "another.scope", "sallyport"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(dir, "sallyport-busy/process"), "") // cannot be removed
	live, err := newClaim(filepath.Join(dir, "sallyport-live"))
	if err != nil {
		t.Fatal(err)
	}
	f.sweep()
	wantGone(t, filepath.Join(dir, "sallyport-dead"))
	for _, name := range []string{"sallyport-live", "sallyport-busy", "another.scope", "sallyport"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s was removed: %v", name, err)
		}
	}
	live.release()
	f.sweep()
	wantGone(t, filepath.Join(dir, "sallyport-live"))
}

func TestSweepLooksWhereCgroupsAreMade(t *testing.T) {
	v1 := fakeV1(t, "memory", "pids", "cpu")
	for _, f := range []cgroupFS{fakeV2(t, "", "memory"), fakeV2(t, "/a/own", "memory"), v1} {
		c, err := f.newCgroup("s", limits(), nil)
		if err != nil {
			t.Fatal(err)
		}
		made := []string{c.dir}
		if f.mode != cgroups.Unified {
			made = nil
			for _, d := range c.dirs {
				made = append(made, d.session)
			}
		}
		var swept []string
		for _, p := range f.parents() {
			swept = append(swept, filepath.Join(p.dir, p.prefix+"s"))
		}
		if len(made) != len(swept) {
			t.Fatalf("%v are made, %v are swept", made, swept)
		}
		for i := range made {
			if made[i] != swept[i] {
				t.Errorf("%s is made, %s is swept", made[i], swept[i])
			}
		}
		if err := c.remove(); err != nil {
			t.Error(err)
		}
	}
}

// Whoever has claimed a directory has it until it lets go, however many sweep.
func TestClaimIsNotSweptAway(t *testing.T) {
	parent := t.TempDir()
	f := cgroupFS{mode: cgroups.Unified, mount: parent, root: true}
	dir := filepath.Join(parent, cgroupParent)
	stop := make(chan struct{})
	var sweepers, claimers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f.sweep()
				}
			}
		})
	}
	for _, name := range []string{"a", "b"} {
		claimers.Go(func() {
			for range 300 {
				c, err := newClaim(filepath.Join(dir, name))
				if err != nil {
					t.Errorf("claiming: %v", err)
					return
				}
				// As the limits are.
				if err := os.WriteFile(filepath.Join(c.dir, "limit"), nil, 0o644); err != nil {
					t.Errorf("a claimed directory: %v", err)
				}
				os.Remove(filepath.Join(c.dir, "limit"))
				c.release()
			}
		})
	}
	claimers.Wait()
	close(stop)
	sweepers.Wait()
}

// One that was removed and made again while it was being locked is not had.
func TestClaimOfAReplacedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	old := claim{dir: dir, fd: fd}
	defer old.release()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := old.take(unix.LOCK_EX); err != unix.ENOENT {
		t.Errorf("removed: %v, want ENOENT", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := old.take(unix.LOCK_EX); err != unix.ENOENT {
		t.Errorf("made again: %v, want ENOENT", err)
	}
}

// A start must not wait for a sweep, nor a sweep for a live session.
func TestSweepPassesByWhatIsHeld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	c, err := newClaim(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.release()
	if _, err := lock(dir, unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("%v, want EWOULDBLOCK", err)
	}
	if err := removeLeftover(dir); err != unix.EWOULDBLOCK {
		t.Errorf("%v, want EWOULDBLOCK", err)
	}
	if _, err := os.Lstat(dir); err != nil {
		t.Error(err)
	}
}

func TestSweepIsDueOnceInAWhile(t *testing.T) {
	now := time.Now().Add(time.Hour)
	if !sweepDue(now) || sweepDue(now.Add(sweepPause/2)) || !sweepDue(now.Add(sweepPause)) {
		t.Error("a process sweeps at its first start, and then once in a while")
	}
	lastSweep.Store(0)
}

const envOwner = "NATIVE_TEST_OWNER"

// TestOwnerOfCgroup is no test: it is the host process that the next one kills.
func TestOwnerOfCgroup(t *testing.T) {
	id := os.Getenv(envOwner)
	if id == "" {
		t.Skip("skipped: only a helper of TestCgroupsOfKilledOwnerAreSwept")
	}
	if _, err := systemCgroups().newCgroup(id, limits(), allLimits); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("made\n")
	select {}
}

func TestCgroupsOfKilledOwnerAreSwept(t *testing.T) {
	f := realCgroups(t)
	id := "test-" + filepath.Base(t.TempDir()) + time.Now().Format("150405.000000000")
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestOwnerOfCgroup$")
	cmd.Env = append(os.Environ(), envOwner+"="+id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "made\n" {
		t.Fatalf("%q, %v", line, err)
	}
	var made []string
	for _, p := range f.parents() {
		dir := filepath.Join(p.dir, p.prefix+id)
		if _, err := os.Stat(dir); err == nil {
			made = append(made, dir)
		}
	}
	if len(made) == 0 {
		t.Error("no cgroup was made")
	}
	f.sweep()
	for _, dir := range made {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("the cgroup of a live process was swept: %v", err)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	f.sweep()
	for _, dir := range made {
		wantGone(t, dir)
	}
}
