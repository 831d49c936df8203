package files

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
)

func TestCheckText(t *testing.T) {
	latin := []byte(strings.Repeat("caf\xe9 au lait, ", 100))
	split := []byte(strings.Repeat("a", Head-1) + "é and more")
	for name, test := range map[string]struct {
		data string
		want string // "" is text
	}{
		"empty":                       {"", ""},
		"ASCII":                       {"package main\n", ""},
		"UTF-8":                       {"naïve ☃\n", ""},
		"a few bytes that are not":    {string(latin), ""},
		"a character across the head": {string(split), ""},
		"zero byte":                   {"a\x00b", "binary data"},
		"zero byte after the head":    {strings.Repeat("a", Head) + "\x00", ""},
		"mostly not UTF-8":            {strings.Repeat("\xd0\xf2\xe8a", 50), "no UTF-8"},
		"PNG":                         {"\x89PNG\r\n\x1a\n\x00\x00", "a PNG image"},
		"PDF":                         {"%PDF-1.7\nall text", "a PDF document"},
		"ELF":                         {"\x7fELF\x02\x01\x00", "an ELF binary"},
		"UTF-16":                      {"\xff\xfea\x00b\x00", "iconv"},
	} {
		err := CheckText([]byte(test.data), 12345)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "12345 bytes")) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestNumber(t *testing.T) {
	var b strings.Builder
	Number(&b, "a\n\tb\n", 99999)
	if got, want := b.String(), " 99999\ta\n100000\t\tb\n100001\t\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestExplain(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"main.go", "README.md", "src/handler_test.go", "src/server.go", "config.yaml"} {
		os.MkdirAll(dir+"/src", 0o755)
		if err := os.WriteFile(dir+"/"+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/mian.go":           "/main.go?",
		"/readme.md":         "/README.md?",
		"/config.yml":        "/config.yaml?",
		"/src/handlr_tst.go": "/src/handler_test.go?",
		"/scr/server.go":     "/src?",
		"/scr/deep/x":        "there is no directory " + dir + "/scr",
	} {
		_, err := inside.Open(dir+path, true)
		got := Explain(err, dir+path, true, "/work")
		if !errors.Is(got, unix.ENOENT) || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), "relative paths start at /work") {
			t.Errorf("%s: %v, want %q", path, got, want)
		}
	}
	_, err := inside.Open(dir+"/nothing like it at all", true)
	if got := Explain(err, dir+"/nothing like it at all", true, "/work"); strings.Contains(got.Error(), "did you mean") {
		t.Error(got)
	}
	if other := errors.New("x"); Explain(other, "/", true, "") != other {
		t.Error("another error was changed")
	}
}

func TestUnlike(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"abc", "ABC", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"a.go", "a.txt", 1}, {"kitten", "sitting", 3}, {"scr", "src", 1}, {"mian", "main", 1}, {"abcd", "badc", 2},
		{"", "abcdefgh", 5}, {"abcdefgh", "", 5}, {".go", ".txt", 3}, {"completely", "different", 5},
	} {
		if got := unlike(test.a, test.b, 5); got != test.want {
			t.Errorf("%q, %q: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestCheckPath(t *testing.T) {
	for path, want := range map[string]string{
		"": "empty", "a\x00b": "zero byte", strings.Repeat("a", 4096): "4096 bytes", "a/": "slash", "a/b": "", "~": "",
	} {
		err := CheckNewPath(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20q: %v, want %q", path, err, want)
		}
	}
	if CheckPath("a/") != nil {
		t.Error("a directory's path cannot be read")
	}
}
