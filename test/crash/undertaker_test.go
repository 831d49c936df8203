package crash

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/test/sallytest"
)

// The test binary is also the undertaker: what it starts is orphaned to it, so
// that it knows when the last process of a killed sallyport has ended.
const undertakerEnv = "SALLYPORT_TEST_UNDERTAKER"

func TestMain(m *testing.M) {
	if after := os.Getenv(undertakerEnv); after != "" {
		os.Unsetenv(undertakerEnv)
		if err := undertake(after, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "undertaker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(sallytest.Run(m))
}

// undertake runs a command, kills it, and waits until nothing is left of its
// tree. It is killed after some time, or when it has printed something. That it
// ended by itself is printed.
func undertake(after string, args []string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if us, err := strconv.Atoi(after); err == nil {
		time.Sleep(time.Duration(us) * time.Microsecond)
	} else if _, err := out.Read(make([]byte, 1)); err != nil {
		return errors.Join(errors.New("it printed nothing"), err)
	}
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err == unix.ECHILD:
			return nil
		case err != nil:
			return err
		case pid == cmd.Process.Pid && !status.Signaled():
			fmt.Println("ended", status.ExitStatus())
		}
	}
}

// kill runs sallyport with arguments and kills it; see undertake. It reports
// whether it had ended before.
func (l *lab) kill(t *testing.T, after string, args ...string) (ended bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{l.bin + "/sallyport"}, args...)...)
	cmd.Env = append(l.env(), undertakerEnv+"="+after)
	cmd.Dir = l.workspace
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// What does not end would hang the undertaker.
	hung := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	err = cmd.Wait()
	if !hung.Stop() {
		t.Fatalf("processes of the killed %v are left", args)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, said.Bytes())
	}
	return bytes.HasPrefix(out.Bytes(), []byte("ended"))
}
