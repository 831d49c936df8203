package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/permission"
)

// describe is what a prompt shows of the input.
func (c *call) describe() []permission.Section {
	if command, ok := c.tool.Command(c.input); ok {
		return []permission.Section{{Title: "command", Text: command}}
	}
	if diff := c.tool.Diff(c.input); diff != "" {
		rest, _ := describeInput(c.input)
		return []permission.Section{{Title: "diff", Text: diff, Diff: true}, rest}
	}
	rest, texts := describeInput(c.input)
	return append([]permission.Section{rest}, texts...)
}

// parts are what is known of a call's command, for a prompt.
func (c *call) parts() []permission.PromptPart {
	command, ok := c.tool.Command(c.filled)
	return c.policy.Parts(&permission.Request{Command: command, HasCommand: ok, Dir: c.context.Dir})
}

// describeInput shows an input as people read it: texts of several lines as such,
// the rest as JSON. An empty line at its end says that a text ends with a newline.
func describeInput(input any) (rest permission.Section, texts []permission.Section) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(input); err != nil {
		return permission.Section{Title: "input"}, nil
	}
	fields := []string{}
	d := json.NewDecoder(bytes.NewReader(text.Bytes()))
	_, err := d.Token() // the brace
	for err == nil && d.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = d.Token(); err != nil {
			break
		}
		err = d.Decode(&value)
		var lines string
		if json.Unmarshal(value, &lines) == nil && strings.Contains(lines, "\n") {
			texts = append(texts, permission.Section{Title: fmt.Sprint(name), Text: lines + "\n"})
			continue
		}
		fields = append(fields, fmt.Sprintf("  %q: %s", name, value))
	}
	if err != nil { // no object: all of it is shown as it is
		return permission.Section{Title: "input", Text: text.String()}, nil
	}
	return permission.Section{Title: "input", Text: "{\n" + strings.Join(fields, ",\n") + "\n}"}, texts
}
