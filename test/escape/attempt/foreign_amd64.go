package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// foreign makes a call by another convention of the processor than its own:
// x32 (a bit in the number) or i386 (int 0x80).
func foreign(r *report, args []string) {
	switch args[0] {
	case "x32":
		r.step("x32", call(0x40000000|unix.SYS_GETPID))
	case "i386":
		// mov $20,%eax; int $0x80; ret: getpid.
		code := []byte("\xb8\x14\x00\x00\x00\xcd\x80\xc3")
		mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		die(err)
		copy(mem, code)
		entry := &mem[0]
		pointer := unsafe.Pointer(&entry) // a func value points to a pointer to code
		(*(*func())(unsafe.Pointer(&pointer)))()
		r.say("i386", "ok")
	}
}

// hardware tries what reaches it.
func hardware(r *report) {
	r.step("iopl", call(unix.SYS_IOPL, 3))
	r.step("ioperm", call(unix.SYS_IOPERM, 0x80, 1, 1))
	r.step("modify_ldt", call(unix.SYS_MODIFY_LDT, 0, 0, 0))
}
