// Package seccomp says which system calls a sealed program may make, and turns
// that into a filter for the kernel.
//
//	filter, err := seccomp.Compile(seccomp.Default(seccomp.Options{}), "amd64")
//	...
//	_, err = load.Install(load.Bytes(filter), 0)
//
// The profile is an OCI runtime specification's, so that any runtime can be
// handed the same one: it is embedded from profile.json, which docker run
// --security-opt seccomp=profile.json takes as it is. It is made, by a test,
// from what containerd allows a container without capabilities
// (github.com/containerd/containerd, contrib/seccomp) and the table in rules.go,
// where each difference stands with its reason. Whatever neither allows fails
// with EPERM; clone3 and calls that are newer than our table fail with ENOSYS,
// on which libc falls back to an older one.
//
// # What it holds
//
// No new namespace, no mount, no file without a path, no raw socket, no address
// family but Unix, IPv4, IPv6 and netlink's routes, no key, no BPF, no io_uring,
// no typing into the terminal; and of other processes nothing but their signals:
// not their limits, priorities, memory or descriptors. A call by a foreign
// convention (int 0x80, x32, 32-bit Arm) kills the process.
//
// # What it does not hold
//
// A filter sees numbers, not what they point to: which file is opened, which
// address is connected to, what clone3 would be asked. Paths are the business of
// mounts and Landlock, the network that of namespaces. Anything that a driver
// offers through ioctl is allowed if its device can be opened. And it is no
// bound on what a program consumes.
//
// Two things that ordinary programs do are refused: setting the affinity, the
// scheduler or the priority of a thread by its number (pthread_setaffinity_np,
// renice) instead of 0, and ulimit -u.
//
// # Why a compiler of our own
//
// Containers are started by a program without cgo, so libseccomp is out, and the
// filter must be made for the architecture of the image, which need not be the
// host's. github.com/elastic/go-seccomp-bpf compiles for the host alone, does not
// compare under a mask with a value, and searches call numbers one by one; its
// table of numbers costs 0.15 ms when a program starts, and misses newfstatat on
// arm64. It serves here to check our own table.
package seccomp

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

//go:embed profile.json
var profile []byte

// Options vary the default profile. The zero value is the profile for a program
// that may write, without Landlock.
type Options struct {
	// Ptrace allows ptrace, process_vm_readv and process_vm_writev, for
	// debuggers. Set it only where Landlock confines the caller: with it
	// the kernel refuses to trace a process outside of the caller's domain.
	Ptrace bool

	// NoUnixSockets refuses socket(AF_UNIX), for a program that may only
	// read: a read-only mount does not keep it from connecting to a socket
	// file, and having another process write. Pairs stay, but not of
	// datagram sockets, which can still be connected elsewhere.
	NoUnixSockets bool
}

// Default returns the profile for a program in a container. It is the caller's
// to change. Making it takes a quarter of a millisecond, and compiling it a
// tenth: keep the filter rather than making it for each call.
func Default(o Options) *specs.LinuxSeccomp {
	p := new(specs.LinuxSeccomp)
	if err := json.Unmarshal(profile, p); err != nil {
		panic(fmt.Sprintf("seccomp: profile.json: %v", err))
	}
	for _, r := range o.rules() {
		r.apply(p)
	}
	return p
}

func (o Options) rules() []rule {
	var rs []rule
	if o.Ptrace {
		rs = append(rs, rule{"ptrace process_vm_readv process_vm_writev", "Landlock confines them", always})
	}
	if o.NoUnixSockets {
		rs = append(rs,
			rule{"socket", "reaches a process that can write", netSockets()},
			rule{"socketpair", "a datagram socket of a pair can be connected to another",
				all(in(0, unix.AF_UNIX), kind(unix.SOCK_STREAM, unix.SOCK_SEQPACKET))})
	}
	return rs
}
