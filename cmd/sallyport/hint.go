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
				return fmt.Sprintf("your PATH has %s in %s, which the session does not show: add --expose %s, in a session of its own (--new, or --session NAME)", program, dir, name)
			}
		}
	}
	return fmt.Sprintf("your PATH has %s in %s, which the session does not show: add --expose %s, in a session of its own (--new, or --session NAME)", program, dir, shellQuoted(dir))
}

// gitHint says where the git repository of a workspace is, if the session does
// not show it: that of a worktree or a submodule is elsewhere, and a workspace
// may be a part of one. The files are the user's; only paths are read.
func gitHint(s *sandbox.Stored) string {
	file := filepath.Join(s.Workspace, ".git")
	if info, err := os.Lstat(file); err == nil {
		if !info.Mode().IsRegular() || info.Size() > 4096 {
			return ""
		}
		data, err := os.ReadFile(file)
		dir, ok := strings.CutPrefix(strings.TrimSuffix(string(data), "\n"), "gitdir: ")
		if err != nil || !ok {
			return ""
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(s.Workspace, dir)
		}
		what := "its repository is"
		if main, _, ok := strings.Cut(dir, "/worktrees/"); ok {
			what, dir = "it is a worktree of the repository", main
		}
		if _, err := s.Relative(dir, "/"); err == nil {
			return ""
		}
		return fmt.Sprintf("the session does not show git's directory of %s: %s %s; add --expose %s, in a session of its own "+
			"(--new, or --session NAME); what is committed stays in that", s.Workspace, what, dir, shellQuoted(dir+":cow"))
	}
	for dir := filepath.Dir(s.Workspace); dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return fmt.Sprintf("the workspace %s is a part of the git repository in %s, which the session does not show; use -w %s", s.Workspace, dir, shellQuoted(dir))
		}
	}
	return ""
}
