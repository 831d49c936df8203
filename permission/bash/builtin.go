package bash

import (
	"fmt"
	"strings"
	"sync"
)

// subjects are the commands that a line of the table does not do justice.
var subjects = sync.OnceValue(func() map[string]subject {
	table := map[string]subject{
		"echo": free, "expr": free, "true": free, "false": free, ":": free, "cd": free, "pushd": free, "popd": free,
		"printf": printf, "test": test, "[": test, "read": readVar, "set": set, "shopt": shopt,
		"unset": unset, "env": env, "command": commandV, "xxd": xxd, "tar": tar, "exit": free, "return": free,
		"history": history, "go": goTool, "openssl": openssl, "find": find, "git": git, "sed": sed, "awk": awk, "gawk": awk, "mawk": awk, "nawk": awk,
	}
	for name, c := range writers() {
		table[name] = c
	}
	return table
})

// free is for commands whose words mean nothing.
func free(*walker, []Word, dirs) verdict { return verdict{kind: Neutral} }

func refuse(kind Kind, format string, args ...any) verdict {
	return verdict{kind: kind, why: fmt.Sprintf(format, args...), open: true}
}

// printf sets a variable with -v, and by a conversion of its format.
func printf(_ *walker, words []Word, _ dirs) verdict {
	args := words[1:]
	if len(args) > 0 && args[0].Known && args[0].Value == "--" {
		args = args[1:]
	} else if len(args) > 0 && strings.HasPrefix(args[0].Value, "-") {
		return refuse(Neutral, "printf with an option may set a variable")
	}
	if len(args) == 0 {
		return verdict{kind: Neutral}
	}
	if !args[0].Known {
		return refuse(Neutral, "printf: its format is not known, and may set a variable")
	}
	format := strings.ReplaceAll(args[0].Value, "%%", "")
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		rest := strings.TrimLeft(format[i+1:], "#0- +'123456789.*hlLjztq")
		if strings.HasPrefix(rest, "n") {
			return refuse(Neutral, "printf: %%n sets a variable")
		}
	}
	return verdict{kind: Neutral}
}

// Unary operators of test that look at a file or a text, and binary ones. Those
// that look at variables evaluate subscripts.
var (
	testUnary  = " -a -b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S -z -n "
	testBinary = " = == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef "
)

// test compares. A word that is not known could be an operator: only forms in
// which it cannot are proved.
func test(_ *walker, words []Word, d dirs) verdict {
	args := words[1:]
	v := verdict{kind: Neutral}
	if words[0].Value == "[" {
		if len(args) == 0 || args[len(args)-1].Value != "]" {
			return refuse(Neutral, "[ without ]")
		}
		args = args[:len(args)-1]
	}
	from := 0
	for i := 0; i <= len(args); i++ {
		if i < len(args) && !(args[i].Known && (args[i].Value == "-a" || args[i].Value == "-o") && i > from) {
			continue
		}
		if !testForm(args[from:i]) {
			return refuse(Neutral, "test: an operator is not known")
		}
		from = i + 1
	}
	for i, arg := range args {
		if i > 0 && args[i-1].Known && strings.Contains("-f -s -r", args[i-1].Value) {
			v.read(arg, d, false)
		}
	}
	return v
}

func testForm(args []Word) bool {
	for _, arg := range args {
		if arg.Splits && !arg.number || arg.Many && arg.prefix() == "" || arg.Known && (arg.Value == "-v" || arg.Value == "-R" || arg.Value == "-o") {
			return false
		}
	}
	for len(args) > 1 && args[0].Known && args[0].Value == "!" {
		args = args[1:]
	}
	is := func(word Word, list string) bool {
		return word.Known && word.Value != "" && strings.Contains(list, " "+word.Value+" ")
	}
	switch len(args) {
	case 0, 1:
		return true
	case 2:
		return is(args[0], testUnary)
	case 3:
		return is(args[1], testBinary)
	}
	return false
}

// readVar reads lines into variables.
func readVar(w *walker, words []Word, _ dirs) verdict {
	a, err := readFlags().read(words[1:], false)
	if err != nil {
		return refuse(Neutral, "read: %v", err)
	}
	if a.unsure {
		return refuse(Neutral, "read: the name of a variable is not known")
	}
	for _, name := range append(a.all("a"), a.operands...) {
		if !name.Known || !w.assign(name.Value) {
			return refuse(Neutral, "read sets %s, which may change what commands do", printable(name.Value))
		}
	}
	return verdict{kind: Neutral}
}

var readFlags = sync.OnceValue(func() *flags { return flagSet("-rs -a= -d= -n= -N= -p= -t= -u=") })

// set changes how the shell runs.
func set(_ *walker, words []Word, _ dirs) verdict {
	args := words[1:]
	for i := 0; i < len(args); i++ {
		arg := args[i]
		s := arg.Value
		switch {
		case !arg.Known:
			return refuse(Neutral, "set: an option is not known")
		case s == "--":
			return verdict{kind: Neutral}
		case len(s) > 1 && (s[0] == '-' || s[0] == '+') && strings.Trim(s[1:], "euxfo") == "" && strings.Count(s, "o") <= 1:
			if strings.Contains(s, "o") {
				if i++; i < len(args) && !strings.Contains(" errexit nounset pipefail xtrace noglob ", " "+args[i].Value+" ") {
					return refuse(Neutral, "set: an option is not known")
				}
			}
		default:
			return refuse(Neutral, "set: an option is not known")
		}
	}
	return verdict{kind: Neutral}
}

func shopt(_ *walker, words []Word, _ dirs) verdict {
	for _, word := range words[1:] {
		if !word.Known || !strings.Contains(" -s -u -q -p nullglob failglob dotglob globstar nocaseglob nocasematch ", " "+word.Value+" ") || word.Value == "" {
			return refuse(Neutral, "shopt: an option is not known")
		}
	}
	return verdict{kind: Neutral}
}

func unset(w *walker, words []Word, _ dirs) verdict {
	for _, word := range words[1:] {
		if !word.Known || !w.assign(word.Value) {
			return refuse(Neutral, "unset: what it removes may change what commands do")
		}
	}
	return verdict{kind: Neutral}
}

// env alone prints the environment.
func env(_ *walker, words []Word, _ dirs) verdict {
	if len(words) == 1 {
		return verdict{kind: Neutral}
	}
	return refuse(Executes, "env runs other programs")
}

// commandV is command -v; otherwise command is a wrapper.
func commandV(_ *walker, words []Word, _ dirs) verdict {
	if len(words) > 1 && words[1].Known && (words[1].Value == "-v" || words[1].Value == "-V") {
		return verdict{kind: List}
	}
	return refuse(Executes, "command runs nothing that is named")
}

// xxd does not bundle flags, and shortens their names.
func xxd(_ *walker, words []Word, d dirs) verdict {
	v := verdict{kind: Read}
	operands := 0
	for i := 1; i < len(words); i++ {
		s := words[i].Value
		switch {
		case !words[i].Known:
			return refuse(Read, "xxd: a word may become a flag or a second operand, which is written")
		case strings.Contains(" -a -b -C -e -E -i -p -ps -u ", " "+s+" ") && s != "":
		case strings.Contains(" -c -g -l -o -s -n ", " "+s+" ") && s != "" && i+1 < len(words) && words[i+1].Known && !strings.HasPrefix(words[i+1].Value, "-"):
			i++
		case s == "-" || !strings.HasPrefix(s, "-"):
			operands++
			v.read(words[i], d, false)
		default:
			return refuse(Read, "xxd: %s is not known to be harmless", printable(s))
		}
	}
	if operands > 1 {
		v.why = "xxd: a second operand is written"
	}
	return v
}

// history shows, or shows the last few; with a flag it writes or reads files.
func history(_ *walker, words []Word, _ dirs) verdict {
	if len(words) == 1 || len(words) == 2 && words[1].Known && words[1].Value != "" && strings.Trim(words[1].Value, "0123456789") == "" {
		return verdict{kind: Neutral}
	}
	return refuse(Write, "history: a flag may write or read a file")
}
