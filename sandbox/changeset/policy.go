package changeset

import (
	"errors"
	"io/fs"
	"path"

	"github.com/sallyport/sallyport/internal/beneath"
)

// A policyDir is one directory of the view's policy layers.
type policyDir struct {
	all  bool // a directory above is denied
	dirs []*beneath.Dir
}

func (r *reader) openPolicy(name string) (policyDir, error) {
	var p policyDir
	for _, l := range r.view.Layers {
		if !l.Policy {
			continue
		}
		d, err := l.Dir.OpenDir(name)
		switch {
		case err == nil:
			p.dirs = append(p.dirs, d)
		case errors.Is(err, fs.ErrNotExist):
		case isGone(err): // something else than a directory is on the way
			p.all = true
		default:
			p.close()
			return policyDir{}, err
		}
	}
	return p, nil
}

func (p policyDir) close() {
	for _, d := range p.dirs {
		d.Close()
	}
}

// denies reports whether a name in the directory is denied.
func (p policyDir) denies(base string) (bool, error) {
	for _, d := range p.dirs {
		st, err := d.Lstat(base)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || typeOf(&st) != Dir {
			return true, err
		}
	}
	return p.all, nil
}

// deniesBelow reports whether anything below a directory is denied.
func (r *reader) deniesBelow(name string) (bool, error) {
	todo := []string{name}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p, err := r.openPolicy(name)
		if err != nil {
			return false, err
		}
		denied := p.all
		for _, d := range p.dirs {
			for base, err := range d.Entries() {
				if err != nil {
					p.close()
					return false, err
				}
				st, err := d.Lstat(base)
				if err != nil || typeOf(&st) != Dir {
					denied = true
					break
				}
				todo = append(todo, path.Join(name, base))
			}
		}
		p.close()
		if denied {
			return true, nil
		}
	}
	return false, nil
}
