package files

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
)

// mostNames is how many names of a directory are looked at for one that is like
// what was asked for.
const mostNames = 1000

// Explain adds to the error of a path that does not exist what does, and where
// relative paths start. Any other error is returned as it is.
func Explain(err error, path string, resolved bool, workspace string) error {
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	hint := ""
	// The first name on the way that does not exist is the one to correct.
	for name := path; name != "/" && name != "."; name = filepath.Dir(name) {
		dir, dirErr := inside.OpenDir(filepath.Dir(name), resolved)
		if errors.Is(dirErr, unix.ENOENT) {
			continue
		}
		if dirErr != nil {
			break
		}
		if name != path {
			hint = "; there is no directory " + inside.Quote(name)
		}
		if near := nearest(dir.Fd, filepath.Base(name)); near != "" {
			hint += "; did you mean " + inside.Quote(filepath.Join(filepath.Dir(name), near)) + "?"
		}
		dir.Close()
		break
	}
	return &missing{fmt.Sprintf("%s: it does not exist%s (relative paths start at %s)", inside.Quote(path), hint, inside.Quote(workspace)), err}
}

type missing struct {
	text string
	err  error
}

func (e *missing) Error() string { return e.text }
func (e *missing) Unwrap() error { return e.err }

// nearest is the name in a directory that is most like one that is not there,
// "" when none is like it.
func nearest(dir int, want string) string {
	best, least := "", len(want)/4+2
	buf := make([]byte, 32<<10)
	var names []string
	for seen := 0; seen < mostNames; seen += len(names) {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil || n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], mostNames, names[:0])
		for _, name := range names {
			d := unlike(want, name, least+1)
			if d < least || d == least && best != "" && name < best {
				best, least = name, d
			}
		}
	}
	return best
}

// unlike says how many characters have to change for one name to become the
// other; most, when it is as many or more. Case, and what comes after the last
// dot, count as little as one character.
func unlike(a, b string, most int) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b {
		return 0
	}
	if stem := strings.TrimSuffix(a, filepath.Ext(a)); stem != "" && stem == strings.TrimSuffix(b, filepath.Ext(b)) {
		return min(1, most)
	}
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	// Rows of the table of distances: this one, the one before, and that before it,
	// by which two characters that changed places count as one.
	row, last, older := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d = min(last[j], row[j], last[j+1]) + 1
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, older[j-1]+1)
			}
			row[j+1] = d
			least = min(least, d)
		}
		if least > most {
			return most
		}
		row, last, older = older, row, last
	}
	return min(last[len(b)], most)
}
