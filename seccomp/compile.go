package seccomp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (linux/seccomp.h). An argument is 64 bits, and
// both architectures are little-endian: its low word comes first.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const (
	maxErrno = 4095       // include/linux/err.h: the kernel cuts larger ones
	x32Bit   = 0x40000000 // __X32_SYSCALL_BIT
	noNumber = 1<<32 - 1  // what a tracer sets to have a call skipped
)

// An entry is one call's numbers, -1 where an architecture has no such call.
type entry struct {
	name         string
	amd64, arm64 int16
}

func (c entry) number(goarch string) int {
	if goarch == "arm64" {
		return int(c.arm64)
	}
	return int(c.amd64)
}

// lookup returns the index of a call in syscalls.
func lookup(name string) (int, bool) {
	return slices.BinarySearchFunc(syscalls[:], name, func(c entry, name string) int {
		return cmp.Compare(c.name, name)
	})
}

// An abi is a way of making system calls.
type abi struct {
	goarch string
	audit  uint32       // AUDIT_ARCH_*, by which the kernel names it
	arch   specs.Arch   // its name in a profile
	kin    []specs.Arch // others that the same kernel serves
}

var abis = [...]abi{
	{"amd64", unix.AUDIT_ARCH_X86_64, specs.ArchX86_64, []specs.Arch{specs.ArchX86, specs.ArchX32}},
	{"arm64", unix.AUDIT_ARCH_AARCH64, specs.ArchAARCH64, []specs.Arch{specs.ArchARM}},
}

// A branch is what becomes of a call whose arguments pass every comparison.
type branch struct {
	args []specs.LinuxSeccompArg
	ret  uint32
}

// A span is a run of numbers with one fate: the first branch that matches, or
// ret. It ends where the next one begins.
type span struct {
	first    uint32
	branches []branch
	ret      uint32
}

// Compile translates a profile into a filter for one architecture, "amd64" or
// "arm64" as GOARCH has them, on a machine of any.
//
// The runtime specification leaves to libseccomp what a profile means. Here:
//
//   - The rules that name a call are tried in the order of the profile. The
//     first whose comparisons all hold decides; if none does, the default
//     action. (libseccomp lets a rule without comparisons win from any place,
//     and runc drops a rule whose action is the default one. A profile that
//     gives each call one action besides the default means the same to all.)
//   - A name that this architecture lacks but another has is passed over. A
//     name that none has is an error.
//   - A number without a name is refused with ENOSYS where the default action
//     is an errno, as by a kernel that does not know it either: libc then
//     falls back to an older call. (runc does this too.)
//   - A call by another architecture's convention (int 0x80 and x32 on amd64,
//     32-bit Arm on arm64) kills the process, which is libseccomp's answer as
//     well. ENOSYS would be no kinder: a foreign program cannot even exit.
//
// Whatever has no place in a filter, or that another reader of the profile would
// take differently, is an error: an unknown action, operator or syscall; an errno
// for an action without one; an argument compared twice in one rule (runc takes
// either, libseccomp none); a masked comparison with bits outside of its mask
// (never true, but libseccomp cuts them); the architectures that share a kernel
// with this one; flags and listeners, which belong to whoever installs the filter.
func Compile(p *specs.LinuxSeccomp, goarch string) ([]unix.SockFilter, error) {
	prog, err := compile(p, goarch)
	if err != nil {
		return nil, fmt.Errorf("compile seccomp profile for %s: %w", goarch, err)
	}
	return prog, nil
}

func compile(p *specs.LinuxSeccomp, goarch string) ([]unix.SockFilter, error) {
	i := slices.IndexFunc(abis[:], func(a abi) bool { return a.goarch == goarch })
	if i < 0 {
		return nil, errors.New("unknown architecture")
	}
	abi := abis[i]
	if err := checkHeader(p, abi); err != nil {
		return nil, err
	}
	ret, err := verdict(p.DefaultAction, p.DefaultErrnoRet)
	if err != nil {
		return nil, fmt.Errorf("default action: %w", err)
	}
	branches := make([][]branch, len(syscalls))
	for i, rule := range p.Syscalls {
		if err := addRule(branches, rule); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
	}

	a := &asm{rets: make(map[uint32]label)}
	kill := a.ret(unix.SECCOMP_RET_KILL_PROCESS)
	a.search(spans(branches, ret, goarch))
	number := a.load(offsetNumber)
	a.word(offsetArch, unix.BPF_JEQ, abi.audit, number, kill)
	if n := len(a.code); n > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("the filter takes %d instructions, the kernel at most %d", n, unix.BPF_MAXINSNS)
	}
	return a.program(), nil
}

func checkHeader(p *specs.LinuxSeccomp, abi abi) error {
	if len(p.Flags) > 0 || p.ListenerPath != "" || p.ListenerMetadata != "" {
		return errors.New("flags and listeners are no part of a filter")
	}
	if len(p.Architectures) > 0 && !slices.Contains(p.Architectures, abi.arch) {
		return fmt.Errorf("the profile is not for %s", abi.arch)
	}
	for _, arch := range p.Architectures {
		if slices.Contains(abi.kin, arch) {
			return fmt.Errorf("cannot filter %s calls beside %s", arch, abi.arch)
		}
	}
	return nil
}

// verdict returns the value with which a filter tells the kernel to act.
func verdict(action specs.LinuxSeccompAction, errno *uint) (uint32, error) {
	if action == specs.ActErrno {
		e := uint(unix.EPERM)
		if errno != nil {
			e = *errno
		}
		if e > maxErrno {
			return 0, fmt.Errorf("errno %d is above %d", e, maxErrno)
		}
		return unix.SECCOMP_RET_ERRNO | uint32(e), nil
	}
	if errno != nil {
		return 0, fmt.Errorf("action %q takes no errno", action)
	}
	switch action {
	case specs.ActAllow:
		return unix.SECCOMP_RET_ALLOW, nil
	case specs.ActLog:
		return unix.SECCOMP_RET_LOG, nil
	case specs.ActNotify:
		return unix.SECCOMP_RET_USER_NOTIF, nil
	case specs.ActTrap:
		return unix.SECCOMP_RET_TRAP, nil
	case specs.ActKill, specs.ActKillThread:
		return unix.SECCOMP_RET_KILL_THREAD, nil
	case specs.ActKillProcess:
		return unix.SECCOMP_RET_KILL_PROCESS, nil
	}
	return 0, fmt.Errorf("unsupported action %q", action)
}

// addRule adds a rule of the profile to the branches of each call it names;
// branches has the order of syscalls.
func addRule(branches [][]branch, rule specs.LinuxSyscall) error {
	ret, err := verdict(rule.Action, rule.ErrnoRet)
	if err != nil {
		return err
	}
	if err := checkArgs(rule.Args); err != nil {
		return err
	}
	if len(rule.Names) == 0 {
		return errors.New("no syscall is named")
	}
	for _, name := range rule.Names {
		i, ok := lookup(name)
		if !ok {
			return fmt.Errorf("unknown syscall %q", name)
		}
		branches[i] = append(branches[i], branch{rule.Args, ret})
	}
	return nil
}

func checkArgs(args []specs.LinuxSeccompArg) error {
	var seen [6]bool
	for _, arg := range args {
		if arg.Index >= uint(len(seen)) {
			return fmt.Errorf("argument %d: a call has six, from 0", arg.Index)
		}
		if seen[arg.Index] {
			return fmt.Errorf("argument %d is compared twice", arg.Index)
		}
		seen[arg.Index] = true
		switch arg.Op {
		case specs.OpEqualTo, specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual,
			specs.OpGreaterEqual, specs.OpGreaterThan:
			if arg.ValueTwo != 0 {
				return fmt.Errorf("argument %d: %s takes one value", arg.Index, arg.Op)
			}
		case specs.OpMaskedEqual:
			if arg.ValueTwo&^arg.Value != 0 {
				return fmt.Errorf("argument %d: %#x has bits outside of the mask %#x", arg.Index, arg.ValueTwo, arg.Value)
			}
		default:
			return fmt.Errorf("argument %d: unsupported operator %q", arg.Index, arg.Op)
		}
	}
	return nil
}

// spans divides all numbers into spans, the first of which begins at 0. ret is
// the default action.
func spans(branches [][]branch, ret uint32, goarch string) []span {
	unknown := ret
	if ret&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO {
		unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	}
	var all []span
	for i, c := range syscalls {
		nr := c.number(goarch)
		if nr < 0 {
			continue
		}
		for len(all) <= nr {
			all = append(all, span{uint32(len(all)), nil, unknown})
		}
		all[nr].branches, all[nr].ret = branches[i], ret
		// What follows a branch without comparisons is never reached.
		always := func(b branch) bool { return len(b.args) == 0 }
		if n := slices.IndexFunc(branches[i], always); n >= 0 {
			all[nr].branches, all[nr].ret = branches[i][:n], branches[i][n].ret
		}
	}
	all = append(all, span{uint32(len(all)), nil, unknown})
	if goarch == "amd64" {
		all = append(all,
			span{x32Bit, nil, unix.SECCOMP_RET_KILL_PROCESS},
			span{noNumber, nil, unknown})
	}
	return slices.CompactFunc(all, func(a, b span) bool {
		return len(a.branches) == 0 && len(b.branches) == 0 && a.ret == b.ret
	})
}

// search writes a binary search for the span of the number in the accumulator.
// What it begins with is written last.
func (a *asm) search(spans []span) label {
	if len(spans) == 1 {
		return a.fate(spans[0])
	}
	upper := spans[len(spans)/2:]
	yes := a.search(upper)
	no := a.search(spans[:len(spans)/2])
	return a.jump(unix.BPF_JGE, upper[0].first, yes, no)
}

func (a *asm) fate(s span) label {
	next := a.ret(s.ret)
	for _, b := range slices.Backward(s.branches) {
		yes := a.ret(b.ret)
		for _, arg := range slices.Backward(b.args) {
			yes = a.compare(arg, yes, next)
		}
		next = yes
	}
	return next
}

// compare writes a comparison of 64 bits, by words of 32.
func (a *asm) compare(arg specs.LinuxSeccompArg, yes, no label) label {
	low := offsetArgs + 8*uint32(arg.Index)
	high := low + 4
	lo, hi := uint32(arg.Value), uint32(arg.Value>>32)

	// These are the opposites of the other three.
	switch arg.Op {
	case specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual:
		yes, no = no, yes
	}
	switch arg.Op {
	case specs.OpEqualTo, specs.OpNotEqual:
		yes = a.word(low, unix.BPF_JEQ, lo, yes, no)
		return a.word(high, unix.BPF_JEQ, hi, yes, no)
	case specs.OpGreaterEqual, specs.OpLessThan:
		equal := a.word(low, unix.BPF_JGE, lo, yes, no)
		return a.word(high, unix.BPF_JGT, hi, yes, a.jump(unix.BPF_JEQ, hi, equal, no))
	case specs.OpGreaterThan, specs.OpLessEqual:
		equal := a.word(low, unix.BPF_JGT, lo, yes, no)
		return a.word(high, unix.BPF_JGT, hi, yes, a.jump(unix.BPF_JEQ, hi, equal, no))
	case specs.OpMaskedEqual:
		yes = a.masked(low, lo, uint32(arg.ValueTwo), yes, no)
		return a.masked(high, hi, uint32(arg.ValueTwo>>32), yes, no)
	}
	panic("seccomp: operator that was not checked: " + arg.Op)
}
