package permission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Rule is one line of a policy: Tool, or Tool(content). What the content means
// depends on the tool:
//
//	Bash(go vet ./...)      exactly this command
//	Bash(go test *)         what begins so, at the end of a word; also Bash(go test:*)
//	Bash(git * main)        a star stands for anything
//	Edit(/src/**)           files below src in the workspace's root, for all tools that write
//	Read(.env)              files of this name, at any depth, for all tools that read
//	Read(~/x), Read(//etc/x), Read(docs/*.md)
//	WebFetch(domain:example.com), WebFetch(domain:*.example.com)
//	Agent(name)
//
// A tool of an MCP server is named mcp__server__tool; mcp__server and
// mcp__server__* are all of a server's. Rules are made by [ParseRule].
type Rule struct {
	Behavior Behavior
	Tool     string
	Content  string // "" for every call of the tool
	Source   Source
	// Origin is where in a file it stands, as path:line; "" for one of no file.
	Origin string

	kind    int // of its content, as in contents
	path    *pathPattern
	command *commandPattern
	host    *hostPattern
}

// String is the rule as it is written.
func (r *Rule) String() string {
	if r.Content == "" {
		return r.Tool
	}
	return r.Tool + "(" + r.Content + ")"
}

// named is the rule as messages name it: with the file and line that it is of.
func (r *Rule) named() string {
	if r.Origin == "" {
		return r.String()
	}
	return r.String() + " (" + r.Origin + ")"
}

// A Source is where a rule comes from.
type Source string

const (
	FromPolicy  Source = "policy"  // the system's policy file
	FromCLI     Source = "cliArg"  // the command line
	FromLocal   Source = "local"   // the workspace's settings of this user alone
	FromProject Source = "project" // the workspace's settings
	FromUser    Source = "user"    // the user's settings
	FromSession Source = "session" // an answer for the rest of the session
	FromCommand Source = "command" // what a command that runs brings with it
)

// String is the source in words.
func (s Source) String() string {
	switch s {
	case FromPolicy:
		return "the system's policy"
	case FromCLI:
		return "command line"
	case FromLocal:
		return "local settings"
	case FromProject:
		return "project settings"
	case FromUser:
		return "user settings"
	}
	return string(s)
}

// RootedAt is the rule with a path that begins with a single slash read from a
// directory, absolute, rather than from the workspace.
func (r Rule) RootedAt(dir string) Rule {
	if r.path != nil && r.path.root == ofWorkspace && strings.HasPrefix(r.Content, "/") {
		at := *r.path
		at.dir = dir
		r.path = &at
	}
	return r
}

// Tools whose rules take a content, and what kind of content it is.
const (
	ofPath = iota + 1
	ofCommand
	ofHost
	ofName
)

var contents = map[string]int{
	"Read": ofPath, "Edit": ofPath, "Write": ofPath, "MultiEdit": ofPath, "NotebookEdit": ofPath,
	"Grep": ofPath, "Glob": ofPath, "LS": ofPath, "NotebookRead": ofPath,
	"Bash":     ofCommand,
	"WebFetch": ofHost, "Fetch": ofHost,
	"Agent": ofName, "Task": ofName, "Skill": ofName, "SlashCommand": ofName,
}

// aliases are other names under which rules know a tool.
var aliases = map[string]string{"Fetch": "WebFetch", "Task": "Agent"}

// mostRule is the longest rule that is read, in bytes.
const mostRule = 4096

// ParseRule reads a rule.
func ParseRule(text string, behavior Behavior, source Source) (Rule, error) {
	r := Rule{Behavior: behavior, Source: source}
	fail := func(format string, args ...any) (Rule, error) {
		return Rule{}, fmt.Errorf("the rule %q: %w", cutTo(text, 200), fmt.Errorf(format, args...))
	}
	if len(text) > mostRule {
		return fail("it is longer than %d bytes", mostRule)
	}
	tool, rest, hasContent := strings.Cut(strings.TrimSpace(text), "(")
	r.Tool = tool
	if tool == "" || strings.Trim(tool, toolNames) != "" {
		return fail("it names no tool; write Tool or Tool(content), as Bash(go test *) or Edit(/src/**)")
	}
	if star := strings.IndexByte(tool, '*'); star >= 0 && (star != len(tool)-1 || !strings.HasPrefix(tool, mcpPrefix)) {
		return fail("a star stands only at the end of the name of an MCP server's tools: mcp__server__*")
	}
	for known := range contents {
		if known != tool && strings.EqualFold(known, tool) {
			return fail("no tool is called %s; did you mean %s?", tool, known)
		}
	}
	if to, ok := aliases[tool]; ok {
		r.Tool = to
	}
	r.kind = contents[r.Tool]
	if !hasContent {
		return r.bare(), nil
	}
	content, closed := strings.CutSuffix(rest, ")")
	switch {
	case !closed:
		return fail("it does not end with )")
	case strings.ContainsAny(content, "\x00\n\r"):
		return fail("it has a control character")
	case content == "" || content == "*" || content == "**":
		return r.bare(), nil
	}
	r.Content = content
	var err error
	switch contents[tool] {
	case ofPath:
		r.path, err = parsePath(content, behavior)
	case ofCommand:
		r.command, err = parseCommand(content)
	case ofHost:
		r.host, err = parseHost(content)
	case ofName:
	default:
		err = errors.New("rules for a tool called " + tool + " take no content; those for " + strings.Join(takeContent(), ", ") + " do")
	}
	if err != nil {
		return fail("%w", err)
	}
	return r, nil
}

// bare is a rule without content. Against reading or changing files it is about
// all of them, whatever does it.
func (r Rule) bare() Rule {
	if r.Behavior != Allow && (r.writes() || r.Tool == "Read") {
		r.path = &pathPattern{root: ofSystem, fold: true}
	}
	return r
}

const (
	toolNames = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-*"
	mcpPrefix = "mcp__"
)

func takeContent() []string {
	var names []string
	for name := range contents {
		if _, alias := aliases[name]; !alias {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// names reports whether a rule is about a tool, by its name. A rule about a
// server is about all of its tools.
func (r *Rule) names(tool string) bool {
	if r.Tool == tool {
		return true
	}
	if !strings.HasPrefix(r.Tool, mcpPrefix) {
		return false
	}
	server := strings.TrimSuffix(r.Tool, "*")
	if server != r.Tool {
		return strings.HasPrefix(tool, server)
	}
	return strings.HasPrefix(tool, server+"__")
}

// writes reports whether a rule is about changing files.
func (r *Rule) writes() bool {
	return r.Tool == "Edit" || r.Tool == "Write" || r.Tool == "MultiEdit" || r.Tool == "NotebookEdit"
}

// KnowsTool reports whether the rule's tool is one that agents are known to have,
// or an MCP server's.
func (r *Rule) KnowsTool() bool {
	return contents[r.Tool] != 0 || strings.HasPrefix(r.Tool, mcpPrefix)
}

// OfFiles reports whether a rule names files that are read or changed.
func (r *Rule) OfFiles() bool {
	return r.path != nil && r.Content != "" && (r.Tool == "Read" || r.writes())
}

// binds reports whether a rule of files is about a path that a tool touches.
// Rules of Edit are about all tools that write, and denials of Read about all
// that touch a file: what cannot be seen cannot be changed either. The others
// that allow are about their own tool only.
func (r *Rule) binds(tool string, write bool) bool {
	switch {
	case r.kind != ofPath:
		return false
	case r.Tool == "Read":
		return !write || r.Behavior != Allow
	case r.Tool == "Edit":
		return write
	case r.Behavior == Allow:
		return r.Tool == tool
	case r.writes():
		return write
	default:
		return r.Tool == tool
	}
}

func cutTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
