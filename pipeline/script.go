package pipeline

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Turn is what an assistant said in one message.
type Turn struct {
	Text string // all its text
	Uses []Use
}

// longestLine is the longest line of a script, in bytes.
const longestLine = 16 << 20

// A ScriptError says that a line of a script is no message. The script goes on
// after it.
type ScriptError struct {
	Line int // from 1
	Why  string
}

func (e *ScriptError) Error() string { return fmt.Sprintf("line %d of the script: %s", e.Line, e.Why) }

// A Script reads an agent's messages, one JSON object a line: assistant messages
// as the Messages API returns them ("role" and "content"), or transcripts that
// hold such a one in "message". Messages of others are passed over.
type Script struct {
	in   *bufio.Reader
	line int
}

// NewScript reads a script.
func NewScript(r io.Reader) *Script { return &Script{in: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next message of the assistant, [io.EOF] after the last, a
// [*ScriptError] for a line that is none, after which it can be called again, or
// the error of the reader.
func (s *Script) Next() (*Turn, error) {
	for {
		line, err := s.next()
		if err != nil {
			return nil, err
		}
		turn, err := parseTurn(line)
		if err != nil {
			return nil, &ScriptError{s.line, err.Error()}
		}
		if turn != nil {
			return turn, nil
		}
	}
}

// next returns the next line that is not empty.
func (s *Script) next() ([]byte, error) {
	for {
		var line []byte
		tooLong := false
		for {
			piece, err := s.in.ReadSlice('\n')
			if tooLong = tooLong || len(line)+len(piece) > longestLine; !tooLong {
				line = append(line, piece...)
			}
			if err == nil {
				break
			}
			if err == io.EOF && len(line)+len(piece) > 0 {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, err
			}
		}
		s.line++
		if tooLong {
			return nil, &ScriptError{s.line, fmt.Sprintf("it is longer than %d bytes", longestLine)}
		}
		if len(strings.TrimSpace(string(line))) > 0 {
			return line, nil
		}
	}
}

// message is an assistant's message, or what wraps it.
type message struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Message json.RawMessage `json:"message"`
}

// parseTurn reads a line. Nil is somebody else's message.
func parseTurn(line []byte) (*Turn, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		if !json.Valid(line) {
			return nil, fmt.Errorf("it is not JSON: %v", err)
		}
		return nil, errors.New("a JSON object is needed: a message with role and content")
	}
	if m.Role == "" && m.Message != nil {
		m.Content = nil
		if err := json.Unmarshal(m.Message, &m); err != nil {
			return nil, errors.New("its message is none")
		}
	}
	switch m.Role {
	case "assistant":
	case "":
		if m.Type != "" {
			return nil, nil // transcripts have lines of other kinds too
		}
		return nil, errors.New("it is no message: it has no role")
	default:
		return nil, nil
	}
	turn := &Turn{}
	if json.Unmarshal(m.Content, &turn.Text) == nil {
		return turn, nil
	}
	var blocks []struct {
		Use
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(m.Content, &blocks); err != nil {
		return nil, errors.New("its content is neither a text nor a list of blocks")
	}
	for i, b := range blocks {
		switch b.Type {
		case "text":
			turn.Text += b.Text
		case "tool_use":
			if b.Name == "" {
				return nil, fmt.Errorf("block %d: a tool_use needs a name", i+1)
			}
			turn.Uses = append(turn.Uses, b.Use)
		}
	}
	return turn, nil
}
