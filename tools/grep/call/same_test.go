package call

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// sameAsRipgrep searches with ripgrep and without, and returns what both found.
func sameAsRipgrep(t rapid.TB, tb testing.TB, req Request) *Result {
	t.Helper()
	c := with(tb)
	want, wantErr := Run(tb.Context(), c, req)
	if c.Programs.(*programs).ran != 1 {
		t.Fatal("ripgrep was not run")
	}
	got, gotErr := Run(tb.Context(), without(), req)
	if (wantErr != nil) != (gotErr != nil) {
		t.Fatalf("%+v:\nripgrep: %v\nown:     %v", req, wantErr, gotErr)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Line{}), cmpopts.IgnoreFields(Result{}, "Notes")); diff != "" {
		t.Fatalf("%+v:\n-ripgrep +own\n%s", req, diff)
	}
	return want
}

var trees = map[string]map[string]string{
	"plain": {
		"a.txt": "foo one\nbar\nfoo two foo\n", "b/c.go": "package b // foo\n", "b/d.txt": "nothing\n", "empty": "",
		"b.txt": "x\nfoo", "b/sub/e": "Foo\nFOO\nfoo\n",
	},
	"hidden": {
		".env": "foo\n", ".config/x": "foo\n", ".git/config": "foo\n", ".hg/store": "foo\n", "sub/.git/HEAD": "foo\n", "sub/.svn/x": "foo\n",
		"sub/.jj/x": "foo\n", ".sl/x": "foo\n", ".bzr/x": "foo\n", "wt/.git": "gitdir: foo\n", "plain": "foo\n",
	},
	"ignored": {
		".git/HEAD": "x", ".gitignore": "*.log\n!keep.log\n/build\nout/\n# foo\n\\#foo\n\\!foo\ntrail  \nsp\\ \n**/deep/*.x\na/**/z\nabc/**\nb[ad]r\n{p,q}.t\n",
		"x.log": "foo\n", "keep.log": "foo\n", "build/x": "foo\n", "sub/build/x": "foo\n", "sub/out/x": "foo\n", "out": "foo\n",
		"sub/x.log": "foo\n", "sub/.gitignore": "!x.log\nlocal\n/anch\n", "sub/local": "foo\n", "local": "foo\n", "sub/anch": "foo\n", "sub/t/anch": "foo\n",
		"#foo": "foo\n", "!foo": "foo\n", "trail": "foo\n", "sp ": "foo\n", "m/deep/f.x": "foo\n", "deep/f.x": "foo\n", "a/z": "foo\n", "a/b/c/z/f": "foo\n",
		"abc/f": "foo\n", "abc/d/f": "foo\n", "bar": "foo\n", "bdr": "foo\n", "bbr": "foo\n", "p.t": "foo\n", "q.t": "foo\n", "r.t": "foo\n",
		".git/info/exclude": "excluded\n/sub/exc2\n", "excluded": "foo\n", "sub/exc2": "foo\n", "sub/exc3": "foo\n",
	},
	"ignored without a repository": {".gitignore": "a\n", ".ignore": "b\n", ".rgignore": "c\n!d\n", "a": "foo\n", "b": "foo\n", "c": "foo\n", "d": "foo\n", "s/.ignore": "!b\nd\n", "s/b": "foo\n", "s/d": "foo\n"},
	"nested repository":            {".git/x": "", ".gitignore": "a\n", "a": "foo\n", "in/.git/x": "", "in/a": "foo\n", "in/.gitignore": "b\n", "in/b": "foo\n", "in/d/a": "foo\n", "in/d/b": "foo\n"},
	"all ignored":                  {".git/x": "", ".gitignore": "*\n!*.go\n!sub\n", "x.go": "foo\n", "x.c": "foo\n", "sub/x.go": "foo\n", "no/x.go": "foo\n"},
	"names": {
		"with space": "foo\n", "co:lon:3:foo": "foo\n", "new\nline": "foo\n", "new\n./line/x": "foo\n", "-dash": "foo\n", "--": "foo\n", "ünï": "foo\n", "bad\xff": "foo\n",
		"a/b": "foo\n", "a.b": "foo\n", "a-b/c": "foo\n",
	},
	"contents": {
		"crlf": "foo\r\nbar\r\n\r\nfoo\r\n", "nofinal": "bar\nfoo", "blank": "\n\n\nfoo\n\n", "nul": "foo\n\x00foo\n", "long": strings.Repeat("x", 100_000) + "foo\nfoo\n",
		"bom": "\xef\xbb\xbffoo\n", "invalid": "foo\xff\xfe\nfoo\n", "unicode": "föö foo\n", "utf16": "\xff\xfef\x00o\x00o\x00\n\x00", "utf16be": "\xfe\xff\x00f\x00o\x00o\x00\n",
		"many": strings.Repeat("foo\nbar\nbaz\n", 500), "context": "1\n2\nfoo\n4\n5\n6\nfoo\nfoo\n9\n10\n11\n12\n13\nfoo\n",
		"kelvin": "\u212aelvin foo\n", "words": "food foo_ foo-bar xfoo\n", "braces": "a{2} [x] (y) $foo^\n", "tab": "\tfoo\t\n",
	},
	"links": {"real/f": "foo\n", "linkfile": "->real/f", "linkdir": "->real", "dangling": "->nowhere", "up": "->.."},
	"types": {"a.go": "foo\n", "b.py": "foo\n", "c.tsx": "foo\n", "d.ts": "foo\n", "Makefile": "foo\n", "e.c": "foo\n", "f.H": "foo\n", "CMakeLists.txt": "foo\n", "src/g.go": "foo\n", "src/deep/h.go": "foo\n", "README.md": "foo\n", ".git/x": "", ".gitignore": "b.py\n"},
}

var requests = []Request{
	{Pattern: "foo"},
	{Pattern: "foo", Mode: Count},
	{Pattern: "foo", Mode: Content},
	{Pattern: "FOO", Mode: Content, IgnoreCase: true},
	{Pattern: "KELVIN|foo", Mode: Content, IgnoreCase: true},
	{Pattern: "foo", Mode: Content, Before: 1, After: 2},
	{Pattern: "foo", Mode: Content, Before: 3},
	{Pattern: "foo", Mode: Content, After: 1, Only: true},
	{Pattern: "fo+|ba[rz]", Mode: Content, Only: true},
	{Pattern: "fo*", Mode: Count, Only: true},
	{Pattern: "", Mode: Content},
	{Pattern: "", Mode: Count},
	{Pattern: "x*", Mode: Content, Only: true},
	{Pattern: "^$", Mode: Content},
	{Pattern: "foo$", Mode: Content},
	{Pattern: "^foo", Mode: Count},
	{Pattern: `\bfoo\b`, Mode: Content},
	{Pattern: `o\s+b`, Mode: Content},
	{Pattern: `[^a]o`, Mode: Content, Only: true},
	{Pattern: `\{2\}|\$foo`, Mode: Content},
	{Pattern: "-foo", Mode: Content},
	{Pattern: "--version", Mode: Content},
	{Pattern: "(foo|nothing|one) ", Mode: Content},
	{Pattern: "foo", Mode: Content, Limit: 3},
	{Pattern: "foo", Mode: Content, Limit: 3, Offset: 2, After: 1},
	{Pattern: "foo", Limit: 2},
	{Pattern: "foo", Limit: 2, Offset: 1},
	{Pattern: "foo", Mode: Count, Limit: 2, Offset: 1},
	{Pattern: "foo", Limit: 5, Offset: 100},
	{Pattern: "foo", Globs: []string{"*.go"}},
	{Pattern: "foo", Globs: []string{"!*.go"}},
	{Pattern: "foo", Globs: []string{"*.{go,ts}", "!src"}},
	{Pattern: "foo", Globs: []string{"/*.go"}},
	{Pattern: "foo", Globs: []string{"src/**"}},
	{Pattern: "foo", Globs: []string{"sub/"}},
	{Pattern: "foo", Globs: []string{"*.log"}},
	{Pattern: "foo", Globs: []string{"**/deep/*"}},
	{Pattern: "foo", Globs: []string{".git/**"}},
	{Pattern: "foo", Type: "go"},
	{Pattern: "foo", Type: "py"},
	{Pattern: "foo", Type: "ts", Globs: []string{"!d.ts"}},
	{Pattern: "foo", Type: "c"},
	{Pattern: "foo", Type: "cmake"},
	{Pattern: "foo", Type: "all"},
	{Pattern: `foo\nbar`, Mode: Content, Multiline: true},
	{Pattern: `foo.*bar`, Mode: Content, Multiline: true},
	{Pattern: `foo.bar`, Mode: Count, Multiline: true},
	{Pattern: `foo`, Mode: Count, Multiline: true},
	{Pattern: `o\nb`, Mode: Content, Multiline: true, Before: 1, After: 1},
	{Pattern: `foo\s+foo`, Multiline: true},
	{Pattern: `foo\n`, Mode: Content, Multiline: true},
	{Pattern: `r\nb.*?\nf`, Mode: Content, Multiline: true, Only: true},
	// Errors of both.
	{Pattern: "foo("},
	{Pattern: "foo\\nbar"},
	{Pattern: "*"},
	{Pattern: "foo", Type: "zork"},
	{Pattern: "foo", Globs: []string{"a{"}},
	{Pattern: "foo", Globs: []string{"a["}},
	{Pattern: `foo(?=bar)`},
	{Pattern: `(foo)\1`},
}

// name is what the fields say that are set.
func (r Request) name() string {
	s := fmt.Sprintf("%q %s", r.Pattern, r.Mode)
	for _, set := range []any{r.Globs, r.Type, r.Only, r.Multiline, r.Before, r.After, r.Limit, r.Offset} {
		if v := fmt.Sprint(set); v != "0" && v != "" && v != "false" && v != "[]" {
			s += " " + v
		}
	}
	return s
}

func TestSameAsRipgrep(t *testing.T) {
	for name, files := range trees {
		t.Run(name, func(t *testing.T) {
			dir := plant(t, files)
			for _, req := range requests {
				if req.Mode == "" {
					req.Mode = Files
				}
				req.Path = []byte(dir)
				if req.Pattern == "x*" && name == "contents" {
					continue // empty matches within characters are ripgrep's alone
				}
				t.Run(req.name(), func(t *testing.T) { sameAsRipgrep(t, t, req) })
			}
		})
	}
}

func TestSameAsRipgrepBelowTheRoot(t *testing.T) {
	dir := plant(t, trees["ignored"])
	for _, sub := range []string{"sub", "abc", "a/b", "m", ".git", "build"} {
		for _, req := range requests[:3] {
			req.Path = []byte(filepath.Join(dir, sub))
			if req.Mode == "" {
				req.Mode = Files
			}
			sameAsRipgrep(t, t, req)
		}
	}
}

func TestSameAsRipgrepOnFiles(t *testing.T) {
	for _, name := range []string{"hidden", "contents", "names"} {
		dir := plant(t, trees[name])
		for file := range trees[name] {
			for _, req := range []Request{
				{Pattern: "foo", Mode: Content, After: 1}, {Pattern: "fo+|ba", Mode: Content, Only: true}, {Pattern: "foo", Mode: Count},
				{Pattern: "o$", Mode: Files, Globs: []string{"!*"}, Type: "go"}, {Pattern: "o.*o", Multiline: true, Mode: Content},
			} {
				req.Path = []byte(filepath.Join(dir, file))
				t.Run(file+" "+req.name(), func(t *testing.T) { sameAsRipgrep(t, t, req) })
			}
		}
	}
}
