package adoption

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/inside"
)

// do does steps in a directory.
func do(t *testing.T, dir string, data string, steps ...Step) Response {
	t.Helper()
	req := &Request{Trees: []Tree{{[]byte(dir), "stage"}}, Steps: steps, Data: []byte(data)}
	input, err := req.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(t.Context(), &inside.Call{Input: input})
	if err != nil {
		t.Fatal(err)
	}
	var resp Response
	if err := json.Unmarshal(out, &resp); err != nil {
		t.Fatal(err)
	}
	return resp
}

// list names all in a directory, with what files hold.
func list(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		line := strings.TrimPrefix(path, dir+"/") + " " + d.Type().String()[:1]
		if d.Type().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(content)
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func file(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// whole is an attribute for all that a test does not look at.
func whole(size int) *Attr { return &Attr{Mode: 0o640, Size: int64(size)} }

// Whatever the session has put in the way, no step leads out of the tree.
func TestNoStepLeadsOut(t *testing.T) {
	anyFile := &Was{Mode: unix.S_IFREG, Kind: true}
	anyDir := &Was{Mode: unix.S_IFDIR, Kind: true}
	staged := []Step{{Do: Stage}, {Do: Write, N: 1, New: true, Data: 3, Attr: whole(3)}}
	for _, test := range []struct {
		name string
		step Step
	}{
		{"place through a link", Step{Do: Place, N: 1, Path: []byte("out/new")}},
		{"place over what a link leads to", Step{Do: Place, N: 1, Path: []byte("out/f"), Was: anyFile}},
		{"place through a relative link", Step{Do: Place, N: 1, Path: []byte("up/new")}},
		{"place above", Step{Do: Place, N: 1, Path: []byte("../new")}},
		{"place far above", Step{Do: Place, N: 1, Path: []byte("d/../../new")}},
		{"place at an absolute path", Step{Do: Place, N: 1, Path: []byte("OUT/new")}},
		{"place over a link to a file", Step{Do: Place, N: 1, Path: []byte("file"), Was: anyFile}},
		{"make a directory through a link", Step{Do: Mkdir, Path: []byte("out/new")}},
		{"remove through a link", Step{Do: Remove, Path: []byte("out/f"), Was: anyFile}},
		{"remove a directory through a link", Step{Do: Remove, Path: []byte("out/e"), Was: anyDir}},
		{"remove above", Step{Do: Remove, Path: []byte(".."), Was: anyDir}},
		{"change a file through a link", Step{Do: Set, Path: []byte("file"), Was: anyFile, Attr: whole(0)}},
		{"change a directory through a link", Step{Do: Set, Path: []byte("out"), Was: anyDir, Attr: whole(0)}},
		{"open a directory through a link", Step{Do: Open, Path: []byte("out/e"), Was: anyDir}},
		{"link from outside", Step{Do: Link, N: 2, From: []byte("out/f")}},
		{"write through a staged link", Step{Do: Write, N: 8, Data: 3, Attr: whole(3)}},
		{"write to another name of a file", Step{Do: Write, N: 9, Data: 3, Attr: whole(3)}},
		{"write to a FIFO that nobody reads", Step{Do: Write, N: 7, Data: 3, Attr: whole(3)}},
		{"no such tree", Step{Do: Mkdir, Tree: 7, Path: []byte("new")}},
		{"a negative tree", Step{Do: Mkdir, Tree: -1, Path: []byte("new")}},
		{"more data than there is", Step{Do: Write, N: 2, New: true, Data: 99, Attr: whole(3)}},
		{"less data than none", Step{Do: Write, N: 2, New: true, Data: -1, Attr: whole(3)}},
		{"no name", Step{Do: Mkdir, Path: nil}},
		{"a zero in a name", Step{Do: Mkdir, Path: []byte("d/a\x00b")}},
		{"nothing to set", Step{Do: Set, Path: []byte("d"), Was: anyDir}},
		{"nothing known", Step{Do: "format"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			out, in := filepath.Join(dir, "out"), filepath.Join(dir, "in")
			file(t, out+"/f", "out")
			file(t, out+"/e/f", "out")
			file(t, in+"/d/f", "in")
			link(t, out, in+"/out")
			link(t, "../out", in+"/up")
			link(t, out+"/f", in+"/file")
			if resp := do(t, in, "new", staged...); resp.Error != "" {
				t.Fatal(resp)
			}
			link(t, out+"/f", in+"/stage/8")
			if err := os.Link(out+"/f", in+"/stage/9"); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(in+"/stage/7", 0o600); err != nil {
				t.Fatal(err)
			}
			before := list(t, out)
			var was unix.Stat_t
			if err := unix.Stat(out, &was); err != nil {
				t.Fatal(err)
			}
			test.step.Path = []byte(strings.Replace(string(test.step.Path), "OUT", out, 1))
			resp := do(t, in, "new", test.step)
			if resp.Done != 0 || resp.Error == "" {
				t.Errorf("%+v", resp)
			}
			var is unix.Stat_t
			if err := unix.Stat(out, &is); err != nil || is.Mode != was.Mode || is.Mtim != was.Mtim {
				t.Errorf("%+v, was %+v, %v", is, was, err)
			}
			if after := list(t, out); after != before {
				t.Errorf("%s\nwas\n%s", after, before)
			}
			if resp := do(t, in, "", Step{Do: Unstage}); resp.Error != "" {
				t.Error(resp)
			}
			if after := list(t, out); after != before {
				t.Errorf("after removing the stage %s\nwas\n%s", after, before)
			}
		})
	}
}

// The stage itself may have been swapped for a link.
func TestStageThatIsALink(t *testing.T) {
	dir := t.TempDir()
	file(t, dir+"/out/1", "out")
	file(t, dir+"/in/f", "in")
	link(t, dir+"/out", dir+"/in/stage")
	before := list(t, dir)
	for _, step := range []Step{
		{Do: Stage}, {Do: Write, N: 1, Attr: whole(0)}, {Do: Write, N: 2, New: true, Attr: whole(0)}, {Do: Place, N: 1, Path: []byte("new")},
		{Do: FIFO, N: 3, Attr: whole(0)}, {Do: Link, N: 3, From: []byte("f")}, {Do: Unstage},
	} {
		if resp := do(t, dir+"/in", "", step); resp.Error == "" {
			t.Errorf("%v: %+v", step.Do, resp)
		}
	}
	if after := list(t, dir); after != before {
		t.Errorf("%s\nwas\n%s", after, before)
	}
}

// What is there is looked at right before it is replaced, removed or changed.
func TestStepsMeetWithWhatWas(t *testing.T) {
	for _, test := range []struct {
		name string
		step Step
	}{
		{"place", Step{Do: Place, N: 1}},
		{"make a directory", Step{Do: Mkdir}},
		{"remove", Step{Do: Remove}},
		{"set", Step{Do: Set, Attr: whole(0)}},
	} {
		for _, is := range []struct {
			name  string
			wrong func(*Was)
		}{
			{"another size", func(w *Was) { w.Size++ }},
			{"another time", func(w *Was) { w.Mtime-- }},
			{"another time of change", func(w *Was) { w.Ctime-- }},
			{"another mode", func(w *Was) { w.Mode ^= 0o100 }},
			{"another type", func(w *Was) { *w = Was{Mode: unix.S_IFIFO, Kind: true} }},
			{"nothing", nil},
		} {
			t.Run(test.name+" "+is.name, func(t *testing.T) {
				dir := t.TempDir()
				file(t, dir+"/f", "old")
				if resp := do(t, dir, "new", Step{Do: Stage}, Step{Do: Write, N: 1, New: true, Data: 3, Attr: whole(3)}); resp.Error != "" {
					t.Fatal(resp)
				}
				var st unix.Stat_t
				if err := unix.Stat(dir+"/f", &st); err != nil {
					t.Fatal(err)
				}
				step := test.step
				step.Path = []byte("f")
				right := &Was{Mode: st.Mode, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
				if is.wrong != nil {
					wrong := *right
					is.wrong(&wrong)
					step.Was = &wrong
				}
				if resp := do(t, dir, "", step); !resp.Overtaken || resp.Done != 0 {
					t.Errorf("%+v", resp)
				}
				if got := list(t, dir); !strings.HasPrefix(got, "f - old") {
					t.Error(got)
				}
				if step.Was = right; step.Do == Mkdir {
					return
				}
				if resp := do(t, dir, "", step); resp.Error != "" {
					t.Errorf("%+v", resp)
				}
			})
		}
	}
}

func TestStepsEndWithTheFirstThatFails(t *testing.T) {
	dir := t.TempDir()
	steps := []Step{{Do: Mkdir, Path: []byte("a")}, {Do: Mkdir, Path: []byte("a")}, {Do: Mkdir, Path: []byte("b")}}
	if resp := do(t, dir, "", steps...); resp.Done != 1 || !resp.Overtaken || list(t, dir) != "a d" {
		t.Errorf("%+v\n%s", resp, list(t, dir))
	}
	req := Request{Trees: []Tree{{[]byte(dir), "stage"}}, Steps: steps, On: true}
	input, err := req.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := Run(t.Context(), &inside.Call{Input: input}); err != nil || !strings.Contains(string(out), `"done":0`) || list(t, dir) != "a d\nb d" {
		t.Errorf("%s, %v\n%s", out, err, list(t, dir))
	}
	for _, input := range []string{"", "{}", "x\n", "{\"steps\":1}\n", "[]\n"} {
		if out, err := Run(t.Context(), &inside.Call{Input: []byte(input)}); err == nil {
			t.Errorf("%q gives %s", input, out)
		}
	}
}
