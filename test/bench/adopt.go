package main

import (
	"fmt"
	"time"

	"github.com/sallyport/sallyport/sandbox"
)

// benchAdopt measures what it takes to bring what a fork did into the session,
// after its effects were read, against running it there.
func benchAdopt(e *env) ([]Row, error) {
	s, live, err := e.startOver(few)
	if err != nil {
		return nil, err
	}
	defer s.Remove()
	defer live.Close()
	var rows []Row
	for _, b := range []struct {
		name   string
		n      int
		script string // with a number that is new each time
	}{
		{"one small file", 100, "sed -i s/.*/%d/ d0/f1.txt"},
		{"1,000 files", 20, "mkdir -p new; cd new; for i in {1..1000}; do echo %d > $i; done"},
	} {
		var read, adopt, run samples
		for i := range b.n {
			script := sandbox.Command{Args: []string{"bash", "-c", fmt.Sprintf(b.script, i)}}
			took, err := e.adopt(live, script)
			if err != nil {
				return nil, err
			}
			read, adopt = append(read, took[0]), append(adopt, took[1])
			start := time.Now()
			if _, err := live.Exec(e.ctx, script); err != nil {
				return nil, err
			}
			run = append(run, time.Since(start))
		}
		rows = append(rows,
			row("read the effects on "+b.name, "ms", read, nil, 0),
			row("adopt "+b.name+", against running it", "ms", adopt, run, 0))
	}
	return rows, nil
}

// adopt runs a command in a fork, and returns how long it took to read the effects
// and to adopt them.
func (e *env) adopt(live *sandbox.Session, script sandbox.Command) (took [2]time.Duration, err error) {
	fork, err := live.Fork(e.ctx, sandbox.ForkOptions{})
	if err != nil {
		return took, err
	}
	defer fork.Close()
	if _, err := fork.Exec(e.ctx, script); err != nil {
		return took, err
	}
	start := time.Now()
	effects, err := fork.Effects(e.ctx, nil)
	if err != nil {
		return took, err
	}
	defer effects.Close()
	took[0] = time.Since(start)
	start = time.Now()
	_, err = live.Adopt(e.ctx, effects)
	took[1] = time.Since(start)
	return took, err
}
