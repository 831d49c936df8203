package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
)

// A counter counts what is written through it.
type counter struct {
	n int64
	w io.Writer
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	if c.w == nil {
		return len(p), nil
	}
	return c.w.Write(p)
}

// execInput is what a call of a command is recorded as.
type execInput struct {
	Args []string `json:"args"`
	Dir  string   `json:"dir,omitempty"`
	Env  []string `json:"env,omitempty"`
}

// Exec runs a command that the user has typed. It is the user's own call: there
// is nothing to ask, and it may do in the session what it can. It is not one of
// an agent in bypassPermissions mode, which is what it amounts to in a cow
// workspace and does not exist in a direct one.
func (s *Session) Exec(ctx context.Context, cmd sandbox.Command) (*sandbox.Exit, error) {
	decision := &audit.Decision{
		Behavior: "allow", Reason: "the user's own command",
		Chain: []audit.Step{{Layer: "mode", Source: "user", Rule: "bypassPermissions", Answer: "allow"}},
	}
	if s.Mode == sandbox.Direct {
		decision.Chain[0].Rule = ""
	}
	r := audit.Record{
		Kind: audit.KindDecision, Call: rand.Text(), Tool: "exec", Decision: decision,
		Envelope: envelope(cmd.Envelope), Mechanisms: s.Mechanisms(), Image: Image,
	}
	if err := r.SetInput(execInput{cmd.Args, cmd.Dir, cmd.Env}); err != nil {
		return nil, err
	}
	// What only reads cannot make anything happen that the record lacks.
	if err := s.log.Write(r, cmd.Envelope.Box == sandbox.Hand); err != nil {
		return nil, err
	}
	stdout, stderr := counter{w: cmd.Stdout}, counter{w: cmd.Stderr}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	exit, err := s.Session.Exec(ctx, cmd)
	result := &audit.Result{Stdout: stdout.n, Stderr: stderr.n, Duration: time.Since(start)}
	if exit != nil {
		code := exit.Code
		result.Exit, result.Background = &code, exit.Background
		if exit.Signal != 0 {
			result.Exit, result.Signal = nil, exit.Signal.String()
		}
	}
	if err != nil {
		result.Error = err.Error()
	}
	if cmd.Envelope.Box == sandbox.Hand {
		s.addChanges(ctx, result)
	}
	rec := audit.Record{Kind: audit.KindResult, Call: r.Call, Tool: r.Tool, Result: result}
	if exit != nil && len(exit.Quarantined) > 0 {
		rec.Detail = map[string]any{"quarantined": exit.Quarantined}
	}
	return exit, errors.Join(err, s.log.Write(rec, false))
}

func envelope(e sandbox.Envelope) *audit.Envelope {
	out := &audit.Envelope{Box: e.Box.String(), Writable: e.Writable, Narrow: e.Writable != nil, Network: "none"}
	if e.Time > 0 {
		out.Time = e.Time.String()
	}
	return out
}

// How much of a session's changes is looked at after each call. Beyond that the
// record does without: what is applied is recorded in full.
const (
	mostRecorded     = 2000     // changes whose digest is taken
	mostRecordedSize = 64 << 20 // their size, in bytes
	pathsRecorded    = 20
)

// addChanges records what the session has changed by now.
func (s *Session) addChanges(ctx context.Context, r *audit.Result) {
	if s.Mode != sandbox.Cow {
		return
	}
	c, err := s.Session.Changes(context.WithoutCancel(ctx), Protected(s.Workspace))
	if err != nil {
		return
	}
	defer c.Close()
	size := int64(0)
	for _, change := range c.Set.Changes {
		size += change.Size
		if len(r.Paths) < pathsRecorded {
			r.Paths = append(r.Paths, change.Path)
		} else {
			r.More++
		}
	}
	if len(c.Set.Changes) <= mostRecorded && size <= mostRecordedSize {
		r.ChangeSet, _ = c.Digest(ctx)
	}
}
