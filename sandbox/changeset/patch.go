package changeset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// DiffOptions say what is shown of a set, and how.
type DiffOptions struct {
	// Changes are those that are shown; nil is all.
	Changes []*Change
	// Terminal makes what is shown fit for one: nothing in a name or a content
	// acts on it, and what a patch cannot say is said in words. Without it, a
	// patch is what git apply takes, byte for byte.
	Terminal bool
	// Color marks what was added and removed, for a terminal.
	Color bool
	// MaxFile is the size up to which contents are compared line by line; 0 is
	// 4 MiB. On a terminal larger files are named with their sizes; in a patch they
	// are whole, as what is no text.
	MaxFile int64
	// MaxTotal is the same for all of them together, as far as they are shown; 0 is
	// all.
	MaxTotal int64
	// MaxLines is how many lines are shown on a terminal, and MaxLine how much of
	// each, in bytes; 0 is all. What is left out is said.
	MaxLines, MaxLine int
}

func (o DiffOptions) of(s *Set) DiffOptions {
	if o.Changes == nil {
		o.Changes = s.Changes
	}
	if o.MaxFile == 0 {
		o.MaxFile = 4 << 20
	}
	return o
}

// contextLines is how many unchanged lines a patch shows around changed ones.
const contextLines = 3

// WritePatch writes the changes as a patch in the format of git. Directories of
// their own, hard links and what can never leave are not part of the format.
func (s *Set) WritePatch(ctx context.Context, w io.Writer, o DiffOptions) error {
	p := &patcher{ctx: ctx, set: s, w: w, o: o.of(s)}
	for i, c := range p.o.Changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.full() {
			p.more = append(p.more, plural(len(p.o.Changes)-i, "more path", ""))
			break
		}
		if err := p.change(c); err != nil {
			return fmt.Errorf("showing the change of %q: %w", c.Path, err)
		}
	}
	if p.more != nil && p.err == nil {
		_, p.err = fmt.Fprintf(w, "[not shown: %s]\n", strings.Join(p.more, ", "))
	}
	return p.err
}

type patcher struct {
	ctx context.Context
	set *Set
	w   io.Writer
	o   DiffOptions
	err error // of the writer

	read  int64    // of contents, in bytes
	lines int      // that are written
	more  []string // what is not, in words
}

// full reports whether no more lines are shown.
func (p *patcher) full() bool {
	return p.o.Terminal && p.o.MaxLines > 0 && p.lines >= p.o.MaxLines
}

// A side is what a path is on one side of a patch.
type side struct {
	typ  Type // File or Symlink; empty when there is nothing
	path string
	mode uint32
	size int64
	open func() (io.ReadCloser, error)
}

func (x side) gitMode() string {
	switch {
	case x.typ == Symlink:
		return "120000"
	case x.mode&0o100 != 0:
		return "100755" // the one bit that git keeps
	}
	return "100644"
}

func text(s string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}

func (p *patcher) change(c *Change) error {
	if c.Refused != "" {
		p.note("refused: %s cannot leave the session: %s", c.Path, c.Refused)
		return p.err
	}
	if c.OldType == Dir && (c.Kind == Deleted || c.Type != Dir) {
		if err := p.removed(c.Path); err != nil {
			return err
		}
	}
	from, to := side{path: c.Path}, side{path: c.Path}
	switch c.OldType {
	case File:
		from = side{File, c.Path, c.OldMode, c.OldSize, c.OpenOld}
	case Symlink:
		from = side{Symlink, c.Path, 0o777, int64(len(c.OldTarget)), text(c.OldTarget)}
	}
	if c.Kind == Renamed {
		from.path = c.From
	}
	if c.Kind != Deleted {
		switch c.Type {
		case File:
			to = side{File, c.Path, c.Mode, c.Size, c.Open}
			if c.Kind == Link {
				p.note("hard link: %s is another name of %s", c.Path, c.From)
			}
		case Symlink:
			to = side{Symlink, c.Path, 0o777, int64(len(c.Target)), text(c.Target)}
			if c.Outside {
				p.note("link: %s leads out of the workspace, or nowhere: %s", c.Path, c.Target)
			}
		case Dir:
			p.directory(c)
		}
	}
	if from.typ == "" && to.typ == "" {
		return p.err
	}
	return p.file(from, to, c)
}

// directory says in words what a patch cannot.
func (p *patcher) directory(c *Change) {
	switch c.Kind {
	case Added:
		p.note("new directory %s", c.Path)
	case Mode:
		p.note("mode of directory %s: %04o, was %04o", c.Path, c.Mode, c.OldMode)
	}
}

// note writes a line that is not part of the patch, where there is a person to
// read it.
func (p *patcher) note(format string, args ...any) {
	if p.o.Terminal {
		p.line("", Printable(fmt.Sprintf(format, args...)))
	}
}

func (p *patcher) line(color, s string) {
	if p.err != nil {
		return
	}
	p.lines++
	s = p.o.cut(s)
	if p.o.Color && color != "" {
		s = "\x1b[" + color + "m" + s + "\x1b[m"
	}
	_, p.err = io.WriteString(p.w, s+"\n")
}

// cut leaves out the end of a line that is too long to be read on a terminal.
func (o DiffOptions) cut(line string) string {
	if !o.Terminal || o.MaxLine == 0 || len(line) <= o.MaxLine {
		return line
	}
	n := o.MaxLine
	for n > 0 && !utf8.RuneStart(line[n]) {
		n--
	}
	return fmt.Sprintf("%s [%d more bytes]", line[:n], len(line)-n)
}

// Colors of a patch, as git's.
const (
	bold  = "1"
	red   = "31"
	green = "32"
	cyan  = "36"
)

// maxRemoved bounds how many files of a removed directory are shown one by one.
const maxRemoved = 10_000

// removed shows the files of a directory that was removed.
func (p *patcher) removed(dir string) error {
	left := maxRemoved
	var walk func(dir string) error
	walk = func(dir string) error {
		names, err := p.set.layers.Lower.ReadDir(dir)
		if isGone(err) {
			return nil // the user has removed it too
		}
		if err != nil {
			return err
		}
		for _, base := range names {
			name := path.Join(dir, base)
			st, err := p.set.layers.Lower.Lstat(name)
			if isGone(err) {
				continue
			}
			if err != nil {
				return err
			}
			if left--; left < 0 || p.full() {
				left = -1
				return nil
			}
			from := side{typ: typeOf(&st), path: name, mode: st.Mode & 0o7777, size: st.Size}
			switch from.typ {
			case Dir:
				err = walk(name)
			case File:
				from.open = func() (io.ReadCloser, error) { return p.set.layers.Lower.Open(name) }
				err = p.file(from, side{path: name}, nil)
			case Symlink:
				var target string
				if target, err = p.set.layers.Lower.Readlink(name); err == nil {
					from.open = text(target)
					err = p.file(from, side{path: name}, nil)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(dir); err != nil {
		return err
	}
	switch {
	case left >= 0:
	case p.full():
		p.more = append(p.more, "more of "+Printable(dir))
	default:
		p.note("... and more of %s", dir)
	}
	return nil
}

// file writes one entry of the patch. A change of type is a removal and an
// addition.
func (p *patcher) file(from, to side, c *Change) error {
	if from.typ != "" && to.typ != "" && from.typ != to.typ {
		return errors.Join(p.file(from, side{path: from.path}, nil), p.file(side{path: to.path}, to, c))
	}
	if p.o.Terminal {
		from.path, to.path = Printable(from.path), Printable(to.path)
	}
	p.line(bold, "diff --git "+quote("a/"+from.path)+" "+quote("b/"+to.path))
	switch {
	case from.typ == "":
		p.line(bold, "new file mode "+to.gitMode())
	case to.typ == "":
		p.line(bold, "deleted file mode "+from.gitMode())
	case from.gitMode() != to.gitMode():
		p.line(bold, "old mode "+from.gitMode())
		p.line(bold, "new mode "+to.gitMode())
	}
	if from.path != to.path {
		p.line(bold, "similarity index 100%")
		p.line(bold, "rename from "+quote(from.path))
		p.line(bold, "rename to "+quote(to.path))
		return p.err
	}
	old, new, kind, err := p.contents(from, to)
	if err != nil {
		return err
	}
	if kind != isText && !p.o.Terminal {
		return p.wholly(from, to)
	}
	if kind != isText {
		p.line("", string(kind)+" files "+p.label("a/", from)+" and "+p.label("b/", to)+" differ"+fmt.Sprintf(" (%d bytes, were %d)", to.size, from.size))
		return p.err
	}
	if old == new {
		if p.o.Terminal && from.typ != "" && to.typ != "" && c != nil && from.gitMode() == to.gitMode() && c.OldMode != c.Mode {
			p.note("mode %04o, was %04o", c.Mode, c.OldMode)
		}
		return p.err
	}
	unified, err := udiff.ToUnifiedDiff("", "", old, udiff.Lines(old, new), contextLines)
	if err != nil {
		return err
	}
	p.line(bold, "--- "+p.label("a/", from))
	p.line(bold, "+++ "+p.label("b/", to))
	p.hunks(unified.String(), to.path)
	return p.err
}

// label names a side in the two lines above the hunks. A tab ends a name that
// has a space, as git does it.
func (p *patcher) label(prefix string, x side) string {
	if x.typ == "" {
		return "/dev/null"
	}
	name := quote(prefix + x.path)
	if strings.Contains(x.path, " ") && name[0] != '"' {
		name += "\t"
	}
	return name
}

// hunks writes what follows the two labels of a unified diff of a file.
func (p *patcher) hunks(unified, name string) {
	n := 0
	total := strings.Count(unified, "\n")
	for line := range strings.Lines(unified) {
		if n++; n <= 2 {
			continue
		}
		if p.full() {
			p.more = append(p.more, plural(total-n+1, "more line", "of "+name))
			return
		}
		line = strings.TrimSuffix(line, "\n")
		color := ""
		switch {
		case strings.HasPrefix(line, "+"):
			color = green
		case strings.HasPrefix(line, "-"):
			color = red
		case strings.HasPrefix(line, "@@"):
			color = cyan
		}
		if p.o.Terminal {
			line = printableLine(line)
		}
		p.line(color, line)
	}
}

// A kind says how contents are shown: line by line, or only by their sizes.
type kind string

const (
	isText   kind = "Text"
	isNoText kind = "Binary"
	isLarge  kind = "Large"
)

// contents reads both sides, unless one is no text or too large to compare.
func (p *patcher) contents(from, to side) (old, new string, k kind, err error) {
	if from.size > p.o.MaxFile || to.size > p.o.MaxFile || p.o.MaxTotal > 0 && p.read+from.size+to.size > p.o.MaxTotal {
		return "", "", isLarge, nil
	}
	var sides [2]string
	for i, x := range []side{from, to} {
		if x.typ == "" {
			continue
		}
		r, err := x.open()
		if err != nil {
			return "", "", "", err
		}
		data, err := io.ReadAll(io.LimitReader(r, p.o.MaxFile+1))
		r.Close()
		p.read += int64(len(data))
		switch {
		case err != nil:
			return "", "", "", err
		case int64(len(data)) > p.o.MaxFile:
			return "", "", isLarge, nil
		case isBinary(data):
			return "", "", isNoText, nil
		}
		sides[i] = string(data)
	}
	return sides[0], sides[1], isText, nil
}

// quote writes a name as git does in a patch: in C's notation if it has
// anything that would be misread.
func quote(name string) string {
	plain := true
	for i := range len(name) {
		if c := name[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			plain = false
		}
	}
	if plain {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		c := name[i]
		if j := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c); j >= 0 {
			b.WriteByte('\\')
			b.WriteByte(`abtnvfr"\`[j])
		} else if c < 0x20 || c >= 0x7f {
			fmt.Fprintf(&b, "\\%03o", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
