package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// forks makes children that wait, until it may not make more, says so, and waits
// too.
func forks(r *report, _ []string) {
	for n := 0; ; n++ {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		switch {
		case errno != 0:
			r.step("fork", errno)
			fmt.Println(r)
			forever()
		case pid == 0:
			for {
				unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0) // for ever
			}
		case n > 20_000:
			r.say("fork", "unbounded")
			return
		}
	}
}

// watchers makes inotify instances until it may not make more, says so, and
// waits.
func watchers(r *report, _ []string) {
	for {
		if _, err := unix.InotifyInit1(0); err != nil {
			r.step("inotify", err)
			fmt.Println(r)
			forever()
		}
	}
}

// memory takes memory until there is none.
func memory(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	die(err)
	for got := 0; got < most; got += 16 << 20 {
		mem, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			r.step("mmap", err)
			return
		}
		for i := 0; i < len(mem); i += 4096 {
			mem[i] = 1
		}
	}
	r.say("memory", "unbounded")
}

// fill writes to a directory until it cannot: one file, or many.
func fill(r *report, args []string) {
	dir, most := args[0], 1
	if len(args) > 1 {
		most = 1 << 30
	}
	block := make([]byte, 1<<20)
	for n := range most {
		f, err := os.Create(filepath.Join(dir, "fill-"+strconv.Itoa(n)))
		if err != nil {
			r.step("create", err)
			return
		}
		for size := 0; most == 1 || size < 4<<20; size += len(block) {
			if _, err := f.Write(block); err != nil {
				r.step("write", err)
				return
			}
		}
		f.Close()
	}
}

// files makes empty files in a directory, a thousand in each of those below it:
// so many, or all that it can.
func files(r *report, args []string) {
	count := 1 << 30
	if len(args) > 1 {
		var err error
		count, err = strconv.Atoi(args[1])
		die(err)
	}
	for n := range count {
		dir := filepath.Join(args[0], "d"+strconv.Itoa(n/1000))
		if n%1000 == 0 {
			if err := os.Mkdir(dir, 0o755); err != nil {
				r.step("mkdir", err)
				return
			}
		}
		fd, err := unix.Open(filepath.Join(dir, strconv.Itoa(n%1000)), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
		if err != nil {
			r.step("create", err)
			return
		}
		unix.Close(fd)
	}
	fmt.Println(count, "files")
}

// descriptors opens files until there are too many, and says whether the limit
// can be raised.
func descriptors(r *report, _ []string) {
	for range 10_000_000 {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			r.step("open", err)
			break
		}
	}
	var hard unix.Rlimit
	die(unix.Getrlimit(unix.RLIMIT_NOFILE, &hard))
	r.step("raise", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: hard.Max + 1, Max: hard.Max + 1}))
}
