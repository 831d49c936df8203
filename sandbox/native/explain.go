package native

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// explainNamespaces says why new namespaces were refused, and what helps.
func explainNamespaces(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES):
		return err // the executable
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return fmt.Errorf("%w: no more user namespaces are allowed; raise the sysctl user.max_user_namespaces", err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: this kernel lacks a namespace that is needed; Linux 5.13 with user namespaces is", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %s", err, WhyNoNamespaces())
	}
	return err
}

// WhyNoNamespaces tells apart what forbids namespaces to this process.
func WhyNoNamespaces() string {
	read := func(path string) string {
		data, _ := os.ReadFile(path)
		return strings.TrimSpace(string(data))
	}
	switch {
	case read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "user namespaces are for root only here; set the sysctl kernel.unprivileged_userns_clone=1"
	case read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor restricts user namespaces here; run: sudo sallyport setup"
	case inContainer():
		return "this is inside a container that forbids namespaces; start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
	}
	return "namespaces are forbidden here; sallyport doctor looks for the reason"
}

// inContainer reports whether this process seems to run in a container.
func inContainer() bool {
	for _, path := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return os.Getenv("container") != ""
}

// explain adds what helps to an error of the starter.
func explain(err error) error {
	msg := err.Error()
	switch {
	case strings.HasPrefix(msg, "a process in new namespaces"), strings.HasPrefix(msg, "a user namespace"):
		return explainNamespaces(err)
	case strings.HasPrefix(msg, "making the mounts private") && errors.Is(err, unix.EACCES),
		strings.HasPrefix(msg, "making the mounts private") && errors.Is(err, unix.EPERM):
		// Ubuntu lets the namespace be made and refuses the first mount in it.
		return fmt.Errorf("%w: %s", err, WhyNoNamespaces())
	case strings.HasPrefix(msg, "mounting /proc") && errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: the /proc of this machine or container is partly covered, so no new one may be mounted; start the container with --security-opt systempaths=unconfined", err)
	case strings.HasPrefix(msg, "mounting overlay") && errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: the file system of the workspace or of the state directory cannot be a layer (an overlay, NFS or FUSE cannot be written as one), or has others mounted in it; set XDG_STATE_HOME to a directory on a local file system", err)
	case strings.HasPrefix(msg, "mounting overlay") && errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: this kernel has no overlay file system; load it with: modprobe overlay", err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: this kernel is too old; Linux 5.13 is needed", err)
	}
	return err
}
