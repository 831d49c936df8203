package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/sandbox/wire"
)

// The guest of these tests is a copy of the test program that is PID 1 of a
// namespace, with the machine's own files.

const envRole = "GUEST_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "guest":
		err := errors.Join(
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("proc", "/proc", "proc", 0, ""),
			unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), // of the thread that execs; all that follow inherit it
		)
		os.Unsetenv(envRole)
		if err == nil {
			err = syscall.Exec("/proc/self/exe", []string{"guest", "-serve"}, os.Environ())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case "signal":
		signalEverything()
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "-serve" {
		os.Exit(Main("test", 3, testFunctions))
	}
	os.Exit(runTests(m))
}

// program is what the guests of these tests run.
var program = "/proc/self/exe"

// runTests runs the tests. The guest is a program without cgo, and so what the tests
// run must be one.
func runTests(m *testing.M) int {
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPPID, 0, 0, 0); errno == unix.ENOTSUP {
		dir, err := os.MkdirTemp("", "guest-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = dir + "/guest.test"
		build := exec.Command("go", "test", "-c", "-o", program, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the tests without cgo: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

var testFunctions = map[string]Function{
	"echo": {Run: func(_ context.Context, c *inside.Call) ([]byte, error) { return c.Input, nil }, Pure: true},
	"large": {Run: func(context.Context, *inside.Call) ([]byte, error) {
		return make([]byte, wire.MaxFrame-1023), nil
	}, Pure: true},
	"largest": {Run: func(context.Context, *inside.Call) ([]byte, error) {
		return make([]byte, wire.MaxFrame-1024), nil
	}, Pure: true},
	"fail": {Run: func(context.Context, *inside.Call) ([]byte, error) {
		return nil, fmt.Errorf("doing it: %w", unix.ENOTEMPTY)
	}, Pure: true},
	"wait": {Run: func(ctx context.Context, c *inside.Call) ([]byte, error) {
		c.Progress([]byte("waiting"))
		<-ctx.Done()
		return nil, ctx.Err()
	}, Pure: true},
	"write": {Run: func(_ context.Context, c *inside.Call) ([]byte, error) {
		return nil, os.WriteFile(string(c.Input), nil, 0o644)
	}},
	"dumpable": {Run: func(context.Context, *inside.Call) ([]byte, error) {
		n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		return fmt.Append(nil, n), err
	}, Pure: true},
	// run runs a program whose arguments are lines, and returns what it wrote and
	// how it ended; start leaves it alone.
	"run": {Run: func(ctx context.Context, c *inside.Call) ([]byte, error) {
		var out, errors bytes.Buffer
		exit, err := c.Programs.Run(ctx, inside.Program{
			Args: strings.Split(string(c.Input), "\n"), Env: c.Env, Dir: "/", Stdout: &out, Stderr: &errors,
		})
		if exit == nil {
			return nil, err
		}
		return fmt.Appendf(nil, "%s|%s|%d %d %v", out.Bytes(), errors.Bytes(), exit.Code, exit.Signal, err), nil
	}},
	"start": {Run: func(_ context.Context, c *inside.Call) ([]byte, error) {
		return nil, c.Programs.Start(inside.Program{Args: strings.Split(string(c.Input), "\n"), Env: c.Env, Dir: "/"})
	}},
}

// connect starts a guest that ends with the test.
func connect(t *testing.T) *wire.Client {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	host, inside := os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "guest")
	defer host.Close()
	defer inside.Close()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), envRole+"=guest")
	cmd.ExtraFiles = []*os.File{inside}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	uid, gid := os.Getuid(), os.Getgid()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(host)
	if err != nil {
		t.Fatal(err)
	}
	c := wire.NewClient(conn)
	t.Cleanup(func() {
		c.Close()
		// It ends when the host hangs up.
		if err := cmd.Wait(); err != nil {
			t.Errorf("the guest: %v: %s", err, stderr.String())
		}
	})
	return c
}

// start starts a guest whose calls may write below dir.
func start(t *testing.T, dir string) *wire.Client {
	t.Helper()
	c := connect(t)
	resp, err := c.Hello(t.Context(), &wire.HelloRequest{Version: "test", Writable: [][]byte{[]byte(dir), []byte("/dev"), []byte("/proc")}, Env: [][]byte{[]byte("PATH=/usr/bin:/bin")}})
	if err != nil {
		t.Fatal(err)
	}
	if int(resp.LandlockAbi) != landlockABI() || resp.Version != "test" {
		t.Errorf("%v", resp)
	}
	return c
}

func command(call uint64, args ...string) *wire.ExecRequest {
	r := &wire.ExecRequest{Call: call, Dir: []byte("/"), Env: [][]byte{[]byte("PATH=/usr/bin:/bin")}}
	for _, a := range args {
		r.Args = append(r.Args, []byte(a))
	}
	return r
}

// run runs a program and returns what it wrote.
func run(t *testing.T, c *wire.Client, req *wire.ExecRequest) (*wire.Exit, string, string) {
	t.Helper()
	var stdout, stderr strings.Builder
	exit, err := c.Exec(t.Context(), req, func(out *wire.ExecOutput) error {
		stdout.Write(out.GetStdout())
		stderr.Write(out.GetStderr())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return exit, stdout.String(), stderr.String()
}

// signalEverything sends PID 1 every signal, as kill(2) does and with a siginfo
// of its own making.
func signalEverything() {
	// siginfo_t: signo, errno, code, and then pid and uid.
	var info [128]byte
	const queued = -1 // SI_QUEUE
	for sig := 1; sig <= 64; sig++ {
		unix.Kill(1, unix.Signal(sig))
		*(*int32)(unsafe.Pointer(&info[0])) = int32(sig)
		*(*int32)(unsafe.Pointer(&info[8])) = queued
		unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(sig), uintptr(unsafe.Pointer(&info[0])))
		unix.Tgkill(1, 1, unix.Signal(sig))
	}
	os.Stdout.WriteString("sent\n")
}
