package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mkdirs makes directories below dir and returns dir, with all links resolved.
func mkdirs(t *testing.T, dir string, rel ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rel {
		if err := os.MkdirAll(filepath.Join(dir, r), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func symlink(t *testing.T, target, name string) string {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestWorkspacesThatAreRefused(t *testing.T) {
	dir := mkdirs(t, t.TempDir(), "home/project", "home/..foo", "links")
	home := filepath.Join(dir, "home")
	t.Setenv("HOME", home)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	link := func(target, name string) string { return symlink(t, target, filepath.Join(dir, "links", name)) }

	for _, test := range []struct{ dir, want string }{
		{"/", "system directory"},
		{"/usr", "system directory /usr"},
		{"/usr/", "system directory /usr"},
		{"/usr/../usr/.", "system directory /usr"},
		{"/etc", "system directory /etc"},
		{"/tmp", "system directory /tmp"},
		{"/home", "system directory /home"},
		{"/proc/self", "holds no files"},
		{"/proc/self/fdinfo", "holds no files"},
		{"/dev/shm", "holds no files"},
		{link("/usr", "usr"), "system directory /usr"},
		{link("/", "root") + "/etc", "system directory /etc"},
		{link("..", "up") + "/../..", "is or contains"},
		{home, "home directory"},
		{home + "/project/..", "home directory"},
		{dir, "home directory " + home},
		{link(home, "home"), "home directory"},
		{dir + "/nothing", "no such file or directory; name an existing directory with -w"},
		{link("nowhere", "dangling"), "no such file or directory"},
		{file, "is not a directory"},
	} {
		got, err := ResolveWorkspace(test.dir)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %q, %v, not one with %q", test.dir, got, err, test.want)
		}
	}
}

func TestWorkspacesThatAreTaken(t *testing.T) {
	dir := mkdirs(t, t.TempDir(), "home/project", "home-too", "hom", "home/..foo", "home/project/a b")
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Chdir(filepath.Join(dir, "home", "project"))
	for _, test := range []struct{ dir, want string }{
		{dir + "/home/project", dir + "/home/project"},
		{dir + "/home/..foo", dir + "/home/..foo"},
		{dir + "/home-too", dir + "/home-too"}, // begins like the home, and is not in it
		{dir + "/hom", dir + "/hom"},
		{"", dir + "/home/project"},
		{".", dir + "/home/project"},
		{"../..foo/", dir + "/home/..foo"},
		{"a b", dir + "/home/project/a b"},
		{symlink(t, "home/project", dir+"/link") + "/a b", dir + "/home/project/a b"},
	} {
		if got, err := ResolveWorkspace(test.dir); err != nil || got != test.want {
			t.Errorf("%q: %q, %v", test.dir, got, err)
		}
	}
}

// A directory of a project may lie below those that are refused themselves.
func TestWorkspacesBelowSystemDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make directories in /home and /root")
	}
	t.Setenv("HOME", "/root")
	for _, above := range []string{"/home", "/root", "/tmp", "/var/tmp", "/srv", "/opt"} {
		dir, err := os.MkdirTemp(above, "sallyport-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		project := mkdirs(t, dir, "project") + "/project"
		if got, err := ResolveWorkspace(project); err != nil || got != project {
			t.Errorf("%s: %q, %v", project, got, err)
		}
		// What is in /home is somebody's home; elsewhere it is a project.
		_, err = ResolveWorkspace(dir)
		if above == "/home" && (err == nil || !strings.Contains(err.Error(), "home directory "+dir)) {
			t.Errorf("%s: %v", dir, err)
		}
		if above != "/home" && err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestWorkspaceThatCannotBeWritten(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can write everything; the ordinary user's run has this")
	}
	dir := mkdirs(t, t.TempDir(), "project") + "/project"
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if _, err := ResolveWorkspace(dir); err == nil || !strings.Contains(err.Error(), "is not writable for you") {
		t.Error(err)
	}
}

func TestWithinComparesComponents(t *testing.T) {
	for _, test := range []struct {
		path, dir string
		want      bool
	}{
		{"/srv/app", "/srv/app", true},
		{"/srv/app/x", "/srv/app", true},
		{"/srv/app-evil", "/srv/app", false},
		{"/srv/app/..foo", "/srv/app", true},
		{"/srv", "/srv/app", false},
		{"/anything", "/", true},
		{"/", "/", true},
		{"/", "/srv", false},
	} {
		if got := within(test.path, test.dir); got != test.want {
			t.Errorf("within(%q, %q) = %v", test.path, test.dir, got)
		}
	}
}
