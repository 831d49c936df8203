package call

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/tools/internal/tree/treetest"
)

// plant makes a tree of files, each newer than the one before it.
func plant(t testing.TB, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		// To the nanosecond, and before 1970 too.
		when := time.Unix(int64(i/2)-2, int64(i%2))
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func find(t testing.TB, dir, pattern string) *Result {
	t.Helper()
	res, err := Run(t.Context(), nil, Request{Path: []byte(dir), Resolved: true, Pattern: pattern})
	if err != nil {
		t.Fatalf("%s: %v", pattern, err)
	}
	return res
}

func TestGlob(t *testing.T) {
	dir := plant(t, "a.go", "b.go", "src/c.go", "src/d.ts", "src/deep/er/e.go", ".hidden/f.go", ".git/g.go", "src/.hg/h.go", "i[1].go", "{j}.go", "src.go/k")
	if err := os.Symlink("a.go", filepath.Join(dir, "link.go")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("src", filepath.Join(dir, "linkdir")); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string][]string{
		"*.go":               {"link.go", "{j}.go", "i[1].go", "b.go", "a.go"},
		"**/*.go":            {"link.go", "{j}.go", "i[1].go", ".hidden/f.go", "src/deep/er/e.go", "src/c.go", "b.go", "a.go"},
		"src/*":              {"src/d.ts", "src/c.go"},
		"src/**":             {"src/deep/er/e.go", "src/d.ts", "src/c.go"},
		"*/**":               {"src.go/k", ".hidden/f.go", "src/deep/er/e.go", "src/d.ts", "src/c.go"},
		"src/*.{ts,js}":      {"src/d.ts"},
		"{src,.hidden}/*.go": {".hidden/f.go", "src/c.go"},
		"**/er/*":            {"src/deep/er/e.go"},
		`i\[1\].go`:          {"i[1].go"},
		"i[[]1].go":          {"i[1].go"},
		`\{j\}.go`:           {"{j}.go"},
		"src":                {},
		"src/":               {},
		"linkdir/*":          {}, // not followed
		"linkdir":            {"linkdir"},
		".git/**":            {},
		"**/h.go":            {},
		"nothing":            {},
	} {
		res := find(t, dir, pattern)
		if !slices.Equal(res.Files, want) || res.Total != len(want) || len(res.Notes) > 0 {
			t.Errorf("%s: %q (%d, %q), want %q", pattern, res.Files, res.Total, res.Notes, want)
		}
	}
}

func TestTheNewestAreKept(t *testing.T) {
	var names, want []string
	for i := range 40 * MostFiles {
		names = append(names, fmt.Sprintf("d%d/f%d", i*7%13, i))
	}
	dir := plant(t, names...)
	for i := range MostFiles {
		want = append(want, names[len(names)-1-i])
	}
	res := find(t, dir, "**/f*")
	if !slices.Equal(res.Files, want) || res.Total != len(names) {
		t.Errorf("%d of %d:\n%q, want\n%q", len(res.Files), res.Total, res.Files, want)
	}
}

func TestHostileTree(t *testing.T) {
	dir, _ := treetest.Hostile(t)
	res := find(t, dir, "**/*")
	for _, name := range []string{"plain", "new\nline", "\uFFFD", "sparse", "link-dir", "link-loop", "unreadable"} {
		if !slices.Contains(res.Files, name) {
			t.Errorf("%q was not found among %q", name, res.Files)
		}
	}
	for _, name := range res.Files {
		if strings.Contains(name, "/") || name == "fifo" || name == "socket" || name == "zero" {
			t.Errorf("%q was found", name)
		}
	}
	notes := strings.Join(res.Notes, "\n")
	if !strings.Contains(notes, "this deep") {
		t.Errorf("no note on directories that are too deep: %q", notes)
	}
	if os.Getuid() != 0 && !strings.Contains(notes, `"closed\ndirectory": permission denied`) {
		t.Errorf("no note on what cannot be read: %q", notes)
	}
}

func TestWhatIsNotLookedInto(t *testing.T) {
	dir, _ := treetest.Hostile(t)
	for path, want := range map[string]string{
		dir + "/fifo":     "a FIFO",
		dir + "/plain":    "is a file",
		dir + "/link-dir": "changed while it was judged",
		dir + "/nowhere":  "does not exist",
		dir + "/plain/x":  "not a directory",
		"/proc":           "not searched",
		"/proc/self":      "changed",
		"/dev/null":       "a device",
	} {
		res, err := Run(t.Context(), nil, Request{Path: []byte(path), Resolved: true, Pattern: "**"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", path, res, err, want)
		}
	}
	if _, err := Run(t.Context(), nil, Request{Path: []byte(dir), Pattern: "["}); err == nil {
		t.Error("a bad pattern is no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, nil, Request{Path: []byte(dir), Pattern: "**"}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestSwappedDirectoriesAreNotFollowed(t *testing.T) {
	dir, outside := plant(t, "plain"), plant(t, "secret")
	target := filepath.Join(dir, "swapped")
	stop := treetest.Swap(t, target, outside)
	defer stop()
	for seen := 0; seen < 500; {
		res := find(t, dir, "swapped/*")
		if slices.Contains(res.Files, "swapped/secret") {
			t.Fatal("a link in a directory's place was followed")
		}
		if slices.Contains(res.Files, "swapped/inner") {
			seen++
		}
		res, err := Run(t.Context(), nil, Request{Path: []byte(target), Resolved: true, Pattern: "*"})
		if err == nil && !slices.Equal(res.Files, []string{"inner"}) {
			t.Fatalf("in the judged path's place was found %q", res.Files)
		}
		if err != nil && !errors.Is(err, inside.ErrChanged) {
			t.Fatal(err)
		}
	}
}
