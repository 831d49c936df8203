package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// A diskWatch holds a session to its limits on bytes and files over all its
// writable layers, and stops it before the host's file system is full.
//
// No file system that is common everywhere has a quota for a directory, so the
// layers are watched: while something runs, the file system's own count of free
// space is read every few milliseconds to a quarter of a second, the more often
// the less is left. Only when that count says that the limit may have been
// reached are the layers measured. A single file is bounded by RLIMIT_FSIZE
// besides.
type diskWatch struct {
	dir    string // holds all layers
	bytes  int64
	inodes int64
	full   func(error) // ends the session

	used usage // when measured last
	free usage // of the file system, then

	mu      sync.Mutex
	users   int  // who needs the watch now
	running bool // the watching goroutine
	stopped bool
	quit    chan struct{} // closed when stopped
	ended   sync.WaitGroup
}

// usage is an amount of a file system.
type usage struct{ bytes, inodes int64 }

// DiskReserve is how much of the host's file system a session leaves free, in
// bytes.
const DiskReserve = 128 << 20

var reserve = usage{bytes: DiskReserve, inodes: 1000}

// fastest is the most that is believed to be written in a second, in bytes.
const fastest = 4 << 30

func newDiskWatch(s *Session) (*diskWatch, error) {
	w := &diskWatch{dir: s.dir, bytes: s.limits.Disk, inodes: s.limits.Inodes, full: func(err error) { s.stop(err) }, quit: make(chan struct{})}
	var err error
	if w.free, err = freeSpace(w.dir); err != nil {
		return nil, fmt.Errorf("the state directory's file system: %w", err)
	}
	if w.free.bytes < reserve.bytes || w.free.inodes < reserve.inodes {
		return nil, fmt.Errorf("the file system of %s is full: %d MiB and %d files are free; make room, or set XDG_STATE_HOME to a directory elsewhere", w.dir, w.free.bytes>>20, w.free.inodes)
	}
	if w.used, err = measure(w.dir); err != nil {
		return nil, err
	}
	return w, w.check()
}

// begin watches until end is called as often. What ran before may go on in the
// background; then end is not called.
func (w *diskWatch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users++
	if !w.running && !w.stopped {
		w.running = true
		w.ended.Go(w.run)
	}
}

// end lets the watch cease when it looks next: calls often follow one another.
func (w *diskWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users--
}

// stop ends the watch for good and waits for its goroutine.
func (w *diskWatch) stop() {
	w.mu.Lock()
	if !w.stopped {
		w.stopped = true
		close(w.quit)
	}
	w.mu.Unlock()
	w.ended.Wait()
}

func (w *diskWatch) run() {
	for w.wanted() {
		wait, err := w.poll()
		if err != nil {
			go w.full(err) // which waits for this goroutine
			return
		}
		select {
		case <-w.quit:
		case <-time.After(wait):
		}
	}
}

// wanted reports whether anybody needs the watch.
func (w *diskWatch) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = w.users > 0 && !w.stopped
	return w.running
}

// poll looks once, and says when to look again.
func (w *diskWatch) poll() (time.Duration, error) {
	free, err := freeSpace(w.dir)
	if err != nil {
		return 0, err
	}
	left := usage{
		bytes:  w.bytes - w.used.bytes - max(0, w.free.bytes-free.bytes),
		inodes: w.inodes - w.used.inodes - max(0, w.free.inodes-free.inodes),
	}
	if left.bytes <= 0 || left.inodes <= 0 {
		// Others write to the file system too.
		if w.used, err = measure(w.dir); err != nil {
			return 0, err
		}
		w.free = free
		if err := w.check(); err != nil {
			return 0, err
		}
		left.bytes = w.bytes - w.used.bytes
	}
	if free.bytes < reserve.bytes || free.inodes < reserve.inodes {
		return 0, fmt.Errorf("the host's file system at %s is nearly full", w.dir)
	}
	left.bytes = min(left.bytes, free.bytes-reserve.bytes)
	wait := time.Duration(float64(left.bytes) / fastest * float64(time.Second))
	return min(max(wait, 5*time.Millisecond), 250*time.Millisecond), nil
}

func (w *diskWatch) check() error {
	switch {
	case w.used.bytes > w.bytes:
		return fmt.Errorf("the session's layers hold %d MiB, more than the limit of %d MiB; raise it with --disk, or discard some of it", w.used.bytes>>20, w.bytes>>20)
	case w.used.inodes > w.inodes:
		return fmt.Errorf("the session's layers hold %d files, more than the limit of %d; discard some of them", w.used.inodes, w.inodes)
	}
	return nil
}

func freeSpace(dir string) (usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return usage{}, err
	}
	u := usage{bytes: int64(st.Bavail) * st.Bsize, inodes: int64(st.Ffree)}
	if st.Files == 0 { // a file system without a table of inodes
		u.inodes = 1 << 62
	}
	return u, nil
}

// measure adds up what lies in the layers of a session. They may change
// meanwhile.
func measure(dir string) (usage, error) {
	d, err := beneath.Open(dir)
	if err != nil {
		return usage{}, err
	}
	defer d.Close()
	var u usage
	for _, name := range []string{"layers", "eye", "forks"} {
		sub, err := d.OpenDir(name)
		if err != nil {
			continue
		}
		u.add(sub, 0)
		sub.Close()
	}
	return u, nil
}

// deepest bounds how far measure goes down, and so the descriptors that it
// holds. What lies deeper is not counted; RLIMIT_FSIZE and the host's reserve
// bound it.
const deepest = 512

func (u *usage) add(d *beneath.Dir, depth int) {
	for name, err := range d.Entries() {
		if err != nil {
			return
		}
		st, err := d.Lstat(name)
		if err != nil {
			continue
		}
		u.inodes++
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			u.bytes += st.Blocks * 512 / int64(max(1, st.Nlink)) // each name has its share
			continue
		}
		u.bytes += st.Blocks * 512
		if depth == deepest {
			continue
		}
		if sub, err := d.OpenDir(name); err == nil {
			u.add(sub, depth+1)
			sub.Close()
		}
	}
}

// A Usage is what a session holds on disk.
type Usage struct {
	Layers []LayerUsage `json:"layers"`
}

// A LayerUsage is what one writable layer holds.
type LayerUsage struct {
	Name  string `json:"name"`
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
}

// Usage measures the layers of a session. They may change meanwhile.
func (s *Stored) Usage() (Usage, error) {
	layers, err := beneath.Open(s.path("layers"))
	if errors.Is(err, fs.ErrNotExist) {
		return Usage{}, nil // never started
	}
	if err != nil {
		return Usage{}, err
	}
	defer layers.Close()
	var all Usage
	for name, err := range layers.Entries() {
		if err != nil {
			return all, err
		}
		upper, err := layers.OpenDir(name + "/upper")
		if err != nil {
			continue // the policy has none
		}
		var u usage
		u.add(upper, 0)
		upper.Close()
		all.Layers = append(all.Layers, LayerUsage{Name: name, Files: u.inodes, Bytes: u.bytes})
	}
	slices.SortFunc(all.Layers, func(a, b LayerUsage) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
