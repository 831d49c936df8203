package settings

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/permission"
)

// A Saved is what became of a rule that was written to settings.
type Saved struct {
	File string // as messages name it
	Rule string // as it stands there
	// Already says that it stood there before, and Created that the file did not.
	Already, Created bool
	// Trusted says that what the file allows counts.
	Trusted bool
	// InGit says that the file lies in a git repository, which it should be kept
	// out of.
	InGit bool
}

// AddRule writes a rule to the local settings of the workspace or to those of the
// user. All else in the file stays as it is, byte by byte. A file that was trusted
// stays trusted, one that was not stays untrusted, and one that this makes is
// trusted.
func (p *Places) AddRule(to permission.Source, rule permission.Rule) (*Saved, error) {
	switch to {
	case permission.FromLocal:
		saved := &Saved{File: LocalFile, Rule: rule.String(), InGit: inGit(p.Workspace)}
		dir, err := beneath.OpenReal(p.Workspace)
		if err != nil {
			return nil, fmt.Errorf("the workspace: %w", err)
		}
		defer dir.Close()
		below, base := path.Split(LocalFile)
		below = path.Clean(below)
		if err := dir.MkdirAll(below, 0o755); err != nil {
			return nil, fmt.Errorf("the settings %s: %w", LocalFile, err)
		}
		own, err := dir.OpenDir(below)
		if err != nil {
			return nil, fmt.Errorf("the settings %s: %w", LocalFile, err)
		}
		defer own.Close()
		return saved, p.save(own, base, rule.Behavior, saved, true)
	case permission.FromUser:
		if p.User == "" {
			return nil, errors.New("the home directory is not known: set HOME")
		}
		saved := &Saved{File: p.User, Rule: ofUser(rule, p.Workspace), Trusted: true}
		name := p.User
		if real, err := filepath.EvalSymlinks(name); err == nil {
			name = real // the link stays
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, fmt.Errorf("the settings: %w", err)
		}
		dir, err := beneath.Open(filepath.Dir(name))
		if err != nil {
			return nil, fmt.Errorf("the settings: %w", err)
		}
		defer dir.Close()
		return saved, p.save(dir, filepath.Base(name), rule.Behavior, saved, false)
	}
	return nil, fmt.Errorf("a rule is saved to the settings %s or %s, not %q", string(permission.FromLocal), string(permission.FromUser), string(to))
}

// ofUser is a rule about paths in the workspace as the user's file must have it,
// where a leading slash is not the workspace's.
func ofUser(r permission.Rule, workspace string) string {
	if !r.OfFiles() || !strings.HasPrefix(r.Content, "/") || strings.HasPrefix(r.Content, "//") {
		return r.String()
	}
	quoted := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`).Replace(workspace)
	return r.Tool + "(/" + quoted + r.Content + ")"
}

// save adds the rule to a file in a directory.
func (p *Places) save(dir *beneath.Dir, base string, b permission.Behavior, saved *Saved, ofWorkspace bool) error {
	fail := func(err error) error { return fmt.Errorf("saving %s to %s: %w", saved.Rule, saved.File, err) }
	unlock, err := lock(dir)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	data, mode, err := existing(dir, base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		saved.Created, saved.Trusted = true, true
	case err != nil:
		return fail(err)
	case ofWorkspace:
		if saved.Trusted, err = p.trusts(saved.File, data); err != nil {
			return err
		}
	}
	if saved.Created {
		data = nil
	} else if err := (&File{Name: saved.File, home: p.Home, based: "/"}).parse(data); err != nil {
		return err
	}
	edited, err := insert(data, b, saved.Rule)
	if err != nil {
		return fail(err)
	}
	if !saved.Created && bytes.Equal(edited, data) {
		saved.Already = true
		return nil
	}
	// It is trusted before it is there: between the two, nobody has to say so.
	trusted := ofWorkspace && saved.Trusted
	if trusted {
		if err := p.trust(saved.File, edited); err != nil {
			return err
		}
	}
	if err := replace(dir, base, edited, mode); err != nil {
		return fail(err)
	}
	if trusted && !saved.Created {
		return p.distrust(saved.File, data)
	}
	return nil
}

// existing reads the file that is to be changed.
func existing(dir *beneath.Dir, base string) ([]byte, fs.FileMode, error) {
	f, err := dir.OpenRegular(base)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err := readAll(f)
	return data, info.Mode().Perm(), err
}

// lockWait is how long another process may take to write its rule. Whoever can
// open the directory can hold its lock, so nobody waits for ever.
const lockWait = 2 * time.Second

// lock keeps other processes from writing a rule at the same time.
func lock(dir *beneath.Dir) (unlock func(), err error) {
	for end := time.Now().Add(lockWait); ; {
		err := unix.Flock(dir.Fd(), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { unix.Flock(dir.Fd(), unix.LOCK_UN) }, nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, fmt.Errorf("locking its directory: %w", err)
		case time.Now().After(end):
			return nil, errors.New("another process holds the lock of its directory")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// replace writes a file as a whole. A mode of 0 is that of a new file.
func replace(dir *beneath.Dir, base string, data []byte, mode fs.FileMode) error {
	tmp := ".new-" + rand.Text()
	f, err := dir.OpenFile(tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if mode != 0 {
		err = errors.Join(err, f.Chmod(mode))
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = dir.Rename(tmp, dir, base, 0)
	}
	if err != nil {
		dir.Remove(tmp)
	}
	return err
}

// inGit reports whether a directory lies in a git repository.
func inGit(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		if dir == "/" {
			return false
		}
	}
}

// insert adds a rule to the text of a settings file; no text is that of a new
// one. The text is returned as it is if the rule is in it.
func insert(data []byte, b permission.Behavior, rule string) ([]byte, error) {
	if len(data) == 0 {
		data = []byte("{}\n")
	}
	want, err := permission.ParseRule(rule, b, permission.FromLocal)
	if err != nil {
		return nil, err
	}
	root, err := read(data)
	if err != nil {
		return nil, err
	}
	if root.value != object {
		return nil, errors.New("it is no JSON object")
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	if err := e.Encode(rule); err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(quoted.String(), "\n")
	at, parts := root, []string{fmt.Sprintf("%q: ", "permissions") + "{", fmt.Sprintf("%q: ", string(b)) + "["}
	if n := root.member("permissions"); n != nil {
		if n.value != object {
			return nil, errors.New("permissions is no object")
		}
		at, parts = n, parts[1:]
		if n := n.member(string(b)); n != nil {
			if n.value != list {
				return nil, fmt.Errorf("%s is no list", b)
			}
			at, parts = n, nil
		}
	}
	for _, item := range at.items {
		s, _ := item.value.(string)
		if has, err := permission.ParseRule(s, b, permission.FromLocal); err == nil && has.String() == want.String() {
			return data, nil
		}
	}
	edited := edit{data, root}.add(at, parts, text)
	if len(edited) > mostBytes {
		return nil, fmt.Errorf("it would have more than %d bytes", mostBytes)
	}
	if _, err := read(edited); err != nil {
		return nil, err
	}
	return edited, nil
}

// An edit adds to the text of a file, laid out as the text is.
type edit struct {
	data []byte
	root *node
}

// add puts a value into an object or a list, at its end. The objects and lists that
// it is to be in, which are not there yet, are given by how they begin.
func (e edit) add(at *node, begins []string, value string) []byte {
	last, before := e.last(at)
	newline := "\n"
	if bytes.Contains(e.data, []byte("\r\n")) {
		newline = "\r\n"
	}
	if last < 0 { // it is empty
		tail := e.data[at.start+1:]
		if !e.lines() {
			return e.splice(at.start+1, e.nested(begins, value, "", ""))
		}
		indent := newline + e.indentOf(at.start)
		text := indent + e.unit() + e.nested(begins, value, indent+e.unit(), e.unit())
		if rest := bytes.TrimLeft(tail, " \t\r\n"); bytes.Contains(tail[:len(tail)-len(rest)], []byte("\n")) {
			return e.splice(at.start+1, text)
		}
		return e.splice(at.start+1, text+indent)
	}
	if strings.Contains(before, "\n") {
		return e.splice(last, ","+before+e.nested(begins, value, before, e.unit()))
	}
	return e.splice(last, ","+before+e.nested(begins, value, "", ""))
}

func (e edit) splice(at int, text string) []byte {
	return append(append(bytes.Clone(e.data[:at]), text...), e.data[at:]...)
}

// last is where the last thing in an object or a list ends, or -1, and the space
// before it.
func (e edit) last(n *node) (end int, before string) {
	start := 0
	switch {
	case len(n.members) > 0:
		m := n.members[len(n.members)-1]
		start, end = m.start, m.value.end
	case len(n.items) > 0:
		item := n.items[len(n.items)-1]
		start, end = item.start, item.end
	default:
		return -1, ""
	}
	space := start
	for space > 0 && strings.IndexByte(" \t\r\n", e.data[space-1]) >= 0 {
		space--
	}
	return end, string(e.data[space:start])
}

// nested is a value in objects and lists that begin so. indent is the newline and
// the space before the outermost; "" lays it out on one line.
func (e edit) nested(begins []string, value, indent, unit string) string {
	if len(begins) == 0 {
		return value
	}
	ends := map[byte]string{'{': "}", '[': "]"}
	first := begins[0]
	inner := e.nested(begins[1:], value, indent+unit, unit)
	if indent == "" {
		return first + inner + ends[first[len(first)-1]]
	}
	return first + indent + unit + inner + indent + ends[first[len(first)-1]]
}

// lines reports whether the file is laid out on several lines, or has nothing in
// it yet.
func (e edit) lines() bool {
	return len(e.root.members) == 0 || bytes.Contains(e.data[e.root.start:e.root.end], []byte("\n"))
}

// unit is what one level is indented by.
func (e edit) unit() string {
	if len(e.root.members) > 0 {
		start := e.root.members[0].start
		line := bytes.LastIndexByte(e.data[:start], '\n')
		if space := e.data[line+1 : start]; line >= e.root.start && len(space) > 0 && len(bytes.Trim(space, " \t")) == 0 {
			return string(space)
		}
	}
	return "  "
}

// indentOf is the space at the beginning of the line of an offset.
func (e edit) indentOf(offset int) string {
	line := e.data[bytes.LastIndexByte(e.data[:offset], '\n')+1 : offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}
