// Package version says which release this is.
package version

// Version is the release. The host and the guest must be of the same.
const Version = "0.1.0"
