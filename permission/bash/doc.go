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
// For rules that forbid a command the other direction counts: what a script may
// run is found also where it does not stand as a command. What evaluates a text
// that is not known, and a program that is given code, is a part that may be
// anything. A program by its file (make, python3 x.py) is no such part: it is not read.
//
// A path is certain where it does not go up from what may be a symbolic link, and
// where nothing in the script may put one; else it is open.
//
// The package knows nothing of rules. It reads no file.
package bash
