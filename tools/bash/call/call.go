// Package call is what Bash does in the container: it runs a command with bash,
// keeps what it wrote within bounds, and finds out in which directory it ended.
package call

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
)

// Name is the function's name in the guest.
const Name = "Bash"

// A Request is what the host asks for.
type Request struct {
	Command   string `json:"command"`
	Dir       string `json:"dir"`       // where it runs, absolute
	Workspace string `json:"workspace"` // where the next one runs if Dir is gone
	TimeoutMS int    `json:"timeout_ms"`
	// Background, when it is not "", is a file that takes the output of a command
	// that nobody waits for.
	Background string `json:"background,omitempty"`
}

// An Output is how it went.
type Output struct {
	Stdout      string `json:"stdout"`
	Stderr      string `json:"stderr"`
	Code        int    `json:"exit_code"`
	Signal      string `json:"signal,omitempty"` // that ended it
	Interrupted bool   `json:"interrupted"`
	TimedOut    bool   `json:"timed_out,omitempty"`
	// Left out of Stdout and Stderr in the middle, in bytes.
	StdoutCut int64 `json:"stdout_cut,omitempty"`
	StderrCut int64 `json:"stderr_cut,omitempty"`
	// Dir is the working directory afterwards; "" when it is not known.
	Dir  string `json:"dir,omitempty"`
	Note string `json:"note,omitempty"`
}

// prelude is what bash runs before the command, which it is given with its bytes
// unchanged: at the end, where it is by then is written to a descriptor that
// nobody else has a use for. A command that sets a trap of its own on EXIT, or
// becomes another program, leaves the directory as it was.
const prelude = `unset BASH_ENV
exec 198>&4 3<&- 4>&-
trap '{ builtin pwd -P >&198; } 2>/dev/null' EXIT
`

// Run is the function.
func Run(ctx context.Context, c *inside.Call, r Request) (*Output, error) {
	out := &Output{}
	if info, err := os.Stat(r.Dir); err != nil || !info.IsDir() {
		// It was judged by what its paths are there: elsewhere they are others.
		out.Note = fmt.Sprintf("the working directory %s is gone, so this did not run; the working directory is now %s", r.Dir, r.Workspace)
		out.Code, out.Dir = 1, r.Workspace
		return out, nil
	}
	script, err := memfile("prelude", prelude)
	if err != nil {
		return nil, err
	}
	defer script.Close()
	where, err := memfile("directory", "")
	if err != nil {
		return nil, err
	}
	defer where.Close()
	program := inside.Program{
		Args:  []string{"bash", "--noprofile", "--norc", "-c", r.Command},
		Dir:   r.Dir,
		Files: []*os.File{script, where},
	}
	for _, kv := range c.Env {
		// What would have bash run something else first, or be another shell.
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT":
		default:
			program.Env = append(program.Env, kv)
		}
	}
	program.Env = append(program.Env, "BASH_ENV=/dev/fd/3", "PAGER=cat", "GIT_PAGER=cat", "GIT_EDITOR=true")

	if r.Background != "" {
		return out, background(c, program, r.Background)
	}
	var stdout, stderr Bounded
	program.Stdout, program.Stderr = &stdout, &stderr
	limited, cancel := context.WithTimeout(ctx, time.Duration(r.TimeoutMS)*time.Millisecond)
	defer cancel()
	exit, err := c.Programs.Run(limited, program)
	if exit == nil {
		return nil, startError(err)
	}
	out.Stdout, out.StdoutCut = stdout.Text()
	out.Stderr, out.StderrCut = stderr.Text()
	out.Code = exit.Code
	if exit.Signal != 0 {
		out.Signal = unix.SignalName(unix.Signal(exit.Signal))
		out.Code = 128 + exit.Signal
	}
	out.Interrupted = ctx.Err() != nil
	out.TimedOut = err != nil && !out.Interrupted
	if dir := whereNow(where); dir != "" {
		out.Dir = dir
	}
	return out, nil
}

// background starts a command whose output goes to a new file.
func background(c *inside.Call, program inside.Program, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("the file for the output: %w", err)
	}
	defer f.Close()
	program.Stdout, program.Stderr = f, f
	return startError(c.Programs.Start(program))
}

func startError(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return errors.New("there is no bash in this session's image, so there is no shell; use the other tools")
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("no process could be made: the session is at its limit of processes (%w)", err)
	}
	return err
}

// memfile makes a file that is nowhere.
func memfile(name, content string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteString(content); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// whereNow reads the directory in which the shell ended. The command could write
// there as well: what makes no sense is no directory.
func whereNow(f *os.File) string {
	buf := make([]byte, unix.PathMax+1)
	n, _ := f.ReadAt(buf, 0)
	line, ok := strings.CutSuffix(string(buf[:n]), "\n")
	if !ok || !filepath.IsAbs(line) || strings.ContainsAny(line, "\n\x00") {
		return ""
	}
	return filepath.Clean(line)
}

// What is kept of an output: its beginning and its end, in bytes. It is less than
// a result may have, so that it is cut here alone, where all of it is known.
const (
	keepHead = 56 << 10
	keepTail = 24 << 10
)

// Bounded is a writer that keeps the beginning and the end of what is written.
// Its zero value is ready for use.
type Bounded struct {
	mu   sync.Mutex
	head []byte
	tail []byte // a ring once it is full
	at   int    // where the next byte of the ring goes
	cut  int64
}

// Write implements [io.Writer] and never fails.
func (b *Bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	take := min(keepHead-len(b.head), len(p))
	b.head, p = append(b.head, p[:take]...), p[take:]
	if grow := min(keepTail-len(b.tail), len(p)); grow > 0 {
		b.tail, p = append(b.tail, p[:grow]...), p[grow:]
	}
	b.cut += int64(len(p))
	p = p[max(0, len(p)-keepTail):]
	for len(p) > 0 {
		k := copy(b.tail[b.at:], p)
		b.at, p = (b.at+k)%keepTail, p[k:]
	}
	return n, nil
}

// Text returns what was kept, and how many bytes were left out.
func (b *Bounded) Text() (string, int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut == 0 {
		return string(b.head) + string(b.tail), 0
	}
	return fmt.Sprintf("%s\n[%d bytes are left out here]\n%s%s", b.head, b.cut, b.tail[b.at:], b.tail[:b.at]), b.cut
}
