package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// signalFirst sends PID 1 a signal in every way that there is. The outcomes that
// say "ok" are the kernel's: the signal was taken, and dropped.
func signalFirst(r *report, args []string) {
	n, err := strconv.Atoi(args[0])
	die(err)
	sig := uintptr(n)
	pidfd, err := unix.PidfdOpen(1, 0)
	die(err)
	r.step("kill", call(unix.SYS_KILL, 1, sig))
	r.step("tkill", call(unix.SYS_TKILL, 1, sig))
	r.step("tgkill", call(unix.SYS_TGKILL, 1, 1, sig))
	r.step("pidfd", call(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(pidfd), sig, 0, 0))
	for _, forged := range []struct {
		name string
		code int32
	}{{"queued", -1 /* SI_QUEUE */}, {"kernel", 0x80}, {"fault", 1 /* SEGV_MAPERR */}, {"user", 0}, {"tkill-code", -6}} {
		info := siginfo(n, forged.code)
		r.step(forged.name, call(unix.SYS_RT_SIGQUEUEINFO, 1, sig, info))
		r.step(forged.name+"-thread", call(unix.SYS_RT_TGSIGQUEUEINFO, 1, 1, sig, info))
		r.step(forged.name+"-pidfd", call(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(pidfd), sig, info, 0))
	}
	r.step("setsig", second(signalByFile(n)))
}

// siginfo is struct siginfo with an address that a fault could have.
func siginfo(sig int, code int32) uintptr {
	info := make([]byte, 128)
	binary.LittleEndian.PutUint32(info[0:], uint32(sig))
	binary.LittleEndian.PutUint32(info[8:], uint32(code))
	binary.LittleEndian.PutUint64(info[16:], 0x1000)
	return fixed(info)
}

// signalByFile has the kernel send a signal when a pipe becomes readable.
func signalByFile(sig int) (int, error) {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return 0, err
	}
	for _, set := range [][2]int{{unix.F_SETSIG, sig}, {unix.F_SETOWN, 1}, {unix.F_SETFL, unix.O_ASYNC | unix.O_NONBLOCK}} {
		if _, err := unix.FcntlInt(uintptr(p[0]), set[0], set[1]); err != nil {
			return 0, err
		}
	}
	return unix.Write(p[1], []byte("x"))
}

// tune sets what can be set on another process, on PID 1.
func tune(r *report, _ []string) {
	zero := make([]byte, 256)
	p := fixed(zero)
	for resource := range 16 {
		err := unix.Prlimit(1, resource, &unix.Rlimit{Cur: 0, Max: 0}, nil)
		r.step("prlimit-"+strconv.Itoa(resource), err)
	}
	mask := make([]byte, 128)
	mask[0] = 1
	r.step("setaffinity", call(unix.SYS_SCHED_SETAFFINITY, 1, 128, fixed(mask)))
	r.step("setscheduler", call(unix.SYS_SCHED_SETSCHEDULER, 1, 5 /* idle */, p))
	r.step("setparam", call(unix.SYS_SCHED_SETPARAM, 1, p))
	binary.LittleEndian.PutUint32(zero, 48) // size of struct sched_attr
	r.step("setattr", call(unix.SYS_SCHED_SETATTR, 1, p, 0))
	r.step("setpriority", unix.Setpriority(unix.PRIO_PROCESS, 1, 19))
	r.step("setpriority-group", unix.Setpriority(unix.PRIO_PGRP, 1, 19))
	r.step("setpriority-user", unix.Setpriority(unix.PRIO_USER, os.Getuid(), 19))
	r.step("ioprio", call(unix.SYS_IOPRIO_SET, 1, 1, 3<<13))
	r.step("ioprio-user", call(unix.SYS_IOPRIO_SET, 3, uintptr(os.Getuid()), 3<<13))
	r.step("migrate_pages", call(unix.SYS_MIGRATE_PAGES, 1, 8, p, p))
	r.step("move_pages", call(unix.SYS_MOVE_PAGES, 1, 0, 0, 0, 0, 0))
	r.step("setpgid", unix.Setpgid(1, 0))
}

// reach tries to get into a process: its memory, its registers, its files.
func reach(r *report, args []string) {
	runtime.LockOSThread()
	pid := 1
	if args[0] != "1" {
		pid = processOf(args[0])
	}
	r.step("attach", call(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(pid)))
	r.step("seize", call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid)))
	var b [8]byte
	local := []unix.Iovec{{Base: &b[0], Len: 8}}
	remote := []unix.RemoteIovec{{Base: 0x400000, Len: 8}}
	r.step("vm_readv", second(unix.ProcessVMReadv(pid, local, remote, 0)))
	r.step("vm_writev", second(unix.ProcessVMWritev(pid, local, remote, 0)))
	dir := fmt.Sprintf("/proc/%d/", pid)
	open := func(name string, flags int) {
		fd, err := unix.Open(dir+name, flags, 0)
		if err == nil {
			_, err = unix.Pread(fd, b[:], 0)
		}
		if flags != unix.O_RDONLY {
			name += "-rw"
		}
		r.step(name, err)
		unix.Close(fd)
	}
	open("mem", unix.O_RDWR)
	for _, name := range []string{"mem", "environ", "maps", "auxv", "syscall", "stack", "exe"} {
		open(name, unix.O_RDONLY)
	}
	for _, name := range []string{"root", "cwd", "fd", "map_files"} {
		r.step(name, second(os.ReadDir(dir+name)))
	}
	open("ns/mnt", unix.O_RDONLY)
	open("fd/0", unix.O_RDONLY)
	r.step("fd-link", second(os.Readlink(dir+"fd/0")))
	for _, name := range []string{"oom_score_adj", "clear_refs", "coredump_filter", "comm", "timerslack_ns"} {
		fd, err := unix.Open(dir+name, unix.O_WRONLY, 0)
		r.step(name, err)
		unix.Close(fd)
	}
	r.step("pidfd_getfd", func() error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		return second(unix.PidfdGetfd(fd, 3, 0))
	}())
	if pid != 1 {
		r.step("prlimit", unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: 0}, nil))
	}
}

// processOf finds the process that has a word among its arguments.
func processOf(word string) int {
	for _, pid := range pids() {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if pid != os.Getpid() && slices.Contains(strings.Split(string(data), "\x00"), word) {
			return pid
		}
	}
	die(fmt.Errorf("no process has the argument %s", word))
	return 0
}

func pids() (list []int) {
	entries, err := os.ReadDir("/proc")
	die(err)
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// traceChild traces a child of its own.
func traceChild(r *report, _ []string) {
	runtime.LockOSThread()
	self, err := os.Executable()
	die(err)
	cmd := exec.Command(self, "wait", "0")
	cmd.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	err = cmd.Start()
	r.step("traceme", err)
	if err != nil {
		return
	}
	cmd.Wait() // stopped at its exec
	var regs unix.PtraceRegs
	r.step("getregs", unix.PtraceGetRegs(cmd.Process.Pid, &regs))
	r.step("peek", second(unix.PtracePeekData(cmd.Process.Pid, uintptr(regs.PC()), make([]byte, 8))))
	r.step("detach", unix.PtraceDetach(cmd.Process.Pid))
	unix.Wait4(cmd.Process.Pid, nil, 0, nil)
}

// processes says which processes can be seen beside PID 1 and this one. Each
// name=pid is one that must not be reached.
func processes(r *report, args []string) {
	var others []string
	for _, pid := range pids() {
		if pid != 1 && pid != os.Getpid() {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			others = append(others, strings.TrimSpace(string(comm)))
		}
	}
	r.say("others", "["+strings.Join(others, " ")+"]")
	named(args, func(name, value string) {
		pid, err := strconv.Atoi(value)
		die(err)
		r.step(name+"-kill", unix.Kill(pid, 0))
		r.step(name+"-pidfd", second(unix.PidfdOpen(pid, 0)))
		r.step(name+"-proc", second(os.Stat("/proc/"+value)))
		r.step(name+"-prlimit", unix.Prlimit(pid, unix.RLIMIT_CORE, nil, new(unix.Rlimit)))
	})
}
