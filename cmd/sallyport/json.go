package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"unicode"
)

// printJSON prints a value on a line of standard output. What a terminal would
// act on is escaped, also where JSON would let it stand.
func printJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, r := range b.String() {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	_, err := os.Stdout.Write(out.Bytes())
	return err
}
