package load_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sallyport/sallyport/seccomp"
	"github.com/sallyport/sallyport/seccomp/load"
	"golang.org/x/sys/unix"
)

// scenes are what a copy of the test program does with a filter: it binds a
// thread or a process for life.
var scenes = map[string]func(filter []byte) error{
	"binds the thread":           oneThread,
	"binds every thread":         everyThread,
	"fails when threads differ":  differingThreads,
	"returns a listener":         listener,
	"fails without no_new_privs": unprivileged,
}

func TestMain(m *testing.M) {
	name := os.Getenv("LOAD_TEST_SCENE")
	scene, ok := scenes[name]
	if !ok {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	action := specs.ActErrno
	if name == "returns a listener" {
		action = specs.ActNotify
	}
	filter, err := seccomp.Compile(&specs.LinuxSeccomp{
		DefaultAction: specs.ActAllow,
		Syscalls:      []specs.LinuxSyscall{{Names: []string{"getppid"}, Action: action}},
	}, runtime.GOARCH)
	if err == nil && name != "fails without no_new_privs" {
		err = noNewPrivs()
	}
	if err == nil {
		err = scene(load.Bytes(filter))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestInstall plays the scenes.
func TestInstall(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range scenes {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, self)
			cmd.Env = append(os.Environ(), "LOAD_TEST_SCENE="+name)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func noNewPrivs() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// refused says whether the filter binds the calling thread.
func refused() bool {
	_, _, errno := unix.Syscall(unix.SYS_GETPPID, 0, 0, 0)
	return errno == unix.EPERM
}

// newThread starts a thread, before there is a filter to inherit, and returns
// a function that runs another there.
func newThread() func(func() error) error {
	calls, results := make(chan func() error), make(chan error)
	go func() {
		runtime.LockOSThread()
		for f := range calls {
			results <- f()
		}
	}()
	run := func(f func() error) error { calls <- f; return <-results }
	_ = run(noNewPrivs)
	return run
}

func oneThread(filter []byte) error {
	other := newThread()
	if fd, err := load.Install(filter, 0); fd != -1 || err != nil {
		return fmt.Errorf("install: %d, %w", fd, err)
	}
	if !refused() {
		return errors.New("the thread is not bound")
	}
	return other(func() error {
		if refused() {
			return errors.New("another thread is bound")
		}
		return nil
	})
}

func everyThread(filter []byte) error {
	other := newThread()
	if fd, err := load.Install(filter, unix.SECCOMP_FILTER_FLAG_TSYNC); fd != -1 || err != nil {
		return fmt.Errorf("install: %d, %w", fd, err)
	}
	return other(func() error {
		if !refused() {
			return errors.New("another thread is not bound")
		}
		return nil
	})
}

func differingThreads(filter []byte) error {
	other := newThread()
	if _, err := load.Install(filter, 0); err != nil {
		return err
	}
	return other(func() error {
		_, err := load.Install(filter, unix.SECCOMP_FILTER_FLAG_TSYNC)
		if want := fmt.Sprintf("thread %d has one of its own", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("install: %v, want %s", err, want)
		}
		if refused() {
			return errors.New("the thread is bound nevertheless")
		}
		return nil
	})
}

func listener(filter []byte) error {
	other := newThread()
	fd, err := load.Install(filter, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	if err != nil {
		return err
	}
	answered := make(chan error)
	go func() {
		answered <- other(func() error {
			// struct seccomp_notif and struct seccomp_notif_resp
			var notif struct {
				id         uint64
				pid, flags uint32
				data       [64]byte
			}
			if err := control(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&notif)); err != nil {
				return err
			}
			resp := struct {
				id         uint64
				val        int64
				err, flags int32
			}{id: notif.id, val: 12345}
			return control(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&resp))
		})
	}()
	ppid, _, _ := unix.Syscall(unix.SYS_GETPPID, 0, 0, 0)
	if err := <-answered; err != nil || ppid != 12345 {
		return fmt.Errorf("getppid is %d, and the listener's error %v", ppid, err)
	}
	return nil
}

func control(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func unprivileged(filter []byte) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return err
	}
	if _, err := load.Install(filter, 0); !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("install: %v, want %v", err, unix.EACCES)
	}
	return nil
}

// TestBytes checks the layout of struct sock_filter.
func TestBytes(t *testing.T) {
	filter := []unix.SockFilter{{Code: 0x0102, Jt: 3, Jf: 4, K: 0x05060708}, {Code: 6, K: 0x7fff0000}}
	var want bytes.Buffer
	if err := binary.Write(&want, binary.NativeEndian, filter); err != nil {
		t.Fatal(err)
	}
	if got := load.Bytes(filter); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("got %x, want %x", got, want.Bytes())
	}
}

// TestInstallRefuses has what is no filter.
func TestInstallRefuses(t *testing.T) {
	for _, filter := range [][]byte{nil, make([]byte, 7), make([]byte, 12), make([]byte, 8*4097)} {
		if _, err := load.Install(filter, 0); err == nil {
			t.Errorf("%d bytes were installed", len(filter))
		}
	}
}
