package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// A Setup is what is changed on a machine so that ordinary users can start
// sessions with all their limits. Nothing is done before Do.
type Setup struct {
	Files []SetupFile `json:"files"`
	// Run are commands that make the files take effect, and Undo those that
	// take it back, after the files were removed.
	Run  [][]string `json:"run"`
	Undo [][]string `json:"undo"`

	root string
}

// A SetupFile is a file that is written.
type SetupFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Why     string `json:"why"`
	// There says that it is there already, as it would be written.
	There bool `json:"there"`
}

// The files that a setup may write.
const (
	apparmorFile = "/etc/apparmor.d/sallyport"
	systemdFile  = "/etc/systemd/system/user@.service.d/sallyport.conf"
)

// PlanSetup looks at the machine whose root directory is given, "/" for this
// one, and says what is to be changed for the executables of that path.
func PlanSetup(root, executable string) (*Setup, error) {
	s := &Setup{root: root, Files: []SetupFile{}, Run: [][]string{}, Undo: [][]string{}}
	if strings.ContainsAny(executable, "\"\\{}[]*?^,\n") {
		return nil, fmt.Errorf("the path %q cannot stand in an AppArmor profile; install sallyport elsewhere", executable)
	}
	// Ubuntu 23.10 and later let only programs with a profile make user
	// namespaces.
	if s.exists("/sys/kernel/security/apparmor") || s.exists("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
		profile := `# Lets sallyport make user namespaces, which it confines what it runs by.
abi <abi/4.0>,
include <tunables/global>

profile sallyport "` + executable + `{,-guest}" flags=(unconfined) {
  userns,

  include if exists <local/sallyport>
}
`
		s.add(apparmorFile, profile, "AppArmor lets only programs with a profile make user namespaces")
		s.Run = append(s.Run, []string{"apparmor_parser", "--replace", apparmorFile})
		s.Undo = append(s.Undo, []string{"apparmor_parser", "--remove", "--skip-cache", apparmorFile})
	}
	if s.exists("/run/systemd/system") && s.exists("/sys/fs/cgroup/cgroup.controllers") {
		s.add(systemdFile, "# Lets users limit what they start, as sallyport does with its sessions.\n[Service]\nDelegate=cpu cpuset io memory pids\n",
			"systemd hands the cgroups of users down to them")
		s.Run = append(s.Run, []string{"systemctl", "daemon-reload"})
		s.Undo = append(s.Undo, []string{"systemctl", "daemon-reload"})
	}
	return s, nil
}

func (s *Setup) exists(path string) bool {
	_, err := os.Stat(filepath.Join(s.root, path))
	return err == nil
}

func (s *Setup) add(path, content, why string) {
	f := SetupFile{Path: path, Content: content, Why: why}
	if data, err := os.ReadFile(filepath.Join(s.root, path)); err == nil {
		f.There = string(data) == content
	}
	s.Files = append(s.Files, f)
}

// Done reports whether there is nothing to do.
func (s *Setup) Done() bool {
	for _, f := range s.Files {
		if !f.There {
			return false
		}
	}
	return true
}

// Do writes the files and runs the commands. run starts one; nil is for real.
func (s *Setup) Do(run func([]string) error) error {
	for _, f := range s.Files {
		path := filepath.Join(s.root, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return explainRoot(err)
		}
		if err := renameio.WriteFile(path, []byte(f.Content), 0o644); err != nil {
			return explainRoot(err)
		}
	}
	return runAll(s.Run, run)
}

// Remove takes back what Do did. Files that were changed since stay, and are an
// error.
func (s *Setup) Remove(run func([]string) error) error {
	// The parser removes a profile by its file.
	var removeProfile, rest [][]string
	for _, c := range s.Undo {
		if c[0] == "apparmor_parser" {
			removeProfile = append(removeProfile, c)
		} else {
			rest = append(rest, c)
		}
	}
	var errs []error
	for _, f := range s.Files {
		path := filepath.Join(s.root, f.Path)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, explainRoot(err))
			continue
		}
		if !bytes.Equal(data, []byte(f.Content)) {
			errs = append(errs, fmt.Errorf("%s is not as it was written and stays; remove it yourself", f.Path))
			continue
		}
		if f.Path == apparmorFile {
			errs = append(errs, runAll(removeProfile, run))
		}
		errs = append(errs, explainRoot(os.Remove(path)))
	}
	return errors.Join(append(errs, runAll(rest, run))...)
}

func runAll(commands [][]string, run func([]string) error) error {
	if run == nil {
		run = func(args []string) error {
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
			}
			return nil
		}
	}
	var errs []error
	for _, c := range commands {
		errs = append(errs, run(c))
	}
	return errors.Join(errs...)
}

func explainRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; run it as root: sudo sallyport setup", err)
	}
	return err
}
