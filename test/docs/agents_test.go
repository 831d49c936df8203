package docs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport/sallyport/test/sallytest"
)

// blocks are the blocks of docs/agents.md that are marked with a word.
func blocks(t *testing.T, mark string) []string {
	t.Helper()
	data, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range regexp.MustCompile("(?ms)^```[a-z]+ "+mark+"\n(.*?)^```$").FindAllStringSubmatch(string(data), -1) {
		list = append(list, m[1])
	}
	if len(list) == 0 {
		t.Fatalf("docs/agents.md has no block %q", mark)
	}
	return list
}

// A desk is where somebody follows docs/agents.md: a workspace, a home directory,
// and a model that asks for one use of a tool.
type desk struct {
	t          *testing.T
	work, home string
	env        []string
	model      *model
}

// sit gives a client to somebody, or skips the test where there is none. It
// returns the file that will stand for the client.
func sit(t *testing.T, client string) (*desk, string) {
	t.Helper()
	path, err := sallytest.Client(client)
	if err != nil {
		t.Fatal(err)
	}
	if path == "" {
		fmt.Fprintf(os.Stderr, "skipped: %s: %s is not installed\n", t.Name(), client)
		t.Skipf("%s is not installed", client)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, work: dir + "/work", home: dir + "/home", model: &model{}}
	for _, sub := range []string{d.work, d.home, dir + "/bin"} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(d.work+"/a.txt", []byte("what it is about\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(d.model)
	t.Cleanup(server.Close)
	d.env = []string{
		"PATH=" + dir + "/bin:" + sallytest.Bin(t) + ":" + os.Getenv("PATH"), "HOME=" + d.home, "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8", "TERM=dumb",
		"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
		"MODEL_URL=" + server.URL, "CLIENT=" + path,
	}
	return d, dir + "/bin/" + client
}

// run runs lines with a client that stands for the one they name.
func (d *desk) run(shim, script, lines string) string {
	d.t.Helper()
	if err := os.WriteFile(shim, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		d.t.Fatal(err)
	}
	sh := exec.CommandContext(d.t.Context(), "sh", "-eux", "-c", lines)
	sh.Dir, sh.Env, sh.WaitDelay = d.work, d.env, time.Minute
	out, err := sh.CombinedOutput()
	if err != nil {
		d.t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// A model asks for its use in each conversation until it has the result.
type model struct {
	mu     sync.Mutex
	use    use
	tools  []string // that it was offered last
	result string   // of its last use
}

type use struct {
	namespace, name string
	input           string // JSON; of apply_patch the patch
}

func (m *model) ask(u use) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.use, m.tools, m.result = u, nil, ""
}

func (m *model) heard() (tools []string, result string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tools, m.result
}

// ServeHTTP is the two protocols of models, as far as the clients need them here.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Tools    []offered
		Messages []struct{ Content json.RawMessage }
		Input    []struct {
			Type   string
			Output json.RawMessage
		}
	}
	claude, codex := strings.HasSuffix(r.URL.Path, "/messages"), strings.HasSuffix(r.URL.Path, "/responses")
	if !claude && !codex {
		http.NotFound(w, r)
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	done := len(req.Tools) == 0 // a title, or the like
	for _, tool := range req.Tools {
		m.tools = append(m.tools, tool.names()...)
	}
	for _, message := range req.Messages {
		var content []struct {
			Type    string
			Content json.RawMessage
		}
		json.Unmarshal(message.Content, &content) // or it is a text
		for _, block := range content {
			if block.Type == "tool_result" {
				m.result, done = string(block.Content), true
			}
		}
	}
	for _, item := range req.Input {
		if strings.HasSuffix(item.Type, "_output") {
			m.result, done = string(item.Output), true
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event string, v map[string]any) {
		v["type"] = event
		data, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
	}
	type o = map[string]any
	if claude {
		send("message_start", o{"message": o{
			"id": "msg", "type": "message", "role": "assistant", "model": "none", "content": []any{}, "usage": o{"input_tokens": 1, "output_tokens": 1},
		}})
		block, delta, why := o{"type": "text", "text": ""}, o{"type": "text_delta", "text": "done"}, "end_turn"
		if !done {
			block, why = o{"type": "tool_use", "id": "toolu_1", "name": m.use.name, "input": o{}}, "tool_use"
			delta = o{"type": "input_json_delta", "partial_json": m.use.input}
		}
		send("content_block_start", o{"index": 0, "content_block": block})
		send("content_block_delta", o{"index": 0, "delta": delta})
		send("content_block_stop", o{"index": 0})
		send("message_delta", o{"delta": o{"stop_reason": why}, "usage": o{"output_tokens": 1}})
		send("message_stop", o{})
		return
	}
	item := o{"type": "message", "role": "assistant", "id": "m", "content": []any{o{"type": "output_text", "text": "done"}}}
	switch {
	case done:
	case m.use.name == "apply_patch":
		item = o{"type": "custom_tool_call", "id": "f", "call_id": "c", "name": m.use.name, "input": m.use.input}
	default:
		item = o{"type": "function_call", "id": "f", "call_id": "c", "namespace": m.use.namespace, "name": m.use.name, "arguments": m.use.input}
	}
	send("response.created", o{"response": o{"id": "r"}})
	send("response.output_item.done", o{"output_index": 0, "item": item})
	send("response.completed", o{"response": o{"id": "r", "usage": o{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}})
}

// offered is a tool that a model is offered, or several.
type offered struct {
	Type, Name string
	Tools      []offered
}

func (t offered) names() (list []string) {
	for _, of := range t.Tools {
		list = append(list, t.Name+"."+of.Name)
	}
	if list == nil {
		list = []string{t.Name}
		if t.Name == "" {
			list[0] = t.Type
		}
	}
	return list
}

// Without a terminal, a conversation is one question with -p; anything else is as
// it stands there.
const claudeShim = `case "$1" in
mcp|-p) exec "$CLIENT" "$@" </dev/null ;;
*) exec "$CLIENT" -p "$@" -- "read a.txt" </dev/null ;;
esac
`

func TestClaudeCode(t *testing.T) {
	d, shim := sit(t, "claude")
	for i, block := range blocks(t, "claude") {
		d.model.ask(use{name: "mcp__sallyport__Read", input: `{"file_path":"a.txt"}`})
		out := d.run(shim, claudeShim, block)
		if i == 0 && !strings.Contains(out, "Connected") {
			t.Errorf("%s", out)
		}
		tools, result := d.model.heard()
		if len(tools) < 6 || !strings.Contains(result, `1\twhat it is about`) {
			t.Errorf("block %d: %q, of %q\n%s", i, result, tools, out)
		}
		for _, name := range tools {
			if !strings.HasPrefix(name, "mcp__sallyport__") {
				t.Errorf("block %d: it has the tool %s too", i, name)
			}
		}
	}
	// What --elicit=false is for.
	d.model.ask(use{name: "mcp__sallyport__Write", input: `{"file_path":"b.txt","content":"x"}`})
	d.run(shim, claudeShim, `claude -p "write b.txt" --tools "" --allowedTools "mcp__sallyport__*"`)
	if _, result := d.model.heard(); !strings.Contains(result, "the question was dismissed in the client") {
		t.Errorf("%q", result)
	}
	d.model.ask(use{name: "mcp__sallyport__Write", input: `{"file_path":"b.txt","content":"x"}`})
	d.run(shim, claudeShim, `claude mcp remove sallyport
claude mcp add sallyport -- sallyport mcp --elicit=false
claude -p "write b.txt" --tools "" --allowedTools "mcp__sallyport__*" &
until sallyport approve --json | grep -q '"tool":"Write"'; do kill -0 $!; done
sallyport approve --yes $(sallyport approve --json | sed 's/.*"id":"\([a-z0-9]*\)".*/\1/')
wait $!
sallyport diff b.txt`)
	if _, result := d.model.heard(); !strings.Contains(result, "created ") {
		t.Errorf("%q", result)
	}
}

// The settings take away the tools that they name.
func TestClaudeCodeSettings(t *testing.T) {
	d, shim := sit(t, "claude")
	settings := blocks(t, "claude-settings")[0]
	if err := os.Mkdir(d.work+"/.claude", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.work+"/.claude/settings.json", []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	d.model.ask(use{name: "mcp__sallyport__Read", input: `{"file_path":"a.txt"}`})
	d.run(shim, claudeShim, "claude mcp add sallyport -- sallyport mcp\nclaude")
	var parsed struct{ Permissions struct{ Deny []string } }
	if err := json.Unmarshal([]byte(settings), &parsed); err != nil || len(parsed.Permissions.Deny) == 0 {
		t.Fatal(err)
	}
	tools, _ := d.model.heard()
	if !slices.Contains(tools, "mcp__sallyport__Read") {
		t.Errorf("%q", tools)
	}
	for _, name := range parsed.Permissions.Deny {
		if slices.Contains(tools, name) {
			t.Errorf("it has the tool %s", name)
		}
	}
}

// The model is the only thing that is not as it stands in the document.
const codexShim = `case "$1" in
mcp) exec "$CLIENT" "$@" </dev/null ;;
exec) shift; exec "$CLIENT" exec --strict-config -c model=gpt-5.5 -c model_provider=none \
	-c "model_providers.none={name=\"none\",base_url=\"$MODEL_URL\",wire_api=\"responses\",request_max_retries=0,stream_max_retries=0}" "$@" </dev/null ;;
esac
exit 1
`

func TestCodex(t *testing.T) {
	d, shim := sit(t, "codex")
	list := blocks(t, "codex")
	if out := d.run(shim, codexShim, list[0]); !strings.Contains(out, "enabled: true") {
		t.Errorf("%s", out)
	}
	config := d.home + "/.codex/config.toml"
	added, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	whole := blocks(t, "codex-config")[0]
	for line := range strings.Lines(string(added)) {
		if !strings.Contains(whole, line) {
			t.Errorf("codex mcp add writes %q, which is not in the document", line)
		}
	}
	if err := os.WriteFile(config, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
	d.model.ask(use{namespace: "mcp__sallyport", name: "Read", input: `{"file_path":"a.txt"}`})
	out := d.run(shim, codexShim, list[1])
	tools, result := d.model.heard()
	if !strings.Contains(result, `1\twhat it is about`) {
		t.Errorf("%q\n%s", result, out)
	}
	// What is left of Codex's own touches no file, but apply_patch.
	for _, name := range tools {
		if !strings.HasPrefix(name, "mcp__sallyport") && !slices.Contains([]string{
			"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "request_user_input", "apply_patch",
			"get_goal", "create_goal", "update_goal", "tool_search",
		}, name) {
			t.Errorf("it has the tool %s too", name)
		}
	}
	d.model.ask(use{name: "apply_patch", input: "*** Begin Patch\n*** Add File: planted.txt\n+x\n*** End Patch\n"})
	d.run(shim, codexShim, list[1])
	if _, result := d.model.heard(); !strings.Contains(result, "patch rejected") {
		t.Errorf("%q", result)
	}
	if _, err := os.Lstat(d.work + "/planted.txt"); err == nil {
		t.Error("apply_patch wrote a file")
	}
	// It leaves to sallyport what may be changed.
	for _, test := range []struct{ args, want string }{
		{`["mcp"]`, "permission to use Write was denied: the user said no"},
		{`["mcp", "--mode", "acceptEdits"]`, "created "},
	} {
		if err := os.WriteFile(config, []byte(strings.Replace(whole, `["mcp"]`, test.args, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		d.model.ask(use{namespace: "mcp__sallyport", name: "Write", input: `{"file_path":"b.txt","content":"x"}`})
		d.run(shim, codexShim, list[1])
		if _, result := d.model.heard(); !strings.Contains(result, test.want) {
			t.Errorf("%s: %q", test.args, result)
		}
	}
}

func TestInspector(t *testing.T) {
	d, shim := sit(t, "mcp-inspector")
	for _, block := range blocks(t, "mcp-inspector") {
		if out := d.run(shim, `exec "$CLIENT" "$@"`+"\n", block); !strings.Contains(out, `"inputSchema"`) || !strings.Contains(out, "what it is about") {
			t.Errorf("%s", out)
		}
	}
}

// What a client makes of the file for any client.
func TestAnyClient(t *testing.T) {
	var file struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(blocks(t, "client")[0]), &file); err != nil {
		t.Fatal(err)
	}
	s := file.Servers["sallyport"]
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(sallytest.Bin(t), s.Command), s.Args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+dir+"/state")
	if err := os.Mkdir(dir+"/work", 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Dir = dir + "/work"
	client, err := mcp.NewClient(&mcp.Implementation{Name: "any", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 6 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}
