package bash

import (
	"slices"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// BreakParsers makes every parser panic, until the function is called that it
// returns.
func BreakParsers() (mend func()) {
	parsers = sync.Pool{New: func() any { return (*syntax.Parser)(nil) }}
	return func() { parsers = sync.Pool{New: newParser} }
}

const Panicked = panicked

// Known are the commands that the tables have, git's own as "git x".
func Known() []string {
	var names []string
	for name := range commands() {
		names = append(names, name)
	}
	for name := range subjects() {
		names = append(names, name)
	}
	for name := range transparent() {
		names = append(names, name)
	}
	for name := range gitCommands() {
		names = append(names, "git "+name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
