package permission

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/permission/bash"
)

// An index finds the rules that may be about a call, so that a decision does not
// look at all of a thousand. It is made by [Policy.Check].
type index struct {
	rules []Rule // of the policy, to see that it is still theirs
	// against are those that deny or ask, allow the others.
	against, allow indexed
}

// indexed are rules: those of commands by a word that whatever they match has, and
// all others.
type indexed struct {
	keyed map[string][]*Rule
	all   []*Rule // that are keyed
	rest  []*Rule
}

func newIndex(rules []Rule) *index {
	x := &index{rules: rules}
	for i := range rules {
		if r := &rules[i]; r.Behavior == Allow {
			x.allow.add(r)
		} else {
			x.against.add(r)
		}
	}
	return x
}

func (x *indexed) add(r *Rule) {
	word := r.word()
	if word == "" {
		x.rest = append(x.rest, r)
		return
	}
	if x.keyed == nil {
		x.keyed = make(map[string][]*Rule)
	}
	x.keyed[word] = append(x.keyed[word], r)
	x.all = append(x.all, r)
}

// indexed returns the policy's index, or a new one where rules were changed since.
func (p *Policy) indexed() *index {
	if x := p.index; x != nil && len(x.rules) == len(p.Rules) && (len(p.Rules) == 0 || &x.rules[0] == &p.Rules[0]) {
		return x
	}
	return newIndex(p.Rules)
}

// word is the longest word of a command that stands in all that a rule matches;
// "" where none does.
func (r *Rule) word() string {
	if r.command == nil {
		return ""
	}
	longest := ""
	for word := range strings.SplitSeq(r.command.text, " ") {
		if strings.IndexByte(word, star) < 0 && len(word) > len(longest) {
			longest = word
		}
	}
	return longest
}

// A spelling is a way in which a rule may have a command.
type spelling struct {
	text string
	open bool // it has a star: what stands there is not known
}

// toSpellings adds the spellings of a command to others.
func toSpellings(to []spelling, words []bash.Word) []spelling {
	for text := range spellings(words) {
		to = append(to, spelling{text, strings.IndexByte(text, star) >= 0})
	}
	return to
}

// about yields the rules with a word that may match one of some texts, each at
// least once. Of a text that is not all known it may be any.
func (x *indexed) about(texts []spelling, yield func(*Rule) bool) {
	if len(x.all) == 0 {
		return
	}
	found := x.all
	if !slices.ContainsFunc(texts, func(s spelling) bool { return s.open }) {
		found = nil
		for _, s := range texts {
			for word := range strings.SplitSeq(s.text, " ") {
				found = append(found, x.keyed[word]...)
			}
		}
	}
	for _, r := range found {
		if !yield(r) {
			return
		}
	}
}
