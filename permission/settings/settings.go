// Package settings reads settings files: rules, modes, directories and hooks, in
// the schema that agents already use, from the system's policy, the command
// line, the workspace and the user, and writes rules back to them.
//
// What comes with a workspace is somebody else's word. Until the user trusts the
// very bytes of a file ([Places.Trust]), its rules that deny and ask hold, and
// what it allows does not: rules, hooks, modes that loosen, directories. A file
// that is wrong in any way is an error that names the line, never skipped: what it
// was to deny would be allowed.
//
// Files of the workspace are read beneath it, no link is followed, and nothing
// else than a regular file of bounded size is read.
package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/permission"
)

// The files of a workspace, relative to it.
const (
	ProjectFile = ".sallyport/settings.json"
	LocalFile   = ".sallyport/settings.local.json"

	importedProject = ".claude/settings.json"
	importedLocal   = ".claude/settings.local.json"
)

// DefaultPolicy is the system's policy file.
const DefaultPolicy = "/etc/sallyport/policy.json"

// Places are where settings are looked for. All paths are absolute.
type Places struct {
	// Policy is the system's policy file; it and its directory must belong to
	// PolicyOwner (0 is root) and nobody else may write them. "" is none.
	Policy      string
	PolicyOwner uint32
	// User is the user's settings file; "" is none. Home is where the user's rules
	// with a leading slash begin.
	User, Home string
	// Workspace has the project's and the local settings.
	Workspace string
	// State is the directory in which trust is remembered.
	State string
	// Files are more settings, whose rules count as given on the command line; of
	// those that say the same, the last counts.
	Files []string
	// Rules are those of the command line.
	Rules []permission.Rule
	// Import reads what another agent has in the workspace and the home directory
	// as well.
	Import bool
	// PolicyOnly leaves out the settings of the workspace and of the user.
	PolicyOnly bool
}

// UserFile is the user's settings file: below $XDG_CONFIG_HOME, by default
// ~/.config.
func UserFile(home string, env func(string) string) string {
	config := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		if home == "" {
			return ""
		}
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "sallyport", "settings.json")
}

// Settings are what all files say together.
type Settings struct {
	// Files are those that were read, in the order of their sources: policy,
	// command line, local, project, user.
	Files []*File
	// Rules are those that count, in that order, with the command line's own.
	Rules []permission.Rule
	// Mode is what is used unless another is asked for; "" for none.
	Mode       permission.Mode
	ModeOrigin string
	// Directories are those of trusted files.
	Directories []Directory
	// Hooks are those that count.
	Hooks []Hook
	// RulesLocked is where the policy says that only its own rules allow; "" when
	// it does not. Then an answer allows its call alone.
	RulesLocked string
	// Dropped are rules that would allow, but do not count for that reason.
	Dropped []permission.Rule
}

// Load reads all settings.
func (p *Places) Load() (*Settings, error) {
	files, err := p.read()
	if err != nil {
		return nil, err
	}
	s := &Settings{Files: files}
	hooksLocked := ""
	for _, f := range files {
		if f.onlyRules != "" {
			s.RulesLocked = f.onlyRules
		}
		if f.onlyHooks != "" {
			hooksLocked = f.onlyHooks
		}
	}
	add := func(rules []permission.Rule, trusted bool) {
		for _, r := range rules {
			switch {
			case r.Behavior == permission.Allow && !trusted:
			case r.Behavior == permission.Allow && s.RulesLocked != "" && r.Source != permission.FromPolicy:
				s.Dropped = append(s.Dropped, r)
			default:
				s.Rules = append(s.Rules, r)
			}
		}
	}
	ours := false // the command line's own rules were added
	for _, f := range files {
		if !ours && f.Source != permission.FromPolicy {
			add(p.Rules, true)
			ours = true
		}
		add(f.Rules, f.Trusted)
		if !f.Trusted {
			continue
		}
		s.Directories = append(s.Directories, f.Directories...)
		if hooksLocked == "" || f.Source == permission.FromPolicy {
			s.Hooks = append(s.Hooks, f.Hooks...)
		}
	}
	if !ours {
		add(p.Rules, true)
	}
	s.Mode, s.ModeOrigin = defaultMode(files)
	return s, nil
}

// defaultMode is the mode of the first file that has one. One that is not trusted
// counts only if it allows less than those after it.
func defaultMode(files []*File) (permission.Mode, string) {
	for i, f := range files {
		if f.Mode == "" {
			continue
		}
		if f.Trusted {
			return f.Mode, f.ModeOrigin
		}
		rest, origin := defaultMode(files[i+1:])
		if f.Mode == permission.Plan || f.Mode == permission.DontAsk && rest != permission.Plan {
			return f.Mode, f.ModeOrigin
		}
		return rest, origin
	}
	return "", ""
}

// CheckMode reports whether a mode may be used. The error names the file that
// forbids it.
func (s *Settings) CheckMode(m permission.Mode) error {
	for _, f := range s.Files {
		where := ""
		for _, not := range f.forbidden {
			if not.mode == m {
				where = not.origin
			}
		}
		if m == permission.Bypass && f.noBypass != "" {
			where = f.noBypass
		}
		if where != "" {
			return fmt.Errorf("the mode %s is forbidden by %s; use another with --mode", m, where)
		}
	}
	return nil
}

// Untrusted are the files that would allow something if they were trusted.
func (s *Settings) Untrusted() []*File {
	var files []*File
	for _, f := range s.Files {
		if !f.Trusted && len(f.Loosens()) > 0 {
			files = append(files, f)
		}
	}
	return files
}

// read reads the files that there are, in the order of their sources.
func (p *Places) read() ([]*File, error) {
	var files []*File
	add := func(f *File, data []byte, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the settings %s: %w", f.Name, err)
		}
		f.home = p.Home
		if err := f.parse(data); err != nil {
			return err
		}
		f.Trusted = !f.OfWorkspace
		if f.OfWorkspace {
			if f.Trusted, err = p.trusts(f.Name, data); err != nil {
				return err
			}
		}
		files = append(files, f)
		return nil
	}
	if p.Policy != "" {
		data, err := readPolicy(p.Policy, p.PolicyOwner)
		if err := add(&File{Name: p.Policy, Source: permission.FromPolicy}, data, err); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Backward(p.Files) {
		data, err := readFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the settings %s: %w", name, unix.ENOENT)
		}
		if err := add(&File{Name: name, Source: permission.FromCLI, based: p.Workspace}, data, err); err != nil {
			return nil, err
		}
	}
	if p.PolicyOnly {
		return files, nil
	}
	dir, err := beneath.OpenReal(p.Workspace)
	if err != nil {
		return nil, fmt.Errorf("the workspace: %w", err)
	}
	defer dir.Close()
	for _, of := range []struct {
		name     string
		source   permission.Source
		imported bool
	}{
		{LocalFile, permission.FromLocal, false}, {importedLocal, permission.FromLocal, true},
		{ProjectFile, permission.FromProject, false}, {importedProject, permission.FromProject, true},
	} {
		if of.imported && !p.Import {
			continue
		}
		data, err := readBeneath(dir, of.name)
		f := &File{Name: of.name, Source: of.source, OfWorkspace: true, Imported: of.imported, based: p.Workspace}
		if err := add(f, data, err); err != nil {
			return nil, err
		}
	}
	if p.User != "" {
		data, err := readFile(p.User)
		if err := add(&File{Name: p.User, Source: permission.FromUser, based: p.Home}, data, err); err != nil {
			return nil, err
		}
	}
	if p.Import && p.Home != "" {
		name := filepath.Join(p.Home, importedProject)
		data, err := readFile(name)
		if err := add(&File{Name: name, Source: permission.FromUser, Imported: true, based: p.Home}, data, err); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// readBeneath reads a file of the workspace.
func readBeneath(dir *beneath.Dir, name string) ([]byte, error) {
	f, err := dir.OpenRegular(name)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("it is, or is behind, a symbolic link; put a regular file there: %w", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

// readFile reads a file of the user, following links: a home directory may
// consist of them. What others can write is not the user's word.
func readFile(name string) ([]byte, error) {
	f, st, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st.Mode&0o002 != 0 {
		return nil, errors.New("everybody can write it: chmod o-w it")
	}
	return readAll(f)
}

// readPolicy reads the system's policy.
func readPolicy(name string, owner uint32) ([]byte, error) {
	f, st, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var dir unix.Stat_t
	if err := unix.Stat(filepath.Dir(name), &dir); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		what string
		st   *unix.Stat_t
	}{{"it", st}, {"its directory", &dir}} {
		if of.st.Uid != owner || of.st.Mode&0o022 != 0 {
			return nil, fmt.Errorf("%s must belong to root, and nobody else may write it: chown it to root and chmod go-w it", of.what)
		}
	}
	return readAll(f)
}

// open opens a regular file.
func open(name string) (*os.File, *unix.Stat_t, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO is not waited for
	if err != nil {
		return nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		f.Close()
		return nil, nil, beneath.ErrNotRegular
	}
	return f, &st, nil
}

// readAll reads one byte more than a file may have, which is then refused.
func readAll(f *os.File) ([]byte, error) { return io.ReadAll(io.LimitReader(f, mostBytes+1)) }
