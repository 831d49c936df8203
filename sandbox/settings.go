package sandbox

import (
	"fmt"
	"path/filepath"
)

// check reports what is wrong with settings that were read from a session of
// that name. Nothing inside can write them; but names of directories and
// cgroups are made of them, and a file may be damaged, or copied by hand.
func (s *Settings) check(name string) error {
	switch {
	case s.Name != name:
		return fmt.Errorf("it is of a session %q", s.Name)
	case CheckName(s.ID) != nil:
		return fmt.Errorf("it has the ID %q", s.ID)
	case !filepath.IsAbs(s.Workspace) || filepath.Clean(s.Workspace) != s.Workspace:
		return fmt.Errorf("it has the workspace %q", s.Workspace)
	case s.Mode != Cow && s.Mode != Direct:
		return fmt.Errorf("it has the mode %q", s.Mode)
	}
	return nil
}
