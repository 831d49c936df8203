package bash

import "strings"

// findTests are the words of find's language that change nothing, with how many
// words follow them.
var findTests = func() map[string]int {
	table := make(map[string]int)
	for arity, names := range []string{
		"! ( ) , -not -a -and -o -or -daystart -depth -d -follow -ignore_readdir_race -noignore_readdir_race -mount -xdev -noleaf -nowarn -warn -empty -executable -readable -writable -false -true -nogroup -nouser -ls -print -print0 -prune -quit -help --help -version --version",
		"-maxdepth -mindepth -regextype -amin -anewer -atime -cmin -cnewer -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename -links -lname -mmin -mtime -name -newer -path -perm -regex -samefile -size -type -uid -used -user -wholename -xtype -context -printf",
	} {
		for name := range strings.FieldsSeq(names) {
			table[name] = arity
		}
	}
	for _, a := range "aBcm" {
		for _, b := range "aBcmt" {
			table["-newer"+string(a)+string(b)] = 1
		}
	}
	return table
}()

// find reads trees. What begins with a dash, a parenthesis, a comma or an
// exclamation mark begins its expression.
func find(_ *walker, words []Word, d dirs) verdict {
	v := verdict{kind: Search}
	args := words[1:]
	for len(args) > 0 && args[0].Known {
		s := args[0].Value
		if s == "-H" || s == "-L" || s == "-P" || s == "-O0" || s == "-O1" || s == "-O2" || s == "-O3" {
			v.follows = v.follows || s == "-L"
			args = args[1:]
			continue
		}
		break
	}
	starts := 0
	for len(args) > 0 && args[0].operand() && strings.IndexAny(args[0].Value, "(!,") != 0 {
		v.read(args[0], d, true)
		args = args[1:]
		starts++
	}
	if starts == 0 {
		v.read(lit("."), d, true)
	}
	for i := 0; i < len(args); i++ {
		if !args[i].Known {
			return v.refuse("find: a word of its expression is not known")
		}
		arity, ok := findTests[args[i].Value]
		if !ok {
			return v.refuse("find: " + printable(args[i].Value) + " is not known to be harmless")
		}
		v.follows = v.follows || args[i].Value == "-follow"
		for range arity {
			if i++; i < len(args) && (args[i].Splits || args[i].Many) {
				return v.refuse("find: an unquoted pattern may become several words")
			}
		}
	}
	return v
}

func (v verdict) refuse(why string) verdict {
	v.why, v.open = why, true
	return v
}

// findRuns judges what find's -exec and its like run.
func (w *walker) findRuns(args []Word, d dirs) {
	for i := 0; i < len(args); i++ {
		if args[i].Splits {
			w.anything("find", d)
		}
		switch args[i].Value {
		case "-exec", "-ok":
		case "-execdir", "-okdir":
			d = nil
		default:
			continue
		}
		end := i + 1
		for end < len(args) && !(args[end].Known && (args[end].Value == ";" || args[end].Value == "+" && args[end-1].Value == "{}")) {
			end++
		}
		w.derive(substitute(args[i+1:end], "{}"), "find", d)
		i = end
	}
}
