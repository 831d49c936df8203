package main

import (
	"bytes"
	"strings"
)

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
