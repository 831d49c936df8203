package main

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/sallyport/sallyport/sandbox"
)

// Sizes of workspaces that are compared.
const few, many = 100, 100_000

// benchDiff measures what a diff costs after ten files were changed, in a small
// and in a large workspace.
func benchDiff(e *env) ([]Row, error) {
	var things []func() error
	for _, files := range []int{few, many} {
		s, live, err := e.startOver(files)
		if err != nil {
			return nil, err
		}
		defer s.Remove()
		if _, err := live.Exec(e.ctx, sandbox.Command{Args: []string{"sh", "-c", "for i in 0 1 2 3 4 5 6 7 8 9; do echo four >> d0/f$i.txt; done"}}); err != nil {
			return nil, err
		}
		if err := live.Close(); err != nil {
			return nil, err
		}
		things = append(things, func() error {
			c, err := s.Changes(e.ctx, nil)
			if err != nil {
				return err
			}
			defer c.Close()
			if n := len(c.Set.Changes); n != 10 {
				return fmt.Errorf("%d changes", n)
			}
			return nil
		})
	}
	got, err := turns(200, things...)
	if err != nil {
		return nil, err
	}
	return []Row{row("diff of 10 files among 100,000, against among 100", "ms", got[1], got[0], 1.5)}, nil
}

// benchFork measures a fork with sed -i on one file, its change set, and its
// end.
func benchFork(e *env) ([]Row, error) {
	var things []func() error
	for _, files := range []int{few, many} {
		s, live, err := e.startOver(files)
		if err != nil {
			return nil, err
		}
		defer s.Remove()
		defer live.Close()
		things = append(things, func() error {
			fork, err := live.Fork(e.ctx, sandbox.ForkOptions{})
			if err != nil {
				return err
			}
			if _, err := fork.Exec(e.ctx, sandbox.Command{Args: []string{"sed", "-i", "s/two/2/", "d0/f1.txt"}}); err != nil {
				return err
			}
			c, err := fork.Changes(e.ctx, nil)
			if err != nil {
				return err
			}
			if n := len(c.Set.Changes); n != 1 {
				return fmt.Errorf("%d changes", n)
			}
			c.Close()
			return fork.Close()
		})
	}
	host, err := e.workspace(few)
	if err != nil {
		return nil, err
	}
	things = append(things, func() error {
		return exec.Command("sed", "-i", "s/two/2/", filepath.Join(host, "d0", "f1.txt")).Run()
	})
	got, err := turns(150, things...)
	if err != nil {
		return nil, err
	}
	return []Row{
		row("fork, sed -i, change set, end", "ms", got[0], nil, 6),
		row("the same among 100,000 files, against among 100", "ms", got[1], got[0], 1.5),
		// A machine on which sed takes 1.16 ms, as the reach has it.
		row("fork, sed -i, change set, end, against sed -i on the host", "ms", got[0], got[2], 6/1.16),
	}, nil
}
