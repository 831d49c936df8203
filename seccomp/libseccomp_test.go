package seccomp

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// asRunc reads a profile on standard input, has libseccomp make a filter of it
// as runc does, and writes that to standard output. The numbers of the calls
// come along, since libseccomp may be older than some of them.
const asRunc = `
import ctypes, json, os, sys
lib = ctypes.CDLL("libseccomp.so.2")
class Cmp(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]
lib.seccomp_init.restype = ctypes.c_void_p
lib.seccomp_rule_add_exact_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Cmp)]
lib.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
ops = {"NE": 1, "LT": 2, "LE": 3, "EQ": 4, "GE": 5, "GT": 6, "MASKED_EQ": 7}
def action(a, errno):
    if a == "SCMP_ACT_ALLOW": return 0x7fff0000
    assert a == "SCMP_ACT_ERRNO", a
    return 0x00050000 | errno
profile, numbers = json.load(sys.stdin)
ctx = lib.seccomp_init(action(profile["defaultAction"], 1))
for rule in profile["syscalls"]:
    args = [Cmp(a["index"], ops[a["op"].removeprefix("SCMP_CMP_")], a["value"], a.get("valueTwo", 0)) for a in rule.get("args", [])]
    for name in rule["names"]:
        if name in numbers:
            r = lib.seccomp_rule_add_exact_array(ctx, action(rule["action"], rule.get("errnoRet", 1)), numbers[name], len(args), (Cmp * len(args))(*args))
            assert r == 0, (name, os.strerror(-r))
assert lib.seccomp_export_bpf(ctx, 1) == 0
`

// TestLibseccompAgrees checks that a runtime with libseccomp (runc, and so
// Docker and containerd) enforces what we enforce ourselves.
func TestLibseccompAgrees(t *testing.T) {
	if out, err := exec.Command("python3", "-c", `import ctypes; ctypes.CDLL("libseccomp.so.2")`).CombinedOutput(); err != nil {
		t.Skipf("python3 with libseccomp.so.2 is missing: %v\n%s", err, out)
	}
	goarch := runtime.GOARCH
	table := kernelTables(t)[goarch]
	numbers := byNumber(table)
	for _, o := range variants {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			p := Default(o)
			in, err := json.Marshal([]any{p, table})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("python3", "-c", asRunc)
			cmd.Stdin = bytes.NewReader(in)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			theirs := make([]unix.SockFilter, len(out)/8)
			if _, err := binary.Decode(out, binary.LittleEndian, theirs); err != nil {
				t.Fatal(err)
			}
			t.Logf("libseccomp takes %d instructions", len(theirs))
			them, us := newMachine(t, theirs), mustCompile(t, p, goarch)
			rapid.Check(t, func(t *rapid.T) {
				r := drawRand(t)
				for nr := range uint32(600) {
					name, ok := numbers[nr]
					if !ok {
						continue // runc, not libseccomp, answers ENOSYS
					}
					c := callNear(r, p, goarch, nr, name)
					if got, want := us.run(t, c), them.run(t, c); got != want {
						t.Fatalf("%s %+v: ours says %#x, libseccomp's %#x", name, c, got, want)
					}
				}
			})
		})
	}
}
