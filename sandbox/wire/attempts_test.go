package wire

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// What an honest guest says is taken, to the bounds.
func TestAttemptsThatAreTaken(t *testing.T) {
	long := []byte(strings.Repeat("/xxxxxxx", MaxAttemptPath/8))
	a := &Attempts{Attempts: slices.Repeat([]*Attempt{{Op: Op_OP_WRITE, Path: long, Program: long}}, MaxAttempts), Dropped: 1 << 63}
	if err := a.check(); err != nil {
		t.Error(err)
	}
	if n := proto.Size(a); n > MaxFrame/2 {
		t.Errorf("%d bytes", n)
	}
	for _, at := range []*Attempt{
		{Op: Op_OP_SUSPECTED}, {Op: Op_OP_REMOVE, Path: []byte("/")}, {Op: Op_OP_CONNECT, Path: []byte("1.2.3.4:5")},
		{Op: Op_OP_SEND, Path: []byte("[2001:db8::1]:53")}, {Op: Op_OP_MKDIR, Path: []byte("/\xff\n")},
	} {
		if err := (&Attempts{Attempts: []*Attempt{at}}).check(); err != nil {
			t.Errorf("%v: %v", at, err)
		}
	}
	if err := (*Attempts)(nil).check(); err != nil {
		t.Error(err)
	}
}

// A message has room for a result first.
func TestAttemptsTakeWhatIsLeft(t *testing.T) {
	full := func() *Attempts {
		return &Attempts{Attempts: slices.Repeat([]*Attempt{{Op: Op_OP_WRITE, Path: []byte("/" + strings.Repeat("x", 99))}}, 10)}
	}
	for _, test := range []struct{ room, left int }{{-1, 0}, {0, 0}, {60, 0}, {500, 4}, {10_000, 10}} {
		a := full().Within(test.room)
		if len(a.Attempts) != test.left || int(a.Dropped) != 10-test.left || test.left > 0 && proto.Size(a) > test.room {
			t.Errorf("%d bytes: %d left, %d dropped", test.room, len(a.Attempts), a.Dropped)
		}
	}
	if (*Attempts)(nil).Within(10) != nil {
		t.Error("nothing became something")
	}
}
