package escape

import (
	"bufio"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
)

// A call that goes on beside others.
type call struct {
	first  string // the first line that it printed
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done

	mu    sync.Mutex
	lines []string // that it printed afterwards
}

// background starts the program attempt in the hand, and returns when it has
// printed a line.
func background(t *testing.T, live *sandbox.Session, args ...string) *call {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &call{cancel: cancel, done: make(chan struct{})}
	pr, pw := io.Pipe()
	go func() {
		defer close(c.done)
		_, c.err = live.Exec(ctx, sandbox.Command{Args: append([]string{"attempt"}, args...), Stdout: pw, Stderr: pw})
		pw.CloseWithError(c.err)
	}()
	lines := bufio.NewReader(pr)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %q, %v", strings.Join(args, " "), first, err)
	}
	c.first = strings.TrimSpace(first)
	go func() {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			c.mu.Lock()
			c.lines = append(c.lines, strings.TrimSpace(line))
			c.mu.Unlock()
		}
	}()
	return c
}

// stop cancels the call, and waits for its end.
func (c *call) stop() error {
	c.cancel()
	<-c.done
	return c.err
}

// printed returns what it printed since the first line.
func (c *call) printed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}
