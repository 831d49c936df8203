package starter

import "golang.org/x/sys/unix"

// forkFlags: the child shares the memory of this process, which neither it nor
// anybody has to copy then. It uses only what forkAndRun is given.
const forkFlags = unix.CLONE_VM

// forkAndRun forks. In the child it does not return: that makes the calls, in
// assembly. It does not touch the stack, which is its parent's.
//
//go:noescape
func forkAndRun(args *cloneArgs, calls []call, results []uintptr, status int) (pid uintptr, errno uintptr)
