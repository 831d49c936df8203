package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A label names an instruction by its distance from the end of the program: the
// last one is 1.
type label int

// asm writes a program from its end to its beginning.
//
// BPF jumps only forward. Written backward, every target exists before the jump
// to it, so that an offset is known when it is needed, and so is whether it
// fits: nothing is patched and nothing is laid out twice.
//
// It uses no instruction but the loads, jumps, ANDs and returns that the kernel
// can emulate when a filter is installed (seccomp_is_const_allow): calls that
// are allowed whatever their arguments then never run the filter at all.
type asm struct {
	code []unix.SockFilter // the last instruction first
	rets map[uint32]label  // the nearest return of each value
}

func (a *asm) emit(code uint16, k uint32) label {
	a.code = append(a.code, unix.SockFilter{Code: code, K: k})
	return label(len(a.code))
}

// reaches says whether a conditional jump to l fits in its eight bits even if
// one more instruction comes between.
func (a *asm) reaches(l label) bool { return len(a.code)-int(l) < 255 }

// ret returns v to the kernel.
func (a *asm) ret(v uint32) label {
	if l, ok := a.rets[v]; ok && a.reaches(l) {
		return l
	}
	l := a.emit(unix.BPF_RET|unix.BPF_K, v)
	a.rets[v] = l
	return l
}

// near returns a label that does what l does and that a conditional jump can
// reach: l itself, another return of its value, or a long jump to it.
func (a *asm) near(l label) label {
	if a.reaches(l) {
		return l
	}
	if to := a.code[l-1]; to.Code == unix.BPF_RET|unix.BPF_K {
		return a.ret(to.K)
	}
	return a.emit(unix.BPF_JMP|unix.BPF_JA, uint32(len(a.code)-int(l)))
}

// jump compares the accumulator with k.
func (a *asm) jump(op uint16, k uint32, yes, no label) label {
	yes, no = a.near(yes), a.near(no)
	n := label(len(a.code))
	l := a.emit(unix.BPF_JMP|op|unix.BPF_K, k)
	a.code[n].Jt, a.code[n].Jf = uint8(n-yes), uint8(n-no)
	return l
}

// load puts a word of struct seccomp_data into the accumulator, and goes on to
// what was written last.
func (a *asm) load(offset uint32) label {
	return a.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset)
}

// word loads a word and compares it with k.
func (a *asm) word(offset uint32, op uint16, k uint32, yes, no label) label {
	a.jump(op, k, yes, no)
	return a.load(offset)
}

// masked loads a word and compares the bits of mask with k, which has no others.
func (a *asm) masked(offset, mask, k uint32, yes, no label) label {
	switch {
	case mask == 0:
		return yes
	case k == 0:
		return a.word(offset, unix.BPF_JSET, mask, no, yes)
	case mask == 1<<32-1:
		return a.word(offset, unix.BPF_JEQ, k, yes, no)
	}
	a.jump(unix.BPF_JEQ, k, yes, no)
	a.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask)
	return a.load(offset)
}

// program returns what was written, the first instruction first.
func (a *asm) program() []unix.SockFilter {
	slices.Reverse(a.code)
	return a.code
}
