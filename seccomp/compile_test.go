package seccomp

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	containerd "github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
	eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	nosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// A call is struct seccomp_data, without the instruction pointer.
type call struct {
	nr, arch uint32
	args     [6]uint64
}

// audit is AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64, of linux/audit.h.
var audit = map[string]uint32{"amd64": 0xc000003e, "arm64": 0xc00000b7}

// A machine runs a filter.
//
// The interpreter is one for packets: it loads words in network byte order, the
// kernel loads those of seccomp_data in its own. So each word is laid out
// big-endian, in the order that it has on a little-endian machine.
type machine struct{ vm *bpf.VM }

func newMachine(t rapid.TB, filter []unix.SockFilter) machine {
	t.Helper()
	raw := make([]bpf.RawInstruction, len(filter))
	for i, f := range filter {
		raw[i] = bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}
	}
	ins, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter has instructions that are not BPF")
	}
	vm, err := bpf.NewVM(ins)
	if err != nil {
		t.Fatal(err)
	}
	return machine{vm}
}

func (m machine) run(t rapid.TB, c call) uint32 {
	t.Helper()
	data := binary.BigEndian.AppendUint32(nil, c.nr)
	data = binary.BigEndian.AppendUint32(data, c.arch)
	data = append(data, make([]byte, 8)...)
	for _, arg := range c.args {
		data = binary.BigEndian.AppendUint32(data, uint32(arg))
		data = binary.BigEndian.AppendUint32(data, uint32(arg>>32))
	}
	ret, err := m.vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(ret)
}

func mustCompile(t rapid.TB, p *specs.LinuxSeccomp, goarch string) machine {
	t.Helper()
	filter, err := Compile(p, goarch)
	if err != nil {
		t.Fatal(err)
	}
	return newMachine(t, filter)
}

// judge is what Compile documents, said again without a filter: it walks the
// profile for one call. names are the architecture's calls by number.
func judge(p *specs.LinuxSeccomp, goarch string, names map[uint32]string, c call) uint32 {
	ret := func(action specs.LinuxSeccompAction, errno *uint) uint32 {
		switch action {
		case "SCMP_ACT_ALLOW":
			return 0x7fff0000
		case "SCMP_ACT_LOG":
			return 0x7ffc0000
		case "SCMP_ACT_NOTIFY":
			return 0x7fc00000
		case "SCMP_ACT_TRAP":
			return 0x00030000
		case "SCMP_ACT_KILL", "SCMP_ACT_KILL_THREAD":
			return 0
		case "SCMP_ACT_KILL_PROCESS":
			return 0x80000000
		case "SCMP_ACT_ERRNO":
			if errno == nil {
				return 0x00050001
			}
			return 0x00050000 + uint32(*errno)
		}
		panic(action)
	}
	if c.arch != audit[goarch] {
		return 0x80000000
	}
	if goarch == "amd64" && c.nr >= 0x40000000 && c.nr != 0xffffffff {
		return 0x80000000
	}
	name, ok := names[c.nr]
	if !ok && p.DefaultAction == "SCMP_ACT_ERRNO" {
		return 0x00050000 + 38
	}
	for _, rule := range p.Syscalls {
		if slices.Contains(rule.Names, name) && !slices.ContainsFunc(rule.Args, func(a specs.LinuxSeccompArg) bool { return !holds(a, c) }) {
			return ret(rule.Action, rule.ErrnoRet)
		}
	}
	return ret(p.DefaultAction, p.DefaultErrnoRet)
}

func holds(a specs.LinuxSeccompArg, c call) bool {
	v := c.args[a.Index]
	switch a.Op {
	case "SCMP_CMP_NE":
		return v != a.Value
	case "SCMP_CMP_LT":
		return v < a.Value
	case "SCMP_CMP_LE":
		return v <= a.Value
	case "SCMP_CMP_EQ":
		return v == a.Value
	case "SCMP_CMP_GE":
		return v >= a.Value
	case "SCMP_CMP_GT":
		return v > a.Value
	case "SCMP_CMP_MASKED_EQ":
		return v&a.Value == a.ValueTwo
	}
	panic(a.Op)
}

// byNumber turns a table round.
func byNumber(table map[string]int) map[uint32]string {
	names := make(map[uint32]string)
	for name, nr := range table {
		names[uint32(nr)] = name
	}
	return names
}

// words are the numbers at which 64 bits made of two words go wrong.
var words = []uint64{
	0, 1, 2, 9, 10, 11, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff,
	0x1_0000_0000, 0x1_0000_0001, 0x1_ffff_ffff, 0x7fff_ffff_ffff_ffff,
	0x8000_0000_0000_0000, 0xffff_ffff_0000_0000, 0xffff_ffff_ffff_ffff,
}

// drawRand draws the seed of a generator. What is made of it is not shrunk,
// which for thousands of calls would take longer than to read one.
func drawRand(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
}

// callNear returns a call that satisfies, or nearly so, a rule of the profile
// that names it, if there is one.
func callNear(r *rand.Rand, p *specs.LinuxSeccomp, goarch string, nr uint32, name string) call {
	c := call{nr: nr, arch: audit[goarch]}
	for i := range c.args {
		c.args[i] = r.Uint64()
		if r.IntN(2) == 0 {
			c.args[i] = words[r.IntN(len(words))]
		}
	}
	var ways [][]specs.LinuxSeccompArg
	for _, rule := range p.Syscalls {
		if slices.Contains(rule.Names, name) {
			ways = append(ways, rule.Args)
		}
	}
	if len(ways) == 0 {
		return c
	}
	offBy := []uint64{0, 0, 0, 0, 1, 1<<64 - 1, 1 << 32}
	for _, a := range ways[r.IntN(len(ways))] {
		v := a.Value
		if a.Op == specs.OpMaskedEqual {
			v = c.args[a.Index]&^a.Value | a.ValueTwo
		}
		c.args[a.Index] = v + offBy[r.IntN(len(offBy))]
	}
	return c
}

func drawWord(t *rapid.T, label string) uint64 {
	return rapid.OneOf(rapid.SampledFrom(words), rapid.Uint64()).Draw(t, label)
}

func drawProfile(t *rapid.T, names []string) *specs.LinuxSeccomp {
	action := func() (specs.LinuxSeccompAction, *uint) {
		a := rapid.SampledFrom([]specs.LinuxSeccompAction{
			specs.ActAllow, specs.ActErrno, specs.ActKill, specs.ActKillThread,
			specs.ActKillProcess, specs.ActTrap, specs.ActLog, specs.ActNotify,
		}).Draw(t, "action")
		if a != specs.ActErrno || rapid.Bool().Draw(t, "plain") {
			return a, nil
		}
		errno := rapid.UintRange(0, 4095).Draw(t, "errno")
		return a, &errno
	}
	var p specs.LinuxSeccomp
	p.DefaultAction, p.DefaultErrnoRet = action()
	for range rapid.IntRange(0, 40).Draw(t, "rules") {
		var s specs.LinuxSyscall
		s.Names = rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(t, "names")
		s.Action, s.ErrnoRet = action()
		for _, index := range rapid.SliceOfNDistinct(rapid.UintRange(0, 5), 0, 6, rapid.ID).Draw(t, "indexes") {
			arg := specs.LinuxSeccompArg{Index: index, Value: drawWord(t, "value")}
			arg.Op = rapid.SampledFrom([]specs.LinuxSeccompOperator{
				specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual, specs.OpEqualTo,
				specs.OpGreaterEqual, specs.OpGreaterThan, specs.OpMaskedEqual,
			}).Draw(t, "op")
			if arg.Op == specs.OpMaskedEqual {
				arg.ValueTwo = arg.Value & drawWord(t, "value two")
			}
			s.Args = append(s.Args, arg)
		}
		p.Syscalls = append(p.Syscalls, s)
	}
	return &p
}

var (
	oddNumbers = []uint32{0x3fffffff, 0x40000000, 0x40000001, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff}
	oddArches  = []uint32{0, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, 0xffffffff}
)

// TestCompileRandomProfiles compares filters of random profiles with the plain
// reading of them.
func TestCompileRandomProfiles(t *testing.T) {
	tables := kernelTables(t)
	for _, goarch := range []string{"amd64", "arm64"} {
		t.Run(goarch, func(t *testing.T) {
			numbers := byNumber(tables[goarch])
			all := slices.Sorted(maps.Keys(tables[goarch]))
			rapid.Check(t, func(t *rapid.T) {
				// Few names make rules meet, all of them make programs long.
				names := all
				if rapid.Bool().Draw(t, "few") {
					names = rapid.SliceOfN(rapid.SampledFrom(all), 1, 5).Draw(t, "names")
				}
				p := drawProfile(t, append(names, "_llseek"))
				filter, err := Compile(p, goarch)
				if err != nil {
					t.Fatal(err)
				}
				m := newMachine(t, filter)
				r := drawRand(t)
				for range 100 {
					name := names[r.IntN(len(names))]
					c := callNear(r, p, goarch, uint32(tables[goarch][name]), name)
					switch r.IntN(10) {
					case 0:
						c.nr = r.Uint32N(600)
					case 1:
						c.nr = oddNumbers[r.IntN(len(oddNumbers))]
					case 2:
						c.arch = oddArches[r.IntN(len(oddArches))]
					}
					got, want := m.run(t, c), judge(p, goarch, numbers, c)
					if got != want {
						b, _ := json.Marshal(p)
						t.Fatalf("%+v: filter says %#x, profile says %#x\n%s", c, got, want, b)
					}
				}
			})
		})
	}
}

// TestCompileDefault compares the filters of our own profiles with the plain
// reading of them, for each number.
func TestCompileDefault(t *testing.T) {
	tables := kernelTables(t)
	for _, goarch := range []string{"amd64", "arm64"} {
		for _, o := range variants {
			t.Run(fmt.Sprintf("%s %+v", goarch, o), func(t *testing.T) {
				p := Default(o)
				numbers := byNumber(tables[goarch])
				m := mustCompile(t, p, goarch)
				rapid.Check(t, func(t *rapid.T) {
					r := drawRand(t)
					for nr := range uint32(600) {
						c := callNear(r, p, goarch, nr, numbers[nr])
						if got, want := m.run(t, c), judge(p, goarch, numbers, c); got != want {
							t.Fatalf("%+v: filter says %#x, profile says %#x", c, got, want)
						}
					}
				})
			})
		}
	}
}

// TestCompileLongJumps has calls with more rules than a conditional jump can
// pass over, as does every call that is searched for from above them.
func TestCompileLongJumps(t *testing.T) {
	numbers := byNumber(kernelTables(t)["amd64"])
	p := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno}
	add := func(name string, action specs.LinuxSeccompAction, args ...specs.LinuxSeccompArg) {
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: []string{name}, Action: action, Args: args})
	}
	const n = 150
	for i := range uint64(n) {
		add("read", specs.ActLog, specs.LinuxSeccompArg{Index: 1, Value: 1<<32 + i, Op: specs.OpEqualTo})
		add("write", specs.ActAllow, specs.LinuxSeccompArg{Index: 2, Value: i, Op: specs.OpMaskedEqual, ValueTwo: i})
		add("close", specs.ActTrap, specs.LinuxSeccompArg{Index: 0, Value: i, Op: specs.OpGreaterThan},
			specs.LinuxSeccompArg{Index: 5, Value: i, Op: specs.OpNotEqual})
	}
	m := mustCompile(t, p, "amd64")
	for i := range uint64(n + 2) {
		for nr := range uint32(5) {
			for _, args := range [][6]uint64{{}, {0, 1<<32 + i}, {0, 0, i}, {i, 0, 0, 0, 0, n}, {i, 0, 0, 0, 0, i - 1}} {
				c := call{nr, audit["amd64"], args}
				if got, want := m.run(t, c), judge(p, "amd64", numbers, c); got != want {
					t.Errorf("%+v: filter says %#x, profile says %#x", c, got, want)
				}
			}
		}
	}

	for range 4 {
		p.Syscalls = append(p.Syscalls, p.Syscalls...)
	}
	if _, err := Compile(p, "amd64"); err == nil {
		t.Error("a filter of more than 4096 instructions was compiled")
	}
}

// TestCompileRefuses has what must not be dropped in silence.
func TestCompileRefuses(t *testing.T) {
	errno := func(n uint) *uint { return &n }
	rule := func(args ...specs.LinuxSeccompArg) *specs.LinuxSeccomp {
		return &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{
			{Names: []string{"read"}, Action: specs.ActAllow, Args: args},
		}}
	}
	for _, tt := range []struct {
		name, goarch string
		p            *specs.LinuxSeccomp
		want         string
	}{
		{"architecture", "riscv64", rule(), "unknown architecture"},
		{"no default", "amd64", &specs.LinuxSeccomp{}, `default action: unsupported action ""`},
		{"trace", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActTrace}, `unsupported action "SCMP_ACT_TRACE"`},
		{"large errno", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: errno(4096)}, "errno 4096 is above 4095"},
		{"errno for allow", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, DefaultErrnoRet: errno(1)}, "takes no errno"},
		{"flags", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Flags: []specs.LinuxSeccompFlag{"SECCOMP_FILTER_FLAG_LOG"}}, "flags and listeners"},
		{"listener", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, ListenerPath: "/x"}, "flags and listeners"},
		{"listener metadata", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, ListenerMetadata: "x"}, "flags and listeners"},
		{"another architecture", "arm64", &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Architectures: []specs.Arch{specs.ArchX86_64}}, "not for SCMP_ARCH_AARCH64"},
		{"x32", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Architectures: []specs.Arch{specs.ArchX86_64, specs.ArchX32}}, "cannot filter SCMP_ARCH_X32"},
		{"rule without action", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{{Names: []string{"read"}}}}, `rule 0: unsupported action ""`},
		{"rule without names", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{{Action: specs.ActErrno}}}, "no syscall is named"},
		{"misspelt call", "amd64", &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{{Names: []string{"raed"}, Action: specs.ActErrno}}}, `unknown syscall "raed"`},
		{"seventh argument", "amd64", rule(specs.LinuxSeccompArg{Index: 6, Op: specs.OpEqualTo}), "a call has six"},
		{"one argument twice", "amd64", rule(specs.LinuxSeccompArg{Op: specs.OpGreaterThan}, specs.LinuxSeccompArg{Op: specs.OpLessThan, Value: 9}), "compared twice"},
		{"operator", "amd64", rule(specs.LinuxSeccompArg{Op: "SCMP_CMP_MAYBE"}), "unsupported operator"},
		{"comparand outside of the mask", "amd64", rule(specs.LinuxSeccompArg{Op: specs.OpMaskedEqual, Value: 2, ValueTwo: 3}), "outside of the mask"},
		{"second value", "amd64", rule(specs.LinuxSeccompArg{Op: specs.OpEqualTo, ValueTwo: 1}), "takes one value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			filter, err := Compile(tt.p, tt.goarch)
			if err == nil || !strings.Contains(err.Error(), tt.want) || filter != nil {
				t.Errorf("got %d instructions and error %v, want one with %q", len(filter), err, tt.want)
			}
		})
	}
}

// TestCompileContainerd compiles what containerd itself would use, which names
// calls of 32-bit machines.
func TestCompileContainerd(t *testing.T) {
	p := containerd.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	p.Architectures = nil
	for _, goarch := range []string{"amd64", "arm64"} {
		mustCompile(t, p, goarch)
	}
}

// FuzzCompile compiles whatever is a profile. A filter must be one that the
// kernel takes, and say what the profile does.
func FuzzCompile(f *testing.F) {
	f.Add([]byte(`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read","clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38},
		{"names":["read"],"action":"SCMP_ACT_ALLOW"}]}`), uint32(0), uint64(0), uint64(0))
	f.Add([]byte(`{"defaultAction":"SCMP_ACT_KILL","syscalls":[{"names":["read"],"action":"SCMP_ACT_ALLOW",
		"args":[{"index":0,"value":4294967296,"op":"SCMP_CMP_GE"},{"index":1,"value":3,"valueTwo":1,"op":"SCMP_CMP_MASKED_EQ"}]}]}`),
		uint32(0), uint64(1<<32), uint64(1))
	tables := make(map[string]map[uint32]string)
	for _, abi := range abis {
		tables[abi.goarch] = make(map[uint32]string)
		for _, c := range syscalls {
			if nr := c.number(abi.goarch); nr >= 0 {
				tables[abi.goarch][uint32(nr)] = c.name
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, nr uint32, arg0, arg1 uint64) {
		var p specs.LinuxSeccomp
		if json.Unmarshal(data, &p) != nil {
			return
		}
		for goarch, names := range tables {
			filter, err := Compile(&p, goarch)
			if err != nil {
				continue
			}
			if len(filter) > unix.BPF_MAXINSNS {
				t.Fatalf("%d instructions", len(filter))
			}
			m := newMachine(t, filter)
			c := call{nr, audit[goarch], [6]uint64{arg0, arg1, arg0, arg1, arg0, arg1}}
			if got, want := m.run(t, c), judge(&p, goarch, names, c); got != want {
				t.Fatalf("%+v: filter says %#x, profile says %#x", c, got, want)
			}
		}
	})
}
