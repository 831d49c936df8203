package inside

import (
	"path"
	"strings"
)

// What programs write beside their work: without it they do the same, perhaps
// more slowly the next time. So it says nothing of what a call was for.
var (
	// Directories of any name above, the whole name of one.
	cacheDirs = []string{"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", "node_modules/.cache"}
	// Directories and files in the home directory.
	homeCaches = []string{
		".cache", ".local/state", // XDG base directories
		".config/go/telemetry", "go/pkg/mod/cache", // Go
		".npm/_cacache", ".npm/_logs", ".npm/_update-notifier-last-checked",
		".cargo/.package-cache", ".cargo/.global-cache",
		".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".lesshst", ".viminfo",
		".sqlite_history", ".psql_history", ".mysql_history",
	}
	// Files below a git directory. git does not refresh its index here as it is
	// told not to; a program that asks it with an environment of its own may.
	gitFiles = []string{"index", "index.lock"}
	// Files by how they end: Python's compiled ones, also while they are written.
	cacheSuffixes = []string{".pyc", ".pyo"}
)

// javaCounters begin the names of what each Java machine shows of itself.
const javaCounters = "/tmp/hsperfdata_"

// Opportunistic reports whether to write a path, clean and absolute, is a thing
// that the program can do without. home is the home directory; "" is none.
func Opportunistic(name, home string) bool {
	if strings.HasPrefix(name, javaCounters) {
		return true
	}
	for _, suffix := range cacheSuffixes {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	for _, dir := range cacheDirs {
		if strings.Contains(name+"/", "/"+dir+"/") {
			return true
		}
	}
	for _, cache := range homeCaches {
		// A history is replaced by a new file beside it.
		if home == "" {
			break
		}
		at := path.Join(home, cache)
		if below(name, at) || path.Dir(name) == path.Dir(at) && strings.HasPrefix(name, at+"-") {
			return true
		}
		// The directories above are made first.
		if name != home && below(name, home) && below(at, name) {
			return true
		}
	}
	if strings.Contains(name, "/.git/") {
		for _, file := range gitFiles {
			if path.Base(name) == file {
				return true
			}
		}
	}
	return false
}

func below(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}
