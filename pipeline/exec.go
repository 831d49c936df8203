package pipeline

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sallyport/sallyport/permission"
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
func (s *Session) Exec(ctx context.Context, cmd sandbox.Command) (exit *sandbox.Exit, err error) {
	return s.exec(ctx, "exec", s.byUser("the user's own command"), cmd)
}

// ExecHook runs a hook of the workspace, which the user has trusted, at an event.
func (s *Session) ExecHook(ctx context.Context, event string, source permission.Source, origin string, cmd sandbox.Command) (*sandbox.Exit, error) {
	return s.exec(ctx, "hook", &audit.Decision{
		Behavior: "allow", Reason: "a hook at " + event + " that the user has trusted",
		Chain: []audit.Step{{Layer: "hook", Source: string(source), Rule: origin, Answer: "allow"}},
	}, cmd)
}

func (s *Session) exec(ctx context.Context, tool string, decision *audit.Decision, cmd sandbox.Command) (exit *sandbox.Exit, err error) {
	input := execInput{cmd.Args, cmd.Dir, cmd.Env}
	return exit, s.onRecord(ctx, tool, decision, input, cmd.Envelope, func(rec *audit.Record) error {
		stdout, stderr := counter{w: cmd.Stdout}, counter{w: cmd.Stderr}
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		exit, err = s.Session.Exec(ctx, cmd)
		r := rec.Result
		r.Stdout, r.Stderr = stdout.n, stderr.n
		if exit == nil {
			return err
		}
		r.Background = exit.Background
		if exit.Signal != 0 {
			r.Signal = exit.Signal.String()
		} else {
			r.Exit = &exit.Code
		}
		if len(exit.Quarantined) > 0 {
			rec.Detail = map[string]any{"quarantined": exit.Quarantined}
		}
		return err
	})
}

// Call runs a function of the guest for the program that opened the session. Its
// input is on record if it is JSON, else only its hash.
func (s *Session) Call(ctx context.Context, name string, input []byte, e sandbox.Envelope, progress func([]byte)) (result *sandbox.Returned, err error) {
	recorded := any(json.RawMessage(input))
	if !json.Valid(input) {
		recorded = fmt.Sprintf("sha256:%x", sha256.Sum256(input))
	}
	return result, s.onRecord(ctx, name, s.byUser("asked for by the program that opened the session"), recorded, e, func(rec *audit.Record) error {
		result, err = s.Session.Call(ctx, name, input, e, progress)
		if result != nil {
			rec.Result.Stdout, rec.Result.Background = int64(len(result.Data)), result.Background
		}
		return err
	})
}

// byUser is the decision on what the user asks for, which nobody has to allow.
func (s *Session) byUser(reason string) *audit.Decision {
	step := audit.Step{Layer: "mode", Source: "user", Rule: "bypassPermissions", Answer: "allow"}
	if s.Mode == sandbox.Direct {
		step.Rule = ""
	}
	return &audit.Decision{Behavior: "allow", Reason: reason, Chain: []audit.Step{step}}
}

// onRecord writes the decision that allows a call, runs it, and writes what run
// says came of it.
func (s *Session) onRecord(ctx context.Context, tool string, decision *audit.Decision, input any, e sandbox.Envelope, run func(result *audit.Record) error) error {
	r := audit.Record{
		Kind: audit.KindDecision, Call: rand.Text(), Tool: tool, Decision: decision,
		Envelope: envelope(e), Mechanisms: s.Mechanisms(), Image: Image,
	}
	if err := r.SetInput(input); err != nil {
		return err
	}
	// What only reads cannot make anything happen that the record lacks.
	if err := s.log.Write(r, e.Box == sandbox.Hand); err != nil {
		return err
	}
	rec := audit.Record{Kind: audit.KindResult, Call: r.Call, Tool: r.Tool, Result: &audit.Result{}}
	start := time.Now()
	err := run(&rec)
	rec.Result.Duration = time.Since(start)
	if err != nil {
		rec.Result.Error = err.Error()
	}
	if e.Box == sandbox.Hand {
		s.addChanges(ctx, rec.Result)
	}
	return errors.Join(err, s.log.Write(rec, false))
}

// Fork makes a throwaway copy of the session, on record. What is done in it is
// not, as none of it leaves.
func (s *Session) Fork(ctx context.Context, o sandbox.ForkOptions) (*sandbox.Session, error) {
	if err := s.log.Write(audit.Record{Kind: audit.KindEvent, Event: "fork"}, false); err != nil {
		return nil, err
	}
	return s.Session.Fork(ctx, o)
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
	ctx = context.WithoutCancel(ctx) // of a call that was interrupted, too
	c, err := s.Session.Changes(ctx, Protected(s.Workspace))
	if err != nil {
		return
	}
	defer c.Close()
	recordChanges(ctx, r, c)
}

// recordChanges records changes, or the first of them.
func recordChanges(ctx context.Context, r *audit.Result, c *sandbox.Changes) {
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
