package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// privileges says what the process has, and tries to get more.
func privileges(r *report, _ []string) {
	runtime.LockOSThread()
	data, err := os.ReadFile("/proc/self/status")
	die(err)
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(name, "Cap"):
			r.say(name, strings.TrimLeft(value, "0")+"0")
		case name == "NoNewPrivs", name == "Seccomp":
			r.say(name, value)
		}
	}
	r.step("dac", openRoot())
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := [2]unix.CapUserData{{Effective: 1 << 21, Permitted: 1 << 21}, {}}
	r.step("capset", unix.Capset(&header, &all[0]))
	r.step("ambient", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0))
	r.step("securebits", unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0))
	r.step("no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0))
	r.step("set_mm", unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_START_CODE, 0x1000, 0, 0))
	r.step("nice", unix.Setpriority(unix.PRIO_PROCESS, 0, -1))
	r.step("realtime", call(unix.SYS_SCHED_SETSCHEDULER, 0, 1 /* SCHED_FIFO */, fixed([]byte{1, 0, 0, 0})))
	r.step("rttime", unix.Setrlimit(15, &unix.Rlimit{}))
	r.step("nproc", unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{}))
	r.step("nofile", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}))
}

// openRoot writes the root filesystem's directory, which is root's.
func openRoot() error { return second(os.Create("/attempt")) }

// ids tries to become somebody else.
func ids(r *report, args []string) {
	const other = 1
	r.step("setuid", call(unix.SYS_SETUID, other))
	r.step("setgid", call(unix.SYS_SETGID, other))
	r.step("setresuid", call(unix.SYS_SETRESUID, other, other, other))
	r.step("setfsuid", fsuid(other))
	r.step("setgroups", call(unix.SYS_SETGROUPS, 1, fixed([]byte{other, 0, 0, 0})))
	for _, name := range []string{"uid_map", "gid_map", "setgroups", "loginuid"} {
		f, err := os.OpenFile("/proc/self/"+name, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("0 0 1")
		}
		r.step(name, err)
	}
	file := filepath.Join(args[0], "chowned")
	die(os.WriteFile(file, nil, 0o644))
	r.step("chown", unix.Chown(file, other, other))
	die(os.Remove(file))
}

// fsuid reports whether the file system uid became another.
func fsuid(id uintptr) error {
	unix.RawSyscall(unix.SYS_SETFSUID, id, 0, 0)
	old, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0)
	if old != id {
		return unix.EPERM
	}
	return nil
}

// setuid runs a copy of this program that has the setuid and setgid bits, made
// in a directory, and programs of the host that have them.
func setuid(r *report, args []string) {
	self, err := os.Executable()
	die(err)
	made := filepath.Join(args[0], "setuid")
	in, err := os.Open(self)
	die(err)
	out, err := os.Create(made)
	die(err)
	_, err = io.Copy(out, in)
	die(err)
	die(out.Close())
	r.step("chmod", os.Chmod(made, 0o755|os.ModeSetuid|os.ModeSetgid))
	r.say("made", run(made, "euid"))
	die(os.Remove(made))
	if len(args) > 1 {
		r.say("host", run(args[1], "euid"))
	}
	// The dynamic linker shows what it was given, unless it runs for somebody
	// else than the caller.
	cmd := exec.Command("/usr/bin/su", "--version")
	cmd.Env = []string{"LD_SHOW_AUXV=1"}
	shown, _ := cmd.Output()
	switch text := strings.Join(strings.Fields(string(shown)), " "); {
	case strings.Contains(text, fmt.Sprintf("AT_EUID: %d", os.Getuid())) && strings.Contains(text, "AT_SECURE: 0"):
		r.say("su", "nothing")
	default:
		r.say("su", text)
	}
}

func run(path string, args ...string) string {
	out, err := exec.Command(path, args...).Output()
	if err != nil {
		return outcome(err)
	}
	return strings.TrimSpace(string(out))
}

// euid says whether this process has other ids than it was started with.
func euid(r *report, _ []string) {
	if os.Geteuid() == os.Getuid() && os.Getegid() == os.Getgid() {
		fmt.Println("nothing")
		return
	}
	fmt.Println("gained", os.Geteuid(), os.Getegid())
}

// personality asks for the ones that turn off protections.
func personality(r *report, _ []string) {
	for _, p := range []struct {
		name string
		bits uintptr
	}{
		{"ADDR_NO_RANDOMIZE", 0x0040000}, {"MMAP_PAGE_ZERO", 0x0100000}, {"READ_IMPLIES_EXEC", 0x0400000},
		{"ADDR_COMPAT_LAYOUT", 0x0200000}, {"SVR4", 0x0001}, {"LINUX32", 0x0008}, {"LINUX", 0},
	} {
		r.step(p.name, call(unix.SYS_PERSONALITY, p.bits))
	}
}
