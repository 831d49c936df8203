package seccomp

import (
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Supervisor returns the profile for PID 1 of a container: the default one,
// but the process may set the limits by which it marks and bounds what it
// starts. What it starts must take [Started] besides.
func Supervisor(o Options) *specs.LinuxSeccomp {
	p := Default(o)
	for _, r := range []rule{
		{"prlimit64", "marks the processes of a call", either(all(null(2)), all(in(0, 0)))},
		{"setrlimit", "the same", always},
	} {
		r.apply(p)
	}
	return p
}

// Started returns the profile that makes of a supervisor's filter the default
// one: everything is allowed but to set the limits that the supervisor sets. It
// is small, because each call installs it anew.
func Started() *specs.LinuxSeccomp {
	p := &specs.LinuxSeccomp{DefaultAction: specs.ActAllow}
	for _, limit := range []uint32{unix.RLIMIT_NPROC, unix.RLIMIT_RTTIME} {
		prlimit := append(in(1, limit), specs.LinuxSeccompArg{Index: 2, Op: specs.OpNotEqual})
		for _, s := range []specs.LinuxSyscall{
			{Names: []string{"setrlimit"}, Args: in(0, limit)},
			{Names: []string{"prlimit64"}, Args: prlimit},
		} {
			s.Action, s.ErrnoRet = specs.ActErrno, new(uint(unix.EPERM))
			p.Syscalls = append(p.Syscalls, s)
		}
	}
	return p
}
