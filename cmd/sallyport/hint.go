package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sallyport/sallyport/sandbox"
)

// hintFor says how a program that the user has could be had in the box, or "".
func hintFor(program string) string {
	if strings.Contains(program, "/") {
		return ""
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return ""
	}
	dir := filepath.Dir(path)
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/nonexistent"
	}
	for _, name := range sandbox.Presets() {
		e, err := sandbox.ResolveExpose(name, home, os.Getenv)
		if err != nil {
			continue
		}
		for _, bin := range e.Path {
			if _, err := os.Stat(filepath.Join(bin, program)); err == nil {
				return fmt.Sprintf("your PATH has %s in %s, which the session does not show: add --expose %s", program, dir, name)
			}
		}
	}
	return fmt.Sprintf("your PATH has %s in %s, which the session does not show: add --expose %s", program, dir, dir)
}
