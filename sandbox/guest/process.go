package guest

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/wire"
)

// A process is one whose call waits for an answer, by the number of its thread.
// All that is read of it may be made up by it.
type process uint32

func (p process) proc(name string) string {
	return "/proc/" + strconv.FormatUint(uint64(p), 10) + "/" + name
}

// link is what a link in its directory of /proc leads to, "" when it is no path.
func (p process) link(name string) string {
	buf := make([]byte, wire.MaxAttemptPath+1)
	n, err := unix.Readlink(p.proc(name), buf)
	if err != nil || n == 0 || n == len(buf) || buf[0] != '/' {
		return ""
	}
	return filepath.Clean(string(buf[:n]))
}

// program is the path of its executable, "" when it is not known.
func (p process) program() string { return strings.TrimSuffix(p.link("exe"), " (deleted)") }

// at is the directory that a descriptor stands for in a call of the *at family.
func (p process) at(fd uint64) string {
	if int32(fd) == unix.AT_FDCWD {
		return p.link("cwd")
	}
	return p.link("fd/" + strconv.Itoa(int(int32(fd))))
}

// memory is that of a process; -1 when it may not be read: it is one that has made
// itself undumpable.
type memory int

func (p process) memory() memory {
	fd, err := unix.Open(p.proc("mem"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return memory(fd)
}

func (m memory) close() {
	if m >= 0 {
		unix.Close(int(m))
	}
}

// read fills a buffer with what is at an address, as far as there is memory.
func (m memory) read(buf []byte, address uint64) int {
	if m < 0 || int64(address) <= 0 {
		return 0
	}
	n, _ := unix.Pread(int(m), buf, int64(address))
	return max(n, 0)
}

// text reads a string that ends with a zero. It reads up to the end of a page
// first: there may be no memory behind it.
func (m memory) text(address uint64) (string, bool) {
	const page = 4096
	buf := make([]byte, wire.MaxAttemptPath)
	first := min(len(buf), page-int(address%page))
	n := m.read(buf[:first], address)
	if i := bytes.IndexByte(buf[:n], 0); i >= 0 {
		return string(buf[:i]), true
	}
	if n == first {
		n += m.read(buf[n:], address+uint64(n))
		if i := bytes.IndexByte(buf[:n], 0); i >= 0 {
			return string(buf[:i]), true
		}
	}
	return "", false
}
