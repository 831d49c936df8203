// Package pipeline is the way of a call from whoever asks for it to the session
// that runs it: what is decided is recorded before it runs, and what came of it
// afterwards.
//
// A [Session] is a live session whose every call and change goes on record. The
// record of a session is in its directory (package audit).
package pipeline
