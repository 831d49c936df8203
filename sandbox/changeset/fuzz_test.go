package changeset

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
)

// FuzzJournal reads anything as the journal of an apply. What it believes must
// be what an apply can have written.
func FuzzJournal(f *testing.F) {
	header := `{"header":{"version":1,"target":7}}` + "\n"
	temp := TempPrefix + strings.Repeat("A", 26)
	for _, s := range []string{
		"", "{}\n", header, header + `{"done":true}` + "\n",
		header + `{"step":{"kind":"put","path":"YQ==","temp":"` + temp + `"}}` + "\n" + `{"staged":{"step":0,"stamp":{},"until":5}}` + "\n",
		header + `{"step":{"kind":"put","path":"Li4vYQ==","temp":"` + temp + `"}}` + "\n", // ../a
		header + `{"step":{"kind":"remove","path":"YQ==","temp":"../x"}}` + "\n",
		header + `{"step":{"kind":"meta","path":"YQ==","before":{},"meta":{"mode":420}}}` + "\n" + `{"done":true}` + "\n" + `{"done":true}` + "\n",
		header + `{"staged":{"step":-1}}` + "\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := readJournal(bytes.NewReader(data))
		if err != nil && (len(h.steps) > 0 || h.done) {
			t.Errorf("%v, but %d steps are believed", err, len(h.steps))
		}
		if n := bytes.Count(data, []byte("\n")); len(h.steps) > n {
			t.Errorf("%d steps of %d lines", len(h.steps), n)
		}
		for _, s := range h.steps {
			if name := string(s.Path); name == "." || !beneath.Valid(name) {
				t.Errorf("a step leads to %q", name)
			}
			if s.Kind != stepMeta && !isTempName(s.Temp) || strings.Contains(s.Temp, "/") {
				t.Errorf("a step uses the name %q", s.Temp)
			}
		}
	})
}

// FuzzBases opens anything as the base records of a session. It must be read the
// same again, once it was opened.
func FuzzBases(f *testing.F) {
	version := `{"version":1}` + "\n"
	for _, s := range []string{
		"", "x", version, version + version,
		version + `{"path":"YQ==","record":{"state":"absent"}}` + "\n",
		version + `{"path":"YS9i","record":{"state":"proved"}}` + "\n" + `{"path":"YQ=="}` + "\n",
		version + `{"path":"YQ==","record":{"state":"proved"}}` + "\n" + `{"path":"YS9i","record":{"state":"conflict"}}` + "\n",
		version + `{"path":"Li4=","record":{"state":"absent"}}` + "\n",
		version + `{"path":"YQ==","touched":{"ino":1,"old":2,"new":3}}` + "\n", version + `{"times":{}}` + "\n{",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), basesFile)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		dir := openDir(t, filepath.Dir(path))
		open := func() (names []string) {
			b, err := OpenBases(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			err = b.root.each("", func(name string, r record) error {
				names = append(names, name+" "+string(r.State))
				if name == "" || !beneath.Valid(name) {
					t.Errorf("a record of %q", name)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		first := open()
		second := open()
		slices.Sort(first)
		slices.Sort(second)
		if !slices.Equal(first, second) {
			t.Errorf("%q, and again %q", first, second)
		}
	})
}

// Names and attributes that a layer can have, of the session's making or the
// overlay's.
var (
	fuzzNames  = []string{"a", "b", "c", "..foo", "-rf", "\xff\n", ".wh.a", ".wh..wh..opq", TempPrefix + "x", "..."}
	fuzzXattrs = []string{"opaque", "redirect", "metacopy", "origin", "whiteout", "impure", "nlink"}
	fuzzValues = []string{"y", "x", "/", "../../../etc", "", "\x00\xfb"}
)

// grow makes a tree of what two bytes a step say: what, and where. What cannot
// be made is left out.
func grow(root string, program []byte, xattr string) {
	at := root
	for ; len(program) >= 2; program = program[2:] {
		op, arg := program[0], int(program[1])
		path := filepath.Join(at, fuzzNames[arg%len(fuzzNames)])
		switch op % 11 {
		case 0:
			os.Mkdir(path, 0o755)
		case 1:
			if info, err := os.Lstat(path); err == nil && info.IsDir() {
				at = path
			}
		case 2:
			at = root
		case 3:
			if f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, 0o644); err == nil { // not waiting at a FIFO
				f.Write(program)
				f.Close()
			}
		case 4:
			os.Symlink(fuzzNames[int(op)%len(fuzzNames)], path)
		case 5:
			unix.Mkfifo(path, 0o644)
		case 6:
			unix.Mknod(path, unix.S_IFCHR, 0) // a whiteout
		case 7:
			unix.Lsetxattr(path, xattr+fuzzXattrs[int(op)%len(fuzzXattrs)], []byte(fuzzValues[arg%len(fuzzValues)]), 0)
		case 8:
			os.Chmod(path, os.FileMode(op)<<3&0o777|0o700)
		case 9:
			os.Link(filepath.Join(root, fuzzNames[int(op)%len(fuzzNames)]), path)
		case 10:
			unix.Setxattr(at, xattr+"opaque", []byte("y"), 0)
		}
	}
}

// FuzzRead reads a layer of any make above any base: a session's upper is what
// an agent and the kernel have left there. What it says must be true of them.
func FuzzRead(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{3, 0, 0, 1, 1, 1, 3, 2}, []byte{6, 0, 0, 1, 10, 0, 1, 1, 10, 0})
	f.Add([]byte{0, 0, 1, 0, 3, 1}, []byte{0, 0, 7, 0, 18, 0, 29, 1, 40, 2, 51, 3})
	f.Add([]byte{0, 0, 1, 0, 3, 1}, []byte{6, 0, 4, 1, 5, 2, 3, 3, 9, 4, 3, 5, 3, 6, 3, 7, 3, 8, 3, 9})
	f.Fuzz(func(t *testing.T, below, above []byte) {
		if len(below)+len(above) > 400 {
			t.Skip("a longer one shows nothing more")
		}
		dir := tempDir(t, "")
		base, upper := filepath.Join(dir, "base"), filepath.Join(dir, "upper")
		for _, d := range []string{base, upper} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		xattr := "trusted.overlay."
		if !asRoot() {
			xattr = "user.overlay."
		}
		grow(base, below, "user.") // a workspace has no attributes of an overlay's
		grow(upper, above, xattr)
		s, err := Read(t.Context(), Layers{
			Upper: openDir(t, upper), Lower: View{UserXattr: !asRoot(), Layers: []Layer{{Dir: openDir(t, base)}}},
		}, Options{Items: &Seen{}})
		if err != nil {
			return // refused as a whole
		}
		last := ""
		for i, c := range s.Changes {
			if c.Path == "." || !beneath.Valid(c.Path) || c.From != "" && !beneath.Valid(c.From) {
				t.Errorf("%s %q from %q", c.Kind, c.Path, c.From)
			}
			if i > 0 && c.Path == last {
				t.Errorf("%q is told twice", c.Path)
			}
			last = c.Path
			_, inBase := os.Lstat(filepath.Join(base, c.Path))
			_, inUpper := os.Lstat(filepath.Join(upper, c.Path))
			if c.Kind == Deleted && inBase != nil {
				t.Errorf("%q is deleted and was not there", c.Path)
			}
			if c.Kind != Deleted && inUpper != nil {
				t.Errorf("%q is %s and is not there", c.Path, c.Kind)
			}
			if (c.Kind == Modified || c.Kind == Mode) && inBase != nil {
				t.Errorf("%q is %s and was not there", c.Path, c.Kind)
			}
		}
		told := make(map[string]bool)
		items, incomplete := s.Items()
		if incomplete != "" {
			t.Error(incomplete)
		}
		for i, item := range items {
			_, inBase := os.Lstat(filepath.Join(base, item.Path))
			_, inUpper := os.Lstat(filepath.Join(upper, item.Path))
			if told[item.Path] || (i == 0) != (item.Path == ".") || !beneath.Valid(item.Path) && item.Refused == "" {
				t.Errorf("item %d is %q", i, item.Path)
			}
			told[item.Path] = true
			if item.Type != "" && inUpper != nil || item.Old != nil && inBase != nil {
				t.Errorf("%q is %q, was %v; %v, %v", item.Path, item.Type, item.Old, inUpper, inBase)
			}
			if item.Link != "" && !told[item.Link] {
				t.Errorf("%q is a name of %q, which comes later", item.Path, item.Link)
			}
		}
	})
}
