package guest

import (
	"encoding/binary"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/wire"
	"github.com/sallyport/sallyport/seccomp"
)

// Every call that is notified has somebody who knows what it would change.
func TestEveryNotifiedCallIsUnderstood(t *testing.T) {
	filter, err := seccomp.Compile(seccomp.Changes(), runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	var raw []bpf.RawInstruction
	for _, f := range filter {
		raw = append(raw, bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K})
	}
	instructions, _ := bpf.Disassemble(raw)
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	special := []int32{unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_CONNECT, unix.SYS_SENDTO}
	notified := 0
	for nr := range int32(600) {
		data := binary.BigEndian.AppendUint32(nil, uint32(nr)) // see machine in package seccomp
		data = binary.BigEndian.AppendUint32(data, arch)
		data = append(data, make([]byte, 8)...)
		for range 12 {
			data = binary.BigEndian.AppendUint32(data, 0xffffffff)
		}
		action, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		_, one := either(targets, legacyTargets, nr)
		_, two := either(renames, legacyRenames, nr)
		_, _, legacy := legacyOpening(&notification{nr: nr})
		known := one || two || legacy
		for _, s := range special {
			known = known || s == nr
		}
		if want := action == unix.SECCOMP_RET_USER_NOTIF; known != want {
			t.Errorf("call %d: notified %v, understood %v", nr, want, known)
		} else if want {
			notified++
		}
	}
	if notified < 25 {
		t.Errorf("%d calls are notified", notified)
	}
}

// Where nothing can be watched, a program that fails as if it had been kept from
// writing is suspected.
func TestSuspicion(t *testing.T) {
	c := connect(t)
	resp, err := c.Hello(t.Context(), &wire.HelloRequest{
		Version: "test", Writable: [][]byte{[]byte("/dev")}, NotifyFilter: make([]byte, 8), Env: [][]byte{[]byte("PATH=/usr/bin:/bin")}, // a filter without an end
	})
	if err != nil || resp.Notifies || unix.Errno(resp.NotifyErrno) != unix.EINVAL {
		t.Fatalf("%v, %v", resp, err)
	}
	for i, test := range []struct {
		script string
		want   bool
	}{
		{`echo "f: Read-only file system" >&2; exit 1`, true},
		{`echo "f: Permission denied" >&2; kill -9 $$`, true},
		{`echo "f: Permission denied" >&2; exit 0`, false},
		{`echo "f: Read-only file system"; exit 1`, false},
		{`echo "f: No such file or directory" >&2; exit 1`, false},
	} {
		exit, _, _ := run(t, c, command(uint64(2*i+1), "sh", "-c", test.script))
		got, err := c.Call(t.Context(), &wire.CallRequest{Call: uint64(2*i + 2), Name: "run", Input: []byte("sh\n-c\n" + test.script)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []*wire.Attempts{exit.Attempts, got.Attempts} {
			suspected := len(a.GetAttempts()) == 1 && a.Attempts[0].Op == wire.Op_OP_SUSPECTED && len(a.Attempts[0].Path) == 0
			if suspected != test.want || !test.want && a != nil {
				t.Errorf("%s: %v", test.script, a)
			}
		}
	}
	terminal := command(100, "sh", "-c", `echo "f: Permission denied" >&2; exit 1`)
	terminal.Terminal = true
	if exit, _, _ := run(t, c, terminal); len(exit.Attempts.GetAttempts()) != 1 {
		t.Errorf("on a terminal: %v", exit)
	}
}
