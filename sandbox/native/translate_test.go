package native

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox/native/starter"
)

// show renders mounts one a line, so that tables can be read.
func show(mounts []*starter.Mount) string {
	var b strings.Builder
	for _, m := range mounts {
		fmt.Fprintf(&b, "%s %s", strings.ToLower(m.Type.String()), m.Destination)
		if len(m.Source) > 0 {
			fmt.Fprintf(&b, " from %s", m.Source)
		}
		for _, lower := range m.Lower {
			fmt.Fprintf(&b, " lower %s", lower)
		}
		if len(m.Upper)+len(m.Work) > 0 {
			fmt.Fprintf(&b, " upper %s work %s", m.Upper, m.Work)
		}
		if m.Options != "" {
			fmt.Fprintf(&b, " (%s)", m.Options)
		}
		for _, a := range []string{"ro", "nosuid", "nodev", "noexec"} {
			if m.Attributes&attributes[a] != 0 {
				b.WriteString(" " + a)
			}
		}
		if m.Recursive {
			b.WriteString(" recursive")
		}
		if m.Optional {
			b.WriteString(" optional")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

func TestTranslateMount(t *testing.T) {
	for _, test := range []struct {
		name  string
		mount specs.Mount
		want  string
	}{
		{"a bind", specs.Mount{Type: "bind", Source: "/a", Destination: "/b", Options: []string{"bind", "nosuid", "nodev"}},
			"bind /b from /a nosuid nodev\n"},
		{"a recursive bind", specs.Mount{Type: "bind", Source: "/a", Destination: "/b", Options: []string{"rbind", "ro", "noexec"}},
			"bind /b from /a ro noexec recursive\n"},
		{"a tmpfs has no source", specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: "/t", Options: []string{"nosuid", "mode=700", "size=4k"}},
			"tmpfs /t (mode=700,size=4k) nosuid\n"},
		{"/dev is made, whatever its options", specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: "/dev", Options: []string{"nosuid", "mode=755"}},
			"dev /dev nosuid\n"},
		{"shm comes with /dev", specs.Mount{Type: "tmpfs", Destination: "/dev/shm", Options: []string{"size=1g"}}, ""},
		{"devpts comes with /dev", specs.Mount{Type: "devpts", Destination: "/dev/pts"}, ""},
		{"proc is the container's own", specs.Mount{Type: "proc", Destination: "/proc"}, ""},
		{"an overlay", specs.Mount{Type: "overlay", Source: "overlay", Destination: "/w", Options: []string{
			"nosuid", "lowerdir=/a:/b", "upperdir=/u", "workdir=/k", "index=off", "userxattr"}},
			"overlay /w lower /a lower /b upper /u work /k (index=off,userxattr) nosuid\n"},
		{"an overlay without an upper", specs.Mount{Type: "overlay", Destination: "/w", Options: []string{"ro", "lowerdir=/a:/b"}},
			"overlay /w lower /a lower /b ro\n"},
		{"colons and backslashes in a lower", specs.Mount{Type: "overlay", Destination: "/w", Options: []string{
			`lowerdir=/a\:1:/b\\c\:d:/e`, "upperdir=/u:1", `workdir=/k\2`}},
			`overlay /w lower /a:1 lower /b\c:d lower /e upper /u:1 work /k\2` + "\n"},
		{"a comma in a layer", specs.Mount{Type: "overlay", Destination: "/w", Options: []string{"lowerdir=/a,b", "upperdir=/u=1", "workdir=/k"}},
			"overlay /w lower /a,b upper /u=1 work /k\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := translateMount(test.mount)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if m != nil {
				got = show([]*starter.Mount{m})
			}
			if got != test.want {
				t.Errorf("got  %swant %s", got, test.want)
			}
		})
	}
}

func TestSplitLowers(t *testing.T) {
	for in, want := range map[string][]string{
		"/a":       {"/a"},
		"/a:/b":    {"/a", "/b"},
		`/a\:b:/c`: {"/a:b", "/c"},
		`/a\\:/c`:  {`/a\`, "/c"},
		`/a\`:      {`/a\`}, // nothing to escape
		"":         {""},
	} {
		if got := splitLowers(in); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// hand is a spec with a mount of each kind.
func hand() *specs.Spec {
	return &specs.Spec{
		Root: &specs.Root{Path: "/root", Readonly: true},
		Mounts: []specs.Mount{
			{Type: "bind", Source: "/usr", Destination: "/usr", Options: []string{"rbind", "ro", "nosuid", "nodev"}},
			{Type: "proc", Source: "proc", Destination: "/proc", Options: []string{"ro"}},
			{Type: "tmpfs", Source: "tmpfs", Destination: "/dev", Options: []string{"nosuid"}},
			{Type: "bind", Source: "/s/tmp", Destination: "/tmp", Options: []string{"bind", "nosuid"}},
			{Type: "overlay", Source: "overlay", Destination: "/w", Options: []string{"lowerdir=/w", "upperdir=/s/w/upper", "workdir=/s/w/work"}},
			{Type: "bind", Source: "/cache", Destination: "/w/cache", Options: []string{"rbind", "ro"}},
		},
		Linux: &specs.Linux{ReadonlyPaths: []string{"/w/.git/hooks", "/tmp/x"}},
	}
}

func changed(f func(*specs.Spec)) *specs.Spec {
	s := hand()
	f(s)
	return s
}

func TestTranslate(t *testing.T) {
	got, err := translate(hand())
	if err != nil {
		t.Fatal(err)
	}
	want := lines(
		"bind / from /root ro nosuid nodev",
		"bind /usr from /usr ro nosuid nodev recursive",
		"dev /dev nosuid",
		"bind /tmp from /s/tmp nosuid",
		"overlay /w lower /w upper /s/w/upper work /s/w/work",
		"bind /w/cache from /cache ro recursive",
		"self /w/.git/hooks ro recursive optional",
		"self /tmp/x ro recursive optional",
	)
	if show(got) != want {
		t.Errorf("got\n%swant\n%s", show(got), want)
	}
}

// What the driver does not know it refuses, and says what that is.
func TestTranslateRefuses(t *testing.T) {
	mount := func(m specs.Mount) *specs.Spec {
		return changed(func(s *specs.Spec) { s.Mounts = append(s.Mounts, m) })
	}
	for want, spec := range map[string]*specs.Spec{
		"a read-only root filesystem only":                                         changed(func(s *specs.Spec) { s.Root.Readonly = false }),
		"read-only root filesystem":                                                changed(func(s *specs.Spec) { s.Root = nil }),
		"the mount on /p: the native driver mounts proc on /proc only":             mount(specs.Mount{Type: "proc", Destination: "/p"}),
		"the mount on /s: the native driver does not know the type sysfs":          mount(specs.Mount{Type: "sysfs", Destination: "/s"}),
		"the mount on /c: the native driver does not know the type cgroup":         mount(specs.Mount{Type: "cgroup", Destination: "/c"}),
		"the native driver does not know the type ":                                mount(specs.Mount{Destination: "/none"}),
		"the mount on /b: the native driver does not know the option rshared":      mount(specs.Mount{Type: "bind", Destination: "/b", Options: []string{"rbind", "rshared"}}),
		"the mount on /b2: the native driver does not know the option idmap":       mount(specs.Mount{Type: "bind", Destination: "/b2", Options: []string{"idmap"}}),
		"the mount on /b3: the native driver does not know the option rw":          mount(specs.Mount{Type: "bind", Destination: "/b3", Options: []string{"rw"}}),
		"the mount on /b4: the native driver does not know the option size=1":      mount(specs.Mount{Type: "bind", Destination: "/b4", Options: []string{"size=1"}}),
		"the mount on /b5: the native driver does not know the option nosymfollow": mount(specs.Mount{Type: "bind", Destination: "/b5", Options: []string{"nosymfollow"}}),
	} {
		_, err := translate(spec)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestReadOnlyViewIsTheHandsReadOnly(t *testing.T) {
	eye := changed(func(s *specs.Spec) {
		for i, m := range s.Mounts {
			if m.Type == "overlay" || m.Destination == "/tmp" {
				s.Mounts[i].Options = append(m.Options, "ro")
			}
		}
		s.Mounts[3] = specs.Mount{Type: "overlay", Source: "overlay", Destination: "/tmp", Options: []string{"lowerdir=/s/tmp", "upperdir=/s/eye/u", "workdir=/s/eye/w"}}
		s.Linux.ReadonlyPaths = nil
	})
	got, err := readOnlyView(hand(), eye)
	if err != nil {
		t.Fatal(err)
	}
	want := lines(
		"self / ro recursive", // all of it, before anything else
		"dev /dev nosuid",     // its own, not the hand's devpts and shm
		"overlay /tmp lower /s/tmp upper /s/eye/u work /s/eye/w",
	)
	if show(got) != want {
		t.Errorf("got\n%swant\n%s", show(got), want)
	}
}

func TestChangedViewIsAForks(t *testing.T) {
	fork := changed(func(s *specs.Spec) {
		s.Mounts[4].Options = []string{"lowerdir=/s/w/upper:/w", "upperdir=/s/f/upper", "workdir=/s/f/work"}
	})
	got, err := changedView(hand(), fork)
	if err != nil {
		t.Fatal(err)
	}
	want := lines(
		"dev /dev nosuid",
		"overlay /w lower /s/w/upper lower /w upper /s/f/upper work /s/f/work",
		"keep /w/cache ro", // covered by the new overlay
		"self /w/.git/hooks ro recursive optional",
	)
	if show(got) != want {
		t.Errorf("got\n%swant\n%s", show(got), want)
	}
}

func TestViewsRefuse(t *testing.T) {
	for want, other := range map[string]*specs.Spec{
		"only of the hand's own mounts":        changed(func(s *specs.Spec) { s.Mounts = s.Mounts[1:] }),
		"of the hand's own mounts":             changed(func(s *specs.Spec) { s.Root.Path = "/other" }),
		"cannot mount on /x what the hand has": changed(func(s *specs.Spec) { s.Mounts[3].Destination = "/x" }),
		"the mount on /w/cache: the native driver does not know the type nfs": changed(func(s *specs.Spec) {
			s.Mounts[5].Type = "nfs"
		}),
	} {
		for name, view := range map[string]func(h, o *specs.Spec) ([]*starter.Mount, error){"eye": readOnlyView, "fork": changedView} {
			if _, err := view(hand(), other); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

func TestBelow(t *testing.T) {
	for _, test := range []struct {
		path, dir string
		want      bool
	}{
		{"/a", "/", true}, {"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false},
	} {
		if got := below(test.path, test.dir); got != test.want {
			t.Errorf("%s below %s: %v", test.path, test.dir, got)
		}
	}
}

func TestPins(t *testing.T) {
	dir := t.TempDir()
	session, lower, beside := filepath.Join(dir, "s"), filepath.Join(dir, "w"), filepath.Join(dir, "s-evil")
	for _, d := range []string{session, lower, beside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mounts := []*starter.Mount{
		{Type: starter.Mount_BIND, Source: []byte(session + "/layers/tmp")},
		{Type: starter.Mount_BIND, Source: []byte("/usr"), Attributes: unix.MOUNT_ATTR_RDONLY},
		{
			Type:  starter.Mount_OVERLAY,
			Lower: [][]byte{[]byte(session + "/policy"), []byte(beside), []byte(lower)},
			Upper: []byte(session + "/upper"), Work: []byte(session + "/work"),
		},
		{Type: starter.Mount_OVERLAY, Lower: [][]byte{[]byte(session + "/a")}},
	}
	p, err := pinned(session, mounts)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, pin := range p.list {
		paths = append(paths, string(pin.Path))
		var st unix.Stat_t
		if err := unix.Stat(string(pin.Path), &st); err != nil || st.Dev != pin.Dev || st.Ino != pin.Ino {
			t.Errorf("%s: not the directory that is there (%v)", pin.Path, err)
		}
	}
	if want := []string{session, beside, lower}; strings.Join(paths, " ") != strings.Join(want, " ") {
		t.Fatalf("pinned are %v, want %v", paths, want)
	}
	p.rewrite(mounts, "/")
	want := lines(
		"bind  from /pin/0/layers/tmp",
		"bind  from /usr ro",
		"overlay  lower /pin/0/policy lower /pin/1 lower /pin/2 upper /pin/0/upper work /pin/0/work",
		"overlay  lower /pin/0/a",
	)
	if got := show(mounts); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Before there is an init, they are found where the root is being made.
	mounts = []*starter.Mount{{Type: starter.Mount_BIND, Source: []byte(lower)}}
	if p, err = pinned(session, mounts); err != nil {
		t.Fatal(err)
	}
	p.rewrite(mounts, "/stage")
	if got := string(mounts[0].Source); got != "/stage/pin/1" {
		t.Errorf("a directory that is bound to be written to comes from %s", got)
	}
	// A link that has come into the path leads elsewhere.
	if err := os.Rename(lower, lower+"-aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(beside, lower); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*starter.Mount{
		{Type: starter.Mount_BIND, Source: []byte(lower)},
		{Type: starter.Mount_OVERLAY, Lower: [][]byte{[]byte(lower)}},
	} {
		if _, err := pinned(session, []*starter.Mount{m}); !errors.Is(err, unix.ELOOP) {
			t.Errorf("%v: %v", m, err)
		}
	}
	if _, err := pinned(filepath.Join(dir, "gone"), nil); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("%v", err)
	}
}

func TestTranslateProcess(t *testing.T) {
	profile := &specs.LinuxSeccomp{DefaultAction: specs.ActAllow}
	spec := func(f func(*specs.Spec)) *specs.Spec {
		s := &specs.Spec{
			Hostname: "h",
			Process:  &specs.Process{User: specs.User{UID: 7, GID: 8}, Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_CORE"}, {Type: "RLIMIT_FSIZE", Soft: 1, Hard: 9}}},
			Linux:    &specs.Linux{Seccomp: profile, MaskedPaths: []string{"/proc/kcore"}},
		}
		f(s)
		return s
	}
	r, err := translateProcess(spec(func(*specs.Spec) {}))
	if err != nil {
		t.Fatal(err)
	}
	if r.User.Uid != 7 || r.User.Gid != 8 || r.Hostname != "h" || len(r.Seccomp) == 0 || string(r.Masked[0]) != "/proc/kcore" {
		t.Errorf("%+v", r)
	}
	if l := r.Rlimits; len(l) != 2 || l[0].Resource != unix.RLIMIT_CORE || l[0].Value != 0 || l[1].Resource != unix.RLIMIT_FSIZE || l[1].Value != 9 {
		t.Errorf("%v", l)
	}
	for want, s := range map[string]*specs.Spec{
		"nothing without a seccomp profile": spec(func(s *specs.Spec) { s.Linux.Seccomp = nil }),
		"does not know RLIMIT_NPROC":        spec(func(s *specs.Spec) { s.Process.Rlimits[0].Type = "RLIMIT_NPROC" }),
		"compiling the seccomp profile": spec(func(s *specs.Spec) {
			s.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: "SCMP_ACT_NONSENSE"}
		}),
	} {
		if _, err := translateProcess(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
