package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/itchyny/gojq"
	"github.com/rogpeppe/go-internal/testscript"
)

// jq [-r|-c] EXPRESSION FILE is jq(1), which a machine need not have.
func jq(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: jq [-r|-c] EXPRESSION FILE")
	}
	raw := args[0] == "-r"
	query, err := gojq.Parse(args[len(args)-2])
	ts.Check(err)
	in := json.NewDecoder(strings.NewReader(ts.ReadFile(args[len(args)-1])))
	for {
		var value any
		if err := in.Decode(&value); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			ts.Fatalf("jq: %v", err)
		}
		for results := query.Run(value); ; {
			got, ok := results.Next()
			if !ok {
				break
			}
			if err, ok := got.(error); ok {
				ts.Fatalf("jq: %v", err)
			}
			if s, ok := got.(string); ok && raw {
				fmt.Fprintln(ts.Stdout(), s)
				continue
			}
			text, err := gojq.Marshal(got)
			ts.Check(err)
			fmt.Fprintf(ts.Stdout(), "%s\n", text)
		}
	}
}
