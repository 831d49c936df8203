package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// shmKey is the key of the System V objects of serve.
const shmKey = 0x5a11

// serve offers everything by which another process could be had to write: in
// each directory name=path a FIFO and a Unix socket, and abstract sockets,
// loopback, shared memory. It prints "ready" and then what reaches it, a line
// each.
func serve(_ *report, args []string) {
	named(args, func(name, dir string) {
		fifo := filepath.Join(dir, "fifo")
		die(unix.Mkfifo(fifo, 0o666))
		f, err := os.OpenFile(fifo, os.O_RDWR, 0) // with a writer of its own it never ends
		die(err)
		go func() {
			for {
				if _, err := f.Read(make([]byte, 64)); err != nil {
					return
				}
				fmt.Println("reached fifo-" + name)
			}
		}()
		listen("unix", filepath.Join(dir, "stream"), "stream-"+name)
		receive("unixgram", filepath.Join(dir, "dgram"), "dgram-"+name)
	})
	listen("unix", "@peer-stream", "abstract")
	receive("unixgram", "@peer-dgram", "abstract-dgram")
	listen("tcp", "127.0.0.1:4711", "tcp")
	receive("udp", "127.0.0.1:4711", "udp")
	id, err := unix.SysvShmGet(shmKey, 4096, unix.IPC_CREAT|0o666)
	die(err)
	_, err = unix.SysvShmAttach(id, 0, 0)
	die(err)
	die(os.WriteFile("/dev/shm/peer", []byte("x"), 0o666))
	fmt.Println("ready", os.Getpid())
	forever()
}

func listen(network, address, name string) {
	l, err := net.Listen(network, address)
	die(err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Println("reached " + name)
			c.Read(make([]byte, 64)) // or the other side's write may fail
			c.Close()
		}
	}()
}

func receive(network, address, name string) {
	c, err := net.ListenPacket(network, address)
	die(err)
	go func() {
		for {
			if _, _, err := c.ReadFrom(make([]byte, 64)); err != nil {
				return
			}
			fmt.Println("reached " + name)
		}
	}()
}

// peer tries to reach a process that serves. The first argument is its pid.
func peer(r *report, args []string) {
	pid, err := strconv.Atoi(args[0])
	die(err)
	named(args[1:], func(name, dir string) {
		fifo := filepath.Join(dir, "fifo")
		fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte("x"))
		}
		r.step("fifo-"+name, err)
		fd, err = unix.Open(fifo, unix.O_RDWR|unix.O_NONBLOCK, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte("x"))
		}
		r.step("fifo-rw-"+name, err)
		connect(r, []string{
			"stream-" + name + "=unix:" + filepath.Join(dir, "stream"),
			"dgram-" + name + "=unixgram:" + filepath.Join(dir, "dgram"),
		})
	})
	connect(r, []string{"abstract=unix:@peer-stream", "abstract-dgram=unixgram:@peer-dgram", "tcp=tcp:127.0.0.1:4711", "udp=udp:127.0.0.1:4711"})
	r.step("pair-dgram", pairConnect())

	id, err := unix.SysvShmGet(shmKey, 4096, 0o666)
	r.step("sysv", err)
	if err == nil {
		r.step("sysv-attach", second(unix.SysvShmAttach(id, 0, 0)))
	}
	r.step("posix", second(unix.Open("/dev/shm/peer", unix.O_RDWR, 0)))
	if data, err := os.ReadFile("/proc/sysvipc/shm"); err == nil {
		r.say("sysv-list", strconv.Itoa(strings.Count(string(data), "\n")-1))
	}

	// By its number there is nobody, or another.
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && strings.Contains(string(comm), "serve") {
		r.say("writer", "seen")
		return
	}
	r.say("writer", "unseen")
	for p := 2; p < 400; p++ {
		if p == os.Getpid() || isThread(p) {
			continue
		}
		for _, name := range []string{"root", "cwd", "fd"} {
			if _, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", p, name)); err == nil {
				r.say(fmt.Sprintf("/proc/%d/%s", p, name), "open")
			}
		}
		if unix.Kill(p, unix.SIGKILL) == nil {
			r.say(fmt.Sprint("kill-", p), "ok")
		}
	}
	r.step("kill-all", killAll())
}

// isThread reports whether a number is that of a thread of PID 1 or of this
// process, by which these have further names.
func isThread(id int) bool {
	for _, pid := range []int{1, os.Getpid()} {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, id)); err == nil {
			return true
		}
	}
	return false
}

// killAll asks to signal everybody that can be signalled, which is nobody: -1
// leaves out PID 1 and the caller.
func killAll() error { return unix.Kill(-1, 0) }

// pairConnect connects one end of a pair to somebody else's socket.
func pairConnect() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.Connect(pair[0], &unix.SockaddrUnix{Name: "@peer-dgram"})
}
