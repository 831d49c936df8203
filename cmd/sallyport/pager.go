package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pager starts the user's pager, and returns what to write to and what to call
// at the end. Without one, it is standard output. A program of the workspace is no
// pager: an agent may have written it, and PATH may have a directory there.
func pager(workspace string) (io.Writer, func() error) {
	plain := func() error { return nil }
	command := strings.Fields(os.Getenv("PAGER"))
	if len(command) == 0 {
		command = []string{"less", "-R"}
	}
	path, err := exec.LookPath(command[0])
	if err != nil || command[0] == "cat" {
		return os.Stdout, plain
	}
	if real, err := filepath.EvalSymlinks(path); err != nil || below(real, workspace) || below(path, workspace) {
		complain(fmt.Sprintf("%s is in the workspace, and not run as the pager", path))
		return os.Stdout, plain
	}
	cmd := exec.Command(path, command[1:]...)
	cmd.Env = append(os.Environ(), "LESS=FRX", "LESSSECURE=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return os.Stdout, plain
	}
	return in, func() error { return errors.Join(in.Close(), cmd.Wait()) }
}

// below reports whether a path is dir or below it.
func below(path, dir string) bool {
	if !filepath.IsAbs(path) {
		return true // of the directory that we are in
	}
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
