package changeset

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An item is proved by what is known of the time before the upper was written.
func TestItemsAreProvedByTime(t *testing.T) {
	now := time.Now().UnixNano()
	boot, err := bootTime()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		seen Seen
		want string
	}{
		{"by nothing", Seen{}, "refused"},
		{"the upper came long after", Seen{Since: Time{now + int64(time.Hour), boot}}, ""},
		{"the upper came before", Seen{Since: Time{now - int64(time.Hour), boot}}, "overtaken"},
		{"nothing was written below", Seen{Since: Time{now - int64(time.Hour), boot}, Quiet: true}, ""},
		{"nothing was written below, by what clock ever", Seen{Quiet: true}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			base, upper := tempDir(t, ""), tempDir(t, "")
			for _, path := range []string{base + "/file", base + "/same", upper + "/file", upper + "/new", upper + "/same"} {
				content := filepath.Dir(path)
				if filepath.Base(path) == "same" {
					content = "same"
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Read(t.Context(), Layers{Upper: openDir(t, upper), Lower: View{UserXattr: !asRoot(), Layers: []Layer{{Dir: openDir(t, base)}}}}, Options{Items: &test.seen})
			if err != nil {
				t.Fatal(err)
			}
			items, _ := s.Items()
			var got []string
			for _, i := range items {
				line := fmt.Sprintf("%s %v", i.Path, i.Changed())
				switch {
				case !i.Changed():
				case i.Refused != "":
					line += " refused"
				case i.Overtaken != "":
					line += " overtaken"
				}
				got = append(got, strings.TrimSpace(line))
			}
			want := []string{"file true " + test.want, "new true " + test.want, "same false"}
			for i := range want {
				want[i] = strings.TrimSpace(want[i])
			}
			if diff := cmp.Diff(want, got[1:]); diff != "" {
				t.Error(diff)
			}
			if items[0].Path != "." {
				t.Errorf("the first is %q", items[0].Path)
			}
		})
	}
}

// A file that never leaves has an item, and is settled and opened as one, also if
// nothing but its time has changed.
func TestItemOfAnUnchangedSetuidFile(t *testing.T) {
	base, upper := tempDir(t, ""), tempDir(t, "")
	for _, path := range []string{base + "/file", upper + "/file"} {
		if err := os.WriteFile(path, []byte("same"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Read(t.Context(), Layers{Upper: openDir(t, upper), Lower: View{UserXattr: !asRoot(), Layers: []Layer{{Dir: openDir(t, base)}}}}, Options{Items: &Seen{Quiet: true}})
	if err != nil {
		t.Fatal(err)
	}
	items, _ := s.Items()
	if len(s.Changes) != 0 || len(items) != 2 {
		t.Fatalf("changes %v, items %v", s.Changes, items)
	}
	r, err := items[1].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); string(got) != "same" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
