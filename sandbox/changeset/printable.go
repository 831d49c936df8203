package changeset

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes text that an agent may have chosen fit to be shown on a
// terminal: what would move the cursor, change the direction of what follows or
// is invisible is spelled out, and so are bytes that are no UTF-8.
func Printable(s string) string { return printable(s, false) }

// printableLine is Printable of a line of a file, in which tabs are common and
// do no harm.
func printableLine(s string) string { return printable(s, true) }

func printable(s string, tabs bool) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t' && tabs, unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r < 0x20:
			b.WriteByte('^')
			b.WriteRune(r + 0x40)
		case r == 0x7f:
			b.WriteString("^?")
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// clean reports whether s is ASCII that can be printed, as most is.
func clean(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
