package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A WorkspaceMode says how a session sees its workspace.
type WorkspaceMode string

const (
	// Cow puts a layer above the workspace: nothing reaches the real directory
	// until it is applied.
	Cow WorkspaceMode = "cow"
	// Direct is the real directory, writable; protected paths are read-only.
	Direct WorkspaceMode = "direct"
)

// systemPaths are directories that hold the machine, not somebody's work. No
// workspace is one of them or contains one.
var systemPaths = []string{
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt", "/nix",
	"/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local", "/var", "/var/lib", "/var/tmp",
}

// kernelPaths hold no files of anybody's; nothing below them is a workspace.
var kernelPaths = []string{"/dev", "/proc", "/sys"}

// ResolveWorkspace returns the real path of a workspace, or says why it cannot
// be one and what to do about it.
func ResolveWorkspace(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("the current directory: %w; go to one that exists, or name one with -w", err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		return "", fmt.Errorf("the workspace %s: %w; name an existing directory with -w", abs, err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", fmt.Errorf("the workspace: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("the workspace %s is not a directory; name one with -w", real)
	}
	for _, p := range systemPaths {
		if within(p, real) {
			return "", fmt.Errorf("the workspace %s is or contains the system directory %s; choose a directory of a project below it", real, p)
		}
	}
	for _, p := range kernelPaths {
		if within(real, p) {
			return "", fmt.Errorf("the workspace %s lies in %s, which holds no files", real, p)
		}
	}
	for _, home := range homes() {
		if within(home, real) {
			return "", fmt.Errorf("the workspace %s is or contains the home directory %s; choose a directory of a project below it", real, home)
		}
	}
	if err := unix.Access(real, unix.W_OK|unix.X_OK); err != nil {
		return "", fmt.Errorf("the workspace %s is not writable for you (%w); change its permissions or copy it", real, err)
	}
	return real, nil
}

// homes returns the home directories that are known: the caller's, and that of
// whoever owns a directory in /home.
func homes() []string {
	list := []string{os.Getenv("HOME")}
	if u, err := user.Current(); err == nil {
		list = append(list, u.HomeDir)
	}
	for _, pattern := range []string{"/home/*", "/var/home/*", "/Users/*"} {
		found, _ := filepath.Glob(pattern)
		list = append(list, found...)
	}
	var real []string
	for _, h := range list {
		if h == "" || h == "/" || !filepath.IsAbs(h) {
			continue
		}
		if r, err := filepath.EvalSymlinks(h); err == nil {
			h = r
		}
		real = append(real, filepath.Clean(h))
	}
	return real
}

// within reports whether path is dir or lies below it, by components.
func within(path, dir string) bool {
	if dir == "/" || path == dir {
		return true
	}
	return strings.HasPrefix(path, dir+"/")
}
