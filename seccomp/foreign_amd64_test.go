package seccomp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForeignConventionsKill runs programs that make one call, exit(42), by each
// way that the processor has.
func TestForeignConventionsKill(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		killed     bool
		exit       int
	}{
		{"amd64", "\xb8\x3c\x00\x00\x00\xbf\x2a\x00\x00\x00\x0f\x05", false, 42},                                    // mov $60,%eax; mov $42,%edi; syscall
		{"i386", "\xb8\x01\x00\x00\x00\xbb\x2a\x00\x00\x00\xcd\x80", true, 0},                                       // mov $1,%eax; mov $42,%ebx; int $0x80
		{"x32", "\xb8\x3c\x00\x00\x40\xbf\x2a\x00\x00\x00\x0f\x05", true, 0},                                        // as amd64, with the x32 bit
		{"-1", "\xb8\xff\xff\xff\xff\x0f\x05\xf7\xd8\x89\xc7\xb8\x3c\x00\x00\x00\x0f\x05", false, int(unix.ENOSYS)}, // exit(-syscall(-1))
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "exit")
			if err := os.WriteFile(path, elf(tt.code), 0o755); err != nil {
				t.Fatal(err)
			}
			if tt.name == "i386" && fmt.Sprint(exec.Command(path).Run()) != "exit status 42" {
				t.Skip("NOT TESTED: this kernel has no 32-bit calls")
			}
			cmd := role{Exec: []string{path}}.command(t)
			if err := cmd.Run(); cmd.ProcessState == nil {
				t.Fatal(err)
			}
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if tt.killed && status.Signal() != syscall.SIGSYS || !tt.killed && status.ExitStatus() != tt.exit {
				t.Errorf("ended with %v", cmd.ProcessState)
			}
		})
	}
}

// elf returns a program that is nothing but code.
func elf(code string) []byte {
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(code))
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, v := range []any{
		uint16(2), uint16(62), uint32(1), // an executable for x86-64
		uint64(base + headers), uint64(64), uint64(0), uint32(0), // entry, program headers, no sections
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(4096), // load, r-x
	} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	b.WriteString(code)
	return b.Bytes()
}
