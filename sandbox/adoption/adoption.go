// Package adoption is the part of an adoption that runs inside: by the steps that
// the host sends, it brings what was done in a fork into the session that the fork
// is of, through the session's own view.
//
// The host decides what is done, and sends it in requests of bounded size; see
// sandbox.Session.Adopt for the order. Nothing is kept between two requests but
// what lies in a directory of new files, the stage, in each tree that is changed:
// a file is written there, with its mode and times, and then moved to its place.
//
// Other programs of the session may be at work in the trees. So each step goes
// beneath the tree's directory, follows no link, enters no other mount, and looks
// at what it replaces right before.
package adoption

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Name is the name of Run in the guest.
const Name = "adopt"

// A Request is a number of steps. They are done in order, until one fails.
type Request struct {
	Trees []Tree `json:"trees"`
	Steps []Step `json:"steps"`
	// On says that the steps after one that fails are done too.
	On bool `json:"on,omitempty"`
	// Data is what Step.Data counts, of one step after another.
	Data []byte `json:"-"`
}

// A Tree is a directory in which things are changed.
type Tree struct {
	Path  []byte `json:"path"` // absolute
	Stage string `json:"stage"`
}

// Do says what a step does.
type Do string

const (
	Check   Do = "check"   // that Was is at Path
	Stage   Do = "stage"   // make the stage
	Write   Do = "write"   // Data to the staged file N, at At; with Attr, it is complete
	Symlink Do = "symlink" // to Target, as the staged N
	FIFO    Do = "fifo"    // as the staged N
	Socket  Do = "socket"  // as the staged N
	Open    Do = "open"    // let the owner into the directory at Path, which is Was
	Mkdir   Do = "mkdir"   // at Path
	Place   Do = "place"   // the staged N at Path, for Was
	Link    Do = "link"    // give From another name, the staged N
	Set     Do = "set"     // give Path, which is Was, Attr
	Remove  Do = "remove"  // Path, which is Was
	Unstage Do = "unstage" // remove the stage
)

// A Step is one thing to be done. Paths are relative to the tree, and clean; "."
// is the tree itself.
type Step struct {
	Do     Do     `json:"do"`
	Tree   int    `json:"tree,omitempty"`
	Path   []byte `json:"path,omitempty"`
	From   []byte `json:"from,omitempty"`
	Was    *Was   `json:"was,omitempty"` // nil: nothing
	N      int    `json:"n,omitempty"`
	New    bool   `json:"new,omitempty"` // of Write: the first of its file
	Data   int    `json:"data,omitempty"`
	At     int64  `json:"at,omitempty"`
	Attr   *Attr  `json:"attr,omitempty"`
	Target []byte `json:"target,omitempty"`
}

// Was is what must be at a path.
type Was struct {
	Mode  uint32 `json:"mode"` // with the type
	Size  int64  `json:"size,omitempty"`
	Mtime int64  `json:"mtime,omitempty"` // nanoseconds since 1970
	Ctime int64  `json:"ctime,omitempty"` // 0: any
	// Kind says that only the type is looked at.
	Kind bool `json:"kind,omitempty"`
}

// Attr is what a file has beside its content.
type Attr struct {
	Mode         uint32  `json:"mode"`
	Size         int64   `json:"size,omitempty"` // of Write
	Times        bool    `json:"times,omitempty"`
	Atime, Mtime int64   `json:",omitempty"`
	Xattrs       []Xattr `json:"xattrs,omitempty"`
	// AnyXattrs leaves those alone that the file has.
	AnyXattrs bool `json:"any_xattrs,omitempty"`
}

// An Xattr is an extended attribute.
type Xattr struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value,omitempty"`
}

// A Response says how many steps were done, and what the next one met with.
type Response struct {
	Done      int    `json:"done"`
	Error     string `json:"error,omitempty"`
	Errno     int    `json:"errno,omitempty"`
	Overtaken bool   `json:"overtaken,omitempty"` // Was is not what is there
}

// Encode returns the request as Run takes it.
func (r *Request) Encode() ([]byte, error) {
	head, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), r.Data...), nil
}

func decode(input []byte) (*Request, error) {
	head, data, found := bytes.Cut(input, []byte{'\n'})
	if !found {
		return nil, errors.New("a request without an end")
	}
	r := &Request{Data: data}
	if err := json.Unmarshal(head, r); err != nil {
		return nil, fmt.Errorf("the request: %w", err)
	}
	return r, nil
}
