package hooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/permission/settings"
)

// How much of what a hook prints is kept, in bytes. The rest is read, so that
// the hook can go on, and thrown away.
const (
	mostStdout = 1 << 20
	mostStderr = 64 << 10
)

// graceForPipes is how long a process that a hook has left may hold its output
// after the hook has ended; and how long what was killed may take to be gone.
const graceForPipes = time.Second

// A Host runs hooks as the user's own programs, outside of any session.
type Host struct {
	// Workspace is where they run.
	Workspace string
	// Env is the environment that they get, beside [environment]; nil is this
	// process's.
	Env []string
}

// environment tells a hook which project it is about; the second name is the one
// that hooks of other agents know.
func environment(workspace string) []string {
	return []string{"SALLYPORT_PROJECT_DIR=" + workspace, "CLAUDE_PROJECT_DIR=" + workspace}
}

// Run runs a hook in a process group of its own, which is killed when the context
// ends, or when the hook has ended and what it has left holds its output. Its
// processes that have made groups of their own are not: they lose their output.
func (p *Host) Run(ctx context.Context, h *settings.Hook, _ permission.Mode, input []byte) (*Ran, error) {
	env := p.Env
	if env == nil {
		env = os.Environ()
	}
	cmd := exec.Command("/bin/sh", "-c", h.Command)
	cmd.Dir, cmd.Env = p.Workspace, append(env[:len(env):len(env)], environment(p.Workspace)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	var pipes pipes
	defer pipes.close()
	stdin, stdout, stderr := pipes.open(), pipes.open(), pipes.open()
	if pipes.err != nil {
		return nil, pipes.err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin.r, stdout.w, stderr.w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stdin.r.Close()
	stdout.w.Close()
	stderr.w.Close()

	out, errs := kept{most: mostStdout}, kept{most: mostStderr}
	var reading, writing sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(&out, stdout.r) })
	reading.Go(func() { _, _ = io.Copy(&errs, stderr.r) })
	writing.Go(func() {
		_, _ = stdin.w.Write(input) // a hook need not read it
		stdin.w.Close()
	})
	ended, read := make(chan struct{}), make(chan struct{})
	go func() { awaitExit(cmd.Process.Pid); close(ended) }()
	go func() { reading.Wait(); close(read) }()

	// The process is not reaped before its group is killed: until then the group's
	// number is nobody else's.
	ran, left, err := &Ran{}, false, error(nil)
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-ended:
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-read:
		case <-time.After(graceForPipes):
			left = true
		}
	}
	if err != nil || left {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		<-ended
		select {
		case <-read:
		case <-time.After(graceForPipes):
		}
	}
	pipes.close()
	<-read
	writing.Wait()
	waitErr := cmd.Wait()
	if err == nil && waitErr != nil && !errors.As(waitErr, new(*exec.ExitError)) {
		err = waitErr
	}
	if left {
		ran.Notes = []string{"left a process that held its output, which was ended"}
	}
	ran.Stdout, ran.Stderr, ran.Cut = out.data, errs.data, out.cut
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		ran.Signal = status.Signal()
	} else {
		ran.Code = cmd.ProcessState.ExitCode()
	}
	return ran, err
}

// awaitExit waits until a child has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// pipes are all pipes of one hook.
type pipes struct {
	list []pipe
	err  error // the first
}

type pipe struct{ r, w *os.File }

func (p *pipes) open() pipe {
	r, w, err := os.Pipe()
	if err != nil {
		p.err = errors.Join(p.err, fmt.Errorf("a pipe: %w", err))
		return pipe{}
	}
	p.list = append(p.list, pipe{r, w})
	return p.list[len(p.list)-1]
}

func (p *pipes) close() {
	for _, pipe := range p.list {
		pipe.r.Close()
		pipe.w.Close()
	}
}

// kept is the beginning of what is written to it.
type kept struct {
	most int
	data []byte
	cut  bool
}

func (k *kept) Write(p []byte) (int, error) {
	n := min(len(p), k.most-len(k.data))
	k.data, k.cut = append(k.data, p[:n]...), k.cut || n < len(p)
	return len(p), nil
}
