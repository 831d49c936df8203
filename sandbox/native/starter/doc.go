// Package starter makes the containers of native sessions.
//
// A process that makes namespaces, mounts in them and gives up its rights must
// have a single thread: the kernel lets no other enter a user namespace. A Go
// program never has. So this is done by children that are forked and run no Go
// at all, only a list of system calls that was written before the fork (a
// [program]). What a container is made of is therefore data, in container.go,
// root.go and mounts.go, to be read from top to bottom.
//
// Forking copies the page tables of the process that forks. The host process
// may be large, so it has one small process beside it that forks for it, the
// starter ([Main]), which is started with the first session and ends with the
// host. It never reads what a container says. For an ordinary user it is in a
// user namespace of its own, in which it has every capability; root's is where
// root is.
//
// A container comes from two children that run side by side:
//
//   - one makes the container's namespaces, changes to an empty root, enters the
//     user namespace of the guest, gives up all rights and executes the guest
//     (container.go);
//   - the other puts the root filesystem together in a mount namespace that stays
//     the session's, joins the container's mount namespace when that is there,
//     and changes the root of all that is in it (root.go).
//
// So the guest starts while its files are being mounted. It is told to do
// something only afterwards. The container's mounts, processes and network
// belong to the starter's user namespace: nothing in the guest's, whatever
// rights it might gain there, has any over them.
//
// Only cmd/sallyport-guest runs this package; sandbox/native sends it requests.
package starter

//go:generate protoc --go_out=. --go_opt=paths=source_relative starter.proto

import "fmt"

// Arg is the argument by which the guest's executable becomes the starter.
const Arg = "starter"

// Descriptors that processes are handed.
const (
	ControlFd = 3 // of the starter: its channel to the host
	WireFd    = 3 // of the guest: its end of the wire
)

// MaxMessage is the largest message on the control channel, in bytes.
const MaxMessage = 160 << 10

// PinPath is where the i-th pin of a session is found in its mount namespace.
func PinPath(i int) string { return fmt.Sprintf("/pin/%d", i) }
