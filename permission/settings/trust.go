package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// trustDir in the state directory has a file for all that is trusted, named by
// the hash of it: nothing in it has to be read to know what is trusted, and two
// processes cannot be in each other's way.
const trustDir = "trust"

// A Trusted is a version of a file that the user trusts.
type Trusted struct {
	Workspace string    `json:"workspace"`
	File      string    `json:"file"`
	Since     time.Time `json:"since"`

	hash string
}

// hash is of a file's place and its bytes. Neither path has a NUL in it.
func (p *Places) hash(name string, data []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00", p.Workspace, name)
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// trusts reports whether these bytes of a file of the workspace are trusted.
func (p *Places) trusts(name string, data []byte) (bool, error) {
	if p.State == "" {
		return false, nil
	}
	info, err := os.Lstat(filepath.Join(p.State, trustDir, p.hash(name, data)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("what is trusted: %w", err)
	}
	return info.Mode().IsRegular(), nil
}

// Trust remembers that the user trusts a file of the workspace as it was read.
func (p *Places) Trust(f *File) error { return p.trust(f.Name, f.bytes) }

func (p *Places) trust(name string, data []byte) error {
	if p.State == "" {
		return errors.New("there is no state directory to remember in what is trusted")
	}
	dir := filepath.Join(p.State, trustDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("remembering what is trusted: %w", err)
	}
	text, err := json.Marshal(Trusted{Workspace: p.Workspace, File: name, Since: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(dir, p.hash(name, data)), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("remembering what is trusted: %w", err)
	}
	return nil
}

// distrust forgets one version of a file.
func (p *Places) distrust(name string, data []byte) error {
	err := os.Remove(filepath.Join(p.State, trustDir, p.hash(name, data)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// AllTrusted lists what is trusted, in all workspaces.
func (p *Places) AllTrusted() ([]Trusted, error) {
	dir := filepath.Join(p.State, trustDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("what is trusted: %w", err)
	}
	var all []Trusted
	for _, e := range entries {
		if len(e.Name()) != 2*sha256.Size || !e.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("what is trusted: %w", err)
		}
		t := Trusted{hash: e.Name()}
		if err := json.Unmarshal(data, &t); err != nil {
			return nil, fmt.Errorf("what is trusted: %s: %w; remove it", filepath.Join(dir, e.Name()), err)
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Trusted) int {
		if c := strings.Compare(a.Workspace, b.Workspace); c != 0 {
			return c
		}
		return strings.Compare(a.File, b.File)
	})
	return all, nil
}

// Revoke forgets all that is trusted in the workspace, and returns what it was.
func (p *Places) Revoke() ([]Trusted, error) {
	all, err := p.AllTrusted()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(t Trusted) bool { return t.Workspace != p.Workspace })
	for _, t := range all {
		if err := os.Remove(filepath.Join(p.State, trustDir, t.hash)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("forgetting what is trusted: %w", err)
		}
	}
	return all, nil
}
