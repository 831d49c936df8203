package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Limits bound what a session may use. Zero is the default, which best effort
// holds; a limit that is given must be held, or the session does not start.
type Limits struct {
	Memory int64   `json:"memory,omitempty"` // bytes
	CPUs   float64 `json:"cpus,omitempty"`   // processors
	Pids   int64   `json:"pids,omitempty"`   // processes and threads
	Disk   int64   `json:"disk,omitempty"`   // bytes in all writable layers
	Inodes int64   `json:"inodes,omitempty"` // files in all writable layers
}

// A Limit names one of them.
type Limit string

const (
	LimitMemory Limit = "memory"
	LimitCPUs   Limit = "processors"
	LimitPids   Limit = "processes"

	// Those that only a fork has.
	LimitTime    Limit = "time"
	LimitWritten Limit = "bytes written"
	LimitFiles   Limit = "files"
)

// given lists the limits that were asked for and that a driver holds.
func (l Limits) given() []Limit {
	var given []Limit
	if l.Memory != 0 {
		given = append(given, LimitMemory)
	}
	if l.CPUs != 0 {
		given = append(given, LimitCPUs)
	}
	if l.Pids != 0 {
		given = append(given, LimitPids)
	}
	return given
}

// What limits are where none is given.
const (
	DefaultPids   = 4096
	DefaultDisk   = 10 << 30
	DefaultInodes = 1_000_000
)

// DefaultMemory is three quarters of the machine's memory, in bytes.
func DefaultMemory() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10 / 4 * 3
		}
	}
	return 0
}

// withDefaults fills in what was not given.
func (l Limits) withDefaults() Limits {
	if l.Memory == 0 {
		l.Memory = DefaultMemory()
	}
	if l.Pids == 0 {
		l.Pids = DefaultPids
	}
	if l.Disk == 0 {
		l.Disk = DefaultDisk
	}
	if l.Inodes == 0 {
		l.Inodes = DefaultInodes
	}
	return l
}

// The least that a session can start with, and the most that means something.
const (
	leastMemory = 32 << 20
	leastPids   = 32
	leastDisk   = 1 << 20
	mostCPUs    = 100_000
)

func (l Limits) check() error {
	switch {
	case l.Memory != 0 && l.Memory < leastMemory:
		return fmt.Errorf("a memory limit of %d bytes is too small: at least 32 MiB are needed", l.Memory)
	case l.Pids != 0 && l.Pids < leastPids:
		return fmt.Errorf("a limit of %d processes is too small: at least %d are needed", l.Pids, leastPids)
	case l.Disk != 0 && l.Disk < leastDisk:
		return fmt.Errorf("a disk limit of %d bytes is too small: at least 1 MiB is needed", l.Disk)
	case l.CPUs != 0 && !(l.CPUs >= 0.01 && l.CPUs <= mostCPUs): // no number, too
		return fmt.Errorf("a limit of %g processors means nothing: 0.01 to %d can be held", l.CPUs, mostCPUs)
	case l.Inodes < 0:
		return fmt.Errorf("a limit of %d files means nothing", l.Inodes)
	}
	return nil
}
