package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/sandbox"
)

// benchIdle measures the memory of sessions that do nothing: of the processes in
// them, each page shared by those that have it (PSS).
func benchIdle(e *env) ([]Row, error) {
	const sessions = 200
	workspace, err := e.workspace(10)
	if err != nil {
		return nil, err
	}
	for range sessions {
		s, live, err := e.start(workspace)
		if err != nil {
			return nil, err
		}
		defer s.Remove()
		defer live.Close()
		if _, err := live.Exec(e.ctx, sandbox.Command{Args: []string{"true"}}); err != nil {
			return nil, err
		}
	}
	total, err := descendants()
	if err != nil {
		return nil, err
	}
	mb := float64(total) / sessions / 1e6
	return []Row{{
		Name: fmt.Sprintf("each of %d idle sessions", sessions), Unit: "MB", P50: mb, P95: mb, Reach: 5, OK: mb <= 5,
	}}, nil
}

// descendants adds up the proportional memory of all processes that this one
// has started, in bytes.
func descendants() (int64, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	parents := make(map[int]int)
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		// What follows the name in parentheses: state, parent ...
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	total := int64(0)
	for pid := range parents {
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == os.Getpid() {
				n, err := proportional(pid)
				if err != nil {
					return 0, err
				}
				total += n
				break
			}
		}
	}
	return total, nil
}

func proportional(pid int) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if kb, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no proportional memory of process %d", pid)
}
