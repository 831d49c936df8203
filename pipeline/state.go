package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/sallyport/sallyport/internal/beneath"
	"github.com/sallyport/sallyport/pipeline/audit"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
)

// stateFile in a session's directory is what the last agent's calls have left to
// the next one's: the working directory, and which files were read.
const stateFile = "agent.json"

// mostState is the largest state that is read, in bytes.
const mostState = 4 << 20

// loadState returns what the session's calls so far have left. A state that
// cannot be read is as good as none: files must then be read again.
func (s *Session) loadState() (*tools.State, error) {
	return loadState(s.Dir(), s.Workspace)
}

// Denials are how often calls in a session were denied, by the IDs of sub-agents
// and "" for the agent itself, as far as that was kept.
func Denials(s *sandbox.Stored) (map[string]tools.Denials, error) {
	state, err := loadState(s.Dir(), s.Workspace)
	if err != nil {
		return nil, err
	}
	return state.Denials(), nil
}

func loadState(dir, workspace string) (*tools.State, error) {
	fresh := tools.NewState(workspace)
	f, err := os.Open(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the state of the last calls: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostState))
	if err != nil {
		return nil, fmt.Errorf("the state of the last calls: %w", err)
	}
	state := tools.NewState(workspace)
	if json.Unmarshal(data, state) != nil || !filepath.IsAbs(state.Dir()) {
		return fresh, nil
	}
	return state, nil
}

// SaveState keeps what the calls of an agent have left for those of the next,
// in this session.
func (s *Session) SaveState(state *tools.State) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(s.Dir(), stateFile), data, 0o600); err != nil {
		return fmt.Errorf("keeping the state of the calls: %w", err)
	}
	return nil
}

func (s *Session) call(ctx context.Context, function string, input []byte, e sandbox.Envelope, progress func([]byte)) (*sandbox.Returned, error) {
	return s.Session.Call(ctx, function, input, e, progress)
}

func (s *Session) record(r audit.Record, durable bool) error { return s.log.Write(r, durable) }

func (s *Session) mechanisms() map[string]string { return s.Mechanisms() }

func (s *Session) fork(ctx context.Context) (throwaway, error) {
	f, err := s.Session.Fork(ctx, sandbox.ForkOptions{})
	if err != nil {
		return nil, err
	}
	return &forked{f}, nil
}

func (s *Session) adopt(ctx context.Context, e *sandbox.Effects) error {
	_, err := s.Session.Adopt(ctx, e)
	return err
}

func (s *Session) users(path string) bool {
	dir, err := beneath.OpenReal(s.Workspace)
	if err != nil {
		return true
	}
	defer dir.Close()
	_, err = dir.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// A forked session is a throwaway. What is done in it is on record as what was seen.
type forked struct{ *sandbox.Session }

func (f *forked) call(ctx context.Context, function string, input []byte, e sandbox.Envelope, progress func([]byte)) (*sandbox.Returned, error) {
	return f.Call(ctx, function, input, e, progress)
}

func (f *forked) effects(ctx context.Context) (*sandbox.Effects, error) {
	return f.Effects(ctx, Protected(f.Workspace))
}

func (f *forked) close() error { return f.Close() }
