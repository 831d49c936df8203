// Command embed is all that a program needs to run commands in a session and to
// take what they did out of it.
//
//	embed GUEST STATE WORKSPACE
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/sandbox/native"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, guest, state, workspace string) error {
	store, err := sandbox.OpenStore(state)
	if err != nil {
		return err
	}
	s, err := pipeline.Open(ctx, pipeline.Options{Store: store, Workspace: workspace, Driver: native.Driver{Guest: guest}})
	if err != nil {
		return err
	}
	defer s.Close()
	// A call whose output comes as it is written.
	exit, err := s.Exec(ctx, sandbox.Command{Args: []string{"sed", "-i", "s/world/agent/w /dev/stdout", "hello"}, Stdout: os.Stdout})
	if err != nil || exit.Status() != 0 {
		return fmt.Errorf("sed: %+v, %w", exit, err)
	}
	// One that is stopped when it has said something.
	short, cancel := context.WithCancel(ctx)
	_, err = s.Exec(short, sandbox.Command{Args: []string{"yes"}, Stdout: written(cancel)})
	fmt.Println("yes:", err)
	// What they have changed, and the way out.
	changes, err := s.Changes(ctx)
	if err != nil {
		return err
	}
	defer changes.Close()
	changes.WriteStat(ctx, os.Stdout, changeset.DiffOptions{})
	report, err := s.Apply(ctx, changes, sandbox.ApplyOptions{Atomic: true})
	fmt.Printf("report: %+v\n", report)
	return err
}

type written func()

func (w written) Write(p []byte) (int, error) { w(); return len(p), nil }
