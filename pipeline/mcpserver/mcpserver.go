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
	"golang.org/x/sync/semaphore"

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
	// InClient says that the client is asked where it can ask its user; New sets
	// it. A client that nobody watches may say that it can, and say no by itself.
	InClient bool

	pipeline *pipeline.Pipeline
	server   *mcp.Server
	// other is asked where the client cannot ask, which has within to answer.
	other  permission.Prompter
	within time.Duration
	uses   atomic.Uint64
	room   *semaphore.Weighted // for calls, in bytes

	mu       sync.Mutex
	serving  context.Context // the connection does not end calls by itself
	calls    sync.WaitGroup  // those that run; none is added once serving has ended
	client   *mcp.ServerSession
	progress map[string]func(json.RawMessage) // of the uses that run now
}

// What a client can have in memory, in bytes. A message that is longer ends the
// connection; of a call that finds no room the model is told.
const (
	mostMessage = 16 << 20
	mostCalls   = 64 << 20
	perCall     = 64 << 10 // beside its input
)

// versions are those of the protocol in which a server can ask its client
// something while a call waits. From 2026-07-28 on it cannot: a client that knows
// both falls back to the older ones.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// New returns a server of a pipeline's tools, whose prompter it becomes: it asks
// by elicitation where the client has that, and otherwise asks other, which may
// be nil. A question to the client waits for within; 0 is for ever.
func New(p *pipeline.Pipeline, other permission.Prompter, within time.Duration) *Server {
	s := &Server{InClient: true, pipeline: p, other: other, within: within, room: semaphore.NewWeighted(mostCalls), progress: make(map[string]func(json.RawMessage))}
	p.Prompter, p.Progress = s, s.report
	s.server = mcp.NewServer(&mcp.Implementation{Name: "sallyport", Title: "Sallyport", Version: version.Version}, &mcp.ServerOptions{
		Instructions: fmt.Sprintf("These tools act in a sealed session over %s: there is no network, and what they change stays in the session %q "+
			"until a person lets it out with sallyport apply. A call may be denied; the reason says what to do.", p.Context.Workspace, p.Context.Session),
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SupportedProtocolVersions: versions,
	})
	s.server.AddReceivingMiddleware(s.middleware)
	for _, t := range p.Tools.All() {
		s.server.AddTool(describe(t), s.call)
	}
	return s
}

// Serve speaks to the client at the other end of a stream until it hangs up, says
// what is no message, or ctx ends. No call runs any more when it returns, and both
// are closed.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	s.mu.Lock()
	s.serving = ctx
	client, err := s.server.Connect(ctx, &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: mostMessage}, nil)
	s.client = client
	s.mu.Unlock()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- client.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		// A client that does not read what it is told holds up the connection, but
		// not the calls.
		go client.Close()
		s.mu.Lock() // a call that had come by now is counted
		s.client = nil
		s.mu.Unlock()
		s.calls.Wait()
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the client's messages: %w", err)
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

// middleware answers calls of tools that there are not with what a model can act
// on.
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

// begin counts a call, whose context ends with the connection or with the server.
func (s *Server) begin(ctx context.Context, size int64) (_ context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving.Err() != nil {
		return nil, nil, pipeline.ErrAborted
	}
	if !s.room.TryAcquire(size) {
		return nil, nil, errors.New("too many calls wait at once: this one did not run; make it again when others have ended")
	}
	s.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.serving, cancel)
	return ctx, func() { stop(); cancel(); s.room.Release(size); s.calls.Done() }, nil
}

// call runs one call.
func (s *Server) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ctx, end, err := s.begin(ctx, int64(perCall+len(req.Params.Arguments)))
	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
	}
	defer end()
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
		p.Client, p.Version = bounded(init.ClientInfo.Name), bounded(init.ClientInfo.Version)
	}
	return p
}

func bounded(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }

// Ask implements [permission.Prompter].
func (s *Server) Ask(ctx context.Context, p *permission.Prompt) (permission.Answer, error) {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if s.InClient && canElicit(client) {
		inTime, stop := ctx, func() {}
		if s.within > 0 {
			inTime, stop = context.WithTimeout(ctx, s.within)
		}
		defer stop()
		answer, err := elicit(inTime, client, p)
		if err == nil || ctx.Err() != nil || errors.Is(err, errDismissed) {
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

// mostWhy is how much of what a person has to say the model is told, in bytes.
const mostWhy = 4 << 10

// elicit asks by the client.
func elicit(ctx context.Context, client *mcp.ServerSession, p *permission.Prompt) (permission.Answer, error) {
	choices := []any{yes, no}
	if p.Rule != "" {
		choices = []any{yes, yesSession, no}
	}
	got, err := client.Elicit(ctx, &mcp.ElicitParams{
		Message: question(p),
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
	switch got.Action {
	case "accept":
	case "decline":
		return a, nil
	case "cancel":
		return a, errDismissed
	default:
		return a, fmt.Errorf("the client's answer is %q", got.Action)
	}
	why, _ := got.Content["why"].(string)
	a.Why = strings.ToValidUTF8(why[:min(len(why), mostWhy)], "")
	switch got.Content["answer"] {
	case yes:
		a.Allow = true
	case yesSession:
		a.Allow, a.Session = true, p.Rule != ""
	case no:
	default:
		return a, errors.New("the client's answer says neither yes nor no")
	}
	return a, nil
}

// errDismissed is a question that was shown and left.
var errDismissed = errors.New("the question was dismissed in the client: nobody said yes or no")

// question is a prompt in words. What comes from the agent stands behind a word of
// ours or a bar: it cannot be taken for what sallyport says.
func question(prompt *permission.Prompt) string {
	p := approval.Bounded(prompt)
	text := &strings.Builder{}
	fmt.Fprintf(text, "Allow %s?\nwhy it is asked: %s\n", changeset.Printable(p.Title), changeset.Printable(p.Reason))
	if by := p.AskedBy(); by != "" {
		fmt.Fprintf(text, "asked by %s\n", changeset.Printable(by))
	}
	if len(p.Parts) > 0 {
		fmt.Fprintf(text, "\nwhat is known of it:\n")
	}
	for i := range p.Parts {
		fmt.Fprintf(text, "    | %s\n", changeset.Printable(p.Parts[i].String()))
	}
	for _, section := range p.Sections {
		fmt.Fprintf(text, "\n%s:\n", changeset.Printable(section.Title))
		for line := range strings.SplitSeq(strings.TrimSuffix(section.Text, "\n"), "\n") {
			parts := strings.Split(line, "\t")
			for i := range parts {
				parts[i] = changeset.Printable(parts[i])
			}
			fmt.Fprintf(text, "    | %s\n", strings.Join(parts, "\t"))
		}
	}
	if p.Rule != "" {
		fmt.Fprintf(text, "\n%q would allow: %s\n", yesSession, changeset.Printable(p.Rule))
	}
	return text.String()
}
