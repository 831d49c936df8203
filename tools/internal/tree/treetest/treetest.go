// Package treetest makes trees that are hard on whoever searches them. Only tests
// import it.
package treetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Secret is the content of files outside of a tree, which nothing may find.
const Secret = "needle outside\n"

// Depth is how many directories deep the deepest file of Hostile is.
const Depth = 300

// Hostile makes a directory with an ordinary file "plain", which holds "needle",
// and around it what a tree may be made of by someone who means harm. It returns
// the directory, and one beside it which links of the tree lead to.
func Hostile(t testing.TB) (dir, outside string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	dir, outside = filepath.Join(base, "tree"), filepath.Join(base, "outside")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Mkdir(outside, 0o755))
	write := func(name, content string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)) }
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte(Secret), 0o644))
	write("plain", "needle\n")

	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	held := openDir(t, dir) // a socket's path is short
	must(t, unix.Bind(sock, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", held)}))
	must(t, unix.Close(sock))
	must(t, unix.Close(held))
	if os.Getuid() == 0 {
		must(t, unix.Mknod(filepath.Join(dir, "zero"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))))
	}
	for name, target := range map[string]string{
		"link-file": outside + "/secret", "link-dir": outside, "link-loop": "link-loop", "link-up": "..", "link-self": ".", "link-proc": "/proc/self/root",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	for _, name := range []string{"new\nline", "\xff\xfe", "\x1b[31mred", "-dash", "plain: needle", "\"quoted\"", strings.Repeat("n", 255)} {
		write(name, "needle\n")
	}
	// A tebibyte of nothing, behind a line of text.
	write("sparse", "hay\n")
	must(t, os.Truncate(filepath.Join(dir, "sparse"), 1<<40))
	write("long", strings.Repeat("x", 20<<20)+"needle\n")
	for _, name := range []string{".gitignore", ".ignore", ".rgignore"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	write("unreadable", "needle\n")
	must(t, os.Chmod(filepath.Join(dir, "unreadable"), 0))
	must(t, os.Mkdir(filepath.Join(dir, "closed\ndirectory"), 0))
	t.Cleanup(func() { must(t, os.Chmod(filepath.Join(dir, "closed\ndirectory"), 0o700)) })
	deep(t, dir)
	return dir, outside
}

// deep makes a chain of directories whose path is longer than any that the
// kernel takes.
func deep(t testing.TB, dir string) {
	at := openDir(t, dir)
	name := strings.Repeat("d", 100)
	for range Depth {
		must(t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(at)
		at = next
	}
	defer unix.Close(at)
	fd, err := unix.Openat(at, "deepest", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	must(t, err)
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("needle\n"))
	must(t, err)
}

func openDir(t testing.TB, dir string) int {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	return fd
}

// Swap makes path now a directory with a file "inner", now a link to outside,
// until the function that it returns is called.
func Swap(t testing.TB, path, outside string) (stop func()) {
	t.Helper()
	real, link := path+".real", path+".link"
	must(t, os.Mkdir(real, 0o755))
	must(t, os.WriteFile(filepath.Join(real, "inner"), []byte("needle inside\n"), 0o644))
	must(t, os.Symlink(outside, link))
	must(t, os.Rename(real, path))
	end, ended := make(chan bool), make(chan error)
	go func() {
		for {
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
			// What is at path and the link change places.
			if err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
				<-end
				ended <- err
				return
			}
		}
	}()
	return func() {
		close(end)
		must(t, <-ended)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
