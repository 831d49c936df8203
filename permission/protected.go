package permission

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Protected paths are files that make somebody else's program run something, or
// trust something: who can change them outside of the box has left it. A
// session cannot change those that the workspace has, and none leaves it without
// being named.
//
// Each is a list of components. It protects a path that ends in it, at any
// depth, and all below; "*" is any one component, "**" one or more. The comparison ignores case,
// as some filesystems do.
var protected = []struct {
	path string
	why  string
}{
	{".git/hooks", "git runs what is in it"},
	{".git/config", "git runs programs that it names (core.fsmonitor, core.pager, aliases)"},
	{".git/config.worktree", "the same"},
	{".git/info/attributes", "names filters that git runs"},
	{".git/commondir", "leads git to another configuration"},
	{".git/modules/**/config", "a submodule's configuration; its name may have slashes, and it submodules"},
	{".git/modules/**/config.worktree", "the same"},
	{".git/modules/**/hooks", "a submodule's hooks"},
	{".git/modules/**/info/attributes", "names filters that git runs"},
	{".git/modules/**/commondir", "leads git to another configuration"},
	{".git/worktrees/*/config.worktree", "a worktree's configuration"},
	{".git/worktrees/*/commondir", "leads git to another configuration"},
	{".gitmodules", "names where git fetches code from"},
	{".git/rebase-merge", "holds commands that git runs to go on"},
	{".git/rebase-apply", "the same"},
	{".husky", "git runs what is in it where husky is used"},
	{".githooks", "git runs what is in it where core.hooksPath is its usual name"},
	{".pre-commit-config.yaml", "git runs what it names where pre-commit is used"},
	{".gitconfig", "git's configuration for a user"},

	{".bashrc", "a shell runs it"},
	{".bash_profile", "a shell runs it"},
	{".bash_login", "a shell runs it"},
	{".bash_logout", "a shell runs it"},
	{".profile", "a shell runs it"},
	{".zshrc", "a shell runs it"},
	{".zshenv", "a shell runs it"},
	{".zprofile", "a shell runs it"},
	{".zlogin", "a shell runs it"},
	{".zlogout", "a shell runs it"},
	{".bash_aliases", "a shell runs it"},
	{".envrc", "direnv runs it when the directory is entered"},
	{".inputrc", "binds keys to commands"},
	{".ripgreprc", "ripgrep runs programs that it names"},

	{".vscode", "the editor runs tasks and programs that it names"},
	{".idea", "the editor runs programs that it names"},
	{".nvim.lua", "the editor runs it"},
	{".nvimrc", "the editor runs it"},
	{".exrc", "the editor runs it"},
	{".vimrc", "the editor runs it"},
	{".lvimrc", "the editor runs it"},
	{".dir-locals.el", "the editor evaluates it"},
	{".dir-locals-2.el", "the editor evaluates it"},
	{".zed", "the editor runs programs that it names"},
	{".helix", "the editor runs programs that it names"},
	{".devcontainer", "the editor starts containers that it describes"},
	{".devcontainer.json", "the editor starts the container that it describes"},

	{".claude", "configures an agent: permissions, hooks, commands"},
	{".codex", "configures an agent"},
	{".cursor", "configures an agent"},
	{".gemini", "configures an agent"},
	{".mcp.json", "names programs that an agent starts"},
	{".sallyport", "configures sallyport"},
	{"sallyport/settings.json", "configures sallyport for a user, where it lies in ~/.config: in all workspaces, without being trusted first"},
}

// Protected returns why a path is protected, or "". The path is relative to the
// workspace.
func Protected(path string) string {
	parts := strings.Split(path, "/")
	for _, p := range protected {
		if endsIn(parts, strings.Split(p.path, "/")) {
			return p.why
		}
	}
	last := parts[len(parts)-1]
	switch {
	case strings.EqualFold(last, gitFile):
		return "leads git to a configuration"
	case strings.EqualFold(last, headFile) && !inGit(parts):
		return "makes its directory a repository, whose configuration git obeys"
	}
	return ""
}

// ProtectedBy returns what tells of a path of a workspace whether it is
// protected: by its name, or as a part of a repository that the workspace has
// without a .git above it. Git finds such a one in any directory that it is run
// in, as a shell's prompt does.
//
// A path that ends in a slash is that of a link, which leads wherever it is made
// to: it is protected as well where something protected may lie below it.
func ProtectedBy(workspace string) func(path string) bool {
	return func(path string) bool {
		path, link := strings.CutSuffix(path, "/")
		if Protected(path) != "" {
			return true
		}
		parts := strings.Split(path, "/")
		if link && isAbove(parts, func(p string) string { return p }) {
			return true
		}
		if inGit(parts) {
			return false
		}
		for i := range parts {
			if (ofRepository(parts[i:]) || link && isAbove(parts[i:], belowGit)) && isRepository(filepath.Join(workspace, filepath.Join(parts[:i]...))) {
				return true
			}
		}
		return false
	}
}

// isAbove reports whether something protected may lie below a path: by the
// patterns as of makes them, "" for those that do not count.
func isAbove(parts []string, of func(pattern string) string) bool {
	for _, p := range protected {
		pattern := of(p.path)
		if pattern == "" {
			continue
		}
		for start := range parts {
			if isAboveOf(parts[start:], strings.Split(pattern, "/")) {
				return true
			}
		}
	}
	return false
}

// isAboveOf reports whether a pattern names something below the path that parts are.
func isAboveOf(parts, pattern []string) bool {
	for i, p := range pattern {
		switch {
		case i == len(parts), p == "**":
			return true
		case p != "*" && !strings.EqualFold(parts[i], p):
			return false
		}
	}
	return false
}

// belowGit is a pattern of what lies in a .git, relative to that; "" for others.
func belowGit(pattern string) string {
	pattern, ok := strings.CutPrefix(pattern, gitFile+"/")
	if !ok {
		return ""
	}
	return pattern
}

// headFile is what no repository is without.
const headFile = "HEAD"

// inGit reports whether a path lies in a .git, where other rules hold.
func inGit(parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.EqualFold(part, gitFile) })
}

// ofRepository reports whether a path relative to a repository is protected.
func ofRepository(parts []string) bool {
	for _, p := range protected {
		if pattern, ok := strings.CutPrefix(p.path, gitFile+"/"); ok && begins(parts, strings.Split(pattern, "/")) {
			return true
		}
	}
	return false
}

func isRepository(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, headFile))
	return err == nil
}

// gitFile, where it is no directory, leads git to one anywhere.
const gitFile = ".git"

// endsIn reports whether a prefix of parts ends in pattern: the path is what
// the pattern names, or lies below it.
func endsIn(parts, pattern []string) bool {
	for start := range parts {
		if begins(parts[start:], pattern) {
			return true
		}
	}
	return false
}

// begins reports whether parts begin with what pattern names.
func begins(parts, pattern []string) bool {
	for i, p := range pattern {
		switch {
		case i == len(parts):
			return false
		case p == "**":
			return endsIn(parts[i+1:], pattern[i+1:])
		case p != "*" && !strings.EqualFold(parts[i], p):
			return false
		}
	}
	return true
}

// ProtectedIn returns the protected paths that exist at the root of a
// workspace, as absolute paths. What a link leads to is left out
// ([ProtectedLinks]): it does not leave the box unnamed either, but cannot be
// made read-only where it is.
func ProtectedIn(workspace string) []string {
	var found []string
	for _, name := range protectedNames(workspace) {
		info, err := os.Lstat(name)
		if err == nil && info.Mode()&os.ModeSymlink == 0 && linkAbove(workspace, name) == "" {
			found = append(found, name)
		}
	}
	git := filepath.Join(workspace, gitFile)
	if info, err := os.Lstat(git); err == nil && info.Mode().IsRegular() {
		found = append(found, git)
	}
	return found
}

// ProtectedLinks returns the links at the root of a workspace that are protected
// paths or lead to such, as absolute paths.
func ProtectedLinks(workspace string) []string {
	var found []string
	names := append(protectedNames(workspace), filepath.Join(workspace, ".git"))
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
			found = append(found, name)
		} else if link := linkAbove(workspace, name); link != "" {
			found = append(found, link)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// protectedNames are the protected paths at the root of a workspace that exist,
// links among them.
func protectedNames(workspace string) []string {
	var names []string
	for _, path := range patterns(workspace) {
		if above, pattern, ok := strings.Cut(path, "/**/"); ok {
			names = append(names, namesBelow(filepath.Join(workspace, above), pattern)...)
			continue
		}
		got, err := filepath.Glob(filepath.Join(globQuote(workspace), path))
		if err == nil { // only a bad pattern is an error
			names = append(names, got...)
		}
	}
	return names
}

// patterns are the protected paths at the root of a workspace, which may be a
// repository itself.
func patterns(workspace string) []string {
	bare := isRepository(workspace)
	var list []string
	for _, p := range protected {
		list = append(list, p.path)
		if path, ok := strings.CutPrefix(p.path, gitFile+"/"); ok && bare {
			list = append(list, path)
		}
	}
	return list
}

// namesBelow are the paths below a directory, at any depth but at its root, that
// end in a path. Where git keeps objects and references there are none.
func namesBelow(dir, end string) []string {
	var names []string
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read git cannot read either
		}
		if e.IsDir() && slices.Contains([]string{"objects", "refs", "logs"}, e.Name()) {
			return fs.SkipDir
		}
		if rel := strings.TrimPrefix(path, dir); strings.HasSuffix(rel, "/"+end) && rel != "/"+end {
			names = append(names, path)
		}
		return nil
	})
	return names
}

// linkAbove returns the first directory between a workspace and a path in it
// that is a link, or "".
func linkAbove(workspace, name string) string {
	for dir := filepath.Dir(name); len(dir) > len(workspace); dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return dir
		}
	}
	return ""
}

// globQuote takes the meaning off a path for filepath.Glob.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// ProtectedMissing returns the protected paths that do not exist at the root of
// a workspace but could be made there, as absolute paths.
func ProtectedMissing(workspace string) []string {
	var missing []string
	git := filepath.Join(workspace, ".git")
	_, err := os.Lstat(git)
	noGit := os.IsNotExist(err)
	if noGit {
		missing = append(missing, git) // as a whole: it can be a file, too
	}
	for _, p := range append(patterns(workspace), headFile) {
		if strings.Contains(p, "*") || noGit && strings.HasPrefix(p, ".git/") {
			continue
		}
		path := filepath.Join(workspace, p)
		if _, err := os.Lstat(path); os.IsNotExist(err) {
			missing = append(missing, path)
		}
	}
	return missing
}
