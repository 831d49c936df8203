package bash

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/bash/call"
)

// answers is a box that answers with a working directory.
type answers string

func (dir answers) Call(context.Context, string, []byte, func([]byte)) ([]byte, error) {
	return json.Marshal(call.Output{Dir: string(dir)})
}

// What a hostile guest calls the working directory is none unless commands can be
// judged by it.
func TestForgedDirectory(t *testing.T) {
	for dir, ok := range map[string]bool{
		"/w/sub": true, "/": true,
		"sub": false, "": false, "..": false, "/w/../etc": false, "/w/": false, "//etc": false, "/w\nx": false, "/w\x00": false,
		"/" + strings.Repeat("x", 1<<20): false,
	} {
		c := &tools.Context{Run: tools.Run{State: tools.NewState("/w"), Dir: "/w", Box: answers(dir)}}
		r, err := run(t.Context(), c, Input{Command: "true"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if changes := r.Modify != nil; changes != ok {
			t.Errorf("%.20q: the directory is changed: %v, want %v", dir, changes, ok)
		}
	}
}
