package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func writeFile(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
}

// syncFS makes a file system say how much its files take.
func syncFS(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
}

func usageOf(t *testing.T, dir string) usage {
	t.Helper()
	syncFS(t, dir)
	u, err := measure(dir)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	if u := usageOf(t, dir); u != (usage{}) {
		t.Errorf("of nothing: %+v", u)
	}
	mkdirs(t, dir, "layers/workspace/upper", "eye", "forks", "driver")
	empty := usageOf(t, dir)

	step := func(what string, files, atLeast, atMost int64, f func()) {
		t.Helper()
		before := usageOf(t, dir)
		f()
		after := usageOf(t, dir)
		bytes := after.bytes - before.bytes
		if after.inodes-before.inodes != files || bytes < atLeast || bytes > atMost {
			t.Errorf("%s: %d files, %d bytes", what, after.inodes-before.inodes, bytes)
		}
	}
	upper := dir + "/layers/workspace/upper"
	const mib = 1 << 20
	step("a file", 1, mib, mib+64<<10, func() { writeFile(t, upper+"/a", mib) })
	step("a file of another layer", 2, mib, mib+64<<10, func() { writeFile(t, dir+"/layers/home/b", mib) })
	step("one of a fork", 2, mib, mib+64<<10, func() { writeFile(t, dir+"/forks/1/b", mib) })
	step("one of the eye", 1, mib, mib+64<<10, func() { writeFile(t, dir+"/eye/b", mib) })
	step("what is no layer", 0, 0, 0, func() { writeFile(t, dir+"/driver/b", mib); writeFile(t, dir+"/session.json", mib) })
	step("a sparse file", 1, 0, 64<<10, func() {
		writeFile(t, upper+"/sparse", 0)
		if err := os.Truncate(upper+"/sparse", 1<<40); err != nil {
			t.Fatal(err)
		}
	})
	step("another name", 1, 0, 4096, func() {
		if err := os.Link(upper+"/a", upper+"/a2"); err != nil {
			t.Fatal(err)
		}
	})
	step("small files", 200, 0, mib, func() {
		for i := range 200 {
			writeFile(t, fmt.Sprintf("%s/small%d", upper, i), 1)
		}
	})
	// A link leads nowhere, and a loop of them does not end it.
	step("links", 2, 0, 64<<10, func() {
		symlink(t, "/usr", upper+"/usr")
		symlink(t, ".", upper+"/loop")
	})
	if u := usageOf(t, dir); u.bytes-empty.bytes < 4*mib {
		t.Errorf("in all: %+v", u)
	}

	stored := &Stored{dir: dir}
	all, err := stored.Usage()
	if err != nil || len(all.Layers) != 1 || all.Layers[0].Name != "workspace" || all.Layers[0].Files != 205 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Directories without permissions, and very deep ones, end no measurement.
func TestMeasureWhatIsHostile(t *testing.T) {
	dir := t.TempDir()
	mkdirs(t, dir, "layers/workspace/upper/closed")
	deep := dir + "/layers/workspace/upper"
	here, err := unix.Open(deep, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range deepest + 100 {
		if err := unix.Mkdirat(here, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(here, "d", unix.O_PATH|unix.O_CLOEXEC, 0)
		unix.Close(here)
		if err != nil {
			t.Fatal(err)
		}
		here = next
	}
	unix.Close(here)
	writeFile(t, deep+"/closed/x", 1)
	if err := os.Chmod(deep+"/closed", 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(deep+"/closed", 0o755)
	u, err := measure(dir)
	if err != nil || u.inodes < deepest || u.inodes > deepest+10 {
		t.Errorf("%+v, %v", u, err)
	}
}

// watchOf is a watch over the layers in dir, with limits.
func watchOf(dir string, bytes, inodes int64) (*diskWatch, error) {
	s := &Session{Stored: &Stored{dir: dir}, limits: Limits{Disk: bytes, Inodes: inodes}}
	return newDiskWatch(s)
}

func TestWatchSeesWhatIsWritten(t *testing.T) {
	for _, test := range []struct {
		name  string
		write func(t *testing.T, upper string)
		want  string // of the error; none if empty
	}{
		{"less", func(t *testing.T, upper string) { writeFile(t, upper+"/a", 3<<20) }, ""},
		{"bytes", func(t *testing.T, upper string) { writeFile(t, upper+"/a", 5<<20) }, "hold 5 MiB, more than the limit of 4 MiB; raise it with --disk, or discard some of it"},
		{"files", func(t *testing.T, upper string) {
			for i := range 120 {
				writeFile(t, fmt.Sprintf("%s/%d", upper, i), 0)
			}
		}, "files, more than the limit of 100; discard some of them"},
		{"directories", func(t *testing.T, upper string) {
			for i := range 120 {
				mkdirs(t, upper, fmt.Sprint(i))
			}
		}, "files, more than the limit of 100"},
		{"holes", func(t *testing.T, upper string) {
			writeFile(t, upper+"/a", 0)
			if err := os.Truncate(upper+"/a", 1<<40); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			upper := mkdirs(t, dir, "layers/workspace/upper") + "/layers/workspace/upper"
			w, err := watchOf(dir, 4<<20, 100)
			if err != nil {
				t.Fatal(err)
			}
			test.write(t, upper)
			syncFS(t, dir)
			// Also where the file system's count does not move, for others free as
			// much as the session takes, all is measured when it is near the limit.
			for range 2 {
				_, err = w.poll()
				w.free = usage{1 << 62, 1 << 62}
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Error(err)
			}
			// And a session that begins with it is told.
			_, err = watchOf(dir, 4<<20, 100)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Error("at the next start:", err)
			}
		})
	}
}

func TestWatchLooksTheMoreOftenTheLessIsLeft(t *testing.T) {
	dir := t.TempDir()
	mkdirs(t, dir, "layers")
	much, err := watchOf(dir, 1<<50, 1<<50)
	if err != nil {
		t.Fatal(err)
	}
	little, err := watchOf(dir, 1<<20, 1<<50)
	if err != nil {
		t.Fatal(err)
	}
	long, err := much.poll()
	if err != nil {
		t.Fatal(err)
	}
	short, err := little.poll()
	if err != nil || short >= long {
		t.Errorf("%v and %v, %v", short, long, err)
	}
}

// The watch's goroutine ends the session, once, and ends when nobody needs it.
func TestWatchEndsTheSession(t *testing.T) {
	dir := t.TempDir()
	upper := mkdirs(t, dir, "layers/workspace/upper") + "/layers/workspace/upper"
	w, err := watchOf(dir, 1<<20, 1000)
	if err != nil {
		t.Fatal(err)
	}
	full := make(chan error, 10)
	w.full = func(err error) { w.stop(); full <- err }
	w.begin()
	w.begin()
	w.end()
	writeFile(t, upper+"/a", 2<<20)
	syncFS(t, dir)
	if err := <-full; !strings.Contains(err.Error(), "more than the limit of 1 MiB") {
		t.Error(err)
	}
	w.begin() // after the end nothing watches any more
	w.stop()
	select {
	case err := <-full:
		t.Error("once more:", err)
	default:
	}
}

func TestWatchMayBeginAndEndAsOftenAsItLikes(t *testing.T) {
	dir := t.TempDir()
	mkdirs(t, dir, "layers")
	w, err := watchOf(dir, 1<<40, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	w.full = func(err error) { t.Error(err) }
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				w.begin()
				w.end()
			}
		})
	}
	wg.Wait()
	w.stop()
	w.stop()
}

// onSmallFS calls f with a directory on a file system of its own, of that size
// in bytes and files. It is mounted in a mount namespace that ends with the
// thread.
func onSmallFS(t *testing.T, bytes, inodes int64, f func(dir string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system takes root")
	}
	dir := t.TempDir()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d", bytes, inodes)); err != nil {
			t.Error(err)
			return
		}
		f(dir)
	}()
	<-done
}

func TestWatchKeepsTheHostsReserve(t *testing.T) {
	onSmallFS(t, 64<<20, 10_000, func(dir string) {
		_, err := watchOf(dir, 1<<40, 1<<40)
		if err == nil || !strings.Contains(err.Error(), "is full: 64 MiB and") || !strings.Contains(err.Error(), "set XDG_STATE_HOME to a directory elsewhere") {
			t.Error("too small to start:", err)
		}
	})
	onSmallFS(t, 1<<30, 900, func(dir string) {
		if _, err := watchOf(dir, 1<<40, 1<<40); err == nil || !strings.Contains(err.Error(), "is full") {
			t.Error("too few files to start:", err)
		}
	})
	onSmallFS(t, DiskReserve+4<<20, 10_000, func(dir string) {
		w, err := watchOf(dir, 1<<40, 1<<40)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := w.poll(); err != nil {
			t.Error(err)
		}
		// Whoever writes it: the session's limit is far away.
		if err := os.WriteFile(dir+"/x", make([]byte, 5<<20), 0o600); err != nil {
			t.Error(err)
		}
		if _, err := w.poll(); err == nil || !strings.Contains(err.Error(), "the host's file system at "+dir+" is nearly full") {
			t.Error(err)
		}
	})
	onSmallFS(t, 1<<30, 1100, func(dir string) {
		w, err := watchOf(dir, 1<<40, 1<<40)
		if err != nil {
			t.Error(err)
			return
		}
		for i := range 150 {
			if err := os.WriteFile(fmt.Sprint(dir, "/", i), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.poll(); err == nil || !strings.Contains(err.Error(), "nearly full") {
			t.Error(err)
		}
	})
}
