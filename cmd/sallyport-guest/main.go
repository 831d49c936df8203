// Command sallyport-guest is what sallyport starts: the
// process that makes containers, and PID 1 in each of them. It is not for use by hand.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sallyport/sallyport/internal/version"
	"github.com/sallyport/sallyport/sandbox/adoption"
	"github.com/sallyport/sallyport/sandbox/guest"
	"github.com/sallyport/sallyport/sandbox/inside"
	"github.com/sallyport/sallyport/sandbox/native/starter"
	bash "github.com/sallyport/sallyport/tools/bash/call"
	edit "github.com/sallyport/sallyport/tools/edit/call"
	glob "github.com/sallyport/sallyport/tools/glob/call"
	grep "github.com/sallyport/sallyport/tools/grep/call"
	read "github.com/sallyport/sallyport/tools/read/call"
	write "github.com/sallyport/sallyport/tools/write/call"
)

// functions are what the host can run inside beside programs.
var functions = map[string]guest.Function{
	"echo": {Run: func(_ context.Context, c *inside.Call) ([]byte, error) { return c.Input, nil }, Pure: true},

	inside.ResolveName: {Run: inside.JSON(inside.ResolvePaths)},
	adoption.Name:      {Run: adoption.Run},

	bash.Name: {Run: inside.JSON(bash.Run)},
	"Read":    {Run: inside.JSON(read.Run)},
	"Write":   {Run: inside.JSON(write.Run)},
	"Edit":    {Run: inside.JSON(edit.Run)},
	"Grep":    {Run: inside.JSON(grep.Run)},
	"Glob":    {Run: inside.JSON(glob.Run)},
}

func main() {
	switch {
	case len(os.Args) == 1 && os.Getpid() == 1:
		os.Exit(guest.Main(version.Version, starter.WireFd, functions))
	case len(os.Args) == 2 && os.Args[1] == starter.Arg:
		os.Exit(starter.Main())
	case len(os.Args) == 4 && os.Args[1] == starter.ArgProbe:
		os.Exit(starter.ProbeMain(os.Args[2], os.Args[3], os.Stdout))
	}
	fmt.Fprintf(os.Stderr, "sallyport-guest %s: the inside of a sallyport session; it is started by sallyport\n", version.Version)
	os.Exit(2)
}
