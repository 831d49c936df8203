package inside

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestResolve(t *testing.T) {
	dir := tree(t)
	for path, want := range map[string]string{
		"/d/file":                        "/d/file",
		"/d":                             "/d",
		"/link":                          "/d/file",
		"/dirlink":                       "/d",
		"/dirlink/file":                  "/d/file",
		"/dirlink/e/none/x":              "/d/e/none/x",
		"/abs/e":                         "/d/e",
		"/chain":                         "/d/file",
		"/none":                          "/none",
		"/none/deep/er":                  "/none/deep/er",
		"/dangling":                      "/d/none/x",
		"/dangling/more":                 "/d/none/x/more",
		"/d/new\nline\xff":               "/d/new\nline\xff",
		"/fifo":                          "/fifo",
		"/dirlink/../link":               "/d/file",
		"/d//e/.":                        "/d/e",
		"/hop" + "A":                     "/d/file",
		"/hop" + string('A'+mostLinks-1): "/d/file",
	} {
		got, err := Resolve(dir + path)
		if err != nil || got != dir+want {
			t.Errorf("%q: %q, %v, want %q", path, got, err, want)
		}
		// Where something is there, the kernel says the same.
		if real, err := filepath.EvalSymlinks(dir + path); err == nil && real != got {
			t.Errorf("%q: %q, but it is %q", path, got, real)
		}
	}
	if got, err := Resolve(dir + "/up"); got != "/etc/passwd" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Resolve("/"); got != "/" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Resolve("/proc/self/status"); got != fmt.Sprintf("/proc/%d/status", os.Getpid()) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for path, want := range map[string]error{
		"/loop":                        unix.ELOOP,
		"/loop/x":                      unix.ELOOP,
		"/hop" + string('A'+mostLinks): unix.ELOOP,
		"/d/file/x":                    unix.ENOTDIR,
		"/link/x":                      unix.ENOTDIR,
		"/fd":                          unix.ELOOP,
		"/self":                        unix.ELOOP,
		"/thread/passwd":               unix.ELOOP,
		"/back":                        unix.ENOENT,
		"/" + strings.Repeat("a", 256): unix.ENAMETOOLONG,
		strings.Repeat("/d", 2100):     unix.ENAMETOOLONG,
		"/a\x00":                       unix.EINVAL,
	} {
		if got, err := Resolve(dir + path); !errors.Is(err, want) {
			t.Errorf("%.40q: %q, %v, want %v", path, got, err, want)
		}
	}
	if _, err := Resolve("d/file"); !errors.Is(err, unix.EINVAL) {
		t.Error(err)
	}
}

// A link that grows a path with each step is stopped.
func TestResolveIsBounded(t *testing.T) {
	dir := tree(t)
	if err := os.Symlink("grow/"+strings.Repeat("x/", 2000), dir+"/grow"); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(dir + "/grow"); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("%v", err)
	}
	if _, err := ResolvePaths(t.Context(), nil, ResolveRequest{Paths: make([][]byte, MostPaths+1)}); err == nil {
		t.Error("it resolved too many paths")
	}
}

func TestResolvePaths(t *testing.T) {
	dir := tree(t)
	out, err := ResolvePaths(t.Context(), nil, ResolveRequest{Paths: [][]byte{[]byte(dir + "/link"), []byte(dir + "/loop"), []byte(dir + "/d/new\nline\xff")}})
	if err != nil {
		t.Fatal(err)
	}
	if p := out.Paths; string(p[0].Path) != dir+"/d/file" || p[1].Path != nil || !strings.Contains(p[1].Error, "too many links") || !bytes.HasSuffix(p[2].Path, []byte("\xff")) {
		t.Errorf("%q", p)
	}
}
