// Package native is the driver that needs nothing installed: it makes the
// containers of a session itself, from user, mount, PID, network, IPC, UTS and
// cgroup namespaces, a system call filter and no capabilities. It works as root
// and as an ordinary user who may make user namespaces.
//
// The work in the namespaces is done by package starter, in the guest's
// executable. This package translates the OCI spec to what the starter
// understands, limits the session by cgroups, and takes everything down again.
package native
