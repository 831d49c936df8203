package edit

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, test := range []struct{ name, before, after, want string }{
		{"a word", "one", "two", "-one\n+two\n"},
		{"a line among others", "a\nb\nc\n", "a\nB\nc\n", " a\n-b\n+B\n c\n"},
		{"the newline at the end", "a\n", "a", "-a\n+a\n\\ no newline at the end\n"},
		{"a new file", "", "a\n", "+a\n"},
		{"a new file without a newline", "", "a", "+a\n\\ no newline at the end\n"},
		{"all of it away", "a", "", "-a\n"},
		{"far apart", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\ny\n", "-1\n+x\n 2\n 3\n 4\n  ...\n 6\n 7\n 8\n-9\n+y\n"},
		{"too much", strings.Repeat("a", mostDiff), "b", ""},
	} {
		if got := diff(Input{OldString: test.before, NewString: test.after}); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
