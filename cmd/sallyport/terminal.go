package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

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

// isBrokenPipe reports whether whoever reads our output has gone.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// ask asks a question on the terminal and returns the answer in lower case, "yes"
// as "y"; "" is none.
func ask(question string) string {
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
