package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	uv "github.com/charmbracelet/ultraviolet"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
)

const localFile = settings.LocalFile

// showsWell reports whether the terminal can show a question well. On one that
// cannot, it is plain lines.
func showsWell() bool {
	columns, rows, err := term.GetSize(int(os.Stderr.Fd()))
	kind := os.Getenv("TERM")
	return err == nil && columns >= leastColumns && rows >= leastRows && kind != "" && kind != "dumb" && os.Getenv("NO_COLOR") == ""
}

// askWell asks on a terminal that showsWell. The error is errLeft, or what ended
// ctx.
//
// The terminal stays ours: the keys are read here, and the library only draws. It
// asks the terminal nothing, whose answer might be read by somebody else; ^C is a
// signal as ever; and the settings are put back whatever becomes of the library.
func askWell(ctx context.Context, p *permission.Prompt, wary bool) (a permission.Answer, err error) {
	t, err := holdKeys()
	if err != nil {
		return permission.Answer{}, err
	}
	ctx, die := dieLater(ctx)
	defer die()
	// What was typed and not read is meant for nobody.
	defer func() { t.flush(); t.restore() }()

	home, _ := os.UserHomeDir()
	q := newQuestion(p, settings.UserFile(home, os.Getenv), wary)
	out := &screen{File: os.Stderr, shown: make(chan struct{})}
	program := tea.NewProgram(q,
		tea.WithContext(ctx), tea.WithInput(nil), tea.WithOutput(out), tea.WithoutSignalHandler(),
		tea.WithEnvironment([]string{"TERM=" + os.Getenv("TERM")}), tea.WithColorProfile(colorprofile.ANSI))
	in, stop, err := input(os.Stdin)
	if err != nil {
		return permission.Answer{}, err
	}
	ended, keys := make(chan struct{}), sync.WaitGroup{}
	keys.Go(func() {
		select {
		case <-out.shown:
		case <-ended:
			return
		}
		// What was typed before the question was there is no answer to it.
		t.flush()
		program.Send(keysHeard{})
		events, sent := make(chan uv.Event), sync.WaitGroup{}
		sent.Go(func() {
			for e := range events {
				program.Send(e)
			}
		})
		uv.NewTerminalReader(in, os.Getenv("TERM")).StreamEvents(ctx, events)
		close(events)
		sent.Wait()
		program.Send(inputEnded{})
	})
	_, err = program.Run()
	close(ended)
	stop()
	keys.Wait()
	switch {
	case ctx.Err() != nil:
		return permission.Answer{}, context.Cause(ctx)
	case err != nil:
		return permission.Answer{}, fmt.Errorf("the question could not be shown: %w", err)
	case q.answer == nil:
		return permission.Answer{}, errLeft
	}
	return *q.answer, nil
}

// A screen is standard error, and tells when the question is on it.
type screen struct {
	*os.File
	once  sync.Once
	shown chan struct{}
}

// Write gets whole frames.
func (s *screen) Write(frame []byte) (int, error) {
	n, err := s.File.Write(frame)
	if err == nil && bytes.Contains(frame, []byte("Allow")) {
		s.once.Do(func() { close(s.shown) })
	}
	return n, err
}

// holdKeys is holdTerminal for single keys that are not shown.
func holdKeys() (*heldTerminal, error) {
	t, err := holdTerminal()
	if err != nil {
		return nil, err
	}
	mode := *t.old
	mode.Lflag &^= unix.ICANON | unix.ECHO | unix.ECHONL | unix.IEXTEN
	mode.Lflag |= unix.ISIG | unix.NOFLSH
	mode.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.ISTRIP | unix.IXON
	mode.Oflag |= unix.OPOST | unix.ONLCR
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	// A stop, or a quit, would leave the terminal so.
	mode.Cc[unix.VSUSP], mode.Cc[unix.VQUIT] = 0, 0
	if err := unix.IoctlSetTermios(t.fd, unix.TCSETS, &mode); err != nil {
		t.restore()
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	return t, nil
}

// dieLater returns a context that ends with the signals that would end this
// process where it stands. The function that comes with it, which is called when
// the terminal is as it was, lets them.
func dieLater(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	fatal := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(fatal, s)
		}
	}
	done := make(chan struct{})
	var got os.Signal
	watch := sync.WaitGroup{}
	watch.Go(func() {
		select {
		case got = <-fatal:
			cancel(errors.New(got.String()))
		case <-done:
		}
	})
	return ctx, func() {
		close(done)
		watch.Wait()
		signal.Stop(fatal)
		cancel(nil)
		if s, ok := got.(syscall.Signal); ok {
			unix.Kill(os.Getpid(), s)
		}
	}
}
