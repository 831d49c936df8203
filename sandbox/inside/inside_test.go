package inside

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

type withText struct {
	Before  int    `json:"before"`
	Content string `json:"content,omitempty"`
	After   string `json:"after"`
}

func (w *withText) Text() *string { return &w.Content }

// What a function returns is what its caller reads, as JSON would have it.
func TestResults(t *testing.T) {
	for _, text := range []string{"", "a", "a\nb\n", "\n", "\r\x00\x1b\"\\é☃\u2028", "\xff\xfe\xf0\x9f é\xed\xa0\x80", strings.Repeat("line\n", 100_000)} {
		want := withText{1, text, "after\nit"}
		function := JSON(func(_ context.Context, _ *Call, in []int) (withText, error) {
			return withText{in[0], text, "after\nit"}, nil
		})
		data, err := function(t.Context(), &Call{Input: []byte("[1]")})
		if err != nil {
			t.Fatal(err)
		}
		var got withText
		if err := Result(data, &got); err != nil {
			t.Fatal(err)
		}
		throughJSON, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(throughJSON, &want); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%.100q became %.100q", want.Content, got.Content)
		}
	}
	plain := JSON(func(context.Context, *Call, []int) (map[string]int, error) { return map[string]int{"a": 1}, nil })
	data, err := plain(t.Context(), &Call{Input: []byte("[]")})
	var got map[string]int
	if err != nil || Result(data, &got) != nil || got["a"] != 1 {
		t.Errorf("%s, %v, %v", data, got, err)
	}
	for _, bad := range []string{"", "{}", "x\ntext", "\n", "[]\n"} {
		if err := Result([]byte(bad), new(withText)); err == nil {
			t.Errorf("%q is a result", bad)
		}
	}
}

func BenchmarkResult(b *testing.B) {
	text := strings.Repeat("a line of a file, as long as many: 64 bytes with its newline...\n", 64)
	function := JSON(func(context.Context, *Call, []int) (withText, error) { return withText{1, text, "a"}, nil })
	for b.Loop() {
		data, err := function(b.Context(), &Call{Input: []byte("[]")})
		if err != nil {
			b.Fatal(err)
		}
		if err := Result(data, new(withText)); err != nil {
			b.Fatal(err)
		}
	}
}
