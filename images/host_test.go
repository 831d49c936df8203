package images

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// A machine is a root of one's own making: files by path, with content; those
// that end in a slash are directories, "-> x" is a link to x.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, at)
		} else if strings.HasSuffix(path, "/") {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = os.WriteFile(at, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

var agent = HostOptions{
	User:     User{UID: 1234, GID: 4321, Name: "agent", Group: "people", Home: "/home/agent"},
	Hostname: "box",
}

// made makes the root filesystem of a machine.
func made(t *testing.T, root string, o HostOptions) (dir string, mounts []specs.Mount) {
	t.Helper()
	p, err := planHost(root, o)
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	dir = filepath.Join(cache, p.digest())
	if err := p.write(cache, dir); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(cache); err != nil || len(entries) != 1 {
		t.Errorf("beside it are %v (%v)", entries, err)
	}
	return dir, p.mounts
}

// list lists a tree as machine takes it, without directories that have
// something in them.
func list(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			if info.Mode().Perm() != 0o755 {
				t.Errorf("%s has mode %v", rel, info.Mode())
			}
			if entries, _ := os.ReadDir(path); len(entries) == 0 {
				names = append(names, rel+"/")
			}
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			names = append(names, rel+" -> "+target)
		default:
			if info.Mode().Perm() != 0o644 {
				t.Errorf("%s has mode %v", rel, info.Mode())
			}
			names = append(names, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func destinations(mounts []specs.Mount) []string {
	var list []string
	for _, m := range mounts {
		list = append(list, m.Destination)
	}
	return list
}

func wantList(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var ownEtc = []string{
	"etc/group", "etc/hostname", "etc/hosts", "etc/mtab -> /proc/self/mounts", "etc/nsswitch.conf", "etc/passwd",
	"dev/", "proc/", "tmp/",
}

func TestHostTakesWhatProgramsNeedAndNothingElse(t *testing.T) {
	root := machine(t, map[string]string{
		"usr/bin/ls": "", "bin": "-> usr/bin", "lib64": "-> usr/lib64", "opt/": "",
		"home/u/secret": "", "root/.ssh/id": "", "var/lib/x": "", "run/secret": "", "srv/x": "", "mnt/": "", "media/": "", "boot/x": "", "sys/x": "",
		"etc/passwd": "root:x:0:0", "etc/shadow": "secret", "etc/resolv.conf": "nameserver 1.2.3.4", "etc/hosts": "10.0.0.1 inside",
		"etc/gitconfig": "[credential]", "etc/sudoers": "", "etc/ssh/key": "", "etc/ssl/private/key": "",
		"etc/alternatives/editor": "-> /usr/bin/vi", "etc/ld.so.cache": "cache", "etc/ssl/certs/ca.pem": "ca", "etc/ssl/openssl.cnf": "conf",
		"etc/localtime": "-> /usr/share/zoneinfo/UTC", "etc/os-release": "ID=x", "etc/java-21-openjdk/conf": "", "etc/python3": "", "etc/pythonic": "", "etc/services": "http 80",
	})
	dir, mounts := made(t, root, agent)
	wantList(t, "the tree", list(t, dir), append([]string{
		"usr/", "opt/", "bin -> usr/bin", "lib64 -> usr/lib64",
		"etc/alternatives/", "etc/ld.so.cache", "etc/ssl/certs/", "etc/ssl/openssl.cnf", "etc/localtime -> /usr/share/zoneinfo/UTC",
		"etc/os-release", "etc/java-21-openjdk/", "etc/python3", "etc/pythonic", "etc/services",
	}, ownEtc...)...)
	wantList(t, "the mounts", destinations(mounts), "/usr", "/opt", "/etc/alternatives", "/etc/ssl/certs", "/etc/java-21-openjdk")
	for _, m := range mounts {
		if m.Type != "bind" || m.Source != root+m.Destination || !slices.Equal(m.Options, []string{"rbind", "ro", "nosuid", "nodev"}) {
			t.Errorf("%+v", m)
		}
	}
	for name, want := range map[string]string{
		"passwd":        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:1234:4321::/home/agent:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         "root:x:0:\npeople:x:4321:\ntty:x:5:\nnogroup:x:65534:\n",
		"hosts":         "127.0.0.1 localhost box\n::1 localhost\n",
		"hostname":      "box\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\nrpc: files\n",
		"ld.so.cache":   "cache",
		"services":      "http 80",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, "etc", name)); err != nil || string(got) != want {
			t.Errorf("/etc/%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestHostOfRootNamesRootOnce(t *testing.T) {
	o := agent
	o.User = User{Name: "root", Group: "root", Home: "/home/root"}
	dir, _ := made(t, machine(t, nil), o)
	for _, name := range []string{"passwd", "group"} {
		got, err := os.ReadFile(filepath.Join(dir, "etc", name))
		if err != nil || strings.Count(string(got), "root:x:") != 1 || strings.Count(string(got), ":0:") == 0 {
			t.Errorf("/etc/%s: %q, %v", name, got, err)
		}
	}
}

func TestGitConfigIsWhatWasGiven(t *testing.T) {
	o := agent
	o.GitConfig = "[user]\n\tname = \"A\"\n"
	dir, _ := made(t, machine(t, map[string]string{"etc/gitconfig": "[credential]\n\thelper = x\n"}), o)
	if got, err := os.ReadFile(filepath.Join(dir, "etc/gitconfig")); err != nil || string(got) != o.GitConfig {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMountpoints(t *testing.T) {
	o := agent
	o.Mountpoints = []string{"/home/u/work", "/tmp", "/usr/lib/go", "/usrlocal/x", "/opt"}
	dir, _ := made(t, machine(t, map[string]string{"usr/lib/go/": "", "opt/x": ""}), o)
	for _, m := range []string{"home/u/work", "tmp", "usrlocal/x", "opt"} {
		if info, err := os.Stat(filepath.Join(dir, m)); err != nil || !info.IsDir() || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", m, info, err)
		}
	}
	// It is there already, in what is mounted.
	if _, err := os.Stat(filepath.Join(dir, "usr/lib")); err == nil {
		t.Error("a place to mount on was made below a mount")
	}
}

// An /etc that is odd, or that somebody has made so, leads nowhere else.
func TestHostWithAnOddEtc(t *testing.T) {
	root := machine(t, map[string]string{
		"etc/ssl/certs":         "-> /home/u/secret",
		"etc/alternatives":      "-> /nowhere",
		"etc/ld.so.cache":       "-> ../home/u/secret",
		"etc/os-release":        "-> ../usr/lib/os-release",
		"etc/services/":         "", // a directory where a file should be
		"etc/pki/tls/certs/ca":  "",
		"home/u/secret/id":      "secret",
		"usr/":                  "",
		"run/current-system":    "-> /nix/store/x",
		"etc/shells":            "secret",
		"etc/magic":             strings.Repeat("x", mostCopied+1),
		"etc/pythonnothing":     "-> python-loop",
		"etc/python-loop":       "-> pythonnothing",
		"etc/java-new\nline/x":  "",
		"etc/terminfo/x/xterm":  "",
		"etc/perl":              "-> /proc/self/root",
		"etc/protocols":         "",
		"etc/debian_version":    "12",
		"etc/ssl/openssl.cnf/x": "",
	})
	if err := os.Chmod(filepath.Join(root, "etc/shells"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, mounts := made(t, root, agent)
	wantList(t, "the tree", list(t, dir), append([]string{
		"usr/", "run/current-system -> /nix/store/x",
		"etc/ssl/certs -> /home/u/secret", "etc/alternatives -> /nowhere", "etc/ld.so.cache -> ../home/u/secret", "etc/os-release -> ../usr/lib/os-release",
		"etc/services/", "etc/pki/tls/certs/", "etc/pythonnothing -> python-loop", "etc/python-loop -> pythonnothing",
		"etc/java-new\nline/", "etc/terminfo/", "etc/perl -> /proc/self/root", "etc/protocols", "etc/debian_version", "etc/ssl/openssl.cnf/",
	}, ownEtc...)...)
	wantList(t, "the mounts", destinations(mounts), "/usr", "/etc/services", "/etc/pki/tls/certs", "/etc/java-new\nline", "/etc/terminfo", "/etc/ssl/openssl.cnf")
	for _, m := range mounts {
		if strings.Contains(m.Source, "secret") {
			t.Errorf("%+v", m)
		}
	}
}

// Where a directory of /etc is a link as a whole, what is below it is not
// written through the link.
func TestHostWithALinkedDirectory(t *testing.T) {
	root := machine(t, map[string]string{"etc/ssl": "-> ../usr/ssl", "usr/ssl/certs/ca": "ca", "usr/ssl/openssl.cnf": "conf"})
	dir, mounts := made(t, root, agent)
	if got, err := os.ReadFile(filepath.Join(dir, "etc/ssl/openssl.cnf")); err != nil || string(got) != "conf" {
		t.Errorf("%q, %v", got, err)
	}
	if !slices.Contains(destinations(mounts), "/etc/ssl/certs") {
		t.Errorf("%v", mounts)
	}
}

func TestMachineWithoutEtc(t *testing.T) {
	if _, err := planHost(filepath.Join(t.TempDir(), "none"), agent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// It is made once, by whoever comes first, and again when anything in it has
// changed.
func TestHostIsMadeOnce(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "images")
	var all sync.WaitGroup
	paths := make([]string, 8)
	for i := range paths {
		all.Go(func() {
			root, err := Host(cache, agent)
			if err != nil {
				t.Error(err)
				return
			}
			paths[i] = root.Path
		})
	}
	all.Wait()
	if len(slices.Compact(slices.Clone(paths))) != 1 {
		t.Errorf("%v", paths)
	}
	before, err := os.Stat(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	again, err := Host(cache, agent)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(again.Path); err != nil || !os.SameFile(before, after) {
		t.Errorf("%s was made again (%v)", again.Path, err)
	}
	other := agent
	other.User.Name = "other"
	changed, err := Host(cache, other)
	if err != nil || changed.Path == again.Path {
		t.Errorf("another user has the same: %v", err)
	}
	if entries, err := os.ReadDir(cache); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if !slices.Contains(destinations(again.Mounts), "/usr") {
		t.Errorf("%v", again.Mounts)
	}
}

func TestWhatAKilledProcessLeftIsRemoved(t *testing.T) {
	cache := t.TempDir()
	for name, age := range map[string]time.Duration{".new-old": time.Hour, ".new-now": 0, "kept": time.Hour} {
		dir := filepath.Join(cache, name)
		if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := Host(cache, agent)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	wantList(t, "the cache", names, ".new-now", "kept", filepath.Base(root.Path))
}

func TestDigestFollowsTheMachine(t *testing.T) {
	root := machine(t, map[string]string{"etc/ld.so.cache": "a"})
	digest := func() string {
		t.Helper()
		p, err := planHost(root, agent)
		if err != nil {
			t.Fatal(err)
		}
		return p.digest()
	}
	first := digest()
	if digest() != first {
		t.Error("it is another each time")
	}
	// As ldconfig does: beside, then renamed.
	put := filepath.Join(root, "etc/ld.so.cache")
	if err := errors.Join(os.WriteFile(put+"~", []byte("b"), 0o644), os.Rename(put+"~", put)); err != nil {
		t.Fatal(err)
	}
	if digest() == first {
		t.Error("a file was replaced, and it is the same")
	}
}
