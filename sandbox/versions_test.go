package sandbox

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

func TestCompareVersions(t *testing.T) {
	want := []string{"", "go1.9", "go1.09.1", "go1.21", "go1.21.10", "go1.101", "v9.9.9", "v18.0.0", "v20.1.0", "v20.1.0-rc"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareVersions)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSettingsKeepEveryByteOfAPath(t *testing.T) {
	s := Settings{
		Workspace: "/w\xff\n", Denied: []string{"/w\xff\n/\xfe", "/plain"}, ReadOnly: []string{"/é"}, Absent: []string{},
		Expose: []Exposed{{Dirs: []Expose{{Path: "/d\x80", Cow: true}}, Env: []string{"A=/d\x80"}, Path: []string{"/d\x80/bin"}}},
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Settings
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	s.Absent = nil // left out when it is empty
	if !reflect.DeepEqual(back, s) {
		t.Errorf("%+v, want %+v", back, s)
	}
}
