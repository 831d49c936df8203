package main

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// capture keeps the beginning of what is written.
type capture struct {
	bytes.Buffer
	cut bool
}

// notText returns what was written if it is no text, which JSON could not hold.
func (c *capture) notText() []byte {
	if utf8.Valid(c.Bytes()) {
		return nil
	}
	return c.Bytes()
}

const mostCaptured = 1 << 20

func (c *capture) Write(p []byte) (int, error) {
	if room := mostCaptured - c.Len(); len(p) > room {
		c.cut = true
		c.Buffer.Write(p[:room])
		return len(p), nil
	}
	return c.Buffer.Write(p)
}

// tail keeps the end of what is written.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4096
	t.data = append(t.data, p...)
	if len(t.data) > most {
		t.data = append(t.data[:0], t.data[len(t.data)-most:]...)
	}
	return len(p), nil
}

func (t *tail) contains(s string) bool { return bytes.Contains(t.data, []byte(s)) }

// notFound returns the program that a shell says it did not find.
func (t *tail) notFound() string {
	for line := range strings.Lines(string(t.data)) {
		line = strings.TrimSpace(line)
		head, ok := strings.CutSuffix(line, ": command not found") // bash
		if !ok {
			head, ok = strings.CutSuffix(line, ": not found") // dash
		}
		if ok {
			return head[strings.LastIndexByte(head, ' ')+1:]
		}
	}
	return ""
}
