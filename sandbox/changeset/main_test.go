package changeset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// The tests run against real overlays. These are mounted by a box: the test
// binary started again in a mount namespace of its own, in which the session's
// part of a test is done, while the test reads the layers from outside. Run by
// root, all is done a second time as an ordinary user, whose overlays are
// mounted in a user namespace.

const (
	envRole = "CHANGESET_TEST_ROLE"
	nobody  = 65534
)

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "box":
		serveBox(os.Stdin, os.Stdout)
		return
	case "apply":
		if err := applyAndDie(os.Getenv(envJob)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // they wait for the clock more than they work
	code := m.Run()
	if code == 0 && os.Getuid() == 0 && !fuzzing() {
		code = runAsUser()
	}
	os.Exit(code)
}

func asRoot() bool { return os.Getuid() == 0 }

func fuzzing() bool {
	return slices.ContainsFunc(os.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "-test.fuzz") || strings.HasPrefix(arg, "-test.bench=") || strings.HasPrefix(arg, "-test.list")
	})
}

func runAsUser() int {
	tmp, err := os.MkdirTemp("", "changeset-user-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(tmp)
	if err := os.Chown(tmp, nobody, nobody); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var args []string
	for _, arg := range os.Args[1:] {
		if !strings.HasPrefix(arg, "-test.testlogfile") && !strings.Contains(arg, "profile") {
			args = append(args, arg)
		}
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		Pdeathsig:  syscall.SIGKILL,
	}
	fmt.Println("=== again, as an ordinary user")
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "as an ordinary user:", err)
		return 1
	}
	return 0
}

// A boxCall is one thing to do in the box.
type boxCall struct {
	Options string `json:",omitempty"` // mount an overlay with them on Dir
	Remount bool   `json:",omitempty"`
	Unmount bool   `json:",omitempty"`
	Script  string `json:",omitempty"` // for the shell, in Dir
	Ops     []op   `json:",omitempty"` // in Dir
	Tree    string `json:",omitempty"` // write what tree lists of Dir to this file
	Dir     string
}

func serveBox(in io.Reader, out io.Writer) {
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var c boxCall
		if err = json.Unmarshal(text, &c); err == nil {
			err = c.do()
		}
		answer := ""
		if err != nil {
			answer = err.Error()
		}
		json.NewEncoder(out).Encode(answer)
	}
}

func (c boxCall) do() error {
	switch {
	case c.Options != "":
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("overlay", c.Dir, "overlay", 0, c.Options)
	case c.Remount:
		return unix.Mount("", c.Dir, "", unix.MS_REMOUNT, "")
	case c.Unmount:
		return unix.Unmount(c.Dir, 0)
	case c.Script != "":
		return shell(c.Dir, c.Script)
	case c.Tree != "":
		s, err := tree(c.Dir)
		if err != nil {
			return err
		}
		return os.WriteFile(c.Tree, []byte(s), 0o644)
	}
	for _, o := range c.Ops {
		o.do(c.Dir)
	}
	return nil
}

func shell(dir, script string) error {
	cmd := exec.Command("sh", "-euc", "umask 022\n"+script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return nil
}

// A box is a process with mounts of its own.
type box struct {
	t   testing.TB
	mu  sync.Mutex
	in  io.WriteCloser
	out *json.Decoder
}

func newBox(t testing.TB) *box {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envRole+"=box")
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error("box:", err, stderr.String())
		}
	})
	return &box{t: t, in: in, out: json.NewDecoder(out)}
}

func (b *box) try(c boxCall) error {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := json.NewEncoder(b.in).Encode(c); err != nil {
		b.t.Fatal(err)
	}
	var answer string
	if err := b.out.Decode(&answer); err != nil {
		b.t.Fatal(err)
	}
	if answer != "" {
		return fmt.Errorf("%s", answer)
	}
	return nil
}

func (b *box) do(c boxCall) {
	b.t.Helper()
	if err := b.try(c); err != nil {
		b.t.Fatal(err)
	}
}

// A lab is a workspace and a session of it.
type lab struct {
	t       testing.TB
	box     *box
	dir     string // holds the directories below
	base    string
	policy  string // empty unless made by withPolicy
	upper   string
	view    string // where the overlay is mounted, in the box
	state   *beneath.Dir
	mounted bool
}

func newLab(t testing.TB, b *box) *lab {
	t.Helper()
	return newLabIn(t, b, "")
}

// newFastLab makes a lab in memory, if there is room, for tests that make many.
func newFastLab(t testing.TB, b *box) *lab {
	t.Helper()
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if unix.Statfs(shm, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || unix.Access(shm, unix.W_OK) != nil {
		return newLabIn(t, b, "")
	}
	return newLabIn(t, b, shm)
}

func newLabIn(t testing.TB, b *box, parent string) *lab {
	t.Helper()
	dir := tempDir(t, parent)
	l := &lab{
		t: t, box: b, dir: dir,
		base:  filepath.Join(dir, "base"),
		upper: filepath.Join(dir, "upper"),
		view:  filepath.Join(dir, "view"),
	}
	for _, d := range []string{l.base, l.upper, l.view, filepath.Join(dir, "work"), filepath.Join(dir, "state")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l.state = openDir(t, filepath.Join(dir, "state"))
	return l
}

// tempDir is t.TempDir for trees that may have directories without permissions.
func tempDir(t testing.TB, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "changeset-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d, err := beneath.Open(filepath.Dir(dir))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.RemoveAll(filepath.Base(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func openDir(t testing.TB, dir string) *beneath.Dir {
	t.Helper()
	d, err := beneath.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// host runs a script in the base, as the user.
func (l *lab) host(script string) {
	l.t.Helper()
	if err := shell(l.base, script); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) withPolicy(script string) {
	l.t.Helper()
	l.policy = filepath.Join(l.dir, "policy")
	if err := os.Mkdir(l.policy, 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := shell(l.policy, script); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) mount() {
	l.t.Helper()
	lower := l.base
	if l.policy != "" {
		lower = l.policy + ":" + lower
	}
	opts := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s/work,index=off,metacopy=off,xino=off", lower, l.upper, l.dir)
	if os.Getuid() == 0 {
		opts += ",redirect_dir=nofollow"
	} else {
		opts += ",redirect_dir=nofollow,userxattr"
	}
	l.box.do(boxCall{Options: opts, Dir: l.view})
	if !l.mounted {
		l.t.Cleanup(l.unmount)
	}
	l.mounted = true
}

func (l *lab) unmount() {
	l.t.Helper()
	if l.mounted {
		l.box.do(boxCall{Unmount: true, Dir: l.view})
	}
	l.mounted = false
}

// session runs a script in the session's view.
func (l *lab) session(script string) {
	l.t.Helper()
	l.box.do(boxCall{Script: script, Dir: l.view})
}

func (l *lab) layers() Layers {
	l.t.Helper()
	v := View{UserXattr: os.Getuid() != 0}
	if l.policy != "" {
		v.Layers = append(v.Layers, Layer{openDir(l.t, l.policy), true})
	}
	v.Layers = append(v.Layers, Layer{Dir: openDir(l.t, l.base)})
	return Layers{Upper: openDir(l.t, l.upper), Lower: v}
}

func (l *lab) read(o Options) *Set {
	l.t.Helper()
	s, err := Read(l.t.Context(), l.layers(), o)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// file returns the content of a file beside the workspace.
func (l *lab) file(name string) string {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(data)
}

// describe is a set in short: one line a change.
func describe(s *Set) string {
	var b strings.Builder
	for _, c := range s.Changes {
		fmt.Fprintf(&b, "%s %s %q", c.Kind, c.Type, c.Path)
		if c.OldType != "" && c.OldType != c.Type {
			fmt.Fprintf(&b, " was %s", c.OldType)
		}
		if c.From != "" {
			fmt.Fprintf(&b, " from %q", c.From)
		}
		if c.OldType != "" && c.Kind != Deleted && c.Mode != c.OldMode {
			fmt.Fprintf(&b, " %o>%o", c.OldMode, c.Mode)
		}
		if c.Target != "" {
			fmt.Fprintf(&b, " to %q", c.Target)
		}
		if c.Below > 0 {
			fmt.Fprintf(&b, " below %d", c.Below)
		}
		for _, flag := range []struct {
			set  bool
			name string
		}{{c.Outside, "outside"}, {c.Binary, "binary"}, {c.Protected, "protected"}, {c.Owner != nil, "owner"}} {
			if flag.set {
				b.WriteString(" " + flag.name)
			}
		}
		if c.Refused != "" {
			fmt.Fprintf(&b, " refused: %s", c.Refused)
		}
		if c.Conflict != "" {
			fmt.Fprintf(&b, " conflict: %s", c.Conflict)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// settled waits until all that was done to the base so far is older than what a
// call that begins now may change.
func (l *lab) settled() Time {
	l.t.Helper()
	view := l.layers().Lower
	start, err := view.Clock()
	if err != nil {
		l.t.Fatal(err)
	}
	for now := start; ; {
		// A kernel with fine stamps is ahead of its coarse clock by up to a tick.
		if now.before(start.Nano + int64(tick)) {
			return now
		}
		time.Sleep(time.Millisecond) // until the clock has moved on, not for a time
		if now, err = view.Clock(); err != nil {
			l.t.Fatal(err)
		}
	}
}

// begin makes the view fresh and notes that a call begins.
func (l *lab) begin(b *Bases) {
	l.t.Helper()
	now := l.settled()
	if l.mounted {
		l.box.do(boxCall{Remount: true, Dir: l.view})
	} else {
		l.mount()
	}
	if err := b.Begin(Times{Call: now, Fresh: now}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) bases() *Bases {
	l.t.Helper()
	b, err := OpenBases(l.state)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { b.Close() })
	l.scan(b)
	return b
}

func (l *lab) scan(b *Bases) {
	l.t.Helper()
	if err := b.Scan(l.t.Context(), l.layers()); err != nil {
		l.t.Fatal(err)
	}
}
