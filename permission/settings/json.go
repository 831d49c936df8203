package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// mostBytes and mostDepth bound a settings file.
const (
	mostBytes = 1 << 20
	mostDepth = 64
)

// A node is a JSON value with where it stands: data[start:end].
type node struct {
	start, end int
	value      any // string, bool, json.Number or nil; a json.Delim of what holds others
	members    []member
	items      []*node
}

// A member is one of an object.
type member struct {
	key   string
	start int // of the key
	value *node
}

// object and list are the delimiters that those begin with.
const (
	object = json.Delim('{')
	list   = json.Delim('[')
)

// member returns the value of a key, or nil.
func (n *node) member(key string) *node {
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// A lineError is what is wrong at a place of a file.
type lineError struct {
	offset int
	err    error
}

func (e *lineError) Error() string { return e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }

func wrongAt(offset int, format string, args ...any) error {
	return &lineError{offset, fmt.Errorf(format, args...)}
}

// lineOf is the number of the line that an offset is in.
func lineOf(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), len(data))], []byte("\n"))
}

// read reads a JSON text: one value, in UTF-8, in which no key stands twice.
func read(data []byte) (*node, error) {
	if len(data) > mostBytes {
		return nil, wrongAt(0, "it has %d bytes; a settings file has at most %d", len(data), mostBytes)
	}
	if !utf8.Valid(data) {
		for i := 0; i < len(data); {
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				return nil, wrongAt(i, "it is not text in UTF-8")
			}
			i += n
		}
	}
	// The tokens alone would let some errors through.
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, wrongAt(int(syntax.Offset)-1, "it is not JSON: %w", err)
		}
		return nil, wrongAt(0, "it is not JSON: %w", err)
	}
	r := &reader{data: data, tokens: json.NewDecoder(bytes.NewReader(data))}
	r.tokens.UseNumber()
	return r.value(0)
}

type reader struct {
	data   []byte
	tokens *json.Decoder
}

// next returns a token and where it begins.
func (r *reader) next() (json.Token, int, error) {
	start := int(r.tokens.InputOffset())
	for start < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[start]) >= 0 {
		start++
	}
	t, err := r.tokens.Token()
	if err != nil {
		return nil, start, wrongAt(start, "it is not JSON: %w", err)
	}
	return t, start, nil
}

func (r *reader) value(depth int) (*node, error) {
	token, start, err := r.next()
	if err != nil {
		return nil, err
	}
	n := &node{start: start, value: token}
	if depth > mostDepth {
		return nil, wrongAt(start, "it is nested more than %d deep", mostDepth)
	}
	switch token {
	case object:
		seen := make(map[string]bool)
		for r.tokens.More() {
			key, at, err := r.next()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			if seen[name] {
				return nil, wrongAt(at, "the key %q stands twice", name)
			}
			seen[name] = true
			v, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.members = append(n.members, member{name, at, v})
		}
		_, _, err = r.next()
	case list:
		for r.tokens.More() {
			v, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
		_, _, err = r.next()
	}
	n.end = int(r.tokens.InputOffset())
	return n, err
}
