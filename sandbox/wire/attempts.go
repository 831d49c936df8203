package wire

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"

	"google.golang.org/protobuf/proto"
)

// What a guest may say of attempts: how many, and of how long a path, in bytes.
const (
	MaxAttempts    = 64
	MaxAttemptPath = 4096
)

// check refuses what no honest guest says.
func (a *Attempts) check() error {
	if n := len(a.GetAttempts()); n > MaxAttempts {
		return fmt.Errorf("%d attempts", n)
	}
	for _, at := range a.GetAttempts() {
		switch op := at.GetOp(); {
		case op == Op_OP_UNSPECIFIED || Op_name[int32(op)] == "":
			return fmt.Errorf("an attempt at operation %d", op)
		case len(at.Path) > 0 && !cleanPath(at.Path) && !(op.network() && address(at.Path)):
			return fmt.Errorf("an attempt at what is no path, of %d bytes", len(at.Path))
		case len(at.Program) > 0 && !cleanPath(at.Program):
			return fmt.Errorf("an attempt of what is no program, of %d bytes", len(at.Program))
		}
	}
	return nil
}

func (op Op) network() bool { return op == Op_OP_CONNECT || op == Op_OP_SEND }

func cleanPath(path []byte) bool {
	return len(path) <= MaxAttemptPath && path[0] == '/' && !bytes.Contains(path, []byte{0}) &&
		filepath.Clean(string(path)) == string(path)
}

// address reports whether it is "IP:port", written in the one way.
func address(b []byte) bool {
	if len(b) > 64 {
		return false
	}
	a, err := netip.ParseAddrPort(string(b))
	return err == nil && a.Addr().Zone() == "" && a.String() == string(b)
}

// Within leaves out what does not fit in a number of bytes.
func (a *Attempts) Within(room int) *Attempts {
	for n := len(a.GetAttempts()); n > 0 && proto.Size(a)+8 > room; n-- {
		a.Attempts = a.Attempts[:n-1]
		a.Dropped++
	}
	return a
}
