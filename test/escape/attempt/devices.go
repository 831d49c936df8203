package main

import (
	"os"
	"path/filepath"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// nodes tries to make device nodes in a directory.
func nodes(r *report, args []string) {
	for _, n := range []struct {
		name         string
		mode         uint32
		major, minor uint32
	}{
		{"mem", unix.S_IFCHR, 1, 1}, {"kmsg", unix.S_IFCHR, 1, 11}, {"null", unix.S_IFCHR, 1, 3}, {"fuse", unix.S_IFCHR, 10, 229},
		{"whiteout", unix.S_IFCHR, 0, 0}, {"sda", unix.S_IFBLK, 8, 0}, {"vda", unix.S_IFBLK, 254, 0}, {"loop", unix.S_IFBLK, 7, 0},
	} {
		r.step(n.name, unix.Mknod(filepath.Join(args[0], "node-"+n.name), n.mode|0o666, int(unix.Mkdev(n.major, n.minor))))
	}
}

// terminal types into the terminal that it runs on, and into one of its own.
func terminal(r *report, args []string) {
	try := func(name string, fd uintptr) {
		p := fixed([]byte("x"))
		r.step(name+"-sti", call(unix.SYS_IOCTL, fd, unix.TIOCSTI, p))
		r.step(name+"-sti-high", call(unix.SYS_IOCTL, fd, 1<<32|unix.TIOCSTI, p))
		r.step(name+"-linux", call(unix.SYS_IOCTL, fd, unix.TIOCLINUX, p))
		r.step(name+"-linux-high", call(unix.SYS_IOCTL, fd, 0xffffffff<<32|unix.TIOCLINUX, p))
		r.step(name+"-setd", call(unix.SYS_IOCTL, fd, unix.TIOCSETD, p))
		r.step(name+"-cons", call(unix.SYS_IOCTL, fd, unix.TIOCCONS, 0))
	}
	if len(args) > 0 { // there is a terminal
		r.step("winsize", second(unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)))
		try("tty", 0)
	}
	master, slave, err := pty.Open()
	r.step("open", err)
	if err == nil {
		try("own", slave.Fd())
		master.Close()
	}
	_, err = os.Open("/dev/console")
	r.step("console", err)
}
