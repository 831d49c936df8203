package call

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// parse reads output in pieces of a size.
func parse(req Request, output []byte, size int) (*Result, error) {
	out := newCollector(req, nil)
	p := newParser(req, dirRoot, out)
	for len(output) > 0 {
		n := min(size, len(output))
		p.Write(output[:n])
		output = output[n:]
	}
	p.end()
	return out.result(), p.err
}

func TestParserRefusesWhatIsNotRipgrep(t *testing.T) {
	for _, output := range []string{
		"hello\n", "hello", "./a", "./a\x00", "./a\x00x:foo\n", "./a\x00-1:foo\n", "./a\x0099999999999999999999:foo\n", "/etc/passwd\x001:root\n",
		"-\n", "---\n", "./a\x001;foo\n", "./a\x001", "\x00", strings.Repeat("x", 1<<20),
	} {
		for _, size := range []int{1, 3, 1 << 20} {
			if _, err := parse(Request{Mode: Content}, []byte(output), size); err != errNotRipgrep {
				t.Errorf("%.40q in pieces of %d: %v", output, size, err)
			}
		}
	}
}

// FuzzParser holds the reader of what ripgrep prints to its bounds, whatever an
// image has by that name, and to the same result however it comes.
func FuzzParser(f *testing.F) {
	for _, s := range []string{
		"./a\x001:foo\n./a\x002-bar\n--\n./b\x0010:x\n", "./a\x00./b\x00", "./a\x003\n./b/c\x0012\n", "./a\x001:\n",
		"./bin\x001:foo\n./bin: WARNING: stopped searching binary file after match (found \"\\0\" byte around offset 4)\n",
		"./bin: binary file matches (found \"\\0\" byte around offset 4)\n./c\x001:foo\n", "--\n--\n", "./new\n./line\x001:x\n",
	} {
		for mode := range uint8(3) {
			f.Add([]byte(s), mode, uint8(3), uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, output []byte, mode, limit, offset uint8) {
		req := Request{Mode: []Mode{Content, Files, Count}[mode%3], Limit: int(limit), Offset: int(offset)}
		want, wantErr := parse(req, output, len(output)+1)
		units := 0
		for _, b := range want.Blocks {
			units += b.units(req.Mode)
			if !utf8.ValidString(b.Path) || len(b.Path) > 3*(8<<10) {
				t.Fatalf("a path of %d bytes", len(b.Path))
			}
			for _, l := range b.Lines {
				if !utf8.ValidString(l.Text) || len(l.Text) > 3*mostText || strings.Contains(l.Text, "\n") || l.Number < 0 {
					t.Fatalf("line %+v", l)
				}
			}
		}
		if req.Limit > 0 && units > req.Limit {
			t.Fatalf("%d of at most %d", units, req.Limit)
		}
		for _, size := range []int{1, 7} {
			got, gotErr := parse(req, output, size)
			if gotErr != wantErr {
				t.Fatalf("in pieces of %d: %v, else %v", size, gotErr, wantErr)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Line{})); wantErr == nil && diff != "" {
				t.Fatalf("in pieces of %d:\n%s", size, diff)
			}
		}
	})
}

// FuzzIgnoreFile reads any ignore file and asks it about any path.
func FuzzIgnoreFile(f *testing.F) {
	for _, s := range []string{"*.log\n!keep.log\n/build/\n", "a/**\n**/b\n", "\\#x\n#y\n", "x\\ \n", "[a\n{b\n\\\n", "\xef\xbb\xbfa\r\n", "**\n/\n!\n!/\n//\n"} {
		f.Add([]byte(s), "a/b/x.log", false)
		f.Add([]byte(s), "build", true)
	}
	f.Fuzz(func(t *testing.T, file []byte, path string, dir bool) {
		rs := parseRules(file)
		if n := bytes.Count(file, []byte("\n")) + 1; len(rs) > n {
			t.Fatalf("%d rules of %d lines", len(rs), n)
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		v := rs.match(path, name, dir)
		// What a later rule says is what counts.
		if all := append(rs[:len(rs):len(rs)], parseRules([]byte("!**/*\n"))...); name != "" && strings.Trim(path, "/") == path && !strings.Contains(path, "//") && all.match(path, name, dir) != wanted {
			t.Fatalf("%q is %v in the end, %v before", path, all.match(path, name, dir), v)
		}
	})
}
