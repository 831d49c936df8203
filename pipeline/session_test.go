package pipeline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

func workspace(t testing.TB, files ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir += "/work"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("host\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t testing.TB, o Options) *Session {
	t.Helper()
	if o.Store == nil {
		o.Store = sallytest.Store(t)
	}
	o.Driver = sallytest.Driver(t)
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Session.Close() })
	return s
}

// records reads a session's record, whose chain must hold.
func records(t *testing.T, file string) []*audit.Record {
	t.Helper()
	var list []*audit.Record
	if _, err := audit.ReadFile(file, func(r *audit.Record) error {
		list = append(list, r)
		return nil
	}); err != nil {
		t.Error(err)
	}
	return list
}

// kinds is what a record is about, in short.
func kinds(list []*audit.Record) string {
	var words []string
	for _, r := range list {
		word := string(r.Kind)
		if r.Event != "" {
			word += ":" + r.Event
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

func TestWhatACallIsRecordedAs(t *testing.T) {
	work := workspace(t, "a")
	s := open(t, Options{Workspace: work, Principal: &audit.Principal{User: "ann", UID: 7, Client: "client", Agent: "one"}})
	file := filepath.Join(s.Dir(), sandbox.RecordFile)
	var during []*audit.Record
	exit, err := s.Exec(t.Context(), sandbox.Command{
		Args: []string{"sh", "-c", "echo changed > a; echo out; echo errors >&2; exit 3"},
		Env:  []string{"API_TOKEN=abcdefgh12345678"}, Dir: ".",
		Stdout: writer(func() { during = records(t, file) }),
	})
	if err != nil || exit.Code != 3 {
		t.Fatalf("%+v, %v", exit, err)
	}
	if got := kinds(during); got != "open decision" {
		t.Errorf("while it runs there is on record: %s", got)
	}
	list := records(t, file)
	if got := kinds(list); got != "open decision result" {
		t.Fatal(got)
	}
	first, d, r := list[0], list[1], list[2]
	if first.Detail["workspace"] != work || first.Detail["mode"] != "cow" || len(first.Mechanisms) == 0 || first.Image != Image {
		t.Errorf("%+v", first)
	}
	if d.Tool != "exec" || d.Call == "" || d.Decision.Behavior != "allow" || len(d.Decision.Chain) != 1 || d.Decision.Chain[0].Rule != "bypassPermissions" ||
		d.Envelope.Box != "hand" || d.Envelope.Network != "none" || d.Envelope.Narrow || d.Mechanisms["namespaces"] == "" || d.InputHash == "" {
		t.Errorf("%+v", d)
	}
	if d.Principal.User != "ann" || d.Principal.Agent != "one" || d.Session != s.ID || d.Name != s.Name || d.Version == "" {
		t.Errorf("%+v", d)
	}
	if !strings.Contains(string(d.Input), "echo changed") || strings.Contains(string(d.Input), "abcdefgh12345678") || d.Secrets != 1 {
		t.Errorf("%s, %d secrets", d.Input, d.Secrets)
	}
	if r.Call != d.Call || r.Result.Exit == nil || *r.Result.Exit != 3 || r.Result.Stdout != 4 || r.Result.Stderr != 7 ||
		r.Result.Duration <= 0 || r.Result.ChangeSet == "" || !slices.Equal(r.Result.Paths, []string{"a"}) {
		t.Errorf("%+v", r.Result)
	}
}

// What a program does with the session it opened is on record as well.
func TestFunctionsAndForksAreRecorded(t *testing.T) {
	s := open(t, Options{Workspace: workspace(t)})
	file := filepath.Join(s.Dir(), sandbox.RecordFile)
	for _, input := range []string{`{"token":"abc"}`, "no JSON"} {
		got, err := s.Call(t.Context(), "echo", []byte(input), sandbox.Envelope{}, nil)
		if err != nil || string(got.Data) != input {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if _, err := s.Call(t.Context(), "nothing", nil, sandbox.Envelope{Box: sandbox.Eye}, nil); err == nil {
		t.Error("a function that there is not was run")
	}
	fork, err := s.Fork(t.Context(), sandbox.ForkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := fork.Close(); err != nil {
		t.Error(err)
	}
	list := records(t, file)
	if got := kinds(list); got != "open decision result decision result decision result event:fork" {
		t.Fatal(got)
	}
	if d := list[1]; d.Tool != "echo" || string(d.Input) != `{"token":"abc"}` {
		t.Errorf("%s %s", d.Tool, d.Input)
	}
	if d := list[3]; !strings.HasPrefix(string(d.Input), `"sha256:`) {
		t.Errorf("%s", d.Input)
	}
	if d, r := list[5], list[6]; d.Envelope.Box != "eye" || !strings.Contains(r.Result.Error, "nothing") {
		t.Errorf("%+v, %+v", d.Envelope, r.Result)
	}
}

func TestHowCallsEndIsRecorded(t *testing.T) {
	s := open(t, Options{Workspace: workspace(t)})
	file := filepath.Join(s.Dir(), sandbox.RecordFile)
	last := func() *audit.Result {
		t.Helper()
		list := records(t, file)
		return list[len(list)-1].Result
	}
	run := func(cmd sandbox.Command) error { _, err := s.Exec(t.Context(), cmd); return err }

	if err := run(sandbox.Command{Args: []string{"sh", "-c", "kill -TERM $$"}}); err != nil {
		t.Error(err)
	}
	if r := last(); r.Exit != nil || r.Signal != "terminated" {
		t.Errorf("%+v", r)
	}
	if err := run(sandbox.Command{Args: []string{"no-such-program"}}); !errors.As(err, new(*sandbox.StartError)) {
		t.Error(err)
	}
	if r := last(); r.Exit != nil || !strings.Contains(r.Error, "no-such-program") {
		t.Errorf("%+v", r)
	}
	if err := run(sandbox.Command{Args: []string{"sleep", "1000"}, Envelope: sandbox.Envelope{Time: 100 * time.Millisecond}}); !errors.Is(err, sandbox.ErrTime) {
		t.Error(err)
	}
	if r := last(); !strings.Contains(r.Error, sandbox.ErrTime.Error()) {
		t.Errorf("%+v", r)
	}
	if err := run(sandbox.Command{Args: []string{"true"}, Envelope: sandbox.Envelope{Memory: 1}}); !errors.Is(err, sandbox.ErrNotHeld) {
		t.Error(err)
	}
	if r := last(); !strings.Contains(r.Error, "cannot be held") {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Exec(ctx, sandbox.Command{Args: []string{"true"}})
	if r := last(); !strings.Contains(r.Error, "context canceled") {
		t.Errorf("%+v", r)
	}
	if err := run(sandbox.Command{Args: []string{"sh", "-c", "sleep 1000 > /dev/null 2>&1 &"}, Envelope: sandbox.Envelope{Box: sandbox.Hand, Writable: []string{}}}); err != nil && !errors.Is(err, sandbox.ErrNotHeld) {
		t.Error(err)
	}
	list := records(t, file)
	if d := list[len(list)-2]; !d.Envelope.Narrow || len(d.Envelope.Writable) != 0 {
		t.Errorf("%+v", d.Envelope)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	list = records(t, file)
	if got := list[len(list)-1].Kind; got != audit.KindClose {
		t.Errorf("the last is %s", got)
	}
}

// Nothing happens that cannot be recorded first.
func TestNothingHappensWithoutARecord(t *testing.T) {
	work := workspace(t, "a")
	s := open(t, Options{Workspace: work})
	if _, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "echo changed > a"}}); err != nil {
		t.Fatal(err)
	}
	changes, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, box := range []sandbox.Box{sandbox.Hand, sandbox.Eye} {
		var out bytes.Buffer
		exit, err := s.Exec(t.Context(), sandbox.Command{
			Args: []string{"sh", "-c", "echo ran; touch ran"}, Stdout: &out, Envelope: sandbox.Envelope{Box: box},
		})
		if exit != nil || err == nil || !strings.Contains(err.Error(), "writing the record") || out.Len() > 0 {
			t.Errorf("in the %v: %+v, %v, %q", box, exit, err, &out)
		}
	}
	if _, err := os.Lstat(s.Dir() + "/layers/workspace/upper/ran"); err == nil {
		t.Error("it ran")
	}
	if _, err := s.Apply(t.Context(), changes, sandbox.ApplyOptions{Force: true}); err == nil || !strings.Contains(err.Error(), "writing the record") {
		t.Error(err)
	}
	if got, _ := os.ReadFile(work + "/a"); string(got) != "host\n" {
		t.Errorf("%q", got)
	}
	if err := s.Discard(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "writing the record") {
		t.Error(err)
	}
	if _, err := os.Lstat(s.Dir() + "/layers/workspace/upper/a"); err != nil {
		t.Error("it was discarded:", err)
	}
}

// A device that is full is what a full disk is to the record.
func TestNoSessionWithoutARecord(t *testing.T) {
	o := Options{Store: sallytest.Store(t), Workspace: workspace(t), Driver: sallytest.Driver(t)}
	held, err := Hold(o)
	if err != nil {
		t.Fatal(err)
	}
	dir := held.Dir()
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, sandbox.RecordFile))
	if err := os.Symlink("/dev/full", filepath.Join(dir, sandbox.RecordFile)); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Error(err)
		if err == nil {
			s.Close()
		}
	}
	again, err := o.Store.Open(SessionName(o.Workspace))
	if err != nil {
		t.Fatal("it is still held:", err)
	}
	again.Close()
}

func TestApplyAndDiscardOnRecord(t *testing.T) {
	work := workspace(t, "a", "b")
	o := Options{Store: sallytest.Store(t), Workspace: work, Driver: sallytest.Driver(t)}
	s := open(t, o)
	if _, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "echo 1 > n; echo 1 > b; mkdir .git; echo x > .git/config"}}); err != nil {
		t.Fatal(err)
	}
	changes, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	digest, err := changes.Digest(t.Context(), "n", ".git")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), changes, sandbox.ApplyOptions{Paths: []string{"n", ".git"}, Atomic: false}); err != nil {
		t.Fatal(err)
	}
	changes.Close()
	if err := s.Discard(t.Context(), []string{"b"}); err != nil {
		t.Fatal(err)
	}
	stored, err := s.End()
	if err != nil {
		t.Fatal(err)
	}
	left, err := stored.Changes(t.Context())
	if err != nil || len(left.Changes) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	left.Close()
	if err := stored.Discard(t.Context(), nil); err != nil {
		t.Error(err)
	}
	id, name := stored.ID, stored.Name
	if err := stored.Remove(); err != nil {
		t.Fatal(err)
	}
	list := records(t, filepath.Join(o.Store.RecordDir(), name+"-"+id+".jsonl"))
	if got := kinds(list); got != "open decision result event:apply event:applied event:discard event:discarded close event:discard event:discarded close:remove" {
		t.Errorf("%s", got)
	}
	before, after := list[3].Detail, list[4].Detail
	if before["change_set"] != digest || before["force"] != false || after["change_set"] != digest || after["report"] == nil {
		t.Errorf("%v, %v", before, after)
	}
}

func TestSessionName(t *testing.T) {
	names := make(map[string]string)
	for _, workspace := range []string{
		"/srv/app", "/opt/app", "/srv/.hidden", "/srv/-rf", "/srv/a b\n", "/srv/...", "/srv/日本", "/srv/" + strings.Repeat("x", 200), "/srv/é" + strings.Repeat("é", 100), "/x/..a",
	} {
		name := SessionName(workspace)
		if err := sandbox.CheckName(name); err != nil {
			t.Errorf("%q: %v", workspace, err)
		}
		if name != SessionName(workspace) || names[name] != "" {
			t.Errorf("%q and %q have the name %s", workspace, names[name], name)
		}
		names[name] = workspace
	}
	if name := SessionName("/srv/app"); !strings.HasPrefix(name, "app-") {
		t.Error(name)
	}
}

func TestHold(t *testing.T) {
	work, other := workspace(t, "a"), workspace(t)
	st := sallytest.Store(t)
	driver := sallytest.Driver(t)
	base := Options{Store: st, Workspace: work, Driver: driver}
	with := func(f func(*Options)) Options { o := base; f(&o); return o }

	s, err := Hold(base)
	if err != nil || !s.Created || s.Name != SessionName(work) || s.Mode != sandbox.Cow {
		t.Fatalf("%+v, %v", s, err)
	}
	var busy *sandbox.BusyError
	if _, err := Hold(base); !errors.As(err, &busy) || busy.Owner.PID != os.Getpid() {
		t.Error(err)
	}
	s.Close()
	if s, err = Hold(base); err != nil || s.Created {
		t.Fatalf("%+v, %v", s, err)
	}
	s.Close()
	name := s.Name
	// A session that exists and is named needs no workspace.
	if s, err = Hold(Options{Store: st, Name: name, Driver: driver}); err != nil || s.Workspace != work {
		t.Fatalf("%+v, %v", s, err)
	}
	s.Close()

	for _, test := range []struct {
		name string
		o    Options
		want string
	}{
		{"another workspace", with(func(o *Options) { o.Name, o.Workspace = name, other }), "is of the workspace " + work},
		{"another mode", with(func(o *Options) { o.Mode = sandbox.Direct }), "was created with --workspace cow; take another name with --session, or remove it with: sallyport sessions rm " + name},
		{"exposes", with(func(o *Options) { o.Expose = []sandbox.Exposed{{Dirs: []sandbox.Expose{{Path: "/usr/share"}}}} }), "created with other --expose"},
		{"the whole denied", with(func(o *Options) { o.Rules = denials(t, "Read(/**)") }), "denies the whole workspace"},
		{"one that must be new", with(func(o *Options) { o.New = true }), "the session exists"},
		{"no such workspace", with(func(o *Options) { o.Workspace = work + "/nothing" }), "no such file or directory; name an existing directory"},
		{"the root", with(func(o *Options) { o.Workspace = "/" }), "system directory"},
		{"a bad name", with(func(o *Options) { o.Name = "../x" }), "is no name for a session"},
		{"a bad name alone", Options{Store: st, Name: "a/b", Driver: driver}, "is no name for a session"},
		{"an unknown mode", with(func(o *Options) { o.Name, o.Mode = "new", "none" }), `no workspace mode "none": use cow or direct`},
		{"denials in a real directory", with(func(o *Options) { o.Name, o.Mode, o.Denied = "new", sandbox.Direct, []string{work + "/a"} }), "denied paths need --workspace cow"},
	} {
		s, err := Hold(test.o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if list, err := st.List(); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	if s, err = Hold(with(func(o *Options) { o.Mode = sandbox.Cow })); err != nil {
		t.Fatal("the same as asked for:", err)
	}
	s.Close()
}

// What settings expose is of a session that is created; one that exists is as it
// was made, whatever they say since.
func TestExposedBySettings(t *testing.T) {
	asked, named, since := t.TempDir(), t.TempDir(), t.TempDir()
	expose := func(dir, origin string) []sandbox.Exposed {
		return []sandbox.Exposed{{Dirs: []sandbox.Expose{{Path: dir}}, Origin: origin}}
	}
	o := Options{Store: sallytest.Store(t), Workspace: workspace(t), Driver: sallytest.Driver(t), Expose: expose(asked, ""), ExposeNew: expose(named, "f:1")}
	for i := range 2 {
		s, err := Hold(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Expose) != 2 || s.Expose[0].Dirs[0].Path != asked || s.Expose[1].Dirs[0].Path != named || s.Expose[1].Origin != "f:1" {
			t.Errorf("%d: %+v", i, s.Expose)
		}
		s.Close()
		o.ExposeNew = expose(since, "f:1")
	}
	o.Expose = expose(since, "")
	if _, err := Hold(o); err == nil || !strings.Contains(err.Error(), "created with other --expose") {
		t.Errorf("another --expose: %v", err)
	}
	o.Name, o.Expose, o.ExposeNew = "other", nil, expose("/", "f:2")
	if _, err := Hold(o); err == nil || !strings.Contains(err.Error(), "f:2: additionalDirectories: /: ") {
		t.Errorf("what may not be exposed: %v", err)
	}
}

// A session that was made for an Open that failed is gone; one that was there
// stays.
func TestOpenThatFails(t *testing.T) {
	st := sallytest.Store(t)
	o := Options{Store: st, Workspace: workspace(t), Driver: sallytest.Driver(t), Limits: sandbox.Limits{Memory: 1}}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is too small") {
		t.Error(err)
	}
	if list, err := st.List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	held, err := Hold(o)
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	if _, err := Open(t.Context(), o); err == nil {
		t.Error("opened")
	}
	if list, err := st.List(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// A direct session protects what the workspace has, and what it lacks.
func TestDirectSessionsSettings(t *testing.T) {
	work := workspace(t, ".bashrc")
	s, err := Hold(Options{Store: sallytest.Store(t), Workspace: work, Mode: sandbox.Direct, Driver: sallytest.Driver(t), ReadOnly: []string{work + "/mine"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !slices.Equal(s.ReadOnly, []string{work + "/.bashrc", work + "/mine"}) || !slices.Contains(s.Absent, work+"/.envrc") || slices.Contains(s.Absent, work+"/.bashrc") {
		t.Errorf("%q, %q", s.ReadOnly, s.Absent)
	}
}

func denials(t *testing.T, texts ...string) (rules []permission.Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := permission.ParseRule(text, permission.Deny, "test")
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

// More may be denied to a session that exists, and stays so; but not what it has
// changed itself.
func TestDenialsAreAdded(t *testing.T) {
	work := workspace(t)
	for _, name := range []string{"a.key", "sub/b.key", "mine.lock", "own.key"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Store: sallytest.Store(t), Workspace: work, Driver: sallytest.Driver(t)}
	run := func(o Options, script string) string {
		t.Helper()
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		_, err = s.Exec(t.Context(), sandbox.Command{Args: []string{"/bin/sh", "-c", script}, Stdout: &out})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := run(o, "cat a.key; echo x > own.key"); got != "secret" {
		t.Fatalf("%q", got)
	}
	denied := o
	denied.Rules = denials(t, "Read(/a.key)", "Read(/sub/*.key)", "Edit(*.lock)")
	for _, o := range []Options{denied, o} {
		if got := run(o, "cat a.key sub/b.key; echo x > mine.lock; cat mine.lock"); got != "secret" {
			t.Errorf("%q, want the content of mine.lock alone", got)
		}
	}
	denied.Rules = denials(t, "Read(*.key)")
	if _, err := Open(t.Context(), denied); err == nil || !strings.Contains(err.Error(), "has changed own.key, which cannot be hidden") {
		t.Errorf("%v", err)
	}
}
