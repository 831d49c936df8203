package starter

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// runProgram has a child run what write appends, and returns what the child
// handed over and what failed.
func runProgram(t *testing.T, write func(*program)) ([]int, error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := newProgram()
	if err != nil {
		t.Fatal(err)
	}
	write(p)
	pid, err := p.fork(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reap(pid)
	return p.wait()
}

func TestProgramMakesCallsInOrder(t *testing.T) {
	dir := t.TempDir()
	_, err := runProgram(t, func(p *program) {
		at := p.openDir("opening", dir)
		p.do("making a directory", unix.SYS_MKDIRAT, at, "sub", 0o755)
		sub := p.do("opening it", unix.SYS_OPENAT, at, "sub", unix.O_PATH|unix.O_DIRECTORY)
		f := p.do("making a file", unix.SYS_OPENAT, sub, "file", unix.O_CREAT|unix.O_WRONLY, 0o644)
		p.do("writing", unix.SYS_WRITE, f, []byte("hello"), 5)
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "sub/file"))
	if err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestProgramFailureNamesTheCall(t *testing.T) {
	dir := t.TempDir()
	_, err := runProgram(t, func(p *program) {
		at := p.openDir("opening", dir)
		p.do("making what is there", unix.SYS_MKDIRAT, at, ".", 0o755)
		p.do("making another", unix.SYS_MKDIRAT, at, "after", 0o755)
	})
	if !errors.Is(err, unix.EEXIST) || !strings.HasPrefix(err.Error(), "making what is there: ") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "after")); err == nil {
		t.Error("it went on after a failure")
	}
}

func TestProgramSkipsWhatIsOptional(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"file": "", "dir/file": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("dir", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		find    string
		skipped bool
	}{{"dir", false}, {"gone", true}, {"file/below", true}, {"link/file", true}} {
		os.Remove(filepath.Join(dir, "made"))
		_, err := runProgram(t, func(p *program) {
			at := tree{program: p, root: p.openDir("opening", dir)}
			first := len(p.calls)
			at.find("finding", []byte(test.find))
			p.do("making", unix.SYS_MKDIRAT, at.root, "made", 0o755)
			p.optional(first)
			p.do("afterwards", unix.SYS_MKDIRAT, at.root, "after-"+strings.ReplaceAll(test.find, "/", "-"), 0o755)
		})
		_, made := os.Stat(filepath.Join(dir, "made"))
		_, after := os.Stat(filepath.Join(dir, "after-"+strings.ReplaceAll(test.find, "/", "-")))
		if err != nil || (made != nil) != test.skipped || after != nil {
			t.Errorf("%s: %v; made: %v, went on: %v", test.find, err, made, after)
		}
	}
	// Any other failure is one.
	_, err := runProgram(t, func(p *program) {
		first := len(p.calls)
		p.do("changing to a bad descriptor", unix.SYS_FCHDIR, -1)
		p.optional(first)
	})
	if !errors.Is(err, unix.EBADF) {
		t.Errorf("%v", err)
	}
}

func TestProgramHandsOverDescriptors(t *testing.T) {
	fds, err := runProgram(t, func(p *program) {
		f := p.do("opening", unix.SYS_OPENAT, unix.AT_FDCWD, "/proc/self/stat", unix.O_RDONLY)
		n := p.fds.free()
		p.do("numbering", unix.SYS_DUP3, f, n, unix.O_CLOEXEC)
		p.do("handing over", unix.SYS_SENDMSG, p.fds.status, p.rights([]int{n}), unix.MSG_NOSIGNAL)
	})
	defer closeAll(fds)
	if err != nil || len(fds) != 1 {
		t.Fatalf("%v, %v", fds, err)
	}
	flags, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("it would go to what this process executes: %v, %v", flags, err)
	}
}

// A child that is killed has not done what it should, and has handed nothing
// over.
func TestProgramThatIsKilled(t *testing.T) {
	fds, err := runProgram(t, func(p *program) {
		self := p.do("who am I", unix.SYS_GETPID)
		p.do("dying", unix.SYS_KILL, self, int(unix.SIGKILL))
	})
	if err == nil || len(fds) != 0 {
		t.Errorf("%v, %v", fds, err)
	}
}

// The status ends with an execve; what cannot be executed is a failure.
func TestProgramThatExecutes(t *testing.T) {
	for path, want := range map[string]error{"/bin/true": nil, "/nowhere": unix.ENOENT} {
		_, err := runProgram(t, func(p *program) {
			p.executes = true
			p.do("executing", unix.SYS_EXECVE, path, p.strings(path), p.strings())
		})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

func TestVerifyFindsAReplacedPin(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	pin := &Pin{Path: []byte(dir), Dev: st.Dev, Ino: st.Ino}
	if err := verify([]*Pin{pin}, []int{fd}); err != nil {
		t.Error(err)
	}
	pin.Ino++
	if err := verify([]*Pin{pin}, []int{fd}); err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("%v", err)
	}
}
