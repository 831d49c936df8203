// Package builtin is the one list of the tools that sallyport has.
package builtin

import (
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/bash"
)

// All are the tools, enabled or not.
func All() []*tools.Tool {
	return []*tools.Tool{bash.Tool}
}
