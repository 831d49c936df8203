package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/semaphore"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline"
	"github.com/sallyport/sallyport/pipeline/approval"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
	"github.com/sallyport/sallyport/tools"
	"github.com/sallyport/sallyport/tools/builtin"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

// A rig is a server of a live session, and the other ends of its streams.
type rig struct {
	t       *testing.T
	work    string
	session *pipeline.Session
	server  *Server
	in      *io.PipeWriter // what the server reads
	out     *io.PipeReader // what it writes
	stop    context.CancelFunc
	ended   chan error // what Serve returns
}

// options of a rig.
type options struct {
	mode   permission.Mode
	rules  []string // that allow
	within time.Duration
	queue  *approval.Queue // nil for none
	apart  bool            // not InClient
}

func serve(t *testing.T, o options) *rig {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, work: dir + "/work", ended: make(chan error, 1)}
	if err := os.Mkdir(r.work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.work+"/a.txt", []byte("one\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r.session, err = pipeline.Open(t.Context(), pipeline.Options{Workspace: r.work, Store: sallytest.Store(t), Driver: sallytest.Driver(t)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.session.Close(); err != nil {
			t.Error(err)
		}
	})
	policy := &permission.Policy{Mode: o.mode}
	if o.mode == "" {
		policy.Mode = permission.Default
	}
	for _, text := range o.rules {
		rule, err := permission.ParseRule(text, permission.Allow, "test")
		if err != nil {
			t.Fatal(err)
		}
		policy.Rules = append(policy.Rules, rule)
	}
	p, err := pipeline.New(r.session, tools.NewSet(builtin.All()...), policy)
	if err != nil {
		t.Fatal(err)
	}
	var other permission.Prompter
	if o.queue != nil {
		o.queue.Session = r.session.Dir()
		other = o.queue
	}
	r.server = New(p, other, o.within)
	r.server.InClient = !o.apart
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	r.in, r.out = toServer, fromServer
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- r.server.Serve(ctx, in, out)
		in.CloseWithError(io.EOF)
		out.Close()
	}()
	t.Cleanup(func() {
		toServer.Close()
		fromServer.Close()
		stop()
		<-done
	})
	return r
}

// connect is the SDK's client at the other end.
func (r *rig) connect(o *mcp.ClientOptions) *mcp.ClientSession {
	r.t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1.2.3"}, o)
	s, err := c.Connect(r.t.Context(), &mcp.IOTransport{Reader: r.out, Writer: r.in}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { s.Close() })
	return s
}

// text is what a model reads of a result.
func text(res *mcp.CallToolResult) string {
	var parts []string
	for _, c := range res.Content {
		parts = append(parts, c.(*mcp.TextContent).Text)
	}
	return strings.Join(parts, "\n")
}

func call(t *testing.T, s *mcp.ClientSession, tool string, args any) *mcp.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	return res
}

type m = map[string]any

func bash(command string) m { return m{"command": command} }

func write(name string) m { return m{"file_path": name, "content": "x\n"} }

// alive checks that a session still does what it should.
func alive(t *testing.T, s *mcp.ClientSession) {
	t.Helper()
	if res := call(t, s, "Read", m{"file_path": "a.txt"}); res.IsError || !strings.Contains(text(res), "two") {
		t.Errorf("afterwards: %q", text(res))
	}
}

// running waits until so many processes run in the session.
func (r *rig) running(n int) {
	r.t.Helper()
	for {
		list, err := r.session.Processes(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		if len(list) == n {
			return
		}
	}
}

func (r *rig) records() (list []*audit.Record) {
	r.t.Helper()
	if _, err := audit.ReadFile(filepath.Join(r.session.Dir(), sandbox.RecordFile), func(rec *audit.Record) error {
		list = append(list, rec)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return list
}

func TestToolsAreDescribed(t *testing.T) {
	s := serve(t, options{}).connect(nil)
	if got := s.InitializeResult(); got.ServerInfo.Name != "sallyport" || !strings.Contains(got.Instructions, "sallyport apply") ||
		got.Capabilities.Tools == nil || got.Capabilities.Tools.ListChanged {
		t.Errorf("%+v", got)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	readOnly := map[string]bool{"Read": true, "Grep": true, "Glob": true}
	seen := 0
	for _, tool := range list.Tools {
		seen++
		a := tool.Annotations
		if a == nil || a.ReadOnlyHint != readOnly[tool.Name] || a.DestructiveHint == nil || *a.DestructiveHint == readOnly[tool.Name] ||
			a.OpenWorldHint == nil || *a.OpenWorldHint {
			t.Errorf("%s: %+v", tool.Name, a)
		}
		schema := tool.InputSchema.(m)
		required, _ := schema["required"].([]any)
		if tool.Description == "" || schema["type"] != "object" || len(schema["properties"].(m)) == 0 || len(required) == 0 {
			t.Errorf("%s: %v", tool.Name, schema)
		}
		// A client that holds its model to the schema must let through what we do.
		if more, there := schema["additionalProperties"]; there && more != true {
			t.Errorf("%s: additionalProperties: %v", tool.Name, more)
		}
	}
	if seen != len(builtin.All()) {
		t.Errorf("%d tools", seen)
	}
}

// Whatever a model sends, it gets a result that it can act on.
func TestResults(t *testing.T) {
	r := serve(t, options{mode: permission.Bypass})
	s := r.connect(nil)
	for _, test := range []struct {
		name, tool string
		args       any
		want       string
		fails      bool
	}{
		{"a result", "Read", m{"file_path": "a.txt"}, "     1\tone\n     2\ttwo", false},
		{"a command that fails", "Bash", bash("echo out; exit 3"), "Exit code 3\nout", true},
		{"a file that is not there", "Read", m{"file_path": "b.txt"}, "b.txt", true},
		{"an unknown tool", "Raed", m{"file_path": "a.txt"}, "did you mean Read?", true},
		{"no name at all", "", m{}, "tool", true},
		{"a wrong type", "Bash", m{"command": 7}, `the field "command" must be of type string`, true},
		{"a missing field", "Read", m{}, `the field "file_path" is missing`, true},
		{"no input", "Read", nil, `the field "file_path" is missing`, true},
		{"input that is no object", "Read", []string{"a.txt"}, "a JSON object is needed", true},
		{"input that is a text", "Read", "a.txt", "a JSON object is needed", true},
		{"an unknown field", "Read", m{"file_path": "a.txt", "color": "red"}, "Read has no field color: ignored", false},
		{"out of bounds", "Bash", m{"command": "true", "timeout": 1e9}, "timeout", true},
		{"what is protected", "Write", write(".git/hooks/pre-commit"), "denied", true},
	} {
		res := call(t, s, test.tool, test.args)
		if res.IsError != test.fails || !strings.Contains(text(res), test.want) {
			t.Errorf("%s: %q, failed: %v", test.name, text(res), res.IsError)
		}
	}
	alive(t, s)
}

func TestQuestionsByElicitation(t *testing.T) {
	accept := func(content m) *mcp.ElicitResult { return &mcp.ElicitResult{Action: "accept", Content: content} }
	for _, test := range []struct {
		name   string
		answer *mcp.ElicitResult
		want   string // of the first call's result
		allow  bool
		asked  int // by two calls
	}{
		{"yes", accept(m{"answer": yes}), "wrote", true, 2},
		{"yes for the session", accept(m{"answer": yesSession}), "wrote", true, 1},
		{"no", accept(m{"answer": no}), "the user said no; do not try the same in another way", false, 2},
		{"no with a reason", accept(m{"answer": no, "why": "use b.txt"}), "the user said no: use b.txt", false, 2},
		{"a long reason", accept(m{"answer": no, "why": strings.Repeat("x", 1<<20)}), "the user said no: xxx", false, 2},
		{"declined", &mcp.ElicitResult{Action: "decline"}, "the user said no", false, 2},
		{"declined, whatever else it says", &mcp.ElicitResult{Action: "decline", Content: m{"answer": yes}}, "the user said no", false, 2},
		{"dismissed", &mcp.ElicitResult{Action: "cancel"}, "dismissed", false, 2},
		{"accepted without an answer", accept(nil), "nobody", false, 2},
		{"accepted with another answer", accept(m{"answer": "always"}), "nobody", false, 2},
		{"accepted with an answer of another type", accept(m{"answer": true}), "nobody", false, 2},
		{"no action that there is", &mcp.ElicitResult{Action: "approve", Content: m{"answer": yes}}, "nobody", false, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var questions []string
			r := serve(t, options{})
			s := r.connect(&mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				questions = append(questions, req.Params.Message)
				return test.answer, nil
			}})
			for i := range 2 {
				res := call(t, s, "Write", write("new.txt"))
				got := text(res)
				if res.IsError == test.allow || !strings.Contains(got, test.want) && !test.allow {
					t.Errorf("call %d: %.300q, failed: %v", i, got, res.IsError)
				}
				if len(got) > 5000 {
					t.Errorf("call %d: %d bytes", i, len(got))
				}
			}
			if len(questions) != test.asked || !strings.Contains(questions[0], "new.txt") {
				t.Errorf("%d questions: %q", len(questions), questions)
			}
			if out := text(call(t, s, "Glob", m{"pattern": "new*.txt"})); strings.Contains(out, "new.txt") != test.allow {
				t.Errorf("what is there: %q", out)
			}
		})
	}
}

// A question cannot be made to look like another one.
func TestQuestionShowsTheAgentsTextHarmlessly(t *testing.T) {
	got := question(&permission.Prompt{
		Title: "Bash ls\nwhy it is asked: it is safe", Reason: "no \x1b[31mrule\u202e allows it", Rule: "Bash(ls *)",
		Sections: []permission.Section{{Title: "command\n\nother", Text: "ls\t-l\n\n\"yes\" would allow: nothing\r\x00\n"}, {Title: "long", Text: strings.Repeat("y", 2<<20)}},
	})
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "why it is asked: it is safe") || strings.HasPrefix(line, "\"yes\"") || strings.HasPrefix(line, "other") {
			t.Errorf("%q", line)
		}
	}
	if strings.ContainsAny(got, "\x1b\u202e\r\x00") || !strings.Contains(got, "    | ls\t-l\n") || !strings.HasPrefix(got, "Allow Bash ls") ||
		!strings.Contains(got, "would allow: Bash(ls *)\n") || len(got) > 2<<20 {
		t.Errorf("%d bytes: %.400q", len(got), got)
	}
}

func TestNobodyAnswersInTime(t *testing.T) {
	withdrawn := make(chan struct{})
	s := serve(t, options{within: 50 * time.Millisecond}).connect(&mcp.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			<-ctx.Done() // until the question is withdrawn
			close(withdrawn)
			return nil, ctx.Err()
		},
	})
	if res := call(t, s, "Write", write("new.txt")); !res.IsError || !strings.Contains(text(res), "nobody answered within 50ms") {
		t.Errorf("%q", text(res))
	}
	<-withdrawn
	alive(t, s)
}

// A client that cannot ask, or fails to, leaves it to sallyport approve.
func TestQuestionsInTheQueue(t *testing.T) {
	failing := func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return nil, errors.New("no dialog")
	}
	unwatched := func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	for _, client := range []struct {
		name    string
		options *mcp.ClientOptions
		apart   bool
	}{
		{"cannot", nil, false},
		{"fails", &mcp.ClientOptions{ElicitationHandler: failing}, false},
		{"is not to be asked", &mcp.ClientOptions{ElicitationHandler: unwatched}, true},
		{"only by URL", &mcp.ClientOptions{ElicitationHandler: failing, Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}},
		}}, false},
	} {
		for _, test := range []struct {
			name   string
			answer *permission.Answer
			within time.Duration
			want   string
		}{
			{"yes", &permission.Answer{Allow: true}, time.Hour, ""},
			{"no", &permission.Answer{Why: "not that"}, time.Hour, "the user said no: not that"},
			{"nobody", nil, 50 * time.Millisecond, "nobody answered within 50ms"},
		} {
			t.Run(client.name+", "+test.name, func(t *testing.T) {
				q := &approval.Queue{Within: test.within}
				var answering sync.WaitGroup
				q.Asked = func(w approval.Waiting) {
					if test.answer == nil {
						return
					}
					answering.Go(func() {
						if err := approval.AnswerTo(q.Session, w.ID, *test.answer); err != nil {
							t.Error(err)
						}
					})
				}
				s := serve(t, options{queue: q, within: time.Hour, apart: client.apart}).connect(client.options)
				res := call(t, s, "Write", write("new.txt"))
				answering.Wait()
				if res.IsError == (test.want == "") || !strings.Contains(text(res), test.want) {
					t.Errorf("%q", text(res))
				}
				alive(t, s)
			})
		}
	}
	t.Run("without a queue", func(t *testing.T) {
		s := serve(t, options{}).connect(nil)
		if res := call(t, s, "Write", write("new.txt")); !res.IsError || !strings.Contains(text(res), "nobody can be asked") || !strings.Contains(text(res), "--allow") {
			t.Errorf("%q", text(res))
		}
	})
}

// What the client cancels ends, with all it has started.
func TestCancellation(t *testing.T) {
	r := serve(t, options{mode: permission.Bypass})
	s := r.connect(nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "Bash", Arguments: bash("sleep 1000 & sleep 1000; touch after")})
		ended <- err
	}()
	r.running(3)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.running(0)
	if res := call(t, s, "Bash", bash("ls")); text(res) != "a.txt" {
		t.Errorf("%q", text(res))
	}
	alive(t, s)
}

// A question that waits is withdrawn when its call is cancelled.
func TestCancellationOfAQuestion(t *testing.T) {
	asked, withdrawn := make(chan struct{}), make(chan struct{})
	s := serve(t, options{}).connect(&mcp.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			close(asked)
			<-ctx.Done()
			close(withdrawn)
			return nil, ctx.Err()
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "Write", Arguments: write("new.txt")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-withdrawn
	alive(t, s)
}

func TestProgress(t *testing.T) {
	r := serve(t, options{mode: permission.Bypass})
	var mu sync.Mutex
	var got []*mcp.ProgressNotificationParams
	s := r.connect(&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, req.Params)
	}})
	// A tool of this test's own: those that there are report when it takes long.
	use := pipeline.Use{ID: "mcp-1"}
	heard := make(chan struct{})
	r.server.pipeline.Hooks = hook(func() {
		for i := range 3 {
			r.server.report(use, json.RawMessage(fmt.Sprintf(`{"matches":%d}`, i)))
		}
		r.server.report(pipeline.Use{ID: "mcp-2"}, json.RawMessage(`"of another call"`))
		close(heard)
	})
	params := &mcp.CallToolParams{Name: "Read", Arguments: m{"file_path": "a.txt"}}
	params.SetProgressToken("tok")
	if _, err := s.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	<-heard
	r.server.report(use, json.RawMessage(`"after its end"`))
	r.server.pipeline.Hooks = nil
	alive(t, s) // without a token; whatever was sent before is there now
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 3 {
		t.Fatalf("%d notifications", len(got))
	}
	for i, p := range got {
		if p.ProgressToken != "tok" || p.Progress != float64(i+1) || p.Message != fmt.Sprintf(`{"matches":%d}`, i) {
			t.Errorf("%+v", p)
		}
	}
}

// A hook does something before each call.
type hook func()

func (hook) PermissionRequest(context.Context, *pipeline.HookCall) (*pipeline.HookAnswer, error) {
	return nil, nil
}

func (hook) SessionStart(context.Context, *pipeline.HookCall, string) (*pipeline.HookAnswer, error) {
	return nil, nil
}

func (hook) SessionEnd(context.Context, *pipeline.HookCall, string) (*pipeline.HookAnswer, error) {
	return nil, nil
}

func (h hook) PreToolUse(context.Context, *pipeline.HookCall) (*pipeline.HookAnswer, error) {
	h()
	return nil, nil
}

func (hook) PostToolUse(context.Context, *pipeline.HookCall, *pipeline.Outcome) (*pipeline.HookAnswer, error) {
	return nil, nil
}

func (hook) PermissionDenied(context.Context, *pipeline.HookCall, *permission.Decision) (*pipeline.HookAnswer, error) {
	return nil, nil
}

// Each of many calls at once gets its own result.
func TestConcurrentCalls(t *testing.T) {
	r := serve(t, options{mode: permission.Bypass})
	s := r.connect(nil)
	var calls sync.WaitGroup
	for i := range 40 {
		calls.Go(func() {
			tool, args, want := "Bash", bash(fmt.Sprintf("echo of %d", i)), fmt.Sprintf("of %d", i)
			if i%2 == 0 {
				tool, args, want = "Read", m{"file_path": "a.txt", "offset": 2}, "     2\ttwo"
			}
			res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
			if err != nil || res.IsError || text(res) != want {
				t.Errorf("%d: %+v, %v", i, res, err)
			}
		})
	}
	calls.Wait()
}

// What waits is bounded, whatever a client sends.
func TestTooManyCallsAtOnce(t *testing.T) {
	release := make(chan struct{})
	r := serve(t, options{})
	s := r.connect(&mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		<-release
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	const fit = 5
	r.server.room = semaphore.NewWeighted(fit * (perCall + 2000))
	results := make(chan string)
	for i := range fit + 3 {
		go func() {
			res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "Write", Arguments: m{"file_path": fmt.Sprint(i), "content": strings.Repeat("x", 1500)}})
			if err != nil {
				results <- err.Error()
				return
			}
			results <- text(res)
		}()
	}
	for range 3 {
		if got := <-results; !strings.Contains(got, "too many calls wait at once") {
			t.Errorf("%.300q", got)
		}
	}
	close(release)
	for range fit {
		if got := <-results; !strings.Contains(got, "the user said no") {
			t.Errorf("%.300q", got)
		}
	}
	alive(t, s)
}

func TestWhoseCallItWasIsOnRecord(t *testing.T) {
	r := serve(t, options{})
	s := r.connect(nil)
	call(t, s, "Read", m{"file_path": "a.txt"})
	call(t, s, "Raed", m{})
	seen := 0
	for _, rec := range r.records() {
		if rec.Kind != audit.KindDecision && rec.Kind != audit.KindResult {
			continue
		}
		seen++
		if p := rec.Principal; p == nil || p.Client != "tester" || p.Version != "1.2.3" || p.UID != os.Getuid() {
			t.Errorf("%s %s: %+v", rec.Kind, rec.Tool, p)
		}
		if rec.Use == "" && rec.Kind == audit.KindDecision {
			t.Errorf("%+v", rec)
		}
	}
	if seen != 3 {
		t.Errorf("%d records", seen)
	}
}

// When the client goes, what it has begun ends.
func TestClientHangsUp(t *testing.T) {
	r := serve(t, options{mode: permission.Bypass})
	s := r.connect(nil)
	go s.CallTool(t.Context(), &mcp.CallToolParams{Name: "Bash", Arguments: bash("sleep 1000 & sleep 1000; touch x")})
	r.running(3)
	r.in.Close()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	r.running(0)
	last := r.records()
	if rec := last[len(last)-1]; rec.Kind != audit.KindResult || rec.Result.Error == "" {
		t.Errorf("%+v", rec)
	}
}

// So it does when the server is to end, also if the client does not read what it
// is told.
func TestServerEnds(t *testing.T) {
	r := serve(t, options{mode: permission.Bypass})
	c := r.raw()
	c.initialize()
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Read","arguments":{"file_path":"a.txt"}}}`)
	c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"sleep 1000 & sleep 1000; touch x"}}}`)
	r.running(3)
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	r.running(0)
}

// A raw client writes lines.
type raw struct {
	*rig
	lines *bufio.Reader
}

func (r *rig) raw() *raw { return &raw{r, bufio.NewReaderSize(r.out, 1<<20)} }

func (c *raw) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatalf("%.100q: %v", line, err)
	}
}

func (c *raw) receive() string {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	if err != nil {
		c.t.Fatalf("%v: %v", err, <-c.ended)
	}
	return line
}

func (c *raw) initialize() {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	if got := c.receive(); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
		c.t.Fatal(got)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// What is a message and makes no sense gets an error, and the session goes on.
func TestMessagesThatMakeNoSense(t *testing.T) {
	r := serve(t, options{})
	c := r.raw()
	c.initialize()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":2,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":null}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":[]}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":null,"arguments":null}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Read","arguments":"\ud800"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Read","arguments":{},"_meta":{"progressToken":{"a":1}}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Read","arguments":{},"_meta":7}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/steal","params":{}}`,
		`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"\u0000"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Read","arguments":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `}}`,
	} {
		c.send(line)
		if got := c.receive(); !strings.Contains(got, `"id":2`) || !strings.Contains(got, `"error":{`) && !strings.Contains(got, `"isError":true`) {
			t.Errorf("%.150s: %.200q", line, got)
		}
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/nothing","params":{"x":1}}`,
		`{"jsonrpc":"2.0","id":77,"result":{"action":"accept"}}`, // an answer to what was not asked
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"Write","arguments":{"file_path":"x","content":"x"}}}`,
	} {
		c.send(line)
	}
	c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"Read","arguments":{"file_path":"a.txt"}}}`)
	if got := c.receive(); !strings.Contains(got, `"id":3`) || !strings.Contains(got, `two`) {
		t.Errorf("afterwards: %.300q", got)
	}
}

// What is no message ends the connection, and takes no more memory than a
// message may.
func TestWhatIsNoMessage(t *testing.T) {
	for _, test := range []struct {
		name string
		feed func(w io.Writer) error
	}{
		{"words", lines("hello")},
		{"half a message", lines(`{"jsonrpc":"2.0","id":1,`, "", `}`, `x`)},
		{"no version of the protocol", lines(`{"id":1,"method":"initialize"}`)},
		{"an empty batch", lines(`[]`)},
		{"two in a line", lines(`{"jsonrpc":"2.0","id":7,"method":"ping"}{"jsonrpc":"2.0","id":8,"method":"ping"}`)},
		{"bytes", lines("\x00\xff\xfe\n\x01")},
		{"a deep message", lines(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`)},
		{"depth without an end", lines(strings.Repeat("[", 1<<20))},
		{"a line without an end", func(w io.Writer) error {
			_, err := io.WriteString(w, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`)
			for chunk := []byte(strings.Repeat("x", 1<<20)); err == nil; {
				_, err = w.Write(chunk)
			}
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := serve(t, options{})
			sent := &counter{w: r.in}
			fed := make(chan error, 1)
			go func() { fed <- test.feed(sent) }()
			go io.Copy(io.Discard, r.out)
			if err := <-r.ended; err == nil || !strings.HasPrefix(err.Error(), "the client's messages: ") {
				t.Errorf("%v", err)
			}
			<-fed
			if sent.n > mostMessage+2<<20 {
				t.Errorf("%d bytes were taken", sent.n)
			}
		})
	}
}

func lines(list ...string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(list, "\n")+"\n")
		return err
	}
}

type counter struct {
	w io.Writer
	n int
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n
	return n, err
}
