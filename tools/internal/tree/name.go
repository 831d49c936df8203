package tree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Name is a path as it stands in a line of a result, from which it has to be
// taken again: as it is when every character of it can be seen, in quotes
// otherwise, and never cut.
func Name(path string) string {
	if path != "" && path[0] != '"' && printable(path) {
		return path
	}
	return strconv.Quote(path)
}

// note is a text from inside in one line.
func note(text string) string {
	if printable(text) {
		return text
	}
	return strings.Trim(strconv.Quote(text), `"`)
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Bounds of notes that come from inside, whatever it sends.
const (
	mostNotes = 25
	mostNote  = 300 // bytes
)

// Notes are texts from inside, each in one line and none too long.
func Notes(texts []string) []string {
	var notes []string
	for _, text := range texts[:min(len(texts), mostNotes)] {
		if len(text) > mostNote {
			text = strings.ToValidUTF8(text[:mostNote], "") + "..."
		}
		notes = append(notes, note(text))
	}
	return notes
}

// CheckPath reports what is wrong with a path that a model sent to search in; an
// empty one is the workspace.
func CheckPath(path string) error {
	switch {
	case strings.IndexByte(path, 0) >= 0:
		return errors.New("path has a zero byte in it")
	case len(path) >= unix.PathMax:
		return fmt.Errorf("path has %d bytes; at most %d are possible", len(path), unix.PathMax-1)
	}
	return nil
}
