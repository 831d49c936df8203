package bash

import (
	"strings"
	"sync"
)

var awkFlags = sync.OnceValue(func() *flags { return flagSet("-F= -v= --field-separator= --assign=") })

// awk is what its program is: it may write and run anything. Its flags end at
// the program.
func awk(_ *walker, words []Word, d dirs) verdict {
	v := verdict{kind: Read, code: true} // until it is read
	a, err := awkFlags().read(words[1:], true)
	switch {
	case err != nil:
		v.rough(words[1:], d)
		return v.refuse("awk: " + err.Error())
	case a.unsure || len(a.operands) == 0 || !a.operands[0].Known:
		return v.refuse("awk: its program is not known")
	}
	p := awkProgram{rest: a.operands[0].Value}
	if why := p.parse(); why != "" {
		v.kind = Executes
		return v.refuse("awk: " + why)
	}
	v.open, v.code = p.open, false
	for _, op := range a.operands[1:] {
		if name, _, ok := strings.Cut(op.Value, "="); ok && isName(name) {
			continue // an assignment
		}
		if mayBeInet(op) {
			return v.refuse("awk: a file below /inet is a network connection")
		}
		v.read(op, d, false)
	}
	return v
}

// mayBeInet reports whether gawk may make a connection of an operand: of /inet/...,
// /inet4/... and /inet6/... What a pattern stands for is there, and a file.
func mayBeInet(op Word) bool {
	const inet = "/inet"
	p := op.prefix()
	return strings.HasPrefix(p, inet) || !op.Known && op.glob == "" && !op.begins.local && strings.HasPrefix(inet, p)
}

// An awkProgram is a program of awk that is read, token by token: enough to tell
// whether it opens a file or a pipe. What is not certain is refused.
type awkProgram struct {
	rest  string
	last  string // the token before
	depth int    // of parentheses and brackets
	// print is the depth of the print whose arguments are read; -1 outside: there
	// > is a redirection.
	print int
	open  bool // it may name files itself
}

func (p *awkProgram) parse() string {
	if !isASCII(p.rest) {
		return "its program has letters that a locale may take apart"
	}
	p.print, p.last = -1, "\n"
	for {
		token, why := p.token()
		if why != "" || token == "" {
			return why
		}
		if why := p.judge(token); why != "" {
			return why
		}
		p.last = token
	}
}

// awkRuns are the words that run commands, open files, name those that are read, or
// lead to code that is not in the program.
var awkRuns = map[string]bool{"system": true, "getline": true, "close": true, "extension": true, "load": true, "include": true,
	"ARGV": true, "SYMTAB": true}

func (p *awkProgram) judge(token string) string {
	switch token {
	case "print", "printf":
		p.print = p.depth
	case "(", "[":
		p.depth++
	case ")", "]":
		p.depth--
	case ";", "{", "}":
		p.print = -1
	case "|", "|&", "@":
		return "its program may run commands"
	case ">", ">>", ">=":
		if p.print >= 0 && p.depth <= p.print && !p.sink() {
			return "its program writes to a file"
		}
	}
	p.open = p.open || token == "ENVIRON"
	if awkRuns[token] {
		return "its program may run commands or open files"
	}
	return ""
}

// sink reports whether what follows > is where output goes anyway, and no more.
func (p *awkProgram) sink() bool {
	rest := strings.TrimLeft(p.rest, " \t")
	for _, name := range []string{`"/dev/stderr"`, `"/dev/stdout"`} {
		if after, ok := strings.CutPrefix(rest, name); ok {
			after = strings.TrimLeft(after, " \t")
			return after == "" || strings.IndexByte(";}\n", after[0]) >= 0
		}
	}
	return false
}

// token reads the next one; "" at the end. Strings and regular expressions are
// a quotation mark and a slash.
func (p *awkProgram) token() (token, why string) {
	for {
		p.rest = strings.TrimLeft(p.rest, " \t")
		switch {
		case p.rest == "":
			return "", ""
		case p.rest[0] == '#':
			if i := strings.IndexByte(p.rest, '\n'); i >= 0 {
				p.rest = p.rest[i:]
			} else {
				p.rest = ""
			}
			continue
		case strings.HasPrefix(p.rest, "\\\n"):
			p.rest = p.rest[2:]
			continue
		}
		break
	}
	c := p.rest[0]
	switch {
	case c == '"':
		end := p.quoted(p.rest[1:])
		if end < 0 {
			return "", "a string of its program does not end"
		}
		p.rest = p.rest[end+2:]
		return `"`, ""
	case c == '/':
		return p.slash()
	case c >= '0' && c <= '9' || c == '.':
		end := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789."))
		if end < len(p.rest) && isWordByte(p.rest[end]) {
			return "", "a number of its program is not understood"
		}
		token = p.rest[:end]
	case isWordByte(c):
		end := 1
		for end < len(p.rest) && isWordByte(p.rest[end]) {
			end++
		}
		token = p.rest[:end]
	case strings.IndexByte("(){}[];,$@?:\n", c) >= 0:
		token = p.rest[:1]
	case strings.IndexByte("+-*%^!<>=&|~", c) >= 0:
		token = p.rest[:1]
		for _, two := range []string{"++", "--", "**", "&&", "||", "|&", ">>", ">=", "<=", "==", "!=", "!~", "+=", "-=", "*=", "%=", "^="} {
			if strings.HasPrefix(p.rest, two) {
				token = two
			}
		}
	default:
		return "", "its program has a character that is not known"
	}
	p.rest = p.rest[len(token):]
	return token, ""
}

// quoted finds the end of a string.
func (p *awkProgram) quoted(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\n':
			return -1
		case '\\':
			if i++; i < len(s) && s[i] == '\n' {
				return -1
			}
		case '"':
			return i
		}
	}
	return -1
}

// slash reads a division, or a regular expression: the token before tells which.
// Where it does not, only what can be no regular expression is a division.
func (p *awkProgram) slash() (token, why string) {
	line, _, _ := strings.Cut(p.rest[1:], "\n")
	last := p.last
	operand := last == `"` || last == "]" || last == ")" || last == "++" || last == "--" || last == "/" || isWordByte(last[0]) || last[0] == '.'
	sure := last == `"` || last == "]" || last[0] >= '0' && last[0] <= '9' || isName(last) && !awkKeywords[last]
	switch {
	case operand && !strings.Contains(line, "/"), sure:
		p.rest = strings.TrimPrefix(p.rest[1:], "=")
		return "+", ""
	case operand && !awkBefore[last]:
		return "", "a slash in its program may begin a regular expression"
	}
	end := endOf(p.rest[1:], '/', true)
	if end < 0 {
		return "", "a regular expression of its program is not understood"
	}
	p.rest = p.rest[end+2:]
	return "/", ""
}

// awkBefore are the words that an expression follows, awkKeywords those and
// others that are no names.
var (
	awkBefore   = map[string]bool{"print": true, "printf": true, "return": true, "in": true, "else": true, "do": true, "case": true, "exit": true}
	awkKeywords = map[string]bool{"print": true, "printf": true, "return": true, "in": true, "else": true, "do": true, "case": true, "exit": true,
		"length": true, "if": true, "while": true, "for": true, "delete": true, "BEGIN": true, "END": true, "BEGINFILE": true, "ENDFILE": true,
		"next": true, "nextfile": true, "function": true, "func": true, "switch": true, "default": true, "break": true, "continue": true}
)

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
