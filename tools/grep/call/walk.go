package call

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/tools/internal/glob"
	"github.com/sallyport/sallyport/tools/internal/tree"
)

// A walk goes through a tree as ripgrep does, in the order of paths.
type walk struct {
	s      *search
	root   int
	reader tree.Reader
	// above is the path of the root with a slash; "" when it is not known, and
	// then no ignore file above it is.
	above     string
	top       *level // of the directory above the root
	overrides *overrides
	types     []*glob.Pattern // nil: any
}

// A level holds the ignore files of a directory.
type level struct {
	parent *level
	dir    int // length of the directory's absolute path, with its slash
	git    bool

	rgignore, ignore, gitignore, exclude rules
}

func newWalk(s *search, root int) (*walk, error) {
	w := &walk{s: s, root: root}
	var err error
	if w.overrides, err = newOverrides(s.req.Globs); err != nil {
		return nil, err
	}
	if s.req.Type != "" {
		if w.types, err = typeGlobs(s.req.Type); err != nil {
			return nil, err
		}
	}
	// That is where the descriptor leads now.
	buf := make([]byte, unix.PathMax)
	if n, err := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", root), buf); err == nil && n < len(buf) && buf[0] == '/' {
		w.above = strings.TrimSuffix(string(buf[:n]), "/") + "/"
		w.readAbove()
	}
	return w, nil
}

// readAbove reads the ignore files of the directories above the root.
func (w *walk) readAbove() {
	for i := range len(w.above) - 1 {
		if w.above[i] != '/' {
			continue
		}
		dir := w.above[:max(i, 1)]
		fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
		})
		if err != nil {
			continue
		}
		w.top = w.level(fd, w.above[:i+1], i+1, w.top, nil)
		unix.Close(fd)
	}
}

// level reads the ignore files of a directory. It returns the parent when there
// are none. entries are what is in the directory; nil when that is not known.
func (w *walk) level(dir int, path string, length int, parent *level, entries []tree.Entry) *level {
	l := &level{parent: parent, dir: length}
	has := func(name string) bool {
		return entries == nil || slices.ContainsFunc(entries, func(e tree.Entry) bool { return e.Name == name })
	}
	read := func(dir int, name string) rules {
		data, err := tree.ReadSmall(dir, name, mostIgnoreFile)
		if err != nil {
			if err != unix.ENOENT {
				w.s.out.note(note(path+name, fmt.Errorf("this ignore file is not read: %w", err)))
			}
			return nil
		}
		return parseRules(data)
	}
	for name, to := range map[string]*rules{".rgignore": &l.rgignore, ".ignore": &l.ignore, ".gitignore": &l.gitignore} {
		if has(name) {
			*to = read(dir, name)
		}
	}
	if has(".git") {
		var st unix.Stat_t
		l.git = unix.Fstatat(dir, ".git", &st, 0) == nil
		if git, err := tree.OpenDir(dir, ".git"); err == nil {
			if info, err := tree.OpenDir(git, "info"); err == nil {
				l.exclude = read(info, "exclude")
				unix.Close(info)
			}
			unix.Close(git)
		}
	}
	if !l.git && l.rgignore == nil && l.ignore == nil && l.gitignore == nil {
		return parent
	}
	return l
}

// dir searches a directory, whose path ends in a slash; the root's is "".
func (w *walk) dir(fd int, path string, above *level, depth int) {
	entries, err := w.reader.List(fd)
	if err != nil {
		w.s.out.note(note(path, err))
	}
	here := w.level(fd, path, len(w.above)+len(path), above, entries)
	for _, e := range entries {
		if w.s.done() {
			return
		}
		if e.Type != tree.File && e.Type != tree.Dir {
			continue
		}
		isDir := e.Type == tree.Dir
		file := path + e.Name
		if w.skips(here, file, e.Name, isDir) {
			continue
		}
		if !isDir {
			sub, size, err := tree.OpenFile(fd, e.Name)
			if err != nil {
				w.failed(file, err)
				continue
			}
			w.s.file(sub, size, file)
			unix.Close(sub)
			continue
		}
		if depth == tree.MaxDepth {
			w.s.out.note(note(file, errors.New("directories this deep are not searched; give this one as the path")))
			continue
		}
		sub, err := tree.OpenDir(fd, e.Name)
		if err != nil {
			w.failed(file, err)
			continue
		}
		w.dir(sub, file+"/", here, depth+1)
		unix.Close(sub)
	}
}

// failed notes what could not be opened. What has been removed or replaced by
// something else meanwhile is no failure.
func (w *walk) failed(path string, err error) {
	if err != unix.ENOENT && err != unix.ELOOP && err != unix.ENOTDIR && err != unix.EINVAL {
		w.s.out.note(note(path, err))
	}
}

// skips decides whether a path is left out.
func (w *walk) skips(l *level, path, name string, dir bool) bool {
	if v := w.overrides.match(path, name, dir); v != silent {
		return v == ignored
	}
	v := w.ignored(l, path, name, dir)
	if v == ignored || dir || w.types == nil {
		return v == ignored
	}
	return !slices.ContainsFunc(w.types, func(p *glob.Pattern) bool { return p.Match(name) })
}

// ignored asks the ignore files from the nearest to the farthest, each kind by
// itself, since a kind beats another wherever it stands. Those of git count only
// inside a repository, and not beyond its root.
func (w *walk) ignored(l *level, path, name string, dir bool) verdict {
	inGit := false
	for m := l; m != nil && !inGit; m = m.parent {
		inGit = m.git
	}
	var kinds [4]verdict
	abs := ""
	sawGit := false
	for ; l != nil; l = l.parent {
		rel := path
		if l.dir < len(w.above) {
			if abs == "" {
				abs = w.above + path
			}
			rel = abs[l.dir:]
		} else {
			rel = path[l.dir-len(w.above):]
		}
		for i, rs := range [...]rules{l.rgignore, l.ignore, l.gitignore, l.exclude} {
			if kinds[i] == silent && len(rs) > 0 && (i < 2 || inGit && !sawGit) {
				kinds[i] = rs.match(rel, name, dir)
			}
		}
		sawGit = sawGit || l.git
	}
	for _, v := range kinds {
		if v != silent {
			return v
		}
	}
	return silent
}

// typeGlobs are the globs of a type's names.
func typeGlobs(name string) ([]*glob.Pattern, error) {
	globs := types[name]
	if name == "all" {
		for _, g := range types {
			globs = append(globs, g...)
		}
	}
	if globs == nil {
		var near []string
		for t := range types {
			if strings.HasPrefix(t, name[:min(1, len(name))]) {
				near = append(near, t)
			}
		}
		slices.Sort(near)
		return nil, fmt.Errorf("no file type %q is known here; use glob, or one of: %s", name, strings.Join(near, ", "))
	}
	var ps []*glob.Pattern
	for _, g := range globs {
		p, err := glob.Compile(g)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}
