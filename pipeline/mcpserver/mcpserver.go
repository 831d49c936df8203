// Package mcpserver gives an agent's client the tools of a session over the
// Model Context Protocol. Every call passes the whole pipeline; the protocol adds
// nothing to what may be done and takes nothing away.
package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport/sallyport/internal/version"
	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/pipeline/approval"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox/changeset"
	"github.com/sallyport/sallyport/tools"
)

// A Server serves one client.
type Server struct {
	pipeline *pipeline.Pipeline
	server   *mcp.Server
	// other is asked where the client cannot ask, which has within to answer.
	other  permission.Prompter
	within time.Duration
	uses   atomic.Uint64

	mu       sync.Mutex
	client   *mcp.ServerSession
	progress map[string]func(json.RawMessage) // of the uses that run now
}

// New returns a server of a pipeline's tools, whose prompter it becomes: it asks
// by elicitation where the client has that, and otherwise asks other, which may
// be nil. A question to the client waits for within; 0 is for ever.
func New(p *pipeline.Pipeline, other permission.Prompter, within time.Duration) *Server {
	s := &Server{pipeline: p, other: other, within: within, progress: make(map[string]func(json.RawMessage))}
	p.Prompter, p.Progress = s, s.report
	s.server = mcp.NewServer(&mcp.Implementation{Name: "sallyport", Title: "Sallyport", Version: version.Version}, &mcp.ServerOptions{
		Instructions: fmt.Sprintf("These tools act in a sealed session over %s: there is no network, and what they change stays in the session %q "+
			"until a person lets it out with sallyport apply. A call may be denied; the reason says what to do.", p.Context.Workspace, p.Context.Session),
	})
	s.server.AddReceivingMiddleware(s.middleware)
	for _, t := range p.Tools.All() {
		s.server.AddTool(describe(t), s.call)
	}
	return s
}

// Serve speaks to the client at the other end of a stream until it hangs up or
// ctx ends. Both are closed.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	client, err := s.server.Connect(ctx, &mcp.IOTransport{Reader: in, Writer: out}, nil)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.client = client
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	if err := client.Wait(); err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the client: %w", err)
	}
	return nil
}

// describe is a tool as the protocol has it.
func describe(t *tools.Tool) *mcp.Tool {
	hints := &mcp.ToolAnnotations{Title: t.Name, OpenWorldHint: new(bool), DestructiveHint: new(bool)}
	*hints.DestructiveHint = true
	for _, flag := range t.Flags() {
		if flag == "read-only" {
			hints.ReadOnlyHint, *hints.DestructiveHint = true, false
		}
	}
	return &mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema, Annotations: hints}
}

// middleware notes who the client is, and answers calls of tools that there are
// not with what a model can act on.
func (s *Server) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if r, ok := req.(*mcp.CallToolRequest); ok {
			if _, err := s.pipeline.Tools.Find(r.Params.Name); err != nil {
				return s.call(ctx, r)
			}
		}
		return next(ctx, method, req)
	}
}

// call runs one call.
func (s *Server) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	use := pipeline.Use{ID: fmt.Sprintf("mcp-%d", s.uses.Add(1)), Name: req.Params.Name, Input: req.Params.Arguments}
	use.By = principal(req.Session)
	if token := req.Params.GetProgressToken(); token != nil {
		n := 0.0
		s.mu.Lock()
		s.progress[use.ID] = func(data json.RawMessage) {
			n++
			req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: string(data)})
		}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.progress, use.ID)
			s.mu.Unlock()
		}()
	}
	o := s.pipeline.Run(ctx, use)
	result := &mcp.CallToolResult{IsError: o.IsError}
	for _, b := range o.Blocks {
		result.Content = append(result.Content, &mcp.TextContent{Text: b.Text})
	}
	for _, note := range append(o.Messages, o.Notes...) {
		result.Content = append(result.Content, &mcp.TextContent{Text: note})
	}
	return result, nil
}

func (s *Server) report(u pipeline.Use, data json.RawMessage) {
	s.mu.Lock()
	tell := s.progress[u.ID]
	s.mu.Unlock()
	if tell != nil {
		tell(data)
	}
}

// principal is who makes a client's calls: the user that it runs as, by what it
// says that it is.
func principal(client *mcp.ServerSession) *audit.Principal {
	p := pipeline.Self()
	if client == nil {
		return p
	}
	if init := client.InitializeParams(); init != nil && init.ClientInfo != nil {
		p.Client, p.Version = bounded(init.ClientInfo.Name, mostName), bounded(init.ClientInfo.Version, mostName)
	}
	return p
}

// Bounds of what a client says, in bytes.
const (
	mostName = 200
	mostWhy  = 4 << 10
)

// bounded is the beginning of a text.
func bounded(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// Ask implements [permission.Prompter].
func (s *Server) Ask(ctx context.Context, p *permission.Prompt) (permission.Answer, error) {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if canElicit(client) {
		inTime, stop := ctx, func() {}
		if s.within > 0 {
			inTime, stop = context.WithTimeout(ctx, s.within)
		}
		defer stop()
		answer, err := elicit(inTime, client, p)
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
		if inTime.Err() != nil {
			return answer, fmt.Errorf("nobody answered within %v", s.within)
		}
		// A client that says it can ask and cannot is one that does not.
	}
	if s.other != nil {
		return s.other.Ask(ctx, p)
	}
	return permission.Answer{}, errors.New("nobody can be asked: the client cannot ask its user; allow it beforehand with --allow")
}

func canElicit(client *mcp.ServerSession) bool {
	if client == nil {
		return false
	}
	init := client.InitializeParams()
	return init != nil && init.Capabilities != nil && init.Capabilities.Elicitation != nil
}

// Choices of a question by elicitation.
const (
	yes        = "yes"
	yesSession = "yes, for this session"
	no         = "no"
)

// elicit asks by the client.
func elicit(ctx context.Context, client *mcp.ServerSession, prompt *permission.Prompt) (permission.Answer, error) {
	p := approval.Bounded(prompt)
	choices := []any{yes, no}
	if p.Rule != "" {
		choices = []any{yes, yesSession, no}
	}
	got, err := client.Elicit(ctx, &mcp.ElicitParams{
		Message: question(&p),
		RequestedSchema: map[string]any{
			"type": "object",
			"properties": map[string]any{
				"answer": map[string]any{"type": "string", "enum": choices, "description": "whether the call may run"},
				"why":    map[string]any{"type": "string", "description": "what to tell the agent if not"},
			},
			"required": []string{"answer"},
		},
	})
	if err != nil {
		return permission.Answer{}, err
	}
	a := permission.Answer{By: "elicitation"}
	if got.Action != "accept" {
		return a, nil
	}
	why, _ := got.Content["why"].(string)
	a.Why = bounded(why, mostWhy)
	switch got.Content["answer"] {
	case yes:
		a.Allow = true
	case yesSession:
		a.Allow, a.Session = true, p.Rule != ""
	}
	return a, nil
}

// question is a prompt that is bounded as a text. What a model sent has nothing in it that
// could act on a terminal, and stands further right than what is said of it:
// it cannot pass for that.
func question(p *permission.Prompt) string {
	text := &strings.Builder{}
	fmt.Fprintf(text, "Allow %s?\n%s\n", changeset.Printable(p.Title), changeset.Printable(p.Reason))
	for _, section := range p.Sections {
		fmt.Fprintf(text, "\n%s:\n", changeset.Printable(section.Title))
		for line := range strings.SplitSeq(strings.TrimSuffix(section.Text, "\n"), "\n") {
			fmt.Fprintf(text, "  | %s\n", changeset.Printable(line))
		}
	}
	if p.Rule != "" {
		fmt.Fprintf(text, "\n%q allows %s until the session ends.\n", yesSession, changeset.Printable(p.Rule))
	}
	return text.String()
}
