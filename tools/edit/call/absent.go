package call

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// mostCompared is the size of a file, in bytes, up to which something like the
// string that is not in it is looked for.
const mostCompared = 4 << 20

// whyAbsent is the error of a string that is not in a file. What is like it there
// is named.
func whyAbsent(content, old []byte) error {
	if len(content) > mostCompared {
		return errors.New("old_string is not in the file; Read the part that is meant, and give its text exactly")
	}
	for _, like := range []struct {
		same func([]byte) []byte
		hint string
	}{
		{trimEnds, "it is there with other white space at the ends of lines"},
		{trimBoth, "it is there with other indentation; give the tabs and spaces exactly as they are"},
		{oneSpace, "it is there with other white space"},
	} {
		want := like.same(old)
		if len(bytes.TrimSpace(want)) == 0 {
			continue
		}
		if i := bytes.Index(like.same(content), want); i >= 0 {
			line := 1 + bytes.Count(like.same(content)[:i], []byte{'\n'})
			return fmt.Errorf("old_string is not in the file; %s (line %d)", like.hint, line)
		}
	}
	if plain := withoutNumbers(old); plain != nil && bytes.Contains(plainEnds(content), plain) {
		return errors.New("old_string is not in the file; it is without the line numbers that Read puts before each line: leave them out")
	}
	if bytes.ContainsRune(old, utf8.RuneError) && !utf8.Valid(content) {
		return errors.New("old_string is not in the file, where bytes that are no UTF-8 are shown as \ufffd; give a part without them, or use Bash")
	}
	return errors.New("old_string is not in the file; Read the part that is meant, and give its text exactly")
}

// eachLine returns text with every line changed. The first and the last of a
// string may be parts of lines, so how they begin and end stays.
func eachLine(text []byte, change func(line []byte) []byte) []byte {
	out := make([]byte, 0, len(text))
	for i, line := range bytes.Split(text, []byte{'\n'}) {
		if i > 0 {
			out = append(out, '\n')
		}
		out = append(out, change(line)...)
	}
	return out
}

const blank = " \t\r"

func trimEnds(text []byte) []byte {
	return eachLine(text, func(line []byte) []byte { return bytes.TrimRight(line, blank) })
}

func trimBoth(text []byte) []byte {
	return eachLine(text, func(line []byte) []byte { return bytes.Trim(line, blank) })
}

// oneSpace makes one space of all white space within lines.
func oneSpace(text []byte) []byte {
	return eachLine(text, func(line []byte) []byte { return bytes.Join(bytes.Fields(line), []byte{' '}) })
}

// withoutNumbers is text without the numbers before its lines; nil when a line
// has none.
func withoutNumbers(text []byte) []byte {
	all := true
	out := eachLine(plainEnds(text), func(line []byte) []byte {
		number, rest, ok := bytes.Cut(line, []byte{'\t'})
		digits := bytes.TrimLeft(number, " ")
		if !ok || len(digits) == 0 || len(bytes.Trim(digits, "0123456789")) > 0 {
			all = all && len(line) == 0
			return line
		}
		return rest
	})
	if !all || bytes.Equal(out, text) || len(bytes.TrimSpace(out)) == 0 {
		return nil
	}
	return out
}
