package permission

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestProtected(t *testing.T) {
	for path, want := range map[string]bool{
		".git/hooks":                               true,
		".git/hooks/pre-commit":                    true,
		".git/hooks/deep/below":                    true,
		".git/config":                              true,
		".git/config.worktree":                     true,
		".git/info/attributes":                     true,
		".git/modules/sub/config":                  true,
		".git/modules/sub/hooks/post-merge":        true,
		".git/modules/a/b/c/hooks/x":               true, // the name of a submodule may have slashes
		".git/modules/a/modules/b/config":          true,
		".git/worktrees/w/config.worktree":         true,
		".git/rebase-merge/git-rebase-todo":        true,
		"vendor/lib/.git/hooks/pre-commit":         true,
		"sub/.git":                                 true, // a file there leads git anywhere
		".git":                                     true,
		".GIT/Hooks/x":                             true, // some file systems take it for the same
		".gitmodules":                              true,
		"a/b/.envrc":                               true,
		".bashrc":                                  true,
		".BashRC":                                  true,
		".vscode/tasks.json":                       true,
		"pkg/.vscode/tasks.json":                   true,
		".idea":                                    true,
		".claude/settings.json":                    true,
		".mcp.json":                                true,
		".sallyport/settings.json":                 true,
		"sallyport/settings.json":                  true, // of a user, where the workspace is ~/.config
		"dotfiles/.config/sallyport/settings.json": true,
		"sallyport/settings.go":                    false,
		".husky/pre-push":                          true,
		".githooks/pre-push":                       true,
		".devcontainer.json":                       true,
		"HEAD":                                     true, // git finds a repository without .git, too
		"a/b/HEAD":                                 true,

		".git/objects/ab/cdef":          false,
		".git/index":                    false,
		".git/HEAD":                     false,
		".git/worktrees/w/HEAD":         false,
		".git/refs/remotes/origin/HEAD": false,
		"x/HEAD/y":                      false,
		"HEADER":                        false,
		".git/refs/heads/main":          false,
		".git/info/exclude":             false,
		".git/modules/config":           false,
		".git/configuration":            false,
		"git/hooks":                     false,
		"x.git/hooks":                   false,
		".git-hooks/hooks":              false,
		"hooks":                         false,
		".gitignore":                    false,
		".github/workflows/ci.yml":      false,
		".bashrc.d":                     false,
		"bashrc":                        false,
		"a.bashrc":                      false,
		".vscode-test":                  false,
		"src/main.go":                   false,
		"":                              false,
		".":                             false,
		"..git/hooks":                   false,
		".git ":                         false,
		"docs/.git.md":                  false,
		"a/.mcp.json.bak":               false,
		".env":                          false, // a secret, not something that is run
		"Makefile":                      false,
		".git/modules/a/b/description":  false,
	} {
		if why := Protected(path); (why != "") != want {
			t.Errorf("%q: %q", path, why)
		}
	}
}

// A link that stands where a directory above something protected may be makes
// files of any name protected ones.
func TestProtectedLinkAbove(t *testing.T) {
	workspace := t.TempDir()
	makeFiles(t, workspace, "old.git/HEAD", "plain/README")
	protects := ProtectedBy(workspace)
	for path, want := range map[string]bool{
		".git/info":              true,
		".git/modules":           true,
		".git/modules/sub":       true,
		".git/modules/a/b":       true,
		".git/worktrees":         true,
		".git/worktrees/w":       true,
		".git/refs":              false,
		".git/HEAD":              false,
		"sub/.git/INFO":          true,
		"old.git/info":           true,
		"old.git/modules/sub":    true,
		"old.git/objects":        false,
		"plain/info":             false,
		"sallyport":              true,
		"info":                   false,
		"docs":                   false,
		"node_modules/.bin/tool": false,
	} {
		if got := protects(path + "/"); got != want {
			t.Errorf("a link %s: %v", path, got)
		}
		if want && protects(path) {
			t.Errorf("%s is protected where it is no link", path)
		}
	}
	if !protects(".vscode/") || !protects(".bashrc/") {
		t.Error("a link that is protected by its name is not")
	}
}

func TestEveryRowOfTheTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range protected {
		if p.path != filepath.Clean(p.path) || filepath.IsAbs(p.path) || p.why == "" || seen[p.path] {
			t.Errorf("%+v", p)
		}
		seen[p.path] = true
		if Protected(p.path) == "" || Protected("deep/"+p.path+"/below") == "" {
			t.Errorf("%s is not protected", p.path)
		}
	}
}

func makeFiles(t *testing.T, root string, paths ...string) {
	t.Helper()
	for _, p := range paths {
		full := filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProtectedPathsOfAWorkspace(t *testing.T) {
	// A name that would mean something else as a pattern.
	root := filepath.Join(t.TempDir(), "[a]*?\\")
	makeFiles(t, root, ".git/config", ".git/hooks/x", ".git/modules/m1/config", ".git/modules/m2/config", ".git/modules/a/b/hooks/x", ".git/modules/m1/objects/config", ".git/modules/config", ".bashrc", "sub/.envrc", "plain")
	makeFiles(t, root, "elsewhere/tasks.json", "elsewhere/rc")
	for target, name := range map[string]string{"elsewhere": ".vscode", "elsewhere/rc": ".zshrc"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	rel := func(paths []string) []string {
		var out []string
		for _, p := range paths {
			r, err := filepath.Rel(root, p)
			if err != nil || !filepath.IsAbs(p) {
				t.Errorf("%s, %v", p, err)
			}
			out = append(out, r)
		}
		slices.Sort(out)
		return out
	}
	if got := rel(ProtectedIn(root)); !slices.Equal(got, []string{".bashrc", ".git/config", ".git/hooks", ".git/modules/a/b/hooks", ".git/modules/m1/config", ".git/modules/m2/config"}) {
		t.Errorf("%q", got)
	}
	if got := rel(ProtectedLinks(root)); !slices.Equal(got, []string{".vscode", ".zshrc"}) {
		t.Errorf("links: %q", got)
	}
	missing := rel(ProtectedMissing(root))
	for _, p := range []string{".envrc", ".git/commondir", ".idea", ".mcp.json"} {
		if !slices.Contains(missing, p) {
			t.Errorf("%s is not missing", p)
		}
	}
	for _, p := range []string{".bashrc", ".git", ".git/config", ".vscode", ".zshrc"} {
		if slices.Contains(missing, p) {
			t.Errorf("%s is missing", p)
		}
	}
}

// Of a worktree or a submodule .git is a file, which is protected as a whole;
// where there is none, none may appear, nor anything in it.
func TestGitFile(t *testing.T) {
	root := t.TempDir()
	missing := ProtectedMissing(root)
	if !slices.Contains(missing, root+"/.git") || slices.Contains(missing, root+"/.git/hooks") {
		t.Errorf("%q", missing)
	}
	makeFiles(t, root, ".git")
	if got := ProtectedIn(root); !slices.Equal(got, []string{root + "/.git"}) {
		t.Errorf("%q", got)
	}
	if slices.Contains(ProtectedMissing(root), root+"/.git") {
		t.Error(".git is missing")
	}
	if err := os.Remove(root + "/.git"); err != nil {
		t.Fatal(err)
	}
	makeFiles(t, root, "g/config", "g/hooks/x")
	if err := os.Symlink("g", root+"/.git"); err != nil {
		t.Fatal(err)
	}
	if got := ProtectedIn(root); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if got := ProtectedLinks(root); !slices.Equal(got, []string{root + "/.git"}) {
		t.Errorf("%q", got)
	}
}

// A repository without .git is one for git in whatever directory it is run.
func TestRepositoryWithoutGitDirectory(t *testing.T) {
	workspace := t.TempDir()
	for _, dir := range []string{"fixtures/old.git/hooks", "plain/hooks", ".git/objects"} {
		if err := os.MkdirAll(filepath.Join(workspace, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	head := func(dir string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(workspace, dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	head("fixtures/old.git")
	protectedBy := ProtectedBy(workspace)
	for path, want := range map[string]bool{
		"fixtures/old.git/config":          true,
		"fixtures/old.git/Config":          true,
		"fixtures/old.git/hooks":           true,
		"fixtures/old.git/hooks/update":    true,
		"fixtures/old.git/commondir":       true,
		"fixtures/old.git/info/attributes": true,
		"fixtures/old.git/HEAD":            true,
		"plain/HEAD":                       true,
		".git/config":                      true,

		"fixtures/old.git/refs/heads/main": false,
		"fixtures/old.git/description":     false,
		"fixtures/config":                  false,
		"plain/config":                     false,
		"plain/hooks/x":                    false,
		"config":                           false,
		".git/HEAD":                        false,
		"":                                 false,
	} {
		if got := protectedBy(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}

	bare := filepath.Join(workspace, "fixtures/old.git")
	if got := ProtectedIn(bare); !slices.Contains(got, bare+"/hooks") {
		t.Errorf("read-only in a direct one: %q", got)
	}
	if got := ProtectedMissing(bare); !slices.Contains(got, bare+"/config") || slices.Contains(got, bare+"/HEAD") {
		t.Errorf("must not appear in a direct one: %q", got)
	}
	if got := ProtectedMissing(workspace); !slices.Contains(got, workspace+"/HEAD") || slices.Contains(got, workspace+"/config") {
		t.Errorf("must not appear in a direct one: %q", got)
	}
}
