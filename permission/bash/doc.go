// Package bash says what a shell command would do, as far as that can be proved.
//
// [Parse] reads a command as bash does and takes it apart: every simple command
// in it, however deep, with its words, what they are known to be, what kind of
// command it is and which paths it touches; every redirection. [Script.ReadOnly]
// says whether all of it changes nothing.
//
// The rule of the package is that it never calls read-only what could change
// something. So it knows what commands do from a table of those, with the flags
// that each is known to take, and whatever is not in it is not proved: another
// command, another flag, a flag that is abbreviated, a word that could become a
// flag when it is expanded. A command that is read-only by its meaning and not
// seen as such costs a question; the other mistake must not happen.
//
// "Read-only" means: by its own meaning it changes no file, uses no network and
// starts no program that the table does not know, in the environment of the box
// (no optional locks, pager, hooks, file system monitor or external diff of git).
// What a repository's configuration could still run is held by the read-only
// container.
//
// The package knows nothing of rules. It reads no file.
package bash
