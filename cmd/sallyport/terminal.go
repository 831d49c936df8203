package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/sandbox"
)

// ownTerminal hands this process's terminal over to a command: every key goes
// to it, and a change of size too, until restore is called.
func ownTerminal() (t *sandbox.Terminal, restore func(), err error) {
	fd := int(os.Stdin.Fd())
	columns, rows, err := term.GetSize(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("the terminal: %w", err)
	}
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("the terminal: %w", err)
	}
	resize := make(chan [2]uint16)
	winch := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(winch, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-winch:
			}
			columns, rows, err := term.GetSize(fd)
			if err != nil {
				continue
			}
			select {
			case <-done:
				return
			case resize <- [2]uint16{uint16(rows), uint16(columns)}:
			}
		}
	}()
	restore = func() {
		signal.Stop(winch)
		close(done)
		term.Restore(fd, old)
	}
	return &sandbox.Terminal{Rows: uint16(rows), Columns: uint16(columns), Resize: resize}, restore, nil
}

// An inputReader reads from a file until it is told to stop, also while it
// waits: what is typed after a command has ended is not that command's.
type inputReader struct {
	file, stopped *os.File
}

// input returns a reader of a file and what stops it.
func input(f *os.File) (io.Reader, func(), error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &inputReader{f, r}, func() { w.Close() }, nil
}

func (r *inputReader) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(r.file.Fd()), Events: unix.POLLIN}, {Fd: int32(r.stopped.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || fds[1].Revents != 0 {
			return 0, io.EOF
		}
		n, err := unix.Read(int(r.file.Fd()), p)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("standard input: %w", err)
		}
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
}

// takesLong says on the terminal what is being done, if that has not ended after
// a moment.
func takesLong(format string, args ...any) (done func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return func() {}
	}
	start := time.Now()
	var said atomic.Bool
	timer := time.AfterFunc(patience, func() {
		said.Store(true)
		fmt.Fprintf(os.Stderr, "sallyport: "+format+" ...", args...)
	})
	return func() {
		if !timer.Stop() && said.Load() {
			fmt.Fprintf(os.Stderr, " %v\n", time.Since(start).Round(100*time.Millisecond))
		}
	}
}

const patience = time.Second

// isBrokenPipe reports whether whoever reads our output has gone.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// ask asks a question on the terminal and returns the answer in lower case, "yes"
// as "y"; "" is none.
func ask(question string) string {
	// What was typed before was no answer: a command may have asked something
	// that looks like this, or had the terminal say something.
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH)
	}
	fmt.Fprint(os.Stderr, question)
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(os.Stderr)
	}
	line = strings.ToLower(strings.TrimSpace(line))
	switch line {
	case "yes":
		return "y"
	case "diff":
		return "d"
	}
	return line
}
