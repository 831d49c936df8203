package settings

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sallyport/sallyport/permission"
)

func rule(t *testing.T, text string) permission.Rule {
	t.Helper()
	r, err := permission.ParseRule(text, permission.Allow, permission.FromCLI)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInsertDisturbsNothingElse(t *testing.T) {
	for _, test := range []struct{ name, before, after string }{
		{"no file", "", "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(x)\"\n    ]\n  }\n}\n"},
		{"nothing in it", "{}", "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(x)\"\n    ]\n  }\n}"},
		{"in lines", "{\n\t\"permissions\": {\n\t\t\"allow\": [\n\t\t\t\"Read\"\n\t\t]\n\t}\n}\n", "{\n\t\"permissions\": {\n\t\t\"allow\": [\n\t\t\t\"Read\",\n\t\t\t\"Bash(x)\"\n\t\t]\n\t}\n}\n"},
		{"in one line", `{"permissions":{"allow":["Read"]},"b":1}`, `{"permissions":{"allow":["Read","Bash(x)"]},"b":1}`},
		{"in one line, with spaces", `{"permissions": {"allow": ["Read", "Edit"]}}`, `{"permissions": {"allow": ["Read", "Edit", "Bash(x)"]}}`},
		{"an empty list", "{\n    \"permissions\": {\n        \"allow\": []\n    }\n}", "{\n    \"permissions\": {\n        \"allow\": [\n            \"Bash(x)\"\n        ]\n    }\n}"},
		{"an empty list on two lines", "{\n  \"permissions\": {\n    \"allow\": [\n    ]\n  }\n}", "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(x)\"\n    ]\n  }\n}"},
		{"no list", "{\n  \"permissions\": {\n    \"deny\": [\"A\"]\n  },\n  \"z\": 1.50\n}", "{\n  \"permissions\": {\n    \"deny\": [\"A\"],\n    \"allow\": [\n      \"Bash(x)\"\n    ]\n  },\n  \"z\": 1.50\n}"},
		{"no permissions", "{\r\n  \"z\": 1\r\n}\r\n", "{\r\n  \"z\": 1,\r\n  \"permissions\": {\r\n    \"allow\": [\r\n      \"Bash(x)\"\r\n    ]\r\n  }\r\n}\r\n"},
		{"no permissions in one line", `{"z": 1}`, `{"z": 1,"permissions": {"allow": ["Bash(x)"]}}`},
		{"it is there", `{"permissions":{"allow":["Bash(x)"]}}`, `{"permissions":{"allow":["Bash(x)"]}}`},
		{"it is there, escaped", `{"permissions":{"allow":["B\u0061sh(x)"]}}`, `{"permissions":{"allow":["B\u0061sh(x)"]}}`},
		{"it is denied", `{"permissions":{"deny":["Bash(x)"],"allow":["A"]}}`, `{"permissions":{"deny":["Bash(x)"],"allow":["A","Bash(x)"]}}`},
	} {
		got, err := insert([]byte(test.before), permission.Allow, "Bash(x)")
		if err != nil || string(got) != test.after {
			t.Errorf("%s: %v\n%q\nwant\n%q", test.name, err, got, test.after)
		}
	}
}

func TestAddRule(t *testing.T) {
	p := places(t, map[string]string{"work/.git/HEAD": ""})
	r := rule(t, `Bash(echo "a & <b>" *)`)
	s, err := p.AddRule(permission.FromLocal, r)
	if err != nil || !s.Created || !s.Trusted || !s.InGit || s.Already || s.File != LocalFile {
		t.Fatalf("%+v, %v", s, err)
	}
	if got := shown(load(t, p).Rules); got != "local allow "+r.String() {
		t.Errorf("what it made does not count: %s", got)
	}
	name := filepath.Join(p.Workspace, LocalFile)
	if err := os.Chmod(name, 0o640); err != nil {
		t.Fatal(err)
	}
	if s, err = p.AddRule(permission.FromLocal, r); err != nil || !s.Already || s.Created {
		t.Errorf("again: %+v, %v", s, err)
	}
	if s, err = p.AddRule(permission.FromLocal, rule(t, "Edit(/a)")); err != nil || s.Already || s.Created || !s.Trusted {
		t.Errorf("another: %+v, %v", s, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if got := shown(load(t, p).Rules); got != "local allow "+r.String()+"; local allow Edit(/a)" {
		t.Errorf("a trusted file is not trusted after our own write: %s", got)
	}
	if all, err := p.AllTrusted(); err != nil || len(all) != 1 {
		t.Errorf("what is written over is still trusted: %v, %v", all, err)
	}

	// What is not trusted stays so.
	write(t, name, allows("Bash(evil)"))
	if s, err = p.AddRule(permission.FromLocal, r); err != nil || s.Trusted {
		t.Errorf("an untrusted file: %+v, %v", s, err)
	}
	if got := shown(load(t, p).Rules); got != "local deny Bash(evil x)" {
		t.Errorf("our write made it trusted: %s", got)
	}
	// What is not valid stays as it is.
	for _, bad := range []string{"", "{", `{"permissions": {"allow": [1]}}`, `{"permissions": {"deny": ["Bash("]}}`, `{"a": 1, "a": 2}`} {
		write(t, name, bad)
		if _, err := p.AddRule(permission.FromLocal, r); err == nil || !strings.Contains(err.Error(), LocalFile+":1: ") {
			t.Errorf("%q: %v", bad, err)
		}
		if data, err := os.ReadFile(name); err != nil || string(data) != bad {
			t.Errorf("%q became %q", bad, data)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if _, err := p.AddRule(permission.FromPolicy, r); err == nil {
		t.Error("the policy was written to")
	}
}

// In the user's file a leading slash is not the workspace's, and a link stays one.
func TestAddRuleOfTheUser(t *testing.T) {
	p := places(t, map[string]string{"dots/settings.json": "{}"})
	if err := os.MkdirAll(filepath.Dir(p.User), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(filepath.Dir(p.Workspace), "dots/settings.json"), p.User); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"Edit(/src/**)": "Edit(/" + p.Workspace + "/src/**)", "Edit(//x)": "Edit(//x)", "Bash(a *)": "Bash(a *)"} {
		s, err := p.AddRule(permission.FromUser, rule(t, text))
		if err != nil || s.Rule != want || !s.Trusted {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if info, err := os.Lstat(p.User); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if got := load(t, p).Rules; len(got) != 3 {
		t.Errorf("%s", shown(got))
	}
}

// Several processes write at once, and no rule is lost.
func TestRulesAddedAtOnce(t *testing.T) {
	p := places(t, nil)
	const n = 20
	failed := make(chan error, n)
	for i := range n {
		go func() {
			r, err := permission.ParseRule(fmt.Sprintf("Bash(x%d)", i), permission.Allow, permission.FromLocal)
			if err == nil {
				_, err = p.AddRule(permission.FromLocal, r)
			}
			failed <- err
		}()
	}
	for range n {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if got := load(t, p).Rules; len(got) != n {
		t.Errorf("%d rules of %d", len(got), n)
	}
}

// values are all values in a JSON text, by where they stand.
func values(v any, at string, into map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			values(value, at+"/"+key, into)
		}
	case []any:
		for i, value := range v {
			values(value, fmt.Sprintf("%s[%d]", at, i), into)
		}
	default:
		into[at] = v
	}
}

// inserted fails unless a text has the rule, and all that was there before.
func inserted(t interface{ Fatalf(string, ...any) }, before, after []byte, b permission.Behavior, text string) {
	var was, is any
	if len(before) > 0 {
		if err := json.Unmarshal(before, &was); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if err := json.Unmarshal(after, &is); err != nil {
		t.Fatalf("%q became %q: %v", before, after, err)
	}
	old, now := make(map[string]any), make(map[string]any)
	values(was, "", old)
	values(is, "", now)
	for at, v := range old {
		if got, ok := now[at]; at != "" && (!ok || got != v) {
			t.Fatalf("%q became %q: %s is %v", before, after, at, got)
		}
	}
	f := &File{Name: "f", Source: permission.FromLocal, based: "/w"}
	if err := f.parse(after); err != nil {
		t.Fatalf("%q became %q: %v", before, after, err)
	}
	if !slices.ContainsFunc(f.Rules, func(r permission.Rule) bool { return r.Behavior == b && r.String() == text }) {
		t.Fatalf("%q became %q, without %s", before, after, text)
	}
	again, err := insert(after, b, text)
	if err != nil || string(again) != string(after) {
		t.Fatalf("added again: %q, %v", again, err)
	}
}

func TestInsertKeepsWhatWasThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		behaviors := []permission.Behavior{permission.Allow, permission.Ask, permission.Deny}
		file := map[string]any{}
		if rapid.Bool().Draw(t, "other") {
			file[rapid.SampledFrom([]string{"a", "model", "z"}).Draw(t, "key")] = rapid.String().Draw(t, "value")
		}
		if rapid.Bool().Draw(t, "permissions") {
			p := map[string]any{}
			for _, b := range behaviors {
				if rapid.Bool().Draw(t, string(b)) {
					p[string(b)] = rapid.SliceOfN(rapid.SampledFrom([]string{"Bash", "Read(a)", "Bash(x y)", "Edit(/b)"}), 0, 3).Draw(t, "rules")
				}
			}
			file["permissions"] = p
		}
		data, err := json.Marshal(file)
		if indent := rapid.SampledFrom([]string{"", " ", "\t", "    "}).Draw(t, "indent"); indent != "" {
			data, err = json.MarshalIndent(file, "", indent)
		}
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, rapid.SampledFrom([]string{"", "\n", "\n\n"}).Draw(t, "end")...)
		b := rapid.SampledFrom(behaviors).Draw(t, "behavior")
		r := rapid.SampledFrom([]string{"Bash", "Read(a)", `Bash(echo "\\" <&> ü)`, "Write(/c)"}).Draw(t, "rule")
		after, err := insert(data, b, r)
		if err != nil {
			t.Fatal(err)
		}
		inserted(t, data, after, b, r)
	})
}

func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		"{}", "", "[]", `{"permissions":{"allow":["Bash(a *)"],"deny":[],"defaultMode":"plan","additionalDirectories":["../x","~/y"]}}`,
		"{\n\t\"permissions\": {\n\t\t\"ask\": [\n\t\t]\n\t}\n}", `{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"x","timeout":1e3}]}]}}`,
		`{"a":1,"a":2}`, "{\"\\u0070ermissions\": {}}", "{ \"permissions\" :\r\n{ } , \"x\" : [ [ ] ] }", `{"permissions":{"forbidModes":["plan"]},"allowManagedHooksOnly":true}`,
	} {
		f.Add([]byte(seed), "Bash(x)", uint8(0))
		f.Add([]byte(seed), "Read(~/\"\\)", uint8(2))
	}
	f.Fuzz(func(t *testing.T, data []byte, text string, kind uint8) {
		for _, source := range []permission.Source{permission.FromProject, permission.FromPolicy} {
			file := &File{Name: "f", Source: source, OfWorkspace: true, Imported: kind%2 == 1, based: "/w", home: "/h"}
			if err := file.parse(data); err != nil {
				continue
			}
			for _, r := range file.Rules {
				if _, err := permission.ParseRule(r.String(), r.Behavior, source); err != nil {
					t.Fatalf("it accepts the rule %q: %v", r.String(), err)
				}
			}
			for _, h := range file.Hooks {
				if h.Command == "" || h.Timeout < 0 || h.Timeout > mostTimeout || !slices.Contains(Events, h.Event) {
					t.Fatalf("it accepts the hook %+v", h)
				}
			}
			for _, d := range file.Directories {
				if !filepath.IsAbs(d.Path) {
					t.Fatalf("it accepts the directory %q", d.Path)
				}
			}
			file.Loosens()
		}
		b := []permission.Behavior{permission.Allow, permission.Ask, permission.Deny}[kind%3]
		own := &File{Name: "f", Source: permission.FromLocal, based: "/w"}
		r, err := permission.ParseRule(text, b, permission.FromLocal)
		if err != nil || own.parse(data) != nil {
			return
		}
		after, err := insert(data, b, r.String())
		if err != nil {
			return // it is too large, or the rule is no text
		}
		inserted(t, data, after, b, r.String())
	})
}
