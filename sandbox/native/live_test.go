package native_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native"
	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

// cgroupsOf finds the cgroups of a session on this machine.
func cgroupsOf(t *testing.T, id string) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasSuffix(d.Name(), id) {
			dirs = append(dirs, path)
		}
		return nil // what is gone meanwhile is another's
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

func cgroupsUsable(t *testing.T) {
	t.Helper()
	if held, _, err := native.TryCgroup(); err != nil || len(held) < 2 {
		t.Skipf("skipped: this process (uid %d) cannot use the machine's cgroups: %v %v", os.Geteuid(), held, err)
	}
}

func TestSessionRunsInItsCgroup(t *testing.T) {
	cgroupsUsable(t)
	// RLIMIT_NPROC keeps the agent from taking what the guest needs for itself,
	// but binds only one that is not root.
	workspace := t.TempDir()
	if err := os.Chown(workspace, 60777, 60777); err != nil {
		t.Fatal(err)
	}
	s := sallytest.Session(t, sandbox.Settings{Workspace: workspace}, sandbox.Limits{Memory: 128 << 20, Pids: 40})
	dirs := cgroupsOf(t, s.ID)
	if len(dirs) == 0 {
		t.Fatal("the session has no cgroup")
	}
	for _, dir := range dirs {
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || len(bytes.Fields(procs)) == 0 {
			t.Errorf("no process of the session is in %s (%v)", dir, err)
		}
	}
	m := s.Mechanisms()
	for _, limit := range []string{"limits.memory", "limits.processes"} {
		if !strings.HasPrefix(m[limit], "cgroup v") {
			t.Errorf("%s is held by %q", limit, m[limit])
		}
	}

	exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"sh", "-c",
		"i=0; while [ $i -lt 200 ]; do sleep 100 >/dev/null 2>&1 & i=$((i+1)); done"}})
	switch {
	case err == nil && exit.Status() != 0:
	case err != nil && strings.Contains(err.Error(), "limit of 40 processes"): // PID 1 had no thread left
	default:
		t.Errorf("two hundred processes were started: %+v, %v", exit, err)
	}

	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, dir := range dirs {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left (%v)", dir, err)
		}
	}
}

func TestMemoryLimitKillsAndIsNamed(t *testing.T) {
	cgroupsUsable(t)
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{Memory: 64 << 20})
	exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null; exit $?"}})
	switch {
	case err != nil && strings.Contains(err.Error(), "memory limit of 64 MiB"): // the guest went too
	case err == nil && exit.Status() == 128+int(syscall.SIGKILL):
	default:
		t.Errorf("300 MB were used: %+v, %v", exit, err)
	}
}

// Without cgroups the limits are held by rlimits.
func TestLimitsWithoutCgroups(t *testing.T) {
	if held, _, err := native.TryCgroup(); err == nil && len(held) > 0 {
		t.Skipf("skipped: uid %d has cgroups; asuser runs this where a user has none", os.Geteuid())
	}
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	m := s.Mechanisms()
	if m["limits.memory"] != "RLIMIT_DATA of each process" || m["limits.processes"] != "RLIMIT_NPROC" {
		t.Errorf("%v", m)
	}
	var out bytes.Buffer
	if _, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"bash", "-c", "ulimit -Hd; ulimit -u"}, Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d\n%d\n", sandbox.DefaultMemory()>>10, sandbox.DefaultPids)
	if out.String() != want {
		t.Errorf("RLIMIT_DATA in KiB, and RLIMIT_NPROC: %q, want %q", out.String(), want)
	}
	// One that was asked for is not held so.
	stored := sallytest.Create(t, sallytest.Store(t), sandbox.Settings{})
	live, err := stored.Start(t.Context(), sandbox.StartOptions{
		Driver: sallytest.Driver(t), Limits: sandbox.Limits{Memory: 1 << 30}, Env: os.Environ(),
	})
	if err == nil {
		live.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "the limit on memory cannot be held") {
		t.Errorf("%v", err)
	}
}

// What a host that was killed leaves behind, the next session removes: its
// processes end with it.
func TestKilledHostLeavesNothing(t *testing.T) {
	workspace, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	sallyport := filepath.Join(sallytest.Bin(t), "sallyport")
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(sallyport, append([]string{"exec", "-w", workspace, "--session", name, "--"}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	killed := run("killed", "sh", "-c", "echo started; sleep 1000")
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	killed.Stderr = os.Stderr
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	st, err := sandbox.OpenStore(filepath.Join(state, "sallyport"))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := st.Look("killed")
	if err != nil {
		t.Fatal(err)
	}
	before := cgroupsOf(t, stored.ID)
	killed.Process.Kill()
	killed.Wait()

	if out, err := run("next", "true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left := cgroupsOf(t, stored.ID); len(left) > 0 {
		t.Errorf("of the cgroups %v are left: %v", before, left)
	}
	if os.Geteuid() == 0 && len(before) == 0 {
		t.Log("there were no cgroups")
	}
}

// A start removes what dead processes have left in the store, and nothing that
// somebody has.
func TestStartSweepsTheStore(t *testing.T) {
	st := sallytest.Store(t)
	stored := sallytest.Create(t, st, sandbox.Settings{})
	sessions := filepath.Dir(stored.Dir())
	old := time.Now().Add(-time.Hour)
	for name, when := range map[string]time.Time{".gone-dead": old, ".new-dead": old, ".gone-now": time.Now(), ".gone-held": old} {
		dir := filepath.Join(sessions, name)
		if err := os.MkdirAll(filepath.Join(dir, "layers"), 0o700); err != nil {
			t.Fatal(err)
		}
		if name == ".gone-held" || name == ".gone-dead" {
			f, err := os.Create(filepath.Join(dir, "lock"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if name == ".gone-held" {
				if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.Chtimes(dir, time.Time{}, when); err != nil {
			t.Fatal(err)
		}
	}
	live := sallytest.Start(t, stored, sandbox.Limits{})
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(sessions)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{".gone-held", ".gone-now", stored.Name}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// A session whose starter dies is over, and says so; another can be started.
func TestStarterDies(t *testing.T) {
	stored := sallytest.Create(t, sallytest.Store(t), sandbox.Settings{})
	driver := copyOfGuest(t)
	others := starters(t)
	start := func() *sandbox.Session {
		t.Helper()
		s, err := stored.Start(t.Context(), sandbox.StartOptions{Driver: driver, Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	if _, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	own := slices.DeleteFunc(starters(t), func(pid int) bool { return slices.Contains(others, pid) })
	if len(own) != 1 {
		t.Fatalf("the starters are %v beside %v", own, others)
	}
	if err := syscall.Kill(own[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Its containers die with it.
	exit, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"sleep", "1000"}})
	if err == nil || !strings.Contains(err.Error(), "the session is over") {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing it: %v", err)
	}
	if left := cgroupsOf(t, s.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	s = start()
	defer s.Close()
	if _, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"true"}}); err != nil {
		t.Error(err)
	}
}

// copyOfGuest has a starter of its own, that other tests do not need.
func copyOfGuest(t *testing.T) native.Driver {
	t.Helper()
	data, err := os.ReadFile(sallytest.Driver(t).Guest)
	if err != nil {
		t.Fatal(err)
	}
	guest := filepath.Join(t.TempDir(), native.GuestName)
	if err := os.WriteFile(guest, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return native.Driver{Guest: guest}
}

// starters are the pids of this process's starters.
func starters(t *testing.T) []int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, task := range tasks {
		children, _ := os.ReadFile(task) // of a thread that may have ended
		for _, field := range strings.Fields(string(children)) {
			args, _ := os.ReadFile("/proc/" + field + "/cmdline")
			if pid, err := strconv.Atoi(field); err == nil && string(args) == "sallyport-guest\x00starter\x00" {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func TestProbe(t *testing.T) {
	d := sallytest.Driver(t)
	state := t.TempDir()
	p, err := d.Probe(t.Context(), state, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Sessions run here, so all that they need is granted.
	if p.Private != 0 || p.Tmpfs != 0 || p.Proc != 0 || p.Devpts != 0 || p.Overlay != 0 || p.Attributes != 0 || p.UserNS != 0 {
		t.Errorf("%+v", p)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) != 0 {
		t.Errorf("the probe left %v in the state directory (%v)", left, err)
	}
	// An upper cannot lie where nothing can be written.
	if _, err := d.Probe(t.Context(), "/proc", t.TempDir()); err == nil {
		t.Error("layers in /proc")
	}
	if p, err = d.Probe(t.Context(), state, "/nowhere"); err != nil || p.Overlay != syscall.ENOENT || p.OverlayTmp != syscall.ENOENT {
		t.Errorf("a workspace that is not there: %+v, %v", p, err)
	}
	if _, err := (native.Driver{Guest: "/nowhere"}).Probe(t.Context(), state, state); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("%v", err)
	}
}

// Of the user's git configuration a session has who the user is, and no more.
func TestGitIdentityIsNameAndEmail(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("skipped: this machine has no git")
	}
	sallytest.Bin(t) // built with the home that has the caches
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	config := "[user]\n\tname = A \\\"B\\\" C\n\temail = a@example.com\n\tsigningkey = KEY\n[credential]\n\thelper = store\n[alias]\n\tx = !sh\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sallytest.Session(t, sandbox.Settings{}, sandbox.Limits{})
	var out bytes.Buffer
	if _, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"git", "config", "--list"}, Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(got)
	if want := []string{"user.email=a@example.com", `user.name=A "B" C`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Sessions come and go beside one another, and the last one leaves no cgroup at
// all: neither its own, nor that which holds all sessions'.
func TestLastSessionLeavesNoCgroup(t *testing.T) {
	cgroupsUsable(t)
	st := sallytest.Store(t)
	parents := make(map[string]bool)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 4 {
		s := sallytest.Create(t, st, sandbox.Settings{Name: fmt.Sprint("s", i)})
		all.Go(func() {
			for range 5 {
				live, err := s.Start(t.Context(), sandbox.StartOptions{Driver: sallytest.Driver(t), Limits: sandbox.Limits{Pids: 64}, Env: os.Environ()})
				if err != nil {
					t.Error(err)
					return
				}
				for _, dir := range cgroupsOf(t, s.ID) {
					mu.Lock()
					parents[filepath.Dir(dir)] = true
					mu.Unlock()
				}
				if err := live.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(parents) == 0 {
		t.Error("no session had a cgroup")
	}
	for dir := range parents {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// Those of other processes may lie there.
		if err == nil && !slices.ContainsFunc(entries, os.DirEntry.IsDir) {
			t.Errorf("%s is left, with nothing in it", dir)
		}
	}
}
