// Package files is what the file tools share inside a container: what a file of
// text is, how its lines are shown, and how one is replaced by another.
package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MostHashed is the size in bytes of the largest file that has a hash: what is
// larger is not read whole, and so not edited.
const MostHashed = 64 << 20

// Head is how many bytes at the beginning tell whether a file is text.
const Head = 8 << 10

// BOM is the mark at the beginning of some files of UTF-8. It is never shown.
var BOM = []byte("\xef\xbb\xbf")

// Hash is the SHA-256 of data, in hex.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// IsHash reports whether what came from inside can be a hash.
func IsHash(hash string) bool {
	_, err := hex.DecodeString(hash)
	return err == nil && len(hash) == hex.EncodedLen(sha256.Size)
}

// kinds are those of files that are not text, by how they begin.
var kinds = []struct{ magic, kind, cure string }{
	{"%PDF-", "a PDF document", "extract its text with Bash (pdftotext)"},
	{"\x89PNG\r\n", "a PNG image", ""},
	{"\xff\xd8\xff", "a JPEG image", ""},
	{"GIF8", "a GIF image", ""},
	{"\x7fELF", "an ELF binary", ""},
	{"\x1f\x8b", "a gzip archive", "unpack it with Bash (gunzip, tar)"},
	{"PK\x03\x04", "a zip archive or a document in one", "list it with Bash (unzip -l)"},
	{"\xfd7zXZ", "an xz archive", "unpack it with Bash (xz, tar)"},
	{"(\xb5/\xfd", "a zstd archive", "unpack it with Bash (zstd, tar)"},
	{"BZh", "a bzip2 archive", "unpack it with Bash (bzip2, tar)"},
	{"SQLite format 3\x00", "an SQLite database", "look into it with Bash (sqlite3)"},
	{"\xff\xfe", "UTF-16 text", "convert it with Bash (iconv -f utf-16 -t utf-8)"},
	{"\xfe\xff", "UTF-16 text", "convert it with Bash (iconv -f utf-16 -t utf-8)"},
}

// A BinaryError is the error of a file that is not text.
type BinaryError struct {
	Kind string
	Cure string
	Size int64 // bytes
}

func (e *BinaryError) Error() string {
	return fmt.Sprintf("it is not text but %s of %d bytes; %s", e.Kind, e.Size, e.Cure)
}

// CheckText returns a [*BinaryError] when a file of size bytes that begins with
// data, at least [Head] bytes of it or all, is not text: it has a zero byte, or
// nearly a third of it is not UTF-8.
func CheckText(data []byte, size int64) error {
	// The end of what is looked at may be in the middle of a character.
	cut := len(data) > Head
	data = data[:min(len(data), Head)]
	binary := bytes.IndexByte(data, 0) >= 0 || bytes.HasPrefix(data, []byte(kinds[0].magic))
	if !binary && utf8.Valid(data) {
		return nil
	}
	if !binary {
		bad := 0
		for rest := data; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			if r == utf8.RuneError && n == 1 && (!cut || utf8.FullRune(rest)) {
				bad++
			}
			rest = rest[n:]
		}
		if bad*10 <= len(data)*3 {
			return nil
		}
	}
	e := &BinaryError{"binary data", "look at it with Bash (file, xxd, strings)", size}
	for _, k := range kinds {
		if bytes.HasPrefix(data, []byte(k.magic)) {
			e.Kind = k.kind
			if k.cure != "" {
				e.Cure = k.cure
			}
			return e
		}
	}
	if !binary {
		e.Kind = "data that is no UTF-8 (another encoding, or binary)"
	}
	return e
}

// Number writes lines with their numbers, from first on, as cat -n does.
func Number(b *strings.Builder, content string, first int) {
	var digits [20]byte
	for line := range strings.SplitSeq(content, "\n") {
		number := strconv.AppendInt(digits[:0], int64(first), 10)
		for n := len(number); n < 6; n++ {
			b.WriteByte(' ')
		}
		b.Write(number)
		b.WriteByte('\t')
		b.WriteString(line)
		b.WriteByte('\n')
		first++
	}
}

// CountLines is how many lines data has; the last need not end.
func CountLines(data []byte) int {
	n := bytes.Count(data, []byte{'\n'})
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}

// CheckPath reports what is wrong with a path that a model sent, before anything
// is looked up.
func CheckPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("file_path is empty")
	case strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("file_path has a zero byte in it")
	case len(path) >= 4096:
		return fmt.Errorf("file_path has %d bytes; at most 4095 are possible", len(path))
	}
	return nil
}

// CheckNewPath reports beside what CheckPath does the path of a directory, where
// a file is to be written.
func CheckNewPath(path string) error {
	if strings.HasSuffix(path, "/") {
		return fmt.Errorf("file_path ends in a slash: name a file, not a directory")
	}
	return CheckPath(path)
}
