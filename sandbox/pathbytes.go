package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Paths are bytes to the kernel, and strings of Unicode to JSON. One that is no
// UTF-8 stands in base64 after this prefix, which no absolute path begins with.
const base64Prefix = "base64:"

// plainSettings are Settings to package json.
type plainSettings Settings

// MarshalJSON keeps every byte of a path.
func (s Settings) MarshalJSON() ([]byte, error) {
	return json.Marshal(plainSettings(s.mapPaths(func(path string) string {
		if utf8.ValidString(path) {
			return path
		}
		return base64Prefix + base64.StdEncoding.EncodeToString([]byte(path))
	})))
}

// UnmarshalJSON reads what MarshalJSON has written.
func (s *Settings) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*plainSettings)(s)); err != nil {
		return err
	}
	var failed error
	*s = s.mapPaths(func(path string) string {
		encoded, ok := strings.CutPrefix(path, base64Prefix)
		if !ok {
			return path
		}
		plain, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			failed = fmt.Errorf("the path %q: %w", path, err)
		}
		return string(plain)
	})
	return failed
}

// mapPaths returns the settings with each path replaced by f's.
func (s *Settings) mapPaths(f func(string) string) Settings {
	all := func(paths []string) []string {
		if paths == nil {
			return nil
		}
		mapped := make([]string, len(paths))
		for i, path := range paths {
			mapped[i] = f(path)
		}
		return mapped
	}
	m := *s
	m.Workspace = f(s.Workspace)
	m.Denied, m.ReadOnly, m.Absent = all(s.Denied), all(s.ReadOnly), all(s.Absent)
	m.Expose = nil
	for _, e := range s.Expose {
		dirs := make([]Expose, len(e.Dirs))
		for i, d := range e.Dirs {
			dirs[i] = Expose{Path: f(d.Path), Cow: d.Cow}
		}
		m.Expose = append(m.Expose, Exposed{Dirs: dirs, Env: all(e.Env), Path: all(e.Path), Origin: e.Origin})
	}
	return m
}
