package edit

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// mostDiff is how much text is compared, in bytes: more is not read by people.
const mostDiff = 256 << 10

// diff shows the two strings of an edit as a diff. Its hunks have no line
// numbers: where the strings are in the file is not known here.
func diff(in Input) string {
	if len(in.OldString)+len(in.NewString) > mostDiff {
		return ""
	}
	before, after := in.OldString, in.NewString
	// That both end in the middle of a line of the file means nothing.
	if before != "" && !strings.HasSuffix(before, "\n") && !strings.HasSuffix(after, "\n") {
		before += "\n"
		if after != "" {
			after += "\n"
		}
	}
	const context = 3
	unified, err := udiff.ToUnifiedDiff("", "", before, udiff.Lines(before, after), context)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for i, hunk := range unified.Hunks {
		if i > 0 {
			b.WriteString("  ...\n")
		}
		for _, line := range hunk.Lines {
			switch line.Kind {
			case udiff.Insert:
				b.WriteByte('+')
			case udiff.Delete:
				b.WriteByte('-')
			default:
				b.WriteByte(' ')
			}
			b.WriteString(line.Content)
			if !strings.HasSuffix(line.Content, "\n") {
				b.WriteString("\n\\ no newline at the end\n")
			}
		}
	}
	return b.String()
}
