package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// machine is a root directory with what a setup looks for.
func machine(t *testing.T, paths ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, p := range paths {
		full := filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	apparmorSign = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	systemdSign  = "/run/systemd/system/x"
	cgroup2Sign  = "/sys/fs/cgroup/cgroup.controllers"
)

func plan(t *testing.T, root string) *Setup {
	t.Helper()
	s, err := PlanSetup(root, "/usr/local/bin/sallyport")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlanSetup(t *testing.T) {
	for _, test := range []struct {
		name  string
		signs []string
		files []string
	}{
		{"nothing", nil, nil},
		{"AppArmor", []string{apparmorSign}, []string{apparmorFile}},
		{"AppArmor in the kernel", []string{"/sys/kernel/security/apparmor/x"}, []string{apparmorFile}},
		{"systemd", []string{systemdSign, cgroup2Sign}, []string{systemdFile}},
		{"systemd with old cgroups", []string{systemdSign}, nil},
		{"both", []string{apparmorSign, systemdSign, cgroup2Sign}, []string{apparmorFile, systemdFile}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := machine(t, test.signs...)
			s := plan(t, root)
			var files []string
			for _, f := range s.Files {
				files = append(files, f.Path)
				if f.There || f.Why == "" {
					t.Errorf("%+v", f)
				}
			}
			if !cmp.Equal(files, test.files) || s.Done() != (len(files) == 0) || len(s.Run) != len(files) || len(s.Undo) != len(files) {
				t.Errorf("%q: %+v", files, s)
			}
			if _, err := os.Stat(root + "/etc"); err == nil {
				t.Error("planning has written something")
			}
		})
	}
	for _, path := range []string{`/a"b`, "/a\nb", "/a{b}", "/a*", `/a\b`, "/a,b"} {
		if _, err := PlanSetup(t.TempDir(), path); err == nil || !strings.Contains(err.Error(), "install sallyport elsewhere") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestSetupAndUndo(t *testing.T) {
	root := machine(t, apparmorSign, systemdSign, cgroup2Sign)
	var ran []string
	run := func(args []string) error {
		ran = append(ran, strings.Join(args, " "))
		// The parser finds its file, before and after.
		if args[0] == "apparmor_parser" {
			if _, err := os.Stat(root + args[len(args)-1]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := plan(t, root).Do(run); err != nil {
		t.Fatal(err)
	}
	profile, err := os.ReadFile(root + apparmorFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`profile sallyport "/usr/local/bin/sallyport{,-guest}" flags=(unconfined) {`, "  userns,"} {
		if !strings.Contains(string(profile), line+"\n") {
			t.Errorf("%s lacks %q", profile, line)
		}
	}
	unit, err := os.ReadFile(root + systemdFile)
	if err != nil || !strings.Contains(string(unit), "[Service]\nDelegate=cpu cpuset io memory pids\n") {
		t.Errorf("%s, %v", unit, err)
	}
	if diff := cmp.Diff([]string{"apparmor_parser --replace " + apparmorFile, "systemctl daemon-reload"}, ran); diff != "" {
		t.Error(diff)
	}
	again := plan(t, root)
	if !again.Done() {
		t.Errorf("%+v", again.Files)
	}

	ran = nil
	if err := again.Remove(run); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apparmor_parser --remove --skip-cache " + apparmorFile, "systemctl daemon-reload"}, ran); diff != "" {
		t.Error(diff)
	}
	for _, file := range []string{apparmorFile, systemdFile} {
		if _, err := os.Stat(root + file); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", file, err)
		}
	}
	if err := plan(t, root).Remove(run); err != nil {
		t.Error("where nothing is:", err)
	}
}

func TestUndoLeavesWhatSomebodyChanged(t *testing.T) {
	root := machine(t, apparmorSign, systemdSign, cgroup2Sign)
	run := func([]string) error { return nil }
	if err := plan(t, root).Do(run); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+apparmorFile, []byte("my own"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := plan(t, root)
	if s.Done() {
		t.Error("a changed file is taken for what would be written")
	}
	var ran []string
	err := s.Remove(func(args []string) error { ran = append(ran, args[0]); return nil })
	if err == nil || !strings.Contains(err.Error(), apparmorFile+" is not as it was written and stays; remove it yourself") {
		t.Error(err)
	}
	if data, _ := os.ReadFile(root + apparmorFile); string(data) != "my own" {
		t.Errorf("%q", data)
	}
	if _, err := os.Stat(root + systemdFile); !os.IsNotExist(err) {
		t.Error("the other file is left:", err)
	}
	if strings.Join(ran, " ") != "systemctl" {
		t.Errorf("%q", ran)
	}
}

func TestSetupThatFails(t *testing.T) {
	root := machine(t, apparmorSign)
	broken := errors.New("broken")
	if err := plan(t, root).Do(func([]string) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	// The real commands, none of which there is here.
	t.Setenv("PATH", t.TempDir())
	if err := plan(t, root).Do(nil); err == nil || !strings.Contains(err.Error(), "apparmor_parser --replace "+apparmorFile) {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		return // who is never refused by permissions
	}
	closed := machine(t, apparmorSign)
	if err := os.Chmod(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(closed, 0o755)
	if err := plan(t, closed).Do(nil); err == nil || !strings.Contains(err.Error(), "run it as root: sudo sallyport setup") {
		t.Error(err)
	}
}
