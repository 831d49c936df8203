//go:build !amd64

package main

// foreign says that there is no other convention to be tried.
func foreign(r *report, args []string) { r.say(args[0], "none") }

func hardware(r *report) {
	for _, name := range []string{"iopl", "ioperm", "modify_ldt"} {
		r.say(name, "EPERM") // there is no such call
	}
}
