package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// An Expose is a directory of the host that a session sees at its own path,
// read-only, or with Cow under a private layer that takes what is written.
type Expose struct {
	Path string `json:"path"`
	Cow  bool   `json:"cow,omitempty"`
}

// Exposed is what one --expose asks for: directories, and the environment that
// makes programs find them.
type Exposed struct {
	Dirs []Expose `json:"dirs"`
	Env  []string `json:"env,omitempty"`  // "KEY=value"
	Path []string `json:"path,omitempty"` // directories for PATH
	// Origin is the file and line that asks for it, if no --expose does.
	Origin string `json:"origin,omitempty"`
}

// A preset finds one language's toolchains and caches in the usual places.
type preset struct {
	// programs are those that the machine has where every session sees them, if
	// it has the toolchain there: then nothing need be exposed. Any one will do.
	programs []string
	// places are looked at in turn; those that exist are exposed.
	places []place
}

// A place is a directory that a toolchain uses: the value of a variable of the
// user's environment, else a default below the home directory. Both may be
// patterns.
type place struct {
	variable string // environment variable that overrides it, or ""
	path     string // below the variable's value, or below HOME without one
	fallback string // below HOME, when the variable is not set
	cow      bool   // the tools write there
	env      string // the variable that must name it inside, or ""
	above    string // the variable that must name the directory that it is in, or ""
	bin      string // a directory in it that belongs on PATH, "" for none
}

// Never credentials: each place holds programs or packages only. (Not ~/.npmrc,
// ~/.cargo/credentials, ~/.m2/settings.xml, ~/.config/pip, ~/.netrc.)
var presets = map[string]preset{
	"go": {[]string{"go"}, []place{
		{variable: "GOMODCACHE", fallback: "go/pkg/mod", cow: true, env: "GOMODCACHE"},
		{variable: "GOROOT", env: "GOROOT", bin: "bin"},
		{fallback: "sdk/*", bin: "bin"},
		{fallback: "go/bin", bin: "."},
	}},
	"rust": {[]string{"cargo", "rustc"}, []place{
		// All of it: in a file there rustup finds which toolchain is meant.
		{variable: "RUSTUP_HOME", fallback: ".rustup", env: "RUSTUP_HOME"},
		{variable: "CARGO_HOME", path: "bin", fallback: ".cargo/bin", bin: "."},
		{variable: "CARGO_HOME", path: "registry", fallback: ".cargo/registry", cow: true, above: "CARGO_HOME"},
		{variable: "CARGO_HOME", path: "git", fallback: ".cargo/git", cow: true},
	}},
	"node": {[]string{"node"}, []place{
		{variable: "NVM_DIR", path: "versions/node/*", fallback: ".nvm/versions/node/*", bin: "bin"},
		{fallback: ".volta/tools/image/node/*", bin: "bin"},
		{fallback: ".local/share/fnm/node-versions/*/installation", bin: "bin"},
		{fallback: ".npm/_cacache", cow: true},
		{fallback: ".local/share/pnpm/store", cow: true},
		{fallback: ".cache/yarn", cow: true},
	}},
	"python": {[]string{"python3", "python"}, []place{
		{variable: "VIRTUAL_ENV", env: "VIRTUAL_ENV", bin: "bin"},
		{variable: "PYENV_ROOT", path: "versions/*", fallback: ".pyenv/versions/*", bin: "bin"},
		{fallback: ".local/share/uv/python", bin: ""},
		{fallback: ".local/share/pipx/venvs"},
		{fallback: ".cache/pip", cow: true},
		{fallback: ".cache/uv", cow: true},
	}},
	"java": {[]string{"java"}, []place{
		{variable: "JAVA_HOME", env: "JAVA_HOME", bin: "bin"},
		{fallback: ".sdkman/candidates/*/current", bin: "bin"},
		{fallback: ".m2/repository", cow: true},
		{fallback: ".gradle/caches", cow: true},
		{fallback: ".gradle/wrapper", cow: true},
	}},
}

// Presets returns the names that --expose knows beside directories.
func Presets() []string {
	names := make([]string, 0, len(presets))
	for name := range presets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ResolveExpose reads one argument of --expose: a preset's name, or a directory
// with an optional ":cow". env looks up a variable of the user's environment,
// and home is the user's home directory.
func ResolveExpose(arg, home string, env func(string) string) (*Exposed, error) {
	if p, ok := presets[arg]; ok {
		e, err := p.find(home, env)
		if err != nil {
			return nil, fmt.Errorf("--expose %s: %w", arg, err)
		}
		if len(e.Dirs)+len(e.Env)+len(e.Path) == 0 && !p.inImage(env) {
			return nil, fmt.Errorf("--expose %s: nothing of %s was found below %s, and the machine has no program %s; name its directory instead",
				arg, arg, home, strings.Join(p.programs, " or "))
		}
		return e, nil
	}
	dir, cow := strings.CutSuffix(arg, ":cow")
	if !strings.Contains(dir, "/") && dir != "." && dir != ".." {
		if _, err := os.Stat(dir); err != nil {
			if _, ok := presets[dir]; ok && cow {
				return nil, fmt.Errorf("--expose %s: a preset has its own layers; use --expose %s", arg, dir)
			}
			return nil, fmt.Errorf("--expose %s: neither a directory nor one of %s", arg, strings.Join(Presets(), ", "))
		}
	}
	real, err := resolveDir(dir)
	if err != nil {
		return nil, fmt.Errorf("--expose %s: %w", arg, err)
	}
	return &Exposed{Dirs: []Expose{{Path: real, Cow: cow}}}, nil
}

func resolveDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory", real)
	}
	return real, nil
}

func (p preset) find(home string, env func(string) string) (*Exposed, error) {
	e := &Exposed{}
	for _, pl := range p.places {
		pattern := ""
		if pl.variable != "" && env(pl.variable) != "" {
			pattern = filepath.Join(env(pl.variable), pl.path)
		} else if pl.fallback != "" {
			pattern = filepath.Join(home, pl.fallback)
		}
		if pattern == "" {
			continue
		}
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		// Of several versions, the newest comes first.
		slices.SortFunc(found, func(a, b string) int { return compareVersions(b, a) })
		for _, dir := range found {
			real, err := resolveDir(dir)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			// A variable often names one of the usual places.
			if slices.ContainsFunc(e.Dirs, func(d Expose) bool { return d.Path == real }) {
				continue
			}
			if !inImage(real) {
				e.Dirs = append(e.Dirs, Expose{Path: real, Cow: pl.cow})
			}
			if pl.env != "" {
				e.Env = append(e.Env, pl.env+"="+real)
			}
			if pl.above != "" {
				e.Env = append(e.Env, pl.above+"="+filepath.Dir(real))
			}
			if pl.bin != "" {
				e.Path = append(e.Path, filepath.Join(real, pl.bin))
			}
		}
	}
	// What the user's PATH has is what the user means.
	chosen := filepath.SplitList(env("PATH"))
	slices.SortStableFunc(e.Path, func(a, b string) int { return rank(chosen, a) - rank(chosen, b) })
	return e, nil
}

// rank is where a directory stands in a list; after all, if it does not.
func rank(list []string, dir string) int {
	if i := slices.Index(list, dir); i >= 0 {
		return i
	}
	return len(list)
}

// compareVersions orders names in which numbers count as such.
func compareVersions(a, b string) int {
	const digits = "0123456789"
	for a != "" && b != "" {
		x, y := strings.IndexAny(a, digits), strings.IndexAny(b, digits)
		if x != 0 || y != 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		restA, restB := strings.TrimLeft(a, digits), strings.TrimLeft(b, digits)
		m, n := strings.TrimLeft(a[:len(a)-len(restA)], "0"), strings.TrimLeft(b[:len(b)-len(restB)], "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// inImage reports whether the host image has one of the preset's programs, in a
// directory of the PATH that a session will have.
func (p preset) inImage(env func(string) string) bool {
	for _, dir := range slices.Concat(systemPath, filepath.SplitList(env("PATH"))) {
		if !filepath.IsAbs(dir) || !visible(dir, nil) {
			continue
		}
		for _, program := range p.programs {
			if _, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
				return true
			}
		}
	}
	return false
}

// inImage reports whether the host image has a path already.
func inImage(path string) bool {
	return within(path, "/usr") || within(path, "/opt") || within(path, "/nix")
}

// checkExposes refuses directories that may not be exposed, or twice.
func (st *Store) checkExposes(s *Settings) error {
	seen := make(map[string]bool)
	dirs, askers := s.exposedDirs(), s.askers()
	for i, e := range dirs {
		asked := askers[i]
		switch {
		case within(st.dir, e.Path), within(e.Path, st.dir):
			return fmt.Errorf("%s: it would show the state directory %s", asked, st.dir)
		case within(s.Workspace, e.Path):
			return fmt.Errorf("%s: it contains the workspace %s; expose the directories beside it", asked, s.Workspace)
		case within(e.Path, s.Workspace):
			return fmt.Errorf("%s: it is in the workspace already", asked)
		case within("/proc", e.Path), within("/tmp", e.Path), within(e.Path, "/proc"), within(e.Path, "/dev"), within(e.Path, "/sys"):
			return fmt.Errorf("%s: that is no directory of files", asked)
		case seen[e.Path]:
			return fmt.Errorf("%s: given twice", asked)
		}
		seen[e.Path] = true
		for _, home := range homes() {
			if within(home, e.Path) {
				return fmt.Errorf("%s: it is or contains the home directory %s; expose single directories of it", asked, home)
			}
		}
	}
	return nil
}

// askers name what asks for each of the exposed directories, for messages.
func (s *Settings) askers() []string {
	var names []string
	for _, e := range s.Expose {
		for _, d := range e.Dirs {
			name := "--expose " + d.Path
			if e.Origin != "" {
				name = e.Origin + ": additionalDirectories: " + d.Path
			}
			names = append(names, name)
		}
	}
	return names
}
