package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// drive runs a command and does something to it meanwhile:
//
//	drive [-pty] N file command [arg...]
//
// N is the exit code that it must end with, or the name of the signal, and the file says line by line what
// is done:
//
//	expect REGEXP      wait until what it has written since the last match matches
//	type TEXT          type a line (with -pty), or write it to its standard input
//	key TEXT           type without ending the line; TEXT is as in a Go string
//	eof                end its standard input
//	hang up            take its terminal away
//	signal NAME        send it a signal: INT, TERM, KILL
//	resize ROWS COLS   change the size of its terminal, which sends SIGWINCH
//	run COMMAND        run a shell command to its end; it must succeed
//
// With -pty the command is the leader of a session on a terminal of its own;
// what it writes there is standard output to the commands that follow.
func drive(ts *testscript.TestScript, neg bool, args []string) {
	onPty := len(args) > 0 && args[0] == "-pty"
	if onPty {
		args = args[1:]
	}
	if neg || len(args) < 3 {
		ts.Fatalf("usage: drive [-pty] N file command [arg...]")
	}
	script := ts.ReadFile(args[1])
	path, err := lookPath(ts, args[2])
	ts.Check(err)
	d := &driven{ts: ts, cmd: exec.Command(path, args[3:]...)}
	d.more = sync.NewCond(&d.mu)
	d.cmd.Dir, d.cmd.Env = ts.MkAbs("."), environ(ts)
	ts.Check(d.start(onPty))
	err = d.follow(script)
	if err != nil {
		d.cmd.Process.Kill()
	}
	timeout := time.AfterFunc(patience, func() { d.cmd.Process.Kill() })
	waitErr := d.wait()
	timeout.Stop()
	fmt.Fprint(ts.Stdout(), strings.ReplaceAll(d.out.String(), "\r\n", "\n"))
	fmt.Fprint(ts.Stderr(), d.err.String())
	if err != nil {
		ts.Fatalf("%v\nwritten: %q\nand to standard error: %q", err, d.out.String(), d.err.String())
	}
	checkCode(ts, args[0], waitErr)
}

// patience is how long something may take before it is taken to hang.
const patience = 60 * time.Second

// driven is a command that is driven.
type driven struct {
	ts   *testscript.TestScript
	cmd  *exec.Cmd
	in   *os.File // what it reads from
	term *os.File // its terminal's other end, or nil

	mu       sync.Mutex
	more     *sync.Cond
	out, err bytes.Buffer
	seen     int // of what both have, in the order of arrival
	all      bytes.Buffer
	open     int // how many of what it writes to have not ended

	copying sync.WaitGroup
}

func (d *driven) start(onPty bool) error {
	if onPty {
		term, err := pty.StartWithSize(d.cmd, &pty.Winsize{Rows: 24, Cols: 80})
		if err != nil {
			return err
		}
		if d.term, err = pollable(term); err != nil {
			return err
		}
		d.in = d.term
		d.copy(d.term, &d.out)
		return nil
	}
	files := make([]*os.File, 6)
	for i := 0; i < len(files); i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		files[i], files[i+1] = r, w
	}
	d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr = files[0], files[3], files[5]
	d.in = files[1]
	err := d.cmd.Start()
	files[0].Close()
	files[3].Close()
	files[5].Close()
	if err != nil {
		return err
	}
	d.copy(files[2], &d.out)
	d.copy(files[4], &d.err)
	return nil
}

// pollable returns the same open file as one that can be closed while it is read.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// setSize gives a terminal a size.
func setSize(term *os.File, rows, cols int) error {
	raw, err := term.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = raw.Control(func(fd uintptr) {
		setErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
	})
	return errors.Join(err, setErr)
}

// copy takes what the command writes until its end.
func (d *driven) copy(from *os.File, to *bytes.Buffer) {
	d.mu.Lock()
	d.open++
	d.mu.Unlock()
	d.copying.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := from.Read(buf)
			d.mu.Lock()
			to.Write(buf[:n])
			d.all.Write(buf[:n])
			if err != nil {
				d.open--
			}
			d.more.Broadcast()
			d.mu.Unlock()
			if err != nil {
				return // also EIO, of a terminal that nobody has open
			}
		}
	})
}

func (d *driven) wait() error {
	err := d.cmd.Wait()
	if d.term == nil {
		d.in.Close()
	}
	d.copying.Wait()
	if d.term != nil {
		d.term.Close()
	}
	return err
}

func (d *driven) follow(script string) error {
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		verb, rest, _ := strings.Cut(line, " ")
		if err := d.do(verb, rest); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

func (d *driven) do(verb, rest string) error {
	switch verb {
	case "":
		return nil
	case "expect":
		re, err := regexp.Compile(rest)
		if err != nil {
			return err
		}
		return d.expect(re)
	case "type":
		_, err := d.in.WriteString(rest + "\n")
		return err
	case "key":
		text, err := strconv.Unquote(`"` + rest + `"`)
		if err == nil {
			_, err = d.in.WriteString(text)
		}
		return err
	case "eof":
		return d.in.Close()
	case "hang":
		return d.term.Close()
	case "signal":
		sig := unix.SignalNum("SIG" + rest)
		if sig == 0 {
			return errors.New("no such signal")
		}
		return d.cmd.Process.Signal(sig)
	case "resize":
		rows, cols, _ := strings.Cut(rest, " ")
		r, err1 := strconv.Atoi(rows)
		c, err2 := strconv.Atoi(cols)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		return setSize(d.term, r, c)
	case "run":
		sh := exec.Command("/bin/bash", "-c", rest)
		sh.Dir, sh.Env = d.cmd.Dir, d.cmd.Env
		if out, err := sh.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	return errors.New("no such thing to do")
}

// expect waits until what was written since the last match matches.
func (d *driven) expect(re *regexp.Regexp) error {
	late := false
	timeout := time.AfterFunc(patience, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		late = true
		d.more.Broadcast()
	})
	defer timeout.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if at := re.FindIndex(d.all.Bytes()[d.seen:]); at != nil {
			d.seen += at[1]
			return nil
		}
		if d.open == 0 || late {
			return errors.New("it did not come")
		}
		d.more.Wait()
	}
}

func lookPath(ts *testscript.TestScript, name string) (string, error) {
	if strings.Contains(name, "/") {
		return ts.MkAbs(name), nil
	}
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
		path := dir + "/" + name
		if syscall.Access(path, 1) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// environ is the environment of the script's commands.
func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{
		"WORK", "HOME", "PATH", "TMPDIR", "XDG_STATE_HOME", "GIT_CONFIG_NOSYSTEM", "LC_ALL", "TERM", "PAGER", "BIN", "NO_COLOR",
	} {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}
