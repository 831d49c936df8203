package sandbox

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironmentIsAnAllowList(t *testing.T) {
	u := identity{name: "ann", home: "/home/ann"}
	host := []string{
		"TERM=xterm", "LANG=de_DE.UTF-8", "LC_TIME=C", "TZ=UTC", "NO_COLOR=1",
		// None of these.
		"AWS_SECRET_ACCESS_KEY=x", "GITHUB_TOKEN=x", "SSH_AUTH_SOCK=/tmp/x", "DOCKER_HOST=x", "HTTP_PROXY=http://u:p@h",
		"LD_PRELOAD=/x.so", "BASH_ENV=/x", "GIT_DIR=/x", "RIPGREP_CONFIG_PATH=/x", "PAGER=x", "XDG_RUNTIME_DIR=/run/user/1",
		"HOME=/home/bob", "USER=bob", "SHELL=/bin/evil", "LCX=1", "TERMCAP=x", "no equals sign",
		"PATH=/home/bob/bin:/usr/games:relative::/usr/../etc:/opt/go/bin:/sdk/bin:/sdk-evil/bin:/usr/bin",
	}
	exposed := []Exposed{{
		Dirs: []Expose{{Path: "/sdk"}}, Env: []string{"SDK=/sdk"}, Path: []string{"/sdk/first"},
	}}
	got := sessionEnv(host, u, exposed)
	want := []string{
		"TERM=xterm", "LANG=de_DE.UTF-8", "LC_TIME=C", "TZ=UTC", "NO_COLOR=1",
		"PATH=/sdk/first:/usr/games:/opt/go/bin:/sdk/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin",
		"HOME=/home/ann", "USER=ann", "LOGNAME=ann", "SHELL=/bin/bash", "SDK=/sdk",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("(-want +got)\n", diff)
	}
}

// PATH cannot name a directory with a colon: it would name two others, of which
// the second is one of whatever directory the program is in.
func TestPathHasNoDirectoryWithAColon(t *testing.T) {
	exposed := []Exposed{{Dirs: []Expose{{Path: "/venv:x"}}, Path: []string{"/venv:x/bin"}}}
	for _, kv := range sessionEnv(nil, identity{}, exposed) {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok && path != strings.Join(systemPath, ":") {
			t.Error(path)
		}
	}
}

func TestMergeEnv(t *testing.T) {
	base := []string{"A=1", "AB=2", "C=3"}
	got := mergeEnv(base, []string{"A=x", "D=4", "C="})
	if want := []string{"AB=2", "A=x", "D=4", "C="}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if !slices.Equal(base, []string{"A=1", "AB=2", "C=3"}) {
		t.Errorf("what was merged into has changed: %q", base)
	}
}

func TestWhoRuns(t *testing.T) {
	dir := t.TempDir()
	id, err := whoRuns(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if id.uid != uint32(os.Geteuid()) || id.gid != uint32(os.Getegid()) || id.switched {
			t.Errorf("%+v", id)
		}
		return
	}
	if id.uid != 0 || id.gid != 0 || id.home != "/root" || !id.switched {
		t.Errorf("of root's own workspace: %+v", id)
	}
	// Of another's it is the owner, known by name or not.
	for _, test := range []struct {
		uid  int
		name string
	}{{54321, "agent"}, {65534, "nobody"}} {
		if err := os.Chown(dir, test.uid, 54322); err != nil {
			t.Fatal(err)
		}
		id, err := whoRuns(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		want := identity{uint32(test.uid), 54322, test.name, "agent", "/home/" + test.name, true}
		if id != want {
			t.Errorf("%+v, not %+v", id, want)
		}
	}
	if _, err := whoRuns(dir+"/nothing", ""); err == nil {
		t.Error("a workspace that does not exist has an owner")
	}
}

func TestPlainName(t *testing.T) {
	for name, want := range map[string]bool{
		"ann": true, "a.b-c_d": true, "": false, "a:b": false, "a/b": false, "a\nroot::0:0": false, "a\x00": false,
		strings.Repeat("x", 65): false,
	} {
		if plainName(name) != want {
			t.Errorf("plainName(%q) is %v", name, !want)
		}
	}
}

func TestGitIdentityIsOnlyNameAndAddress(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_COUNT", "GIT_DIR"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("HOME", home)
	st := &Store{dir: t.TempDir()}
	if got := st.gitIdentity(); got != "" {
		t.Errorf("without a configuration: %q", got)
	}
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(home+"/.gitconfig", []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[user]\n\tname = \"Ann \\\"A\\\" \\\\ Ox\"\n\temail = ann@example.com\n\tsigningkey = secret\n" +
		"[credential]\n\thelper = store\n[core]\n\tfsmonitor = evil\n[url \"https://token@example.com\"]\n\tinsteadOf = x\n")
	want := "[user]\n\tname = \"Ann \\\"A\\\" \\\\ Ox\"\n\temail = \"ann@example.com\"\n"
	for range 2 { // asked, and kept
		if got := st.gitIdentity(); got != want {
			t.Errorf("%q", got)
		}
	}
	write("[user]\n\tname = Bob\n")
	if got := st.gitIdentity(); got != "[user]\n\tname = \"Bob\"\n" {
		t.Errorf("after a change: %q", got)
	}
}
