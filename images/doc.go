// Package images turns a reference into a root filesystem that a session can
// be started on.
//
// There is one image so far, the machine itself ([Host]): its programs and
// libraries, read-only, and an /etc that says as little as programs need.
package images
