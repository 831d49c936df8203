package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sallyport/sallyport/sandbox"
)

// command runs a program on the host.
func command(args ...string) func() error {
	return func() error { return exec.Command(args[0], args[1:]...).Run() }
}

// benchSession measures a new session up to the first result of true.
func benchSession(e *env) ([]Row, error) {
	workspace, err := e.workspace(10)
	if err != nil {
		return nil, err
	}
	// Sessions are ended between the measurements and removed at the end: a file
	// system that has just removed files is slow to make new ones.
	var ended []*sandbox.Stored
	var live *sandbox.Session
	fresh := func() error {
		s, l, err := e.start(workspace)
		if err != nil {
			return err
		}
		live = l
		ended = append(ended, s)
		_, err = l.Exec(e.ctx, sandbox.Command{Args: []string{"true"}})
		return err
	}
	var rows []Row
	const n = 150
	bwrap := command("bwrap", "--ro-bind", "/", "/", "--unshare-all", "true")
	if err := bwrap(); err != nil {
		skip("session against bwrap", err)
		bwrap = func() error { return nil }
	}
	var own, other samples
	for i := range n + 5 {
		start := time.Now()
		if err := fresh(); err != nil {
			return nil, err
		}
		took := time.Since(start)
		if err := live.Close(); err != nil {
			return nil, err
		}
		start = time.Now()
		if err := bwrap(); err != nil {
			return nil, err
		}
		if i >= 5 {
			own, other = append(own, took), append(other, time.Since(start))
		}
	}
	rows = append(rows, row("new session to the first result, against bwrap", "ms", own, other, 2))
	for _, s := range ended {
		if err := s.Remove(); err != nil {
			return nil, err
		}
	}

	docker, err := dockerRun(e)
	if err != nil {
		skip("session against docker run", err)
	} else {
		got, err := turns(15, docker)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row("new session to the first result, against docker run", "ms", own, got[0], 1.0/25))
	}

	// The command line, for comparison: it starts a process of its own.
	cli := exec.Command("bin/sallyport", "exec", "-w", workspace, "--", "true")
	cli.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(e.dir, "cli"))
	if out, err := cli.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	got, err := turns(50, func() error {
		again := exec.Command(cli.Path, cli.Args[1:]...)
		again.Env = cli.Env
		return again.Run()
	})
	if err != nil {
		return nil, err
	}
	return append(rows, row("sallyport exec -- true, a process", "ms", got[0], other, 0)), nil
}

// dockerRun returns what runs true in a new container of Docker, if its daemon
// runs.
func dockerRun(e *env) (func() error, error) {
	image, err := dockerImage(e)
	if err != nil {
		return nil, err
	}
	run := command("docker", "run", "--rm", "--network", "none", image, "/bin/true")
	return run, run()
}

// dockerExec returns what has a running container of Docker read a file of
// 4 KiB, and what ends it.
func dockerExec(e *env) (run, end func() error, err error) {
	image, err := dockerImage(e)
	if err != nil {
		return nil, nil, err
	}
	out, err := exec.Command("docker", "run", "--rm", "-d", "--network", "none", image, "/bin/sleep", "600").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("docker run: %w", err)
	}
	id := strings.TrimSpace(string(out))
	end = command("docker", "kill", id)
	return command("docker", "exec", id, "/bin/cat", "/4k"), end, nil
}

// dockerImage makes an image from busybox, if Docker's daemon runs.
func dockerImage(e *env) (string, error) {
	if err := exec.Command("docker", "version").Run(); err != nil {
		return "", errors.New("no Docker daemon")
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return "", fmt.Errorf("no static busybox to make an image of: %w", err)
	}
	file := filepath.Join(e.dir, "image.tar")
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	w := tar.NewWriter(f)
	for name, data := range map[string][]byte{"bin/true": busybox, "bin/cat": busybox, "bin/sleep": busybox, "4k": make([]byte, 4096)} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return "", err
		}
		if _, err := w.Write(data); err != nil {
			return "", err
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		return "", err
	}
	const image = "sallyport-bench:latest"
	if out, err := exec.Command("docker", "import", file, image).CombinedOutput(); err != nil {
		return "", fmt.Errorf("docker import: %s", out)
	}
	return image, nil
}
