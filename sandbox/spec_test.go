package sandbox

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sallyport/sallyport/images"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenSession is one whose spec is the same on every machine.
func goldenSession(mode WorkspaceMode) *Session {
	s := &Session{
		Stored: &Stored{dir: "/state/sessions/golden", store: &Store{dir: "/state"}, Settings: Settings{
			Name: "golden", Workspace: "/srv/work", Mode: mode,
			Expose: []Exposed{
				{Dirs: []Expose{{Path: "/srv/sdk"}, {Path: "/srv/cache:1", Cow: true}}, Env: []string{"SDK=/srv/sdk"}, Path: []string{"/srv/sdk/bin"}},
			},
		}},
		limits: Limits{Memory: 1 << 30, CPUs: 1.5, Pids: 100, Disk: 1 << 30, Inodes: 1000},
		who:    identity{uid: 1000, gid: 1001, name: "ann", group: "staff", home: "/home/ann"},
	}
	s.names.readOnly = []string{"/srv/work/.bashrc"}
	if mode == Cow {
		s.Denied = []string{"/srv/work/.env"}
	}
	s.env = sessionEnv([]string{"TERM=xterm", "SECRET=x", "PATH=/usr/bin"}, s.who, s.Expose)
	s.describeLayers()
	return s
}

// golden compares a spec with its golden file. What is the same in all and has
// tests of its own is named only.
func golden(t *testing.T, name string, spec *specs.Spec) {
	t.Helper()
	linux := *spec.Linux
	if linux.Seccomp == nil || len(linux.Seccomp.Syscalls) == 0 {
		t.Error("no filter")
	}
	linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: linux.Seccomp.DefaultAction}
	short := *spec
	short.Linux = &linux
	data, err := json.MarshalIndent(short, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got := string(data) + "\n"
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got); go test ./sandbox -update writes it anew\n%s", file, diff)
	}
}

func TestSpecs(t *testing.T) {
	root := &images.Rootfs{Path: "/ROOTFS", Mounts: []specs.Mount{
		{Type: "bind", Source: "/usr", Destination: "/usr", Options: []string{"rbind", "ro", "nosuid", "nodev"}},
		{Type: "bind", Source: "/opt", Destination: "/opt", Options: []string{"rbind", "ro", "nosuid", "nodev"}},
	}}
	for _, mode := range []WorkspaceMode{Cow, Direct} {
		s := goldenSession(mode)
		hand := s.handSpec(root)
		before, err := json.Marshal(hand)
		if err != nil {
			t.Fatal(err)
		}
		eye := s.eyeSpec(hand)
		golden(t, fmt.Sprintf("%s-hand.json", mode), hand)
		golden(t, fmt.Sprintf("%s-eye.json", mode), eye)
		if after, _ := json.Marshal(hand); string(after) != string(before) {
			t.Error("making the eye has changed the hand")
		}
	}
}

// Whatever a session is like, these hold: they are what its isolation rests on.
func TestWhatEverySpecHas(t *testing.T) {
	root := &images.Rootfs{Path: "/ROOTFS"}
	for _, mode := range []WorkspaceMode{Cow, Direct} {
		for _, uid := range []uint32{0, 1000} {
			s := goldenSession(mode)
			s.who.uid = uid
			hand := s.handSpec(root)
			eye := s.eyeSpec(hand)
			for name, spec := range map[string]*specs.Spec{"hand": hand, "eye": eye} {
				p := spec.Process
				if !p.NoNewPrivileges || !cmp.Equal(p.Capabilities, &specs.LinuxCapabilities{}) || !spec.Root.Readonly {
					t.Errorf("%s: %+v", name, p)
				}
				var kinds []string
				for _, n := range spec.Linux.Namespaces {
					if n.Path != "" {
						t.Errorf("%s joins a namespace: %+v", name, n)
					}
					kinds = append(kinds, string(n.Type))
				}
				slices.Sort(kinds)
				if got := strings.Join(kinds, " "); got != "cgroup ipc mount network pid user uts" {
					t.Errorf("%s: %s", name, got)
				}
				if uid == 0 && !slices.Contains(spec.Linux.MaskedPaths, "/proc/sysrq-trigger") {
					t.Errorf("%s: root sees %q", name, spec.Linux.MaskedPaths)
				}
				for _, m := range spec.Mounts {
					if m.Type == "bind" && strings.HasPrefix(m.Source, "/state/") && !slices.Contains([]string{"/tmp", s.who.home}, m.Destination) {
						t.Errorf("%s: the state directory is mounted: %+v", name, m)
					}
					if !slices.Contains(m.Options, "nosuid") {
						t.Errorf("%s: %+v", name, m)
					}
					if name == "eye" && !slices.Contains(m.Options, "ro") && !within(m.Destination, "/dev") && m.Destination != "/tmp" {
						t.Errorf("the eye can write %+v", m)
					}
				}
			}
			if slices.Contains(hand.Process.Env, "GIT_OPTIONAL_LOCKS=0") || !slices.Contains(eye.Process.Env, "GIT_OPTIONAL_LOCKS=0") {
				t.Errorf("%q and %q", hand.Process.Env, eye.Process.Env)
			}
		}
	}
}

func TestLayerPathsAreEscaped(t *testing.T) {
	l := layer{dest: "/w", lower: []string{`/a:b\c`, "/d,e"}, upper: "/u", work: "/k"}
	m := l.mount(true)
	if !slices.Contains(m.Options, `lowerdir=/a\:b\\c:/d,e`) || !slices.Contains(m.Options, "userxattr") {
		t.Errorf("%q", m.Options)
	}
	if slices.Contains(l.mount(false).Options, "userxattr") {
		t.Error("userxattr as root")
	}
}

func TestParents(t *testing.T) {
	w := mkdirs(t, t.TempDir(), "b/c")
	symlink(t, "b", w+"/link")
	got := parents(w, []string{w + "/a", w + "/b/c/d", w + "/b/e", w + "-evil/x", w + "/missing/x", w + "/link/x"})
	if !slices.Equal(got, []string{w + "/b", w + "/b/c"}) {
		t.Errorf("%q", got)
	}
}
