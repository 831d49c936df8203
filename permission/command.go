package permission

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/permission/bash"
)

// star stands in a text for anything, also nothing: it is [bash.Any], which no
// command has.
const star = '\x00'

// A commandPattern is a pattern of commands.
type commandPattern struct {
	text string // with star for a star
	// word says that the text without its last " *" matches too.
	word  string
	exact bool // it has no star
}

// parseCommand reads the content of a rule about commands.
func parseCommand(content string) (*commandPattern, error) {
	text := content
	if before, ok := strings.CutSuffix(text, ":*"); ok {
		text = before + " *"
	}
	p := &commandPattern{exact: !strings.Contains(text, "*")}
	if before, ok := strings.CutSuffix(text, " *"); ok {
		if strings.TrimSpace(before) == "" {
			return nil, errors.New("it names no command")
		}
		p.word = strings.ReplaceAll(before, "*", string(star))
	}
	p.text = strings.ReplaceAll(text, "*", string(star))
	return p, nil
}

// covers reports whether the pattern matches a command whatever becomes of what
// is open in it.
func (p *commandPattern) covers(text string) bool {
	return wildcard(p.text, text) || p.word != "" && wildcard(p.word, text)
}

// could reports whether the pattern may match a command.
func (p *commandPattern) could(text string) bool {
	return overlap(p.text, text) || p.word != "" && overlap(p.word, text)
}

// certainty is how certain it is that a rule is about something.
type certainty int

const (
	not certainty = iota
	maybe
	certainly
)

// hits says whether a rule that denies or asks is about a spelling of a command.
func (p *commandPattern) hits(s spelling) certainty {
	switch {
	case p.covers(s.text):
		return certainly
	case s.open && p.could(s.text):
		return maybe
	}
	return not
}

// spellings are the ways in which a rule may have a command: with its words
// quoted or not, the program by its path or by its name, git without the options
// that stand before its command, what is expanded to several words or to none.
func spellings(words []bash.Word) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if len(words) == 0 {
			return
		}
		for _, words := range [][]bash.Word{words, named(words), withoutOptions(words)} {
			if words == nil {
				continue
			}
			plain, quoted := joined(words), quoted(words)
			if !yield(plain) || quoted != plain && !yield(quoted) {
				return
			}
			if slices.ContainsFunc(words, mayVanish) && !yield(closed(words)) {
				return
			}
		}
	}
}

// named is a command with its program by its name; nil when it is so already.
func named(words []bash.Word) []bash.Word {
	if !strings.Contains(words[0].Value, "/") {
		return nil
	}
	first := words[0]
	first.Value = path.Base(first.Value)
	return append([]bash.Word{first}, words[1:]...)
}

// gitOptions are git's options before the command that take a value after them.
var gitOptions = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--exec-path", "--attr-source", "--list-cmds"}

// withoutOptions is a command of git without the options before its command; nil
// for others.
func withoutOptions(words []bash.Word) []bash.Word {
	if path.Base(words[0].Value) != "git" {
		return nil
	}
	i := 1
	for ; i < len(words) && strings.HasPrefix(words[i].Value, "-"); i++ {
		if slices.Contains(gitOptions, words[i].Value) {
			i++
		}
	}
	if i == 1 {
		return nil
	}
	return append([]bash.Word{{Value: "git", Known: true}}, words[min(i, len(words)):]...)
}

func joined(words []bash.Word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.Value)
	}
	return b.String()
}

// mayVanish reports whether nothing may be left of a word when it is expanded.
func mayVanish(w bash.Word) bool { return w.Splits && strings.Trim(w.Value, bash.Any) == "" }

// closed joins words without the blanks around those of which nothing may be
// left.
func closed(words []bash.Word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 && !mayVanish(w) && !mayVanish(words[i-1]) {
			b.WriteByte(' ')
		}
		b.WriteString(w.Value)
	}
	return b.String()
}

// quoted joins words so that each can be told from the others.
func quoted(words []bash.Word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if w.Value != "" && !strings.ContainsAny(w.Value, " \t\n'\"\\;&|<>()$`") {
			b.WriteString(w.Value)
			continue
		}
		b.WriteByte('\'')
		b.WriteString(strings.ReplaceAll(w.Value, "'", `'\''`))
		b.WriteByte('\'')
	}
	return b.String()
}

// wildcard reports whether a pattern with stars matches a text, in which a star
// is a character that only a star of the pattern matches.
func wildcard(pattern, text string) bool {
	p, t := 0, 0
	back, mark := -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == star:
			back, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t] && text[t] != star:
			p, t = p+1, t+1
		case back >= 0:
			mark++
			p, t = back+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == star {
		p++
	}
	return p == len(pattern)
}

// overlap reports whether there is a text that two patterns with stars both
// match.
func overlap(a, b string) bool {
	// Most differ before the first star of either, or after the last.
	for i := 0; i < len(a) && i < len(b) && a[i] != star && b[i] != star; i++ {
		if a[i] != b[i] {
			return false
		}
	}
	for i, j := len(a)-1, len(b)-1; i >= 0 && j >= 0 && a[i] != star && b[j] != star; i, j = i-1, j-1 {
		if a[i] != b[j] {
			return false
		}
	}
	if strings.IndexByte(a, star) < 0 && strings.IndexByte(b, star) < 0 {
		return a == b
	}
	// row[j] says that a[:i] and b[:j] overlap.
	row := make([]bool, len(b)+1)
	row[0] = true
	for j := 1; j <= len(b) && b[j-1] == star; j++ {
		row[j] = true
	}
	for i := 1; i <= len(a); i++ {
		before := row[0] // of the row above, one to the left
		row[0] = row[0] && a[i-1] == star
		for j := 1; j <= len(b); j++ {
			above := row[j]
			switch {
			case a[i-1] == star, b[j-1] == star:
				row[j] = above || row[j-1] || before
			default:
				row[j] = before && a[i-1] == b[j-1]
			}
			before = above
		}
	}
	return row[len(b)]
}
