package bashtest

import (
	"os"
	"path/filepath"
	"strings"

	"pgregory.net/rapid"
)

// Wrappers are ways to have a command run by, or within, another: the text before it
// and after it.
var Wrappers = [][2]string{
	{"timeout 5 ", ""}, {"nice -n 5 ", ""}, {"nohup ", ""}, {"stdbuf -oL ", ""}, {"command ", ""}, {"time ", ""}, {"sudo -u x ", ""}, {"doas ", ""}, {"env A=b ", ""}, {"env -i ", ""}, {"exec ", ""}, {"xargs -n 1 ", ""},
	{"find . -exec ", " {} +"}, {"setsid -w ", ""}, {"ionice -c 3 ", ""}, {"chroot /x ", ""}, {"flock f ", ""}, {"taskset 1 ", ""}, {"busybox ", ""}, {"strace -f ", ""}, {"unshare -r ", ""},
}

// Around are ways to have any command, of several parts too, within another.
var Around = [][2]string{
	{"( ", " )"}, {"{ ", "; }"}, {"ls; ", ""}, {"ls | ", ""}, {"", " | cat"}, {"ls && ", " && ls"}, {"echo $( ", " )"}, {"echo \"$( ", " )\""}, {"cat <( ", " )"}, {"if ls; then ", "; fi"}, {"while ", "; do ls; done"}, {"for i in 1 2; do ", "; done"}, {"case x in *) ", " ;; esac"}, {"", " 2>/dev/null"}, {"", " &"}, {"! ", ""},
}

// Quoted is a command as an argument, as of sh -c.
func Quoted(command string) string { return "'" + strings.ReplaceAll(command, "'", `'\''`) + "'" }

// Wrapped draws a command within so many others.
func Wrapped(t *rapid.T, command string, most int) string {
	simple := true // a wrapper takes words only
	for range rapid.IntRange(0, most).Draw(t, "wrappers") {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			command = rapid.SampledFrom([]string{"sh -c ", "bash -c ", "bash -euc ", "eval ", "watch -n 1 "}).Draw(t, "shell") + Quoted(command)
			simple = true
		case 1:
			around := rapid.SampledFrom(Around).Draw(t, "around")
			if strings.HasSuffix(command, "&") || strings.HasPrefix(command, "! ") {
				around = [2]string{"( ", " )"}
			}
			command, simple = around[0]+command+around[1], false
		default:
			if !simple {
				command = "sh -c " + Quoted(command)
			}
			with := rapid.SampledFrom(Wrappers).Draw(t, "wrapper")
			command, simple = with[0]+command+with[1], true
		}
	}
	return command
}

// Words that are put into commands.
var words = []string{
	"f", "g", "src", "src/main.go", "*", "*.go", "./*", ".", "..", "-", "--", "-n", "-o", "-i", "-w", "-x", "-r", "-c", "-f", "-e", "-1", "--output=PWNED", "-oPWNED", "--help", "-exec", "-delete", "$x", "\"$x\"", "\"$@\"", "$(ls)", "\"$(ls)\"", "`ls`", "{a,-o}", "~", "'a b'", "x", "PWNED", "'w PWNED'", "s/x/y/w", "HEAD", "v1", "+%s", "2>/dev/null", ">/dev/null", "> PWNED", "< f", "<<< x", ">&2", "2>&1",
}

// Command draws a command: a use of one of the tables, with words that are added, taken
// away or put in other places, in others, or with others.
func Command(t *rapid.T) string {
	use := rapid.SampledFrom(Uses).Draw(t, "use")
	text := use.Holds
	if use.Reads != "" && rapid.Bool().Draw(t, "reads") {
		text = use.Reads
	}
	parts := strings.Split(text, " ")
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		at := rapid.IntRange(1, len(parts)).Draw(t, "at")
		switch {
		case len(parts) > 1 && at < len(parts) && rapid.IntRange(0, 3).Draw(t, "drop") == 0:
			parts = append(parts[:at:at], parts[at+1:]...)
		default:
			word := rapid.SampledFrom(words).Draw(t, "word")
			parts = append(parts[:at:at], append([]string{word}, parts[at:]...)...)
		}
	}
	return Wrapped(t, strings.Join(parts, " "), 2)
}

// Tree writes files into a directory for commands to work on: also some that are named
// as flags are.
func Tree(dir string) error {
	for name, content := range map[string]string{
		"f": "x 1\ny 2\n", "g": "w f\n", "a": "a\n", "b": "b\n", "in": "1\n", "list": "f\n", "a.txt": "a\n", "main.go": "package main\n",
		"src/main.go": "package main\n// foo\n", "sub/f": "x\n", "-o": "", "-oPWNED": "", "-i": "", "x": "touch PWNED\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			return err
		}
	}
	return nil
}
