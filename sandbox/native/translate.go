package native

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/sandbox/native/starter"
)

// attributes are the mount options of the OCI runtime specification that this
// driver knows.
var attributes = map[string]uint64{
	"ro": unix.MOUNT_ATTR_RDONLY, "nosuid": unix.MOUNT_ATTR_NOSUID,
	"nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC,
}

// translate turns the mounts of a spec into those of starter. The root comes
// first. /proc is left out: the container's first process mounts it.
func translate(spec *specs.Spec) ([]*starter.Mount, error) {
	if spec.Root == nil || !spec.Root.Readonly {
		return nil, fmt.Errorf("the native driver takes a read-only root filesystem only")
	}
	const flags = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	mounts := []*starter.Mount{{Destination: []byte("/"), Source: []byte(spec.Root.Path), Attributes: flags}}
	for _, m := range spec.Mounts {
		t, err := translateMount(m)
		if err != nil {
			return nil, fmt.Errorf("the mount on %s: %w", m.Destination, err)
		}
		if t != nil {
			mounts = append(mounts, t)
		}
	}
	return append(mounts, readOnlyPaths(spec, "/")...), nil
}

// readOnlyPaths are the spec's read-only paths at or below dir.
func readOnlyPaths(spec *specs.Spec, dir string) []*starter.Mount {
	var mounts []*starter.Mount
	for _, path := range spec.Linux.ReadonlyPaths {
		if below(path, dir) {
			mounts = append(mounts, &starter.Mount{
				Type: starter.Mount_SELF, Destination: []byte(path),
				Attributes: unix.MOUNT_ATTR_RDONLY, Recursive: true, Optional: true,
			})
		}
	}
	return mounts
}

func translateMount(m specs.Mount) (*starter.Mount, error) {
	t := &starter.Mount{Destination: []byte(m.Destination), Source: []byte(m.Source)}
	var options []string
	for _, o := range m.Options {
		if a, ok := attributes[o]; ok {
			t.Attributes |= a
		} else {
			options = append(options, o)
		}
	}
	switch m.Type {
	case "proc":
		if m.Destination != "/proc" {
			return nil, fmt.Errorf("the native driver mounts proc on /proc only")
		}
		return nil, nil
	case "devpts":
		return nil, nil // comes with /dev
	case "tmpfs":
		if m.Destination == "/dev/shm" {
			return nil, nil
		}
		t.Type, t.Source = starter.Mount_TMPFS, nil
		if m.Destination == "/dev" {
			t.Type, options = starter.Mount_DEV, nil
		}
		t.Options = strings.Join(options, ",")
	case "bind":
		t.Type = starter.Mount_BIND
		for _, o := range options {
			switch o {
			case "bind":
			case "rbind":
				t.Recursive = true
			default:
				return nil, fmt.Errorf("the native driver does not know the option %s", o)
			}
		}
	case "overlay":
		t.Type, t.Source = starter.Mount_OVERLAY, nil
		var rest []string
		for _, o := range options {
			key, value, _ := strings.Cut(o, "=")
			switch key {
			case "lowerdir":
				for _, dir := range splitLowers(value) {
					t.Lower = append(t.Lower, []byte(dir))
				}
			case "upperdir":
				t.Upper = []byte(value)
			case "workdir":
				t.Work = []byte(value)
			default:
				rest = append(rest, o)
			}
		}
		t.Options = strings.Join(rest, ",")
	default:
		return nil, fmt.Errorf("the native driver does not know the type %s", m.Type)
	}
	return t, nil
}

// splitLowers splits a lowerdir option at its colons, undoing backslashes.
func splitLowers(s string) []string {
	var dirs []string
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == ':':
			dirs = append(dirs, b.String())
			b.Reset()
		default:
			b.WriteByte(s[i])
		}
	}
	return append(dirs, b.String())
}

// readOnlyView returns what turns the hand's view into the eye's: all of it
// read-only, and then what the eye has of its own.
func readOnlyView(hand, eye *specs.Spec) ([]*starter.Mount, error) {
	all := &starter.Mount{
		Type: starter.Mount_SELF, Destination: []byte("/"), Attributes: unix.MOUNT_ATTR_RDONLY, Recursive: true,
	}
	same := func(h, e specs.Mount) bool {
		if !slices.Contains(h.Options, "ro") {
			h.Options = append(slices.Clone(h.Options), "ro")
		}
		return sameMount(h, e)
	}
	rest, err := overlaid(hand, eye, same, func(m specs.Mount) bool { return m.Type == "tmpfs" && m.Destination == "/dev" })
	return append([]*starter.Mount{all}, rest...), err
}

// changedView returns what turns the hand's view into that of another spec.
func changedView(hand, other *specs.Spec) ([]*starter.Mount, error) {
	return overlaid(hand, other, sameMount, func(m specs.Mount) bool { return m.Type == "tmpfs" && m.Destination == "/dev" })
}

func sameMount(a, b specs.Mount) bool {
	return a.Type == b.Type && a.Source == b.Source && slices.Equal(a.Options, b.Options)
}

// overlaid returns the mounts of other that are not the hand's by same, or
// that fresh asks to be made anew, and keeps what lies below them.
func overlaid(hand, other *specs.Spec, same func(h, o specs.Mount) bool, fresh func(specs.Mount) bool) ([]*starter.Mount, error) {
	if len(hand.Mounts) != len(other.Mounts) || hand.Root.Path != other.Root.Path {
		return nil, fmt.Errorf("the native driver makes forks and the eye only of the hand's own mounts")
	}
	var mounts []*starter.Mount
	var covered []string
	for i, m := range other.Mounts {
		h := hand.Mounts[i]
		if h.Destination != m.Destination {
			return nil, fmt.Errorf("the native driver cannot mount on %s what the hand has on %s", m.Destination, h.Destination)
		}
		if same(h, m) && !fresh(m) {
			if slices.ContainsFunc(covered, func(dir string) bool { return below(m.Destination, dir) && m.Destination != dir }) {
				keep := &starter.Mount{Type: starter.Mount_KEEP, Destination: []byte(m.Destination)}
				if slices.Contains(m.Options, "ro") {
					keep.Attributes = unix.MOUNT_ATTR_RDONLY // it is the hand's, which may be writable
				}
				mounts = append(mounts, keep)
			}
			continue
		}
		t, err := translateMount(m)
		if err != nil {
			return nil, fmt.Errorf("the mount on %s: %w", m.Destination, err)
		}
		if t == nil {
			continue // comes with another
		}
		mounts = append(mounts, t)
		covered = append(covered, m.Destination)
	}
	for _, dir := range covered {
		mounts = append(mounts, readOnlyPaths(other, dir)...)
	}
	return mounts, nil
}

// below reports whether path is dir or lies in it.
func below(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// pins are the directories that the host has looked at, held while the session's
// root is made of them, and reachable for its init afterwards: those that layers
// come from.
type pins struct {
	list []*starter.Pin
}

// pinned pins the session's own directory, where all uppers lie, every lower of
// an overlay, and what is bound to be written to.
func pinned(dir string, mounts []*starter.Mount) (pins, error) {
	var p pins
	if err := p.add(dir); err != nil {
		return p, err
	}
	for _, m := range mounts {
		sources := m.Lower
		if m.Type == starter.Mount_BIND && m.Attributes&unix.MOUNT_ATTR_RDONLY == 0 {
			sources = [][]byte{m.Source}
		}
		for _, source := range sources {
			if p.of(source) < 0 {
				if err := p.add(string(source)); err != nil {
					return p, err
				}
			}
		}
	}
	return p, nil
}

// add pins a directory. The path was resolved when the session was made: a link
// that is on it now has been put there since, perhaps by an agent that can write
// a directory above.
func (p *pins) add(path string) error {
	d, err := beneath.OpenReal(path)
	if err != nil {
		return err
	}
	defer d.Close()
	var st unix.Stat_t
	if err := unix.Fstat(d.Fd(), &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	p.list = append(p.list, &starter.Pin{Path: []byte(path), Dev: st.Dev, Ino: st.Ino})
	return nil
}

// of returns the pin that a path is at or below, or -1.
func (p *pins) of(path []byte) int {
	return slices.IndexFunc(p.list, func(pin *starter.Pin) bool { return below(string(path), string(pin.Path)) })
}

// rewrite names the layers of mounts by the pins that hold them, which are found
// in the directory root.
func (p *pins) rewrite(mounts []*starter.Mount, root string) {
	inside := func(path []byte) []byte {
		i := p.of(path)
		if i < 0 {
			return path
		}
		return []byte(filepath.Join(root, starter.PinPath(i), strings.TrimPrefix(string(path), string(p.list[i].Path))))
	}
	for _, m := range mounts {
		for i := range m.Lower {
			m.Lower[i] = inside(m.Lower[i])
		}
		if len(m.Upper) > 0 {
			m.Upper, m.Work = inside(m.Upper), inside(m.Work)
		}
		if len(m.Source) > 0 {
			m.Source = inside(m.Source)
		}
	}
}

// rlimits are the names of the OCI runtime specification that this driver
// knows.
var rlimits = map[string]int32{
	"RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_CPU": unix.RLIMIT_CPU, "RLIMIT_DATA": unix.RLIMIT_DATA,
	"RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE,
	"RLIMIT_RTPRIO": 14, "RLIMIT_STACK": unix.RLIMIT_STACK,
}

// translateProcess says what the first process of a container is.
func translateProcess(spec *specs.Spec) (*starter.Prepare, error) {
	filter, err := compiled(spec.Linux.Seccomp)
	if err != nil {
		return nil, err
	}
	r := &starter.Prepare{
		User:     &starter.User{Uid: spec.Process.User.UID, Gid: spec.Process.User.GID},
		Hostname: spec.Hostname,
		Seccomp:  filter,
	}
	for _, path := range spec.Linux.MaskedPaths {
		r.Masked = append(r.Masked, []byte(path))
	}
	for _, l := range spec.Process.Rlimits {
		n, ok := rlimits[l.Type]
		if !ok {
			return nil, fmt.Errorf("the native driver does not know %s", l.Type)
		}
		r.Rlimits = append(r.Rlimits, &starter.Rlimit{Resource: n, Value: l.Hard})
	}
	return r, nil
}
