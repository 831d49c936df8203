package pipeline

import (
	"errors"
	"testing"

	"github.com/sallyport/sallyport/sandbox/changeset"
)

func TestOfASessionOnlyChangesThatStandAloneLeave(t *testing.T) {
	others := []*changeset.Change{{Path: "d/e"}, {Path: "f"}, {Path: "new", From: "g/old"}}
	for _, test := range []struct {
		change changeset.Change
		alone  bool
	}{
		{changeset.Change{Path: "x"}, true},
		{changeset.Change{Path: "d/x"}, true},
		{changeset.Change{Path: "f2"}, true},
		{changeset.Change{Path: "g/x"}, true},
		{changeset.Change{Path: "f"}, false},
		{changeset.Change{Path: "f/below"}, false},
		{changeset.Change{Path: "d"}, false},
		{changeset.Change{Path: "d/e/f/g"}, false},
		{changeset.Change{Path: "g"}, false},
		{changeset.Change{Path: "g/old"}, false},
		{changeset.Change{Path: "x", From: "new"}, false},
	} {
		err := alone([]*changeset.Change{&test.change}, others)
		if test.alone != (err == nil) || err != nil && !errors.Is(err, ErrNotAlone) {
			t.Errorf("%+v: %v", test.change, err)
		}
	}
}
