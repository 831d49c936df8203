package changeset

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestPrintable(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"plain text, with spaces.", "plain text, with spaces."},
		{"grün 日本語 🙂", "grün 日本語 🙂"},
		{"\x1b[2J\x1b]0;title\x07", "^[[2J^[]0;title^G"},
		{"a\nb\rc\td\x00\x7f", `a\nb^Mc^Id^@^?`},
		{"\u0085\u009b31m", `\u0085\u009b31m`}, // C1: a terminal may take them for escapes
		{"abc\u202egpj.exe", `abc\u202egpj.exe`},
		{"\u2066\u2069\u200f\u061c", `\u2066\u2069\u200f\u061c`},
		{"a\u200bb\ufeffc\u00ad", `a\u200bb\ufeffc\u00ad`}, // invisible
		{"line\u2028sep\u2029", `line\u2028sep\u2029`},
		{"\U000e0041tag", `\U000e0041tag`},
		{"bad\xff\xc0\xaf", `bad\xff\xc0\xaf`},
		{"\xed\xa0\x80", `\xed\xa0\x80`}, // a surrogate
		{"\ufffd", "\ufffd"},             // itself, which is no mistake
		{"cut \xe6\x97", `cut \xe6\x97`},
	} {
		if got := Printable(test.in); got != test.want {
			t.Errorf("%q: %q", test.in, got)
		}
	}
	if got := printableLine("a\tb\r"); got != "a\tb^M" {
		t.Errorf("%q", got)
	}
}

func TestPrintableOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		got := Printable(in)
		if !utf8.ValidString(got) {
			t.Fatalf("%q", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q has %U", got, r)
			}
		}
		if Printable(got) != got {
			t.Fatalf("%q becomes %q", got, Printable(got))
		}
	})
}

// The digest of a set is that of what it does: the same for the same, and
// another for anything else.
func TestDigest(t *testing.T) {
	b := newBox(t)
	digest := func(base, session string) string {
		t.Helper()
		l := newLab(t, b)
		l.host(base)
		l.mount()
		l.session(session)
		l.unmount()
		set := l.read(Options{})
		sum, err := set.Digest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := set.Digest(t.Context()); err != nil || again != sum {
			t.Errorf("%s, then %s, %v", sum, again, err)
		}
		return sum
	}
	const base = `echo x > a; echo y > b; mkdir d; echo z > d/c`
	seen := make(map[string]string)
	for _, session := range []string{
		``, `echo 1 > a`, `echo 2 > a`, `echo 1 > b`, `echo 1 > new`, `rm a`, `rm b`, `chmod 700 a`, `chmod 755 a`, `ln -s 1 l`, `ln -s 2 l`,
		`rm -r d`, `mv a e`, `mkdir e`, `ln a e`, `echo 1 > a; echo 1 > b`, `echo 1 > a; rm b`,
	} {
		sum := digest(base, session)
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %q have the same digest", session, other)
		}
		seen[sum] = session
	}
	// However it came to be, and in whatever order.
	for _, same := range [][2]string{
		{`echo 1 > a; echo 1 > b`, `echo 0 > b; echo 1 > b; echo 1 > a`},
		{``, `echo 1 > n; rm n`},
		{`rm -r d`, `rm d/c; rmdir d`},
	} {
		if digest(base, same[0]) != digest(base, same[1]) {
			t.Errorf("%q and %q differ", same[0], same[1])
		}
	}
}
