package main

import (
	"errors"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
)

// benchCall measures calls in a running session.
func benchCall(e *env) ([]Row, error) {
	s, live, err := e.startOver(10)
	if err != nil {
		return nil, err
	}
	defer s.Remove()
	defer live.Close()
	bash := func(b sandbox.Box) func() error {
		return func() error {
			_, err := live.Exec(e.ctx, sandbox.Command{Args: []string{"bash", "-c", "true"}, Envelope: sandbox.Envelope{Box: b}})
			return err
		}
	}
	echo := func() error {
		_, err := live.Call(e.ctx, "echo", []byte("hello"), sandbox.Envelope{}, nil)
		return err
	}
	got, err := turns(400, command("bash", "-c", "true"), bash(sandbox.Hand), bash(sandbox.Eye))
	if err != nil {
		return nil, err
	}
	host := got[0]
	rows := []Row{
		row("bash -c true in the hand, against the host", "ms", got[1], host, 1.6),
		row("bash -c true in the eye, against the host", "ms", got[2], host, 1.6),
	}
	ping, end, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer end()
	if got, err = turns(5000, echo, ping); err != nil {
		return nil, err
	}
	return append(rows,
		row("a call that starts no program", "µs", got[0], nil, 60),
		// A machine on which the round trip takes 11 µs, as the reach has it.
		row("a call that starts no program, against a round trip to cat", "µs", got[0], got[1], 60.0/11),
	), nil
}

// socketPair returns what sends a byte to another process, which sends it back.
func socketPair() (ping func() error, end func() error, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	other := os.NewFile(uintptr(pair[1]), "socket")
	defer other.Close()
	cat := exec.Command("cat")
	cat.Stdin, cat.Stdout = other, other
	if err := cat.Start(); err != nil {
		unix.Close(pair[0])
		return nil, nil, err
	}
	buf := []byte{0}
	ping = func() error {
		if _, err := unix.Write(pair[0], buf); err != nil {
			return err
		}
		_, err := unix.Read(pair[0], buf)
		return err
	}
	return ping, func() error { return errors.Join(unix.Close(pair[0]), cat.Wait()) }, nil
}
