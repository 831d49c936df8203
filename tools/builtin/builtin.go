// Package builtin is the one list of the tools that sallyport has.
package builtin

import (
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/bash"
	"github.com/sallyport/sallyport/tools/edit"
	"github.com/sallyport/sallyport/tools/glob"
	"github.com/sallyport/sallyport/tools/grep"
	"github.com/sallyport/sallyport/tools/read"
	"github.com/sallyport/sallyport/tools/write"
)

// All are the tools, enabled or not.
func All() []*tools.Tool {
	return []*tools.Tool{bash.Tool, edit.Tool, glob.Tool, grep.Tool, read.Tool, write.Tool}
}
