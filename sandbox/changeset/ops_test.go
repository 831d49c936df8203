package changeset

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"pgregory.net/rapid"
)

// An op is something done to a tree. On two equal trees it does the same, also
// when it fails.
type op struct {
	Do   string
	A, B string
	Text string
	Mode uint32
}

func (o op) String() string { return fmt.Sprintf("%s %s %s %q %o", o.Do, o.A, o.B, o.Text, o.Mode) }

func (o op) do(root string) {
	a, b := filepath.Join(root, o.A), filepath.Join(root, o.B)
	fi, err := os.Lstat(a)
	isDir := err == nil && fi.IsDir()
	isLink := err == nil && fi.Mode()&fs.ModeSymlink != 0
	switch o.Do {
	case "write":
		if !isLink {
			os.WriteFile(a, []byte(o.Text), 0o644)
		}
	case "append":
		if err == nil && !isDir && !isLink {
			if f, err := os.OpenFile(a, os.O_WRONLY|os.O_APPEND, 0); err == nil {
				f.WriteString(o.Text)
				f.Close()
			}
		}
	case "truncate":
		if err == nil && !isDir && !isLink {
			os.Truncate(a, int64(len(o.Text)))
		}
	case "chmod":
		mode := o.Mode
		switch {
		case !isDir:
			mode &= 0o777
		case os.Getuid() != 0 || insideUserNS():
			mode |= 0o700 // else the user could not read what the session wrote
		}
		if err == nil && !isLink {
			syscall.Chmod(a, mode)
		}
	case "mkdir":
		os.Mkdir(a, 0o755)
	case "remove":
		os.RemoveAll(a)
	case "rename": // a directory of the lower cannot be renamed: see copy
		if err == nil && !isDir {
			os.Rename(a, b)
		}
	case "move": // as mv(1) does it
		if isDir && !strings.HasPrefix(o.B+"/", o.A+"/") {
			if _, err := os.Lstat(b); err != nil && copyTree(a, b) == nil {
				os.RemoveAll(a)
			}
		}
	case "symlink":
		os.Symlink(o.Text, a)
	case "link":
		if err == nil && !isDir && !isLink {
			os.Link(a, b)
		}
	case "swap": // replaces a file or directory by the other
		if err == nil && !isLink {
			os.RemoveAll(a)
			if isDir {
				os.WriteFile(a, []byte(o.Text), 0o600)
			} else {
				os.Mkdir(a, 0o700)
			}
		}
	}
}

// insideUserNS reports whether root here is not root outside.
func insideUserNS() bool {
	text, _ := os.ReadFile("/proc/self/uid_map")
	return !strings.Contains(string(text), "4294967295")
}

func genName() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "c-d"}), 1, 3).Draw(t, "path")
		return strings.Join(parts, "/")
	})
}

func genOp() *rapid.Generator[op] {
	return rapid.Custom(func(t *rapid.T) op {
		return op{
			Do: rapid.SampledFrom([]string{
				"write", "write", "write", "append", "truncate", "chmod", "mkdir", "mkdir", "remove",
				"rename", "rename", "move", "symlink", "link", "swap",
			}).Draw(t, "do"),
			A:    genName().Draw(t, "a"),
			B:    genName().Draw(t, "b"),
			Text: rapid.SampledFrom([]string{"", "x\n", "y\n", "a longer text\n", "a", "../b"}).Draw(t, "text"),
			Mode: rapid.SampledFrom([]uint32{0o644, 0o600, 0o755, 0o444, 0o700, 0o1777}).Draw(t, "mode"),
		}
	})
}

// genTree makes trees worth changing.
func genTree() *rapid.Generator[[]op] {
	return rapid.Custom(func(t *rapid.T) []op {
		ops := []op{{Do: "mkdir", A: "a"}, {Do: "mkdir", A: "b"}, {Do: "mkdir", A: "a/b"}, {Do: "write", A: "a/b/a", Text: "deep\n"}}
		for _, o := range rapid.SliceOfN(genOp(), 0, 15).Draw(t, "tree") {
			if o.Do != "link" { // see the documentation of hard links
				ops = append(ops, o)
			}
		}
		return ops
	})
}

// copyTree copies a tree with permissions, and hard links as one file each.
func copyTree(from, to string) error {
	fi, err := os.Lstat(from)
	if err != nil {
		return err
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case !fi.IsDir():
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return err
		}
	default:
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := copyTree(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
	}
	return syscall.Chmod(to, uint32(fi.Sys().(*syscall.Stat_t).Mode&0o7777))
}

// tree lists all in a directory: one line each, with type, permissions, content
// and other names.
func tree(dir string) (string, error) {
	var lines []string
	first := make(map[uint64]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		fi, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s", rel, fi.Mode())
		switch st := fi.Sys().(*syscall.Stat_t); {
		case fi.Mode().IsRegular():
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", data)
			if other := first[st.Ino]; other != "" {
				line += " = " + other
			} else {
				first[st.Ino] = rel
			}
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		lines = append(lines, line)
		return nil
	})
	sort.Strings(lines)
	return strings.Join(lines, "\n"), err
}
