package native

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/native/starter"
)

// Each failure that a user can do something about says what.
func TestExplain(t *testing.T) {
	for _, test := range []struct {
		message string
		errno   unix.Errno
		want    string // "" is the failure as it is
	}{
		{"a process in new namespaces: operation not permitted", unix.EPERM, WhyNoNamespaces()},
		{"a user namespace: no space left on device", unix.ENOSPC, "user.max_user_namespaces"},
		{"a user namespace: too many users", unix.EUSERS, "user.max_user_namespaces"},
		{"a process in new namespaces: invalid argument", unix.EINVAL, "Linux 5.13"},
		{"a process in new namespaces: cannot allocate memory", unix.ENOMEM, ""},
		{"making the mounts private: permission denied", unix.EACCES, WhyNoNamespaces()},
		{"making the mounts private: operation not permitted", unix.EPERM, WhyNoNamespaces()},
		{"making the mounts private: input/output error", unix.EIO, ""},
		{"mounting /proc: operation not permitted", unix.EPERM, "systempaths=unconfined"},
		{"mounting overlay /w: invalid argument", unix.EINVAL, "cannot be a layer"},
		{"mounting overlay /w: no such device", unix.ENODEV, "modprobe overlay"},
		{"mounting overlay /w: permission denied", unix.EACCES, ""},
		{"mounting bind /w: function not implemented", unix.ENOSYS, "too old"},
		{"mounting bind /w: no such file or directory", unix.ENOENT, ""},
		{"/w was replaced while the session started", 0, ""},
	} {
		failure := &starter.Failure{Message: test.message, Errno: test.errno}
		got := explain(failure)
		if !strings.HasPrefix(got.Error(), test.message) {
			t.Errorf("%q does not begin with what failed", got)
		}
		if test.errno != 0 && !errors.Is(got, test.errno) {
			t.Errorf("%q lost its errno", got)
		}
		if test.want == "" && got.Error() != test.message || !strings.Contains(got.Error(), test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// Why namespaces are refused: found out as it is on this machine, so the tables
// of the causes are read in doctor's tests; here, that there is always one.
func TestWhyNoNamespacesNamesACause(t *testing.T) {
	t.Setenv("container", "")
	if why := WhyNoNamespaces(); !strings.Contains(why, "here") && !strings.Contains(why, "container") {
		t.Errorf("%q", why)
	}
	if _, err := os.Stat("/.dockerenv"); err == nil {
		t.Skip("skipped: this is a container, so another cannot be pretended")
	}
	before := inContainer()
	t.Setenv("container", "podman")
	if before || !inContainer() {
		t.Errorf("inside a container: %v, then %v", before, inContainer())
	}
}

func TestFindGuest(t *testing.T) {
	dir := t.TempDir()
	guest := filepath.Join(dir, GuestName)
	t.Setenv("PATH", "relative:"+dir)
	if got, err := (Driver{}).FindGuest(); err == nil || !strings.Contains(err.Error(), "make install") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := (Driver{Guest: guest}).FindGuest(); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("%q, %v", got, err)
	}
	put(t, guest, "")
	if got, err := (Driver{}).FindGuest(); err != nil || got != guest {
		t.Errorf("in PATH: %q, %v", got, err)
	}
	if got, err := (Driver{Guest: guest}).FindGuest(); err != nil || got != guest {
		t.Errorf("given: %q, %v", got, err)
	}
	t.Chdir(dir)
	if got, err := (Driver{Guest: "./" + GuestName}).FindGuest(); err != nil || got != guest {
		t.Errorf("given relative: %q, %v", got, err)
	}
	// A directory of PATH that is relative leads wherever one happens to be.
	t.Setenv("PATH", ".")
	if got, err := (Driver{}).FindGuest(); err == nil {
		t.Errorf("found by a relative PATH: %s", got)
	}
	// Beside the executable comes before PATH.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "bin", "test")
	put(t, filepath.Join(dir, "bin", GuestName), "")
	if out, err := exec.Command("/bin/cp", self, copied).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	cmd := exec.Command(copied, "-test.run=^TestFindGuestBeside$")
	cmd.Env = append(os.Environ(), "NATIVE_TEST_BESIDE="+filepath.Join(dir, "bin", GuestName), "PATH="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestFindGuestBeside runs in a copy of this program that has a guest beside it.
func TestFindGuestBeside(t *testing.T) {
	want := os.Getenv("NATIVE_TEST_BESIDE")
	if want == "" {
		t.Skip("skipped: only a helper of TestFindGuest")
	}
	if got, err := (Driver{}).FindGuest(); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
