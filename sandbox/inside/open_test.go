package inside

import (
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// tree is a directory with one of everything: its path has no links.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(dir+"/d/e", 0o755))
	must(os.WriteFile(dir+"/d/file", []byte("content"), 0o644))
	must(os.WriteFile(dir+"/d/new\nline\xff", nil, 0o644))
	must(unix.Mkfifo(dir+"/fifo", 0o666))
	l, err := net.Listen("unix", dir+"/socket")
	must(err)
	t.Cleanup(func() { l.Close() })
	for name, target := range map[string]string{
		"link": "d/file", "dirlink": "d", "loop": "loop", "chain": "dirlink/../link", "dangling": "d/none/x",
		"abs": dir + "/d", "up": "../../../../../../../../../../../../etc/passwd", "fd": "/proc/self/fd/0",
		"back": "d/none/../file", "tofifo": "fifo", "self": "/proc/self/exe", "thread": "/proc/thread-self/root/etc",
	} {
		must(os.Symlink(target, dir+"/"+name))
	}
	// One link after the other: as many as may be followed, and one more.
	for i, last := 0, "d/file"; i <= mostLinks; i++ {
		name := "hop" + string(rune('A'+i))
		must(os.Symlink(last, dir+"/"+name))
		last = name
	}
	return dir
}

func TestOpen(t *testing.T) {
	dir := tree(t)
	for _, test := range []struct {
		path     string
		resolved bool
		err      string // "" opens
	}{
		{"d/file", true, ""},
		{"d/file", false, ""},
		{"d/new\nline\xff", true, ""},
		{"link", false, ""},
		{"chain", false, ""},
		{"up", false, ""},
		{"link", true, ErrChanged.Error()},
		{"dirlink/file", true, ErrChanged.Error()},
		{"dirlink/file", false, ""},
		{"loop", false, "too many links"},
		{"loop", true, ErrChanged.Error()},
		{"fd", false, "what a process has open"},
		{"self", false, "what a process has open"},
		{"thread/passwd", false, "what a process has open"},
		{"d", true, "is a directory, not a regular file"},
		{"fifo", true, "is a FIFO"},
		{"tofifo", false, "is a FIFO"},
		{"socket", true, "is a socket"},
		{"/dev/zero", true, "is a device"},
		{"/dev/null", false, "is a device"},
		{"/dev/stdin", false, "what a process has open"},
		{"d/none", true, "does not exist"},
		{"d/file/x", true, "is not a directory"},
		{"", true, "is a directory"},
		{strings.Repeat("d/", 2100) + "x", true, "too long"},
		{strings.Repeat("d", 256), true, "too long"},
		{"a\x00b", true, "invalid argument"},
		{"/proc/self/environ", false, "permission denied"},
		{"/proc/self/maps", false, "permission denied"},
		{"/proc/thread-self/status", false, "permission denied"},
		{"/proc/self/mounts", false, ""},
		{"/proc/mounts", false, ""},
		{"/proc/net/dev", false, ""},
		{"/proc/version", true, ""},
	} {
		path := test.path
		if !filepath.IsAbs(path) {
			path = dir + "/" + path
		}
		f, err := Open(path, test.resolved)
		if err == nil {
			if _, err := io.ReadAll(f); err != nil {
				t.Errorf("%q: %v", test.path, err)
			}
			f.Close()
		}
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%.50q, resolved %v: %v, want %q", test.path, test.resolved, err, test.err)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || !utf8.ValidString(err.Error())) {
			t.Errorf("%q: not one line: %q", test.path, err)
		}
	}
}

// A writer that waits for the reader of a FIFO is not woken by one that turns away.
func TestOpenWakesNoFIFO(t *testing.T) {
	dir := tree(t)
	written := make(chan error, 1)
	go func() {
		fd, err := unix.Open(dir+"/fifo", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte("x"))
			unix.Close(fd)
		}
		written <- err
	}()
	for range 1000 {
		if _, err := Open(dir+"/fifo", true); err == nil {
			t.Fatal("it was opened")
		}
	}
	reader, err := unix.Open(dir+"/fifo", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(reader)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2)
	if n, err := unix.Read(reader, buf); n != 1 || err != nil {
		t.Errorf("what was written came to %d bytes, %v", n, err)
	}
}

func TestOpenDirAndIn(t *testing.T) {
	dir := tree(t)
	d, err := OpenDir(dir+"/d", true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f, err := d.OpenIn("file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if data, err := io.ReadAll(f); string(data) != "content" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	var kind *KindError
	if _, err := d.OpenIn("e"); !errors.As(err, &kind) {
		t.Error(err)
	}
	if _, err := d.OpenIn("none"); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	if err := os.Symlink("file", dir+"/d/in"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.OpenIn("in"); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
	for path, want := range map[string]string{"/d/file": "is a regular file, not a directory", "/dirlink": ErrChanged.Error(), "/fifo": "is a FIFO"} {
		if _, err := OpenDir(dir+path, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	// Names there tell where this process has what in its memory.
	if _, err := OpenDir("/proc/self/map_files", false); !errors.Is(err, unix.EACCES) {
		t.Error(err)
	}
	net, err := OpenDir("/proc/self/net", false)
	if err != nil {
		t.Fatal(err)
	}
	net.Close()
}

// A file that another process holds a lease on would be waited for.
func TestOpenWaitsForNoLease(t *testing.T) {
	dir := tree(t)
	f, err := os.OpenFile(dir+"/d/file", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	signal.Ignore(unix.SIGIO) // what asks for the lease back
	defer signal.Reset(unix.SIGIO)
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir+"/d/file", true); !errors.Is(err, unix.EAGAIN) || !strings.Contains(err.Error(), "another process") {
		t.Error(err)
	}
}

// What is opened is what was judged, though links are put in its way all the
// time.
func TestOpenWhileLinksAreSwapped(t *testing.T) {
	dir := tree(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outside+"/file", []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, dir+"/swap"); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/swap", unix.RENAME_EXCHANGE)
			}
		}
	}()
	opened, refused := 0, 0
	for opened < 200 || refused < 200 {
		f, err := Open(dir+"/d/file", true)
		switch {
		case errors.Is(err, ErrChanged):
			refused++
			continue
		case err != nil:
			t.Fatal(err)
		}
		opened++
		data, err := io.ReadAll(f)
		f.Close()
		if string(data) != "content" || err != nil {
			t.Fatalf("%q, %v", data, err)
		}
	}
	close(stop)
	<-stopped
}

func TestQuote(t *testing.T) {
	for path, want := range map[string]string{
		"/a/b c":   "/a/b c",
		"/é":       "/é",
		"a\nb":     `"a\nb"`,
		"\x1b[31m": `"\x1b[31m"`,
		"\xff":     `"\xff"`,
		"":         `""`,
		"\u202e":   `"\u202e"`,
	} {
		if got := Quote(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
	if got := Quote(strings.Repeat("a", 5000)); len(got) > 310 {
		t.Errorf("%d bytes", len(got))
	}
}
