package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native"
	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

// expect checks a check. Whatever is wrong has a meaning and a cure.
func expect(t *testing.T, c Check, status Status, parts ...string) {
	t.Helper()
	if c.Status != status {
		t.Errorf("%+v is not %s", c, status)
	}
	if (status == Fail || status == Less) && c.Means == "" {
		t.Errorf("%+v means nothing", c)
	}
	all := c.Found + "\n" + c.Means + "\n" + c.Cure
	for _, part := range parts {
		if !strings.Contains(all, part) {
			t.Errorf("%+v does not say %q", c, part)
		}
	}
}

func TestThisMachine(t *testing.T) {
	o := Options{Store: sallytest.Store(t), Workspace: t.TempDir(), Driver: sallytest.Driver(t)}
	checks := Run(t.Context(), o)
	if !Healthy(checks) {
		t.Errorf("sessions start here: %+v", checks)
	}
	seen := make(map[string]Check)
	for _, c := range checks {
		if c.Found == "" || c.Name == "" {
			t.Errorf("%+v", c)
		}
		seen[c.Name] = c
	}
	for _, name := range []string{"kernel", "guest", "namespaces", "overlay", "Landlock", "seccomp", "cgroups", "disk", "session", "notification", "ripgrep"} {
		if _, ok := seen[name]; !ok {
			t.Errorf("%s was not looked at", name)
		}
	}
	expect(t, seen["session"], OK, "started, ran a command in both boxes")
	if list, err := o.Store.List(); err != nil || len(list) != 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

func TestGuestThatIsMissing(t *testing.T) {
	o := Options{Store: sallytest.Store(t), Workspace: t.TempDir(), Driver: native.Driver{Guest: "/no/such/guest"}}
	checks := Run(t.Context(), o)
	if Healthy(checks) {
		t.Error("healthy")
	}
	for _, c := range checks {
		switch c.Name {
		case "guest":
			expect(t, c, Fail, "/no/such/guest", "make install")
		case "session", "namespaces":
			t.Errorf("looked at without a guest: %+v", c)
		}
	}
}

func TestHealthy(t *testing.T) {
	for status, want := range map[Status]bool{OK: true, Less: true, Info: true, Fail: false} {
		if got := Healthy([]Check{{Status: OK}, {Status: status}, {Status: Info}}); got != want {
			t.Errorf("%s: %v", status, got)
		}
	}
}

func TestKernel(t *testing.T) {
	there := func() error { return unix.EINVAL } // it is known, if not so called
	gone := func() error { return unix.ENOSYS }
	expect(t, kernel([]kernelCall{{"one", "5.1", there}})[0], OK, "Linux ")
	expect(t, kernel([]kernelCall{{"one", "5.1", there}, {"two", "5.2", gone}, {"three", "5.3", gone}})[0], Fail,
		"without two (Linux 5.2), three (Linux 5.3)", "use Linux 5.13 or newer; in a container, its seccomp profile may hide these calls")
	for _, call := range kernelCalls {
		if err := call.probe(); errors.Is(err, unix.ENOSYS) {
			t.Errorf("%s: %v", call.name, err)
		}
	}
}

func TestNamespaces(t *testing.T) {
	expect(t, namespaces(&native.Probe{}, nil)[0], OK)
	expect(t, namespaces(nil, errors.New("why there are none"))[0], Fail, "why there are none", "no session starts")
	for _, test := range []struct {
		p     native.Probe
		parts []string
	}{
		{native.Probe{Private: unix.EACCES}, []string{"the first mount in them is refused: permission denied", native.WhyNoNamespaces()}},
		{native.Probe{Tmpfs: unix.EPERM}, []string{"mounting a tmpfs: operation not permitted"}},
		{native.Probe{Proc: unix.EPERM}, []string{"mounting a new /proc: operation not permitted", "--security-opt systempaths=unconfined"}},
		{native.Probe{Devpts: unix.EPERM}, []string{"mounting devpts"}},
		{native.Probe{Attributes: unix.ENOSYS}, []string{"making mounts read-only", "use Linux 5.12 or newer"}},
		{native.Probe{UserNS: unix.ENOSPC}, []string{"a user namespace inside another", "user.max_user_namespaces"}},
		{native.Probe{Private: unix.EACCES, Proc: unix.EPERM}, []string{"the first mount"}}, // the first cause, not the last
	} {
		expect(t, namespaces(&test.p, nil)[0], Fail, test.parts...)
	}
}

// What forbids namespaces is told apart by files that this test puts in the place
// of the kernel's, in a mount namespace that ends with the thread.
func TestWhyThereAreNoNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can put other files in the place of those of /proc/sys")
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		env   string
		want  string
	}{
		{"the sysctl", map[string]string{"unprivileged_userns_clone": "0\n"}, "", "set the sysctl kernel.unprivileged_userns_clone=1"},
		{"the sysctl, and AppArmor", map[string]string{"unprivileged_userns_clone": "0\n", "apparmor_restrict_unprivileged_userns": "1\n"}, "", "kernel.unprivileged_userns_clone=1"},
		{"AppArmor", map[string]string{"unprivileged_userns_clone": "1\n", "apparmor_restrict_unprivileged_userns": "1\n"}, "", "AppArmor restricts user namespaces here; run: sudo sallyport setup"},
		{"a container", map[string]string{"apparmor_restrict_unprivileged_userns": "0\n"}, "docker", "--security-opt seccomp=unconfined --security-opt systempaths=unconfined"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("container", test.env)
			inMountNamespace(t, func() error {
				if err := unix.Mount("tmpfs", "/proc/sys/kernel", "tmpfs", 0, ""); err != nil {
					return err
				}
				for name, content := range test.files {
					if err := os.WriteFile("/proc/sys/kernel/"+name, []byte(content), 0o644); err != nil {
						return err
					}
				}
				// As the check has it.
				c := namespaces(&native.Probe{Private: unix.EACCES}, nil)[0]
				if c.Status != Fail || !strings.Contains(c.Cure, test.want) {
					return fmt.Errorf("%+v", c)
				}
				return nil
			})
		})
	}
}

func inMountNamespace(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSubordinateIDs(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	some := file("some", "other:1:2\n54321:100000:65536\n")
	byName := file("name", "nobody:100000:65536\n")
	none := file("none", "other:100000:65536\n543210:1:1\n")
	expect(t, subordinate(0, none), Info, "not needed")
	expect(t, subordinate(54321, some, some), Info, "there are some; sessions do not use them")
	expect(t, subordinate(65534, byName, byName), Info, "there are some")
	expect(t, subordinate(54321, some, none), Info, none+" has none for you; sessions need none, but files of other groups cannot be changed in one")
	expect(t, subordinate(54321, dir+"/nothing"), Info, "has none for you")
}

func TestOverlay(t *testing.T) {
	state, work := t.TempDir(), t.TempDir()
	expect(t, overlay(&native.Probe{}, state, work)[0], OK, state, work)
	for _, test := range []struct {
		name  string
		p     native.Probe
		parts []string
	}{
		{"the state directory cannot be an upper", native.Probe{Overlay: unix.EINVAL}, []string{"the file system of " + state, "cannot hold a layer", "set XDG_STATE_HOME", "no session starts"}},
		{"no overlays", native.Probe{Overlay: unix.ENODEV, OverlayTmp: unix.ENODEV}, []string{"modprobe overlay", "--workspace cow"}},
		{"stacked too deep", native.Probe{Overlay: unix.EINVAL, OverlayTmp: unix.EINVAL}, []string{work, "choose another workspace"}},
		{"something else", native.Probe{Overlay: unix.EIO, OverlayTmp: unix.EIO}, []string{"input/output error", "choose another workspace"}},
	} {
		t.Run(test.name, func(t *testing.T) { expect(t, overlay(&test.p, state, work)[0], Fail, test.parts...) })
	}
	if got := fsName("/proc"); got != "file system 0x9fa0" {
		t.Error(got)
	}
	if got := fsName(state + "/nothing"); got != "no such file or directory" {
		t.Error(got)
	}
}

// For real: a state directory on an overlay is none that can hold layers, and
// one on a full file system has no room for them.
func TestStateDirectoriesThatCannotHoldLayers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount an overlay to lie in")
	}
	dir, driver := t.TempDir(), sallytest.Driver(t)
	for _, name := range []string{"lower", "upper", "work", "state", "small", "base"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inMountNamespace(t, func() error {
		if err := unix.Mount("overlay", dir+"/state", "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)); err != nil {
			return err
		}
		p, err := driver.Probe(t.Context(), dir+"/state", dir+"/base")
		if err != nil {
			return err
		}
		expect(t, overlay(p, dir+"/state", dir+"/base")[0], Fail, "(overlay) cannot hold a layer", "set XDG_STATE_HOME")
		if err := unix.Mount("tmpfs", dir+"/small", "tmpfs", 0, "size=1m"); err != nil {
			return err
		}
		expect(t, disk(dir+"/small"), Fail, "1 MiB free", "set XDG_STATE_HOME")
		return nil
	})
	expect(t, disk(dir), OK, "MiB free")
	if c := disk(dir + "/nothing"); c.Status != Fail {
		t.Errorf("%+v", c)
	}
}

func TestLandlock(t *testing.T) {
	expect(t, landlock(7), OK, "ABI 7")
	expect(t, landlock(2), OK, "ABI 2")
	expect(t, landlock(1), Less, "ABI 1", "is not used", "use Linux 5.19 or newer")
	expect(t, landlock(0), Less, "none", "what a call may write cannot be narrowed", "landlock among the lsm=")
}

func TestSeccomp(t *testing.T) {
	expect(t, seccompCheck(true), OK)
	expect(t, seccompCheck(false), Fail, "CONFIG_SECCOMP_FILTER")
	if !seccompHas(unix.SECCOMP_RET_ERRNO) || seccompHas(0x12340000) {
		t.Error("what a filter can do is not found out")
	}
}

func TestNotification(t *testing.T) {
	expect(t, notification(sandbox.AttemptsSeen), OK, "seccomp notification")
	expect(t, notification("suspected from what programs say: no seccomp notification (device or resource busy)"), Less, "busy", "stopped, but not seen", "Linux 5.5")
}

func TestCgroups(t *testing.T) {
	expect(t, cgroups([]string{"memory", "processes"}, "cgroup v2", nil)[0], OK, "cgroup v2 holds memory, processes")
	expect(t, cgroups(nil, "", errors.New("nothing is delegated"))[0], Less, "nothing is delegated", "--memory, --cpus and --pids are refused")
}
