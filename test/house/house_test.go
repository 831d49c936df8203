// Package house holds the module to the rules of its house: which way imports
// point, what is in the guest, which functions may not be used where.
package house

import (
	"debug/elf"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sallyport/sallyport/"

// rooms are the directories at the top, from the outermost inwards. What is in
// one may import what is in it and further in, and internal.
var rooms = [][]string{
	{"test"},
	{"cmd"},
	{"pipeline"},
	{"permission", "tools", "sandbox"},
	{"seccomp", "images"},
}

// Rooms of one level that must not know each other.
var apart = [][2]string{{"permission", "sandbox"}, {"permission", "tools"}, {"sandbox", "permission"}, {"sandbox", "tools"}}

func level(room string) int {
	return slices.IndexFunc(rooms, func(l []string) bool { return slices.Contains(l, room) })
}

func room(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, module), "/")
	return first
}

func TestImportsPointOneWay(t *testing.T) {
	eachFile(t, func(rel string, f *ast.File, _ *token.FileSet) {
		from := room(rel)
		if from == "internal" || strings.HasSuffix(rel, "_test.go") {
			return
		}
		if level(from) < 0 {
			t.Errorf("%s: there is no room %s", rel, from)
			return
		}
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if !strings.HasPrefix(path, module) {
				continue
			}
			to := room(path)
			if to == "internal" {
				continue
			}
			if level(to) < level(from) {
				t.Errorf("%s imports %s: imports point from %v to %v", rel, path, rooms[level(to)], rooms[level(from)])
			}
			if from == "tools" && to == "sandbox" && strings.TrimPrefix(path, module) != "sandbox/inside" {
				t.Errorf("%s imports %s: of the sandbox, tools know what runs inside and nothing else", rel, path)
			}
			if slices.Contains(apart, [2]string{from, to}) {
				t.Errorf("%s imports %s: %s knows nothing of %s", rel, path, from, to)
			}
		}
	})
}

func TestInternalImportsNoRoom(t *testing.T) {
	eachFile(t, func(rel string, f *ast.File, _ *token.FileSet) {
		if room(rel) != "internal" {
			return
		}
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if strings.HasPrefix(path, module) && room(path) != "internal" {
				t.Errorf("%s imports %s", rel, path)
			}
		}
	})
}

// What PID 1 must not hold: clients, telemetry, parsers of documents, and the
// parts of this module that decide.
var notInGuest = []string{
	"net/http", "crypto/tls", "net/rpc", "go.opentelemetry.io/", "github.com/docker/", "github.com/containerd/containerd",
	"github.com/containerd/cgroups", "github.com/urfave/", "github.com/modelcontextprotocol/", "github.com/anthropics/",
	"github.com/google/jsonschema-go", "encoding/xml", "image/", "archive/", "text/template", "html/template", "plugin",
	module + "pipeline", module + "permission", module + "images", module + "sandbox/changeset", module + "sandbox/egress",
}

// What of this module may be in it.
var inGuest = []string{"cmd/sallyport-guest", "sandbox/adoption", "sandbox/guest", "sandbox/inside", "sandbox/wire", "sandbox/native/starter", "seccomp/load", "internal/version"}

func TestGuestImports(t *testing.T) {
	for _, path := range deps(t, "./cmd/sallyport-guest") {
		for _, not := range notInGuest {
			if path == strings.TrimSuffix(not, "/") || strings.HasPrefix(path, strings.TrimSuffix(not, "/")+"/") {
				t.Errorf("the guest holds %s", path)
			}
		}
		if rel, ours := strings.CutPrefix(path, module); ours && !slices.Contains(inGuest, rel) && !strings.HasPrefix(rel, "tools/") {
			t.Errorf("the guest holds %s; is that meant?", path)
		}
	}
}

func TestGuestIsSmallAndStatic(t *testing.T) {
	path := filepath.Join(root(t), "bin", "sallyport-guest")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatalf("%v: run make build first", err)
	}
	if const8MB := int64(8_000_000); info.Size() >= const8MB {
		t.Errorf("the guest has %d bytes, the promise is less than %d", info.Size(), const8MB)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the guest is not static: it has a segment %v", p.Type)
		}
	}
}

// Where the workspace or a layer is touched from outside, only package beneath
// resolves paths: these would follow what an agent has put there.
var followers = []string{
	"os.Open", "os.OpenFile", "os.Create", "os.ReadFile", "os.WriteFile", "os.Stat", "os.Lstat", "os.ReadDir", "os.Readlink",
	"os.Rename", "os.Remove", "os.RemoveAll", "os.Mkdir", "os.MkdirAll", "os.Symlink", "os.Link", "os.Chmod", "os.Chown",
	"os.Lchown", "os.Chtimes", "os.Truncate", "os.OpenRoot", "os.DirFS",
	"filepath.Walk", "filepath.WalkDir", "filepath.EvalSymlinks", "filepath.Glob",
	"unix.Open", "unix.Stat", "unix.Lstat", "unix.Rename", "unix.Unlink", "unix.Rmdir", "unix.Mkdir", "unix.Symlink", "unix.Link",
	"unix.Chown", "unix.Lchown", "unix.Truncate", "syscall.Open", "syscall.Stat",
}

var beneathOnly = []string{"sandbox/changeset/", "sandbox/quarantine.go", "sandbox/diskwatch.go"}

func TestLayersAreTouchedBeneathOnly(t *testing.T) {
	eachFile(t, func(rel string, f *ast.File, set *token.FileSet) {
		if strings.HasSuffix(rel, "_test.go") || !slices.ContainsFunc(beneathOnly, func(p string) bool { return strings.HasPrefix(rel, p) }) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Obj == nil && slices.Contains(followers, pkg.Name+"."+sel.Sel.Name) {
				t.Errorf("%v: %s.%s follows links; use internal/beneath", set.Position(n.Pos()), pkg.Name, sel.Sel.Name)
			}
			return true
		})
	})
}

// go vet and staticcheck find nothing, and all is formatted.
func TestStaticAnalysis(t *testing.T) {
	if os.Geteuid() != 0 {
		if _, err := os.Stat(filepath.Join(root(t), ".git")); err != nil {
			t.Skip("skipped: not a checkout; the analysis runs where the module's dependencies are")
		}
	}
	for _, args := range [][]string{
		{"go", "vet", "./..."},
		{"go", "tool", "staticcheck", "./..."},
		{"gofmt", "-l", "."},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = root(t)
		out, err := cmd.CombinedOutput()
		if err != nil || args[0] == "gofmt" && len(out) > 0 {
			t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func deps(t *testing.T, pkg string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", pkg)
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		if os.Geteuid() != 0 {
			t.Skipf("skipped: go list: %v", err)
		}
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func eachFile(t *testing.T, f func(rel string, file *ast.File, set *token.FileSet)) {
	t.Helper()
	base := root(t)
	set := token.NewFileSet()
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || rel == "test/fixtures" || rel == "bin") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		f(rel, file, set)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
