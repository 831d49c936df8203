package bash

import (
	"fmt"
	"slices"
	"strings"
)

// flags are the flags that a command is known to take, and that leave it what it
// is. Each is one of
//
//	-abc     letters that take no value
//	-n=      a letter with a value, attached or in the next word
//	-n<      the same; the value is a file that is read
//	-n?      a letter whose value, if any, is attached
//	-n!      a letter whose value is the next word, and that is the last of its word
//	-n:      a letter with a value, but none where it is the last word
//	-n@      a letter with two values, in the next words
//	-n%      the same; the second is a file that is read
//	-1       with #: -# is a dash and digits
//	--long   and the same: --long= --long< --long? --long: --long@ --long%
//	exact    which of them take a value is certain, so that one may be any word
//
// One that is not here, or shorter than it is here, is not known.
type flags struct {
	short  [128]byte // ' ' none, or as above
	long   map[string]byte
	digits bool
	exact  bool
}

func flagSet(spec string) *flags {
	f := &flags{long: make(map[string]byte)}
	for field := range strings.FieldsSeq(spec) {
		value := byte(' ')
		if last := field[len(field)-1]; strings.IndexByte("=<?!:@%", last) >= 0 {
			value, field = last, field[:len(field)-1]
		}
		switch {
		case field == "-#":
			f.digits = true
		case field == "exact":
			f.exact = true
		case strings.HasPrefix(field, "--"):
			f.long[field[2:]] = value
		case strings.HasPrefix(field, "-") && (len(field) == 2 || value == ' '):
			for i := 1; i < len(field); i++ {
				f.short[field[i]] = value
			}
		default:
			panic(fmt.Sprintf("bash: %q is no flag", field))
		}
	}
	return f
}

// args are the arguments of a command, taken apart.
type args struct {
	flags    []flagValue
	operands []Word
	files    []Word // values of flags that are files
	unsure   bool   // a word may be a flag, or several words
	exact    bool   // as of flags
	moves    bool   // what it copies it removes

	// Room for the first few of each.
	someFlags    [2]flagValue
	someOperands [3]Word
}

// A flagValue is a flag by its name, as "n" or "long", and its value.
type flagValue struct {
	name  string
	value Word
	next  bool // the value is a word of its own
}

func (a *args) has(names ...string) bool {
	return slices.ContainsFunc(a.flags, func(f flagValue) bool { return slices.Contains(names, f.name) })
}

// told reports whether one of the flags in a list is there; "*" is always.
func (a *args) told(list string) bool {
	if list == "*" {
		return true
	}
	for name := range strings.FieldsSeq(list) {
		if a.has(name) {
			return true
		}
	}
	return false
}

// all are the values of a flag.
func (a *args) all(names ...string) []Word {
	var values []Word
	for _, f := range a.flags {
		if slices.Contains(names, f.name) {
			values = append(values, f.value)
		}
	}
	return values
}

// last is the last value of a flag.
func (a *args) last(names ...string) (Word, bool) {
	values := a.all(names...)
	if len(values) == 0 {
		return Word{}, false
	}
	return values[len(values)-1], true
}

// dash names a flag whose value could be a flag itself, should the command not
// take a value there. Only where the table is known to be exact is that none.
func (a *args) dash() string {
	for _, f := range a.flags {
		if f.next && !a.exact && !f.value.operand() {
			return f.name
		}
	}
	return ""
}

func (a *args) set(name string, value Word) {
	a.flags = append(a.flags, flagValue{name: name, value: value})
}

// read takes arguments apart. Commands look for flags up to "--", also after
// operands; with stop they do up to the first operand. A flag that is not known
// is an error.
func (f *flags) read(words []Word, stop bool) (*args, error) {
	a := &args{}
	return a, f.readInto(a, words, stop)
}

// readInto is read into arguments that are no longer used.
func (f *flags) readInto(a *args, words []Word, stop bool) error {
	*a = args{exact: f.exact, files: a.files[:0]}
	a.flags, a.operands = a.someFlags[:0], a.someOperands[:0]
	for i := 0; i < len(words); i++ {
		word := words[i]
		s := word.Value
		if word.operand() {
			if stop {
				a.operands = words[i:]
				return nil
			}
			a.operands = append(a.operands, word)
			continue
		}
		if word.Known && s == "--" {
			a.operands = append(a.operands, words[i+1:]...)
			return nil
		}
		p := word.prefix()
		if len(p) < 2 && !word.Known || word.Splits {
			// It may be a flag.
			a.unsure = true
			if stop {
				a.operands = words[i:]
				return nil
			}
			a.operands = append(a.operands, word)
			continue
		}
		used, err := f.flag(a, words, i)
		if err != nil {
			return err
		}
		i += used
	}
	return nil
}

// flag reads the word at i, which begins with a dash. It returns how many words
// after it belong to it.
func (f *flags) flag(a *args, words []Word, i int) (int, error) {
	word := words[i]
	s := word.Value
	unknown := func() error { return fmt.Errorf("%s is not known to be harmless", printable(s)) }
	if word.Many && !(strings.HasPrefix(s, "--") && strings.Contains(word.prefix(), "=")) {
		return 0, unknown()
	}
	next := func(name string, kind byte) (int, error) {
		count := 1
		switch {
		case kind == ':' && i+1 == len(words):
			a.set(name, lit(""))
			return 0, nil
		case kind == '@' || kind == '%':
			count = 2
		}
		if i+count >= len(words) {
			return 0, fmt.Errorf("%s has no value", printable(s))
		}
		for n, value := range words[i+1 : i+1+count] {
			a.unsure = a.unsure || value.Splits || value.Many
			of := kind
			if kind == '%' && n == 1 {
				of = '<'
			}
			a.value(name, value, of)
			a.flags[len(a.flags)-1].next = true
		}
		return count, nil
	}
	if strings.HasPrefix(s, "--") {
		name, value, attached := strings.Cut(s[2:], "=")
		kind, ok := f.long[name]
		switch {
		case !ok || !word.Known && !attached:
			return 0, unknown()
		case attached && (kind == ' ' || kind == '@' || kind == '%'):
			return 0, unknown()
		case attached:
			a.value(name, Word{Value: value, Known: word.Known}, kind)
		case kind == '=' || kind == '<' || kind == ':' || kind == '@' || kind == '%':
			return next(name, kind)
		default:
			a.set(name, lit(""))
		}
		return 0, nil
	}
	if f.digits && word.Known && isInteger(s[1:]) && s[1] != '-' && s[1] != '+' {
		a.set("#", lit(s[1:]))
		return 0, nil
	}
	for j := 1; j < len(s); j++ {
		if s[j] >= 128 || f.short[s[j]] == 0 {
			return 0, unknown()
		}
		name, kind := s[j:j+1], f.short[s[j]]
		rest := s[j+1:]
		switch {
		case kind == ' ':
			a.set(name, lit(""))
		case (kind == '!' || kind == '@' || kind == '%') && rest != "":
			return 0, unknown()
		case kind == '?' || rest != "":
			a.value(name, Word{Value: rest, Known: word.Known}, kind)
			return 0, nil
		default:
			return next(name, kind)
		}
	}
	return 0, nil
}

func (a *args) value(name string, value Word, kind byte) {
	a.set(name, value)
	if kind == '<' {
		a.files = append(a.files, value)
	}
}

// printable is a word for a message.
func printable(s string) string {
	return strings.ReplaceAll(s, Any, "…")
}
