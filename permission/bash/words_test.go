package bash_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/permission/bash"
)

// What a word is believed to be is what bash makes of it.
func TestKnownWordsAreWhatBashMakesOfThem(t *testing.T) {
	dir := t.TempDir()
	words := []string{
		"a", "''", `""`, `"a b"`, `'a b'`, `a\ b`, `a"b"'c'`, `$'a\tb'`, `$'\x41\101\u0041\U00000041'`, `$'\''`, `$'a\\b'`, `$'\cA'`, `$'\e'`, `$'\x'`, `$'\q'`, `$'a\0b'`,
		`"\$x \" \\ \a"`, `'\a'`, `\a`, `\\`, `\'`, "a\\\nb", "\"a\\\nb\"", "'a\nb'", "~", "~/x", "~x", `"~"`, `\~`, `~"/x"`, `~\/x`, "a~", "a=~", "a:~/x", "x=~/y",
		"$HOME", `"$HOME/x"`, "${HOME}", "$PWD", "{a,b}", "{a", "a}", "{}", "{a}", `{a\,b}`, `"{a,b}"`, "{a..c}", "{,}", `{"a",b}`, "a{b,c}d", "@{u}", "HEAD@{1}", "^x", "!x", "a!b", "-x", "--x=y", "a#b", `\#`,
		"[", "]", "a[", "a]b", "=", "%", "+x", "é", "日本", "$", "a$", `"$"`, `$\x`, "a$/b", "-", "--", "[a", `\[a]`, `'*'`, `\*`, `\?`, "a\\", "=ls", "a,b", "1..2", "x:y", "{1..3", `$""`, `"a"$`,
	}
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "'", `"`, `\`, "$", " ", "~", "{", "}", ",", "..", "/", "$'", `\'`, `\"`, `\\`, "\\\n", "n", "0", "x", "#", "=", ":", "[", "]", "é", "!", "^", "-", "$HOME"}
	for range 20000 {
		var b strings.Builder
		for range 1 + random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		words = append(words, b.String())
	}
	env := bash.Env{Dir: dir, Home: "/home/user"}
	var script strings.Builder
	var known []string
	var values []bash.Word
	for _, word := range words {
		if strings.HasSuffix(word, `\`) {
			continue // it would take the next line in
		}
		s := bash.Parse("echo x "+word, env)
		if s.Bad != "" || len(s.Parts) != 1 || len(s.Parts[0].Words) != 3 || !s.Parts[0].Words[2].Known {
			continue
		}
		known, values = append(known, word), append(values, s.Parts[0].Words[2])
		fmt.Fprintf(&script, "set -- x %s\nprintf '%%s\\0' \"$#\" \"${2-}\"\n", word)
	}
	cmd := exec.Command("bash", "-s")
	cmd.Stdin = strings.NewReader(script.String())
	cmd.Dir = dir
	cmd.Env = []string{"HOME=/home/user", "LC_ALL=C.UTF-8", "PWD=" + dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("bash: %v: %.300s", err, out)
	}
	got := strings.Split(string(out), "\x00")
	for i, word := range known {
		if 2*i+1 >= len(got) {
			t.Fatalf("bash ended at %q: %.300q", word, got[len(got)-1])
		}
		if got[2*i] != "2" || got[2*i+1] != values[i].Value {
			t.Fatalf("%q is %s words, the last %q; believed to be %q", word, got[2*i], got[2*i+1], values[i].Value)
		}
	}
	if len(known) < 3000 {
		t.Errorf("only %d words are known", len(known))
	}
}
