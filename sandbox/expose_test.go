package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// environ looks variables up in a map.
func environ(m map[string]string) func(string) string {
	return func(name string) string { return m[name] }
}

func TestExposePresets(t *testing.T) {
	home := mkdirs(t, t.TempDir(),
		"go/pkg/mod", "go/bin", "sdk/go1.22/bin", "sdk/go1.26/bin", "elsewhere/mod",
		".rustup/toolchains", ".cargo/bin", ".cargo/registry", "cargo/bin",
		".nvm/versions/node/v20/bin", ".npm/_cacache",
		".pyenv/versions/3.12/bin", ".cache/uv", "venv/bin",
		".m2/repository", ".sdkman/candidates/java/21/bin", ".gradle/caches",
	)
	symlink(t, "21", home+"/.sdkman/candidates/java/current")
	// What nobody may see lies beside.
	for _, name := range []string{".npmrc", ".cargo/credentials.toml", ".m2/settings.xml", ".netrc", ".gradle/gradle.properties"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ro := func(rel string) Expose { return Expose{Path: home + "/" + rel} }
	cow := func(rel string) Expose { return Expose{Path: home + "/" + rel, Cow: true} }
	for _, test := range []struct {
		name, preset string
		env          map[string]string
		want         Exposed
	}{
		{"go", "go", nil, Exposed{
			Dirs: []Expose{cow("go/pkg/mod"), ro("sdk/go1.26"), ro("sdk/go1.22"), ro("go/bin")}, // the newest first
			Env:  []string{"GOMODCACHE=" + home + "/go/pkg/mod"},
			Path: []string{home + "/sdk/go1.26/bin", home + "/sdk/go1.22/bin", home + "/go/bin"},
		}},
		{"go that is on the user's PATH", "go", map[string]string{"PATH": "/usr/bin:" + home + "/sdk/go1.22/bin"}, Exposed{
			Dirs: []Expose{cow("go/pkg/mod"), ro("sdk/go1.26"), ro("sdk/go1.22"), ro("go/bin")},
			Env:  []string{"GOMODCACHE=" + home + "/go/pkg/mod"},
			Path: []string{home + "/sdk/go1.22/bin", home + "/sdk/go1.26/bin", home + "/go/bin"},
		}},
		{"go by variables", "go", map[string]string{"GOMODCACHE": home + "/elsewhere/mod", "GOROOT": home + "/sdk/go1.26"}, Exposed{
			Dirs: []Expose{cow("elsewhere/mod"), ro("sdk/go1.26"), ro("sdk/go1.22"), ro("go/bin")},
			Env:  []string{"GOMODCACHE=" + home + "/elsewhere/mod", "GOROOT=" + home + "/sdk/go1.26"},
			Path: []string{home + "/sdk/go1.26/bin", home + "/sdk/go1.22/bin", home + "/go/bin"},
		}},
		{"rust", "rust", nil, Exposed{
			Dirs: []Expose{ro(".rustup"), ro(".cargo/bin"), cow(".cargo/registry")},
			Env:  []string{"RUSTUP_HOME=" + home + "/.rustup", "CARGO_HOME=" + home + "/.cargo"},
			Path: []string{home + "/.cargo/bin"},
		}},
		{"rust by a variable", "rust", map[string]string{"CARGO_HOME": home + "/cargo"}, Exposed{
			Dirs: []Expose{ro(".rustup"), ro("cargo/bin")},
			Env:  []string{"RUSTUP_HOME=" + home + "/.rustup"},
			Path: []string{home + "/cargo/bin"},
		}},
		{"node", "node", nil, Exposed{
			Dirs: []Expose{ro(".nvm/versions/node/v20"), cow(".npm/_cacache")},
			Path: []string{home + "/.nvm/versions/node/v20/bin"},
		}},
		{"python", "python", map[string]string{"VIRTUAL_ENV": home + "/venv"}, Exposed{
			Dirs: []Expose{ro("venv"), ro(".pyenv/versions/3.12"), cow(".cache/uv")},
			Env:  []string{"VIRTUAL_ENV=" + home + "/venv"},
			Path: []string{home + "/venv/bin", home + "/.pyenv/versions/3.12/bin"},
		}},
		{"java", "java", nil, Exposed{
			Dirs: []Expose{ro(".sdkman/candidates/java/21"), cow(".m2/repository"), cow(".gradle/caches")},
			Path: []string{home + "/.sdkman/candidates/java/21/bin"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ResolveExpose(test.preset, home, environ(test.env))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Error("(-want +got)\n", diff)
			}
			for _, d := range got.Dirs {
				err := filepath.WalkDir(d.Path, func(path string, e os.DirEntry, err error) error {
					if err == nil && !e.IsDir() {
						t.Error("shown is", path)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Where the machine has the toolchain in a directory that every session sees,
// nothing has to be exposed, and that is no error.
func TestExposeOfWhatTheImageHas(t *testing.T) {
	home := mkdirs(t, t.TempDir(), "bin")
	got, err := ResolveExpose("java", home, environ(map[string]string{"JAVA_HOME": "/usr/lib"}))
	want := &Exposed{Env: []string{"JAVA_HOME=/usr/lib"}, Path: []string{"/usr/lib/bin"}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("by its variable: %+v, %v", got, err)
	}

	// Something that every system has stands for a toolchain of the machine.
	p := preset{programs: []string{"no-such-program", "sh"}}
	if !p.inImage(environ(nil)) {
		t.Error("sh is not found in the image")
	}
	p = preset{programs: []string{"sallyport-tool"}}
	if err := os.WriteFile(home+"/bin/sallyport-tool", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if p.inImage(environ(map[string]string{"PATH": home + "/bin"})) {
		t.Error("what is in the home is taken for the image's")
	}
}

func TestExposePresetThatIsNowhere(t *testing.T) {
	for _, name := range Presets() {
		if p := presets[name]; len(p.programs) == 0 {
			t.Errorf("%s names no program", name)
		} else if p.inImage(os.Getenv) {
			continue // this machine has it
		}
		_, err := ResolveExpose(name, t.TempDir(), environ(nil))
		if err == nil || !strings.Contains(err.Error(), "nothing of "+name) || !strings.Contains(err.Error(), presets[name].programs[0]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// That of this table, if the machine has all of them.
	p := preset{programs: []string{"no-such-program"}}
	if p.inImage(os.Getenv) {
		t.Error("a program that does not exist is found")
	}
}

func TestExposeDirectories(t *testing.T) {
	dir := mkdirs(t, t.TempDir(), "a", "b:c", "d:cow", "go")
	link := symlink(t, "a", dir+"/link")
	if err := os.WriteFile(dir+"/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, test := range []struct {
		arg  string
		want Expose
		err  string
	}{
		{dir + "/a", Expose{Path: dir + "/a"}, ""},
		{dir + "/a:cow", Expose{Path: dir + "/a", Cow: true}, ""},
		{dir + "/b:c", Expose{Path: dir + "/b:c"}, ""},
		{dir + "/b:c:cow", Expose{Path: dir + "/b:c", Cow: true}, ""},
		{dir + "/d:cow:cow", Expose{Path: dir + "/d:cow", Cow: true}, ""},
		{link, Expose{Path: dir + "/a"}, ""},
		{"a", Expose{Path: dir + "/a"}, ""},
		{"./go", Expose{Path: dir + "/go"}, ""}, // the directory, not the preset
		{"../" + filepath.Base(dir) + "/a", Expose{Path: dir + "/a"}, ""},
		{"rust:cow", Expose{}, "use --expose rust"},
		{"cobol", Expose{}, "neither a directory nor one of go, java, node, python, rust"},
		{"", Expose{}, "neither a directory nor one of"},
		{dir + "/nothing", Expose{}, "no such file"},
		{dir + "/file", Expose{}, "is not a directory"},
	} {
		got, err := ResolveExpose(test.arg, dir, environ(nil))
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q: %v", test.arg, err)
			}
		case err != nil:
			t.Errorf("%q: %v", test.arg, err)
		case !slices.Equal(got.Dirs, []Expose{test.want}):
			t.Errorf("%q: %+v", test.arg, got.Dirs)
		}
	}
}

func TestExposesThatASessionRefuses(t *testing.T) {
	dir := mkdirs(t, t.TempDir(), "home/sdk", "state/sessions", "work/sub", "other", "work-too")
	t.Setenv("HOME", dir+"/home")
	st := &Store{dir: dir + "/state"}
	for _, test := range []struct {
		paths []string
		want  string
	}{
		{[]string{dir + "/other", dir + "/home/sdk", dir + "/work-too"}, ""},
		{[]string{dir + "/state"}, "state directory"},
		{[]string{dir + "/state/sessions"}, "state directory"},
		{[]string{dir}, "state directory"},
		{[]string{dir + "/work"}, "contains the workspace"},
		{[]string{dir + "/work/sub"}, "in the workspace already"},
		{[]string{dir + "/home"}, "home directory"},
		{[]string{"/"}, "state directory"},
		{[]string{"/proc/self"}, "no directory of files"},
		{[]string{"/dev/shm"}, "no directory of files"},
		{[]string{"/sys"}, "no directory of files"},
		{[]string{"/tmp"}, ""}, // below, for what the temporary directory is
		{[]string{dir + "/other", dir + "/other"}, "given twice"},
	} {
		s := &Settings{Workspace: dir + "/work"}
		for _, p := range test.paths {
			s.Expose = append(s.Expose, Exposed{Dirs: []Expose{{Path: p}}})
		}
		err := st.checkExposes(s)
		if slices.Equal(test.paths, []string{"/tmp"}) {
			if err == nil {
				t.Error("/tmp may be exposed")
			}
			continue
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v", test.paths, err)
		}
	}
}
