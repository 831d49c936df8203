package bash_test

import (
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sallyport/sallyport/permission/bash"
	"github.com/sallyport/sallyport/permission/bash/bashtest"
)

// BenchmarkParse takes the usual commands apart and judges them: one at a time, as
// they come, and as scripts. What the parser alone takes is beside it.
func BenchmarkParse(b *testing.B) {
	for _, corpus := range []struct {
		name  string
		texts []string
	}{
		{"commands", bashtest.Usual},
		{"scripts", bashtest.Scripts(4000)},
		{"one", []string{"git status && ls -la | grep x"}},
		{"homes", []string{"echo " + strings.Repeat("$HOME ", 9000)}},
	} {
		size := 0
		for _, src := range corpus.texts {
			size += len(src)
		}
		b.Run(corpus.name, func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, src := range corpus.texts {
					bash.Parse(src, inWorkspace).ReadOnly()
				}
			}
		})
		b.Run(corpus.name+"/parser alone", func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			p := syntax.NewParser(syntax.Variant(syntax.LangBash))
			for b.Loop() {
				for _, src := range corpus.texts {
					if _, err := p.Parse(strings.NewReader(src), ""); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
