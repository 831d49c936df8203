package glob

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"a.go", []string{"a.go"}, []string{"b/a.go", "a.gox", ""}},
		{"*.go", []string{"a.go", ".go", ".a.go"}, []string{"b/a.go", "a.c"}},
		{"a*", []string{"a", "ab"}, []string{"b", "ba", "a/b"}},
		{"*", []string{"a", ".a"}, []string{"a/b"}},
		{"**", []string{"a", "a/b", "a/b/c"}, nil},
		{"**/a", []string{"a", "b/a", "c/b/a"}, []string{"ba", "a/b"}},
		{"a/**", []string{"a", "a/b", "a/b/c"}, []string{"ab", "b/a"}},
		{"a/**/b", []string{"a/b", "a/c/b", "a/c/d/b", "a/b/b"}, []string{"a/bb", "a/b/c", "ab"}},
		{"**/a/**/b/**", []string{"a/b", "x/a/b", "a/x/b/y", "a/a/b"}, []string{"b/a", "a"}},
		{"a**b", []string{"ab", "axb"}, []string{"a/b", "a/x/b"}}, // not a whole component
		{"?", []string{"a", "ü", "\xff"}, []string{"", "ab", "/"}},
		{"[a-c]x", []string{"ax", "cx"}, []string{"dx", "x"}},
		{"[!a-c]", []string{"d", "ü"}, []string{"a", "/"}},
		{"[^a]", []string{"b"}, []string{"a"}},
		{"[]a]", []string{"]", "a"}, []string{"b"}},
		{"[a-]", []string{"a", "-"}, []string{"b"}},
		{"{a,b}.go", []string{"a.go", "b.go"}, []string{"c.go", "{a,b}.go"}},
		{"{a,b/c}/d", []string{"a/d", "b/c/d"}, []string{"b/d"}},
		{"{a,{b,c}d}", []string{"a", "bd", "cd"}, []string{"b", "d"}},
		{"a{,b}", []string{"a", "ab"}, []string{"b"}},
		{`\*`, []string{"*"}, []string{"a"}},
		{`\{a\}`, []string{"{a}"}, []string{"a"}},
		{`a\/b`, []string{"a/b"}, []string{"a\\/b"}},
		{"a//b/", []string{"a/b"}, []string{"a"}},
		{"\xff*", []string{"\xff", "\xffa"}, []string{"\xfe", "\uFFFD"}},
		{"*\n*", []string{"a\nb"}, []string{"ab"}},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		for want, paths := range map[bool][]string{true: c.yes, false: c.no} {
			for _, path := range paths {
				if got := p.Match(path); got != want {
					t.Errorf("%q matches %q: %v, want %v", c.pattern, path, got, want)
				}
				if got := byPrefix(p, path); path != "" && got != want {
					t.Errorf("%q matches %q component by component: %v, want %v", c.pattern, path, got, want)
				}
			}
		}
	}
}

// byPrefix matches as a walk does.
func byPrefix(p *Pattern, path string) bool {
	names := strings.Split(path, "/")
	f := p.Prefix()
	for _, dir := range names[:len(names)-1] {
		below, ok := f.Into(dir)
		if !ok {
			return false
		}
		f = below
	}
	return f.Match(names[len(names)-1])
}

func TestPatternsThatAreNone(t *testing.T) {
	for pattern, want := range map[string]error{
		"[":                                  errClass,
		"a[b":                                errClass,
		"[]":                                 errClass,
		"[z-a]":                              errRange,
		"{a":                                 errUnclosed,
		"a}":                                 errUnopened,
		`a\`:                                 errEscape,
		strings.Repeat("{a,b}", 9):           errMany,
		strings.Repeat("{a,b}", 800):         errMany,
		strings.Repeat("a", 4097):            errLong,
		strings.Repeat("{", 2000):            errUnclosed,
		strings.Repeat("{a,", 100):           errUnclosed,
		"{" + strings.Repeat(",", 300) + "}": errMany,
	} {
		if _, err := Compile(pattern); err != want {
			t.Errorf("%.40q: %v, want %v", pattern, err, want)
		}
	}
}

// A walk descends only where something can match.
func TestIntoEndsWhereNothingCanMatch(t *testing.T) {
	for pattern, dirs := range map[string]map[string]bool{
		"a/*.go":      {"a": true, "b": false, "a/b": false},
		"**/x":        {"a": true, "a/b/c": true},
		"a/**/x":      {"a": true, "a/b": true, "b": false},
		"{a,b/c}/d":   {"a": true, "b": true, "c": false, "b/c": true, "a/c": false},
		"*.go":        {"a": false, "a.go": false},
		"a*/b":        {"ab": true, "b": false},
		"a/**":        {"a": true, "a/b": true, "b": false},
		"a/[b-c]/d/e": {"a/b": true, "a/d": false, "a/b/d": true, "a/b/d/e": false},
	} {
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for dir, want := range dirs {
			f, ok := p.Prefix(), true
			for _, name := range strings.Split(dir, "/") {
				if f, ok = f.Into(name); !ok {
					break
				}
			}
			if ok != want {
				t.Errorf("%q below %q: %v, want %v", pattern, dir, ok, want)
			}
		}
	}
}

// Patterns that make a matcher which tries again take years.
func TestMatchingIsBounded(t *testing.T) {
	name := strings.Repeat("a", 4000)
	path := strings.Repeat("a/", 250) + "a"
	for pattern, subject := range map[string]string{
		strings.Repeat("*a", 1000) + "b":              name,
		strings.Repeat("a*", 2000) + "b":              name,
		strings.Repeat("**/a/", 800) + "b":            path,
		strings.Repeat("**/*/", 800) + "b":            path,
		strings.Repeat("[a-z]*", 600) + "b":           name,
		strings.Repeat("{**/a,a}/", 4) + "**/a*a*a*b": path,
	} {
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan bool)
		go func() { done <- p.Match(subject) || byPrefix(p, subject) }()
		select {
		case got := <-done:
			if got {
				t.Errorf("%.20q matches", pattern)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%.20q takes more than a minute", pattern)
		}
	}
}

// FuzzMatch holds the two ways to match to each other, and where doublestar takes
// the pattern too, to it.
func FuzzMatch(f *testing.F) {
	for _, pattern := range []string{"**/*.go", "a/**/b", "{a,b/c}*", "[!a-c]?", `\*`, "**", "a//b", "*a*b*", "[]]", "{,a}", "**/**/a", "[\\]]", "a\xff"} {
		for _, path := range []string{"a", "a/b", "b/c/a.go", "\xff", "a\nb", "a/x/b"} {
			f.Add(pattern, path)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if path == "" || strings.Contains(path, "//") || path[0] == '/' || path[len(path)-1] == '/' {
			return
		}
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		got := p.Match(path)
		if by := byPrefix(p, path); by != got {
			t.Fatalf("%q, %q: %v, component by component %v", pattern, path, got, by)
		}
		if !comparable(pattern, path) {
			return
		}
		if want, err := doublestar.Match(pattern, path); err == nil && want != got {
			t.Fatalf("%q, %q: %v, doublestar says %v", pattern, path, got, want)
		}
	})
}

// comparable leaves out what is meant to be different: empty components, bytes
// that are no characters, and classes and escapes in which the two read unusual
// characters differently. Of ** it leaves what doublestar is not of one mind
// about: in a component with others, twice in a row, and at the end behind a
// star. More stars than some take it for ever.
func comparable(pattern, path string) bool {
	for part := range strings.SplitSeq(pattern, "/") {
		if part == "" || part != "**" && strings.Contains(part, "**") {
			return false
		}
	}
	return strings.Count(pattern, "*") < 6 && utf8.ValidString(pattern) && utf8.ValidString(path) &&
		!strings.Contains(pattern, "**/**") && !strings.HasSuffix(pattern, "*/**") &&
		!strings.ContainsAny(pattern, `[\{`) && !strings.ContainsRune(pattern+path, '\uFFFD')
}
