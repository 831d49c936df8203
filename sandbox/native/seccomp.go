package native

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sallyport/sallyport/seccomp"
	"github.com/sallyport/sallyport/seccomp/load"
)

// filters are the profiles that were compiled. Package sandbox makes each once
// and does not change it.
var filters sync.Map // *specs.LinuxSeccomp -> []byte

// compiled returns the filter of a profile, as the starter takes it.
func compiled(profile *specs.LinuxSeccomp) ([]byte, error) {
	if profile == nil {
		return nil, errors.New("the native driver starts nothing without a seccomp profile")
	}
	if f, ok := filters.Load(profile); ok {
		return f.([]byte), nil
	}
	filter, err := seccomp.Compile(profile, runtime.GOARCH)
	if err != nil {
		return nil, fmt.Errorf("compiling the seccomp profile: %w", err)
	}
	f := load.Bytes(filter)
	filters.Store(profile, f)
	return f, nil
}
