package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// read opens each name=path and reads a byte.
func read(r *report, args []string) {
	named(args, func(name, path string) {
		f, err := os.Open(path)
		if err == nil {
			_, err = f.Read(make([]byte, 1))
			f.Close()
		}
		r.step(name, err)
	})
}

// write opens each name=path for writing, makes it if it is not there, and
// writes.
func write(r *report, args []string) {
	named(args, func(name, path string) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err == nil {
			_, err = f.WriteString("written by an attempt\n")
			f.Close()
		}
		r.step(name, err)
	})
}

// list says what is in each name=directory.
func list(r *report, args []string) {
	named(args, func(name, path string) {
		entries, err := os.ReadDir(path)
		if err != nil {
			r.step(name, err)
			return
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		r.say(name, "["+strings.Join(names, " ")+"]")
	})
}

// alter tries every way to change a directory that has a file, a directory, and
// a link in it.
func alter(r *report, args []string) {
	dir := args[0]
	in := func(name string) string { return filepath.Join(dir, name) }
	file := in("file")
	r.step("open", second(unix.Open(file, unix.O_WRONLY, 0)))
	r.step("append", second(unix.Open(file, unix.O_WRONLY|unix.O_APPEND, 0)))
	r.step("create", second(unix.Open(in("new"), unix.O_WRONLY|unix.O_CREAT, 0o644)))
	r.step("tmpfile", second(unix.Open(dir, unix.O_WRONLY|unix.O_TMPFILE, 0o644)))
	r.step("truncate", unix.Truncate(file, 0))
	r.step("open-truncate", second(unix.Open(file, unix.O_RDONLY|unix.O_TRUNC, 0)))
	r.step("chmod", unix.Chmod(file, 0o777))
	r.step("chown", unix.Chown(file, os.Getuid(), os.Getgid()))
	r.step("lchown", unix.Lchown(file, os.Getuid(), os.Getgid()))
	r.step("utimes", unix.Utimes(file, make([]unix.Timeval, 2)))
	r.step("utimensat", unix.UtimesNanoAt(unix.AT_FDCWD, file, make([]unix.Timespec, 2), 0))
	r.step("setxattr", unix.Setxattr(file, "user.attempt", []byte("x"), 0))
	r.step("removexattr", unix.Removexattr(file, "user.attempt"))
	r.step("link", unix.Link(file, in("hard")))
	r.step("symlink", unix.Symlink("file", in("soft")))
	r.step("mkdir", unix.Mkdir(in("newdir"), 0o755))
	r.step("mkfifo", unix.Mkfifo(in("fifo"), 0o644))
	r.step("rename", unix.Rename(file, in("renamed")))
	r.step("exchange", unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, in("dir"), unix.RENAME_EXCHANGE))
	r.step("rmdir", unix.Rmdir(in("dir")))
	r.step("unlink", unix.Unlink(file))
	fd, err := unix.Open(file, unix.O_RDONLY, 0)
	if err != nil {
		r.step("open-to-read", err)
		return
	}
	// What a descriptor that was opened to read allows.
	r.step("fchmod", unix.Fchmod(fd, 0o777))
	r.step("fchown", unix.Fchown(fd, os.Getuid(), os.Getgid()))
	r.step("futimes", unix.Futimes(fd, make([]unix.Timeval, 2)))
	r.step("fsetxattr", unix.Fsetxattr(fd, "user.attempt", []byte("x"), 0))
	r.step("reopen", second(unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_WRONLY, 0)))
	r.step("setflags", unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x10 /* immutable */))
}

// overlayXattrs sets, in each name=directory, the attributes by which an overlay
// marks what lies elsewhere, is opaque, or deleted.
func overlayXattrs(r *report, args []string) {
	named(args, func(name, dir string) {
		trap := filepath.Join(dir, "trap")
		os.Mkdir(trap, 0o755)
		file := filepath.Join(dir, "trapfile")
		die(os.WriteFile(file, []byte("a file with traps\n"), 0o644))
		for _, prefix := range []string{"user", "trusted"} {
			for _, attr := range []struct{ path, name, value string }{
				{trap, "redirect", "/../.."}, {trap, "opaque", "y"}, {trap, "origin", "\x00\xfb\x1d\x01"},
				{file, "metacopy", ""}, {file, "redirect", "/../.."}, {file, "whiteout", "y"},
			} {
				r.step(name+"-"+prefix+"-"+attr.name, unix.Setxattr(attr.path, prefix+".overlay."+attr.name, []byte(attr.value), 0))
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
