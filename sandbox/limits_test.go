package sandbox

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		limits Limits
		err    string
	}{
		{Limits{}, ""},
		{Limits{Memory: 32 << 20, Pids: 32, Disk: 1 << 20, CPUs: 0.01, Inodes: 1}, ""},
		{Limits{Memory: 32<<20 - 1}, "a memory limit of 33554431 bytes is too small: at least 32 MiB"},
		{Limits{Memory: -1}, "memory limit"},
		{Limits{Pids: 31}, "31 processes is too small: at least 32"},
		{Limits{Pids: -1}, "processes"},
		{Limits{Disk: 1}, "disk limit of 1 bytes"},
		{Limits{Disk: -1}, "disk limit"},
		{Limits{CPUs: 0.001}, "0.001 processors means nothing"},
		{Limits{CPUs: -1}, "processors"},
		{Limits{CPUs: math.NaN()}, "processors"},
		{Limits{CPUs: math.Inf(1)}, "processors"},
		{Limits{Inodes: -1}, "-1 files"},
	} {
		err := test.limits.check()
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%+v: %v", test.limits, err)
		}
	}
}

func TestLimitsThatAreGivenMustBeHeld(t *testing.T) {
	if got := (Limits{Disk: 1 << 30, Inodes: 5}).given(); len(got) != 0 {
		t.Errorf("%v", got) // no driver's affair
	}
	got := Limits{Memory: 1 << 30, CPUs: 1, Pids: 100}.given()
	if !slices.Equal(got, []Limit{LimitMemory, LimitCPUs, LimitPids}) {
		t.Errorf("%v", got)
	}
}

func TestDefaultLimits(t *testing.T) {
	l := Limits{}.withDefaults()
	if l.Memory < leastMemory || l.Pids != DefaultPids || l.Disk != DefaultDisk || l.Inodes != DefaultInodes || l.CPUs != 0 {
		t.Errorf("%+v", l)
	}
	given := Limits{Memory: 64 << 20, CPUs: 2, Pids: 50, Disk: 2 << 20, Inodes: 7}
	if got := given.withDefaults(); got != given {
		t.Errorf("%+v", got)
	}
}
