package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/sallyport/sallyport/sandbox/inside"
)

// errNoRipgrep says that there is none that could be used.
var errNoRipgrep = errors.New("no ripgrep")

// The directory is ripgrep's working directory and the search's root is "./", so
// that what is searched is the directory that was opened, whatever has taken its
// path since. (With any other name for the root, ripgrep misreads the ignore
// files above it.) A file is given as a descriptor.
const (
	dirRoot  = "./"
	fileRoot = "/proc/self/fd/3"
)

// ripgrep searches with the container's own.
func ripgrep(ctx context.Context, c *inside.Call, req Request, root *os.File, dir bool) (*Result, error) {
	prog := inside.Program{Args: ripgrepArgs(req, dir), Dir: "/"}
	for _, kv := range c.Env {
		if !strings.HasPrefix(kv, "RIPGREP_CONFIG_PATH=") {
			prog.Env = append(prog.Env, kv)
		}
	}
	prefix := dirRoot
	if dir {
		// The child has the descriptor too when it changes its directory.
		prog.Dir = fmt.Sprintf("/proc/self/fd/%d", root.Fd())
	} else {
		prefix = fileRoot
		prog.Files = []*os.File{root}
	}
	out := newCollector(req, c.Progress)
	p := newParser(req, prefix, out)
	stderr := &head{most: 16 << 10}
	prog.Stdout, prog.Stderr = p, stderr
	exit, err := c.Programs.Run(ctx, prog)
	switch {
	case exit == nil && ctx.Err() == nil:
		return nil, errNoRipgrep // also one for another machine
	case err != nil:
		return nil, err
	case exit.Signal != 0:
		return nil, fmt.Errorf("ripgrep was ended by signal %d; search less at once", exit.Signal)
	}
	p.end()
	if exit.Code > 1 {
		notes, fatal := complaints(stderr.String(), prefix)
		if fatal && p.records == 0 && unknownFlag().MatchString(stderr.String()) {
			return nil, errNoRipgrep // too old
		}
		if fatal || exit.Code > 2 {
			return nil, fmt.Errorf("ripgrep could not search (exit code %d): %s", exit.Code, advice(stderr.String()))
		}
		for _, n := range notes {
			out.note(n)
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return out.result(), nil
}

// Patterns are compiled when they are first needed: the guest starts with every
// container.
var unknownFlag = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`which wasn't expected|unrecognized flag`)
})

func ripgrepArgs(req Request, dir bool) []string {
	args := []string{"rg", "--no-config", "--color=never", "--no-heading", "--null", "--line-number", "--with-filename",
		"--hidden", "--no-ignore-global", "--no-ignore-messages"}
	switch req.Mode {
	case Files:
		args = append(args, "--files-with-matches")
	case Count:
		args = append(args, "--count")
	default:
		args = append(args, "--before-context="+strconv.Itoa(req.Before), "--after-context="+strconv.Itoa(req.After))
		if req.Limit > 0 && req.Offset+req.Limit < mostKept {
			// Of a file with more, what follows cannot be part of the result.
			args = append(args, "--max-count="+strconv.Itoa(req.Offset+req.Limit+1))
		}
	}
	for flag, set := range map[string]bool{"--ignore-case": req.IgnoreCase, "--only-matching": req.Only && req.Mode != Files} {
		if set {
			args = append(args, flag)
		}
	}
	if req.Multiline {
		args = append(args, "--multiline", "--multiline-dotall")
	}
	if req.Type != "" {
		args = append(args, "--type="+req.Type)
	}
	for _, g := range req.Globs {
		args = append(args, "--glob="+g)
	}
	for _, g := range vcsGlobs {
		args = append(args, "--glob="+g) // the last that matches decides
	}
	if string(req.Path) == "/" {
		args = append(args, "--glob=!/proc")
	}
	root := fileRoot
	if dir {
		root = dirRoot
	}
	return append(args, "--regexp="+req.Pattern, "--", root)
}

// complaints reads what ripgrep wrote to its standard error. When that begins
// with a path it is about what could not be searched; anything else is why it did
// not search at all. The names in it may have lines of their own.
func complaints(stderr, prefix string) (notes []string, fatal bool) {
	for line := range strings.Lines(stderr) {
		line = strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "rg: ")
		rest, ok := strings.CutPrefix(line, prefix)
		switch {
		case ok:
			notes = append(notes, strings.TrimPrefix(rest, ": "))
		case len(notes) > 0:
			notes[len(notes)-1] += " " + line
		default:
			return nil, true
		}
	}
	return notes, len(notes) == 0
}

// advice is what ripgrep says, with the fields of the tool for its flags.
func advice(stderr string) string {
	stderr, _, _ = strings.Cut(stderr, "\n\nConsider enabling PCRE2")
	if before, _, ok := strings.Cut(stderr, "\n\nConsider enabling multiline mode"); ok {
		stderr = before + "; set multiline to search across lines"
	}
	return strings.TrimSpace(strings.TrimPrefix(stderr, "rg: "))
}

// head keeps the first bytes that are written.
type head struct {
	bytes.Buffer
	most int
}

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), h.most-h.Len())])
	return len(p), nil
}
