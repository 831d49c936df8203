// Command asuser runs the tests of this module as an ordinary user: with a uid
// of its own that no account has, its own home directory and caches, in a copy
// of the source. It must be started by root, and in the module's directory.
//
//	go run ./test/asuser [-run REGEXP] [PACKAGE...]
//
// The test binaries are built by root first, so nothing is compiled twice.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// uid is nobody's: accounts of users end at 60000, system and dynamic ones are
// elsewhere (login.defs, systemd).
const uid = 60777

func main() {
	run := flag.String("run", "", "only the tests that match `REGEXP`")
	flag.Parse()
	if err := asUser(*run, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "asuser:", err)
		os.Exit(1)
	}
}

func asUser(run string, patterns []string) error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root")
	}
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	dir, err := os.MkdirTemp("", "sallyport-user-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := copyTree(".", filepath.Join(dir, "src")); err != nil {
		return err
	}
	for _, sub := range []string{"home", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
		if err := os.Chown(filepath.Join(dir, sub), uid, uid); err != nil {
			return err
		}
	}
	// What tests run is built here too (test/sallytest).
	bin := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "bin")+"/", "./cmd/...", "./test/escape/attempt")
	bin.Env = append(os.Environ(), "CGO_ENABLED=0")
	bin.Stderr = os.Stderr
	if err := bin.Run(); err != nil {
		return fmt.Errorf("building the binaries: %w", err)
	}
	// The source of a module that a test reads (package seccomp).
	unix, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		return fmt.Errorf("finding golang.org/x/sys/unix: %w", err)
	}
	if err := copyTree(strings.TrimSpace(string(unix)), filepath.Join(dir, "unix")); err != nil {
		return err
	}
	packages, err := testPackages(patterns)
	if err != nil {
		return err
	}
	failed := 0
	for _, p := range packages {
		rel, err := filepath.Rel(p.Module.Dir, p.Dir)
		if err != nil {
			return err
		}
		binary := filepath.Join(dir, strings.ReplaceAll(rel, "/", "-")+".test")
		build := exec.Command("go", "test", "-c", "-o", binary, p.ImportPath)
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // the guest's tests would build themselves so
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("building the tests of %s: %w", p.ImportPath, err)
		}
		start := time.Now()
		out, err := runTest(dir, rel, binary, run)
		if err != nil {
			failed++
			fmt.Printf("%s\nFAIL\t%s as uid %d: %v\n", bytes.TrimSpace(out), p.ImportPath, uid, err)
			continue
		}
		for line := range bytes.Lines(out) {
			if bytes.Contains(line, []byte("--- SKIP")) || bytes.Contains(line, []byte("skipped:")) {
				os.Stdout.Write(line)
			}
		}
		fmt.Printf("ok  \t%s as uid %d\t%.3fs\n", p.ImportPath, uid, time.Since(start).Seconds())
		os.Remove(binary)
	}
	if failed > 0 {
		return fmt.Errorf("the tests of %d packages failed", failed)
	}
	return nil
}

// runTest runs a test binary in its package's directory.
func runTest(dir, rel, binary, run string) ([]byte, error) {
	home := filepath.Join(dir, "home")
	args := []string{"-test.timeout=20m"}
	if run != "" {
		args = append(args, "-test.run="+run)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = filepath.Join(dir, "src", rel)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "LANG=" + os.Getenv("LANG"), "TERM=dumb",
		"HOME=" + home, "USER=tester", "TMPDIR=" + filepath.Join(dir, "tmp"),
		"GOCACHE=" + filepath.Join(home, "gocache"), "GOFLAGS=-mod=mod", "GOPROXY=off",
		"SALLYPORT_TEST_BIN=" + filepath.Join(dir, "bin"), "SALLYPORT_TEST_UNIX=" + filepath.Join(dir, "unix"),
		"SALLYPORT_TEST_CLIENTS=" + os.Getenv("SALLYPORT_TEST_CLIENTS"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd.CombinedOutput()
}

type testPackage struct {
	ImportPath string
	Dir        string
	Module     struct{ Dir string }
}

// testPackages lists the packages that have tests.
func testPackages(patterns []string) ([]testPackage, error) {
	list := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Module,TestGoFiles,XTestGoFiles"}, patterns...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages: %w", err)
	}
	var packages []testPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			testPackage
			TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			packages = append(packages, p.testPackage)
		}
	}
}

// copyTree copies the source, and gives it to the user.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if rel == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		dest := filepath.Join(to, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			err = os.Mkdir(dest, 0o755)
		case d.Type().IsRegular():
			var data []byte
			if data, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(dest, data, info.Mode().Perm()|0o444)
			}
		default:
			return nil
		}
		if err != nil {
			return err
		}
		return os.Lchown(dest, uid, uid)
	})
}
