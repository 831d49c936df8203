package call

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/sandbox/inside"
)

// programs run on this machine, in the way of the guest.
type programs struct{ ran int }

func (p *programs) Run(ctx context.Context, prog inside.Program) (*inside.Exit, error) {
	path, err := lookPath(prog.Args[0], prog.Env)
	if err != nil {
		return nil, err
	}
	p.ran++
	cmd := exec.CommandContext(ctx, path, prog.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = prog.Env, prog.Dir, prog.Files
	cmd.Stdout, cmd.Stderr = prog.Stdout, prog.Stderr
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return nil, err
	}
	exit := &inside.Exit{Code: cmd.ProcessState.ExitCode()}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		exit.Code, exit.Signal = 0, int(ws.Signal())
	}
	return exit, ctx.Err()
}

func (p *programs) Start(inside.Program) error { return errors.New("not needed") }

func lookPath(name string, env []string) (string, error) {
	for _, kv := range env {
		if kv[:5] == "PATH=" {
			for _, dir := range filepath.SplitList(kv[5:]) {
				if file := filepath.Join(dir, name); exec.Command(file).Err == nil && executable(file) {
					return file, nil
				}
			}
		}
	}
	return "", syscall.ENOENT
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// ripgrepPath is where ripgrep is. What these tests hold to each other needs it.
func ripgrepPath(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("rg")
	if err != nil {
		t.Fatal("these tests compare with ripgrep: install it (the program rg)")
	}
	return filepath.Dir(path)
}

// with is a call in a container that has ripgrep.
func with(t testing.TB) *inside.Call {
	return &inside.Call{Programs: &programs{}, Env: []string{"PATH=" + ripgrepPath(t), "HOME=/nonexistent"}}
}

// without is a call in a container that has none.
func without() *inside.Call {
	return &inside.Call{Programs: &programs{}, Env: []string{"PATH=/nonexistent"}}
}

// plant makes a tree: names that end in a slash are directories, "->" at the
// begin of a content makes a link.
func plant(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if name[len(name)-1] == '/' {
			err = os.MkdirAll(path, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			if len(content) > 2 && content[:2] == "->" {
				err = os.Symlink(content[2:], path)
			} else {
				err = os.WriteFile(path, []byte(content), 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
