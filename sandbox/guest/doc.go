// Package guest is the inside of a container: PID 1, which runs programs and
// tools for the host and answers it over package wire.
//
// The guest has no capability and needs none. It holds what it starts to the
// envelope of the call: each call begins on an operating system thread of its
// own, which takes the Landlock rules and the system call filter of the call,
// forks, and is thrown away ([confined]). It knows which processes belong to a
// call, however they were detached, by a mark that they inherit and cannot
// change (marks.go), and can end them without touching the rest.
//
// What it starts may try to kill it, trace it, or read its memory: it is not
// dumpable, and signals from inside the container do nothing to it
// (immune.go).
//
// Only cmd/sallyport-guest imports this package. Its import graph is a
// promise that a test holds: no HTTP, no container client, no telemetry.
package guest
