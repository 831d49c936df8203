package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/pipeline/approval"
	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/tools"
)

func approveCommand() *cli.Command {
	return &cli.Command{
		Name:      "approve",
		Usage:     "answer what an agent's calls wait for",
		ArgsUsage: "[ID]",
		Description: "A call that needs a person's yes waits for it, for some minutes (--answer-within of mcp, call and agent).\n" +
			"sallyport mcp asks so when the agent's client cannot ask its user; call and agent do where they have no terminal,\n" +
			"with --answer-within. Keep this open in another terminal, as the same user, beside the agent's client; it shows\n" +
			"and asks each question as it comes, until ^C:\n\n" +
			"   sallyport approve --wait\n\n" +
			"Without --wait and ID, the questions that wait in all sessions are listed; with an ID, that one is shown and,\n" +
			"on a terminal, asked. The beginning of an ID will do, but not for --yes. A question that you leave with ^C\n" +
			"waits on; what nobody answers in time is denied.\n\n" +
			"Whoever has a shell as this user can answer: take the client's own shell away from the agent, or it can too.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Usage: "allow it"},
			&cli.BoolFlag{Name: "session-rule", Usage: "with --yes: allow what its rule says for the rest of the session too"},
			&cli.BoolFlag{Name: "no", Usage: "deny it"},
			&cli.StringFlag{Name: "why", Usage: "with --no: tell the model `TEXT`"},
			&cli.BoolFlag{Name: "wait", Usage: "wait for the next question, and go on with the one after it"},
			jsonFlag(),
		},
		Action: atMost(1, runApprove), BashComplete: completeQuestions,
	}
}

func runApprove(c *cli.Context) error {
	yes, no, id := c.Bool("yes"), c.Bool("no"), c.Args().First()
	switch {
	case yes && no:
		return usageError(c, "use either --yes or --no")
	case c.Bool("session-rule") && !yes:
		return usageError(c, "--session-rule goes with --yes")
	case c.IsSet("why") && !no:
		return usageError(c, "--why goes with --no")
	case (yes || no) && c.Bool("wait"):
		return usageError(c, "--wait shows each question before it is answered: leave out --yes and --no")
	case (yes || no) && id == "":
		return usageError(c, "name the question to answer; sallyport approve lists them")
	case c.Bool("wait") && id != "":
		return usageError(c, "--wait waits for any question: leave out %s", id)
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	switch {
	case c.Bool("wait"):
		return approveEach(ctx, c, store)
	case id == "":
		return listQuestions(c, store)
	}
	q, err := findQuestion(store, id, yes)
	if err != nil {
		return err
	}
	if yes || no {
		return answerQuestion(c, q, permission.Answer{Allow: yes, Session: c.Bool("session-rule"), Why: c.String("why")})
	}
	if c.Bool("json") {
		return printJSON(q.info())
	}
	showQuestion(q)
	if !canAsk() || !term.IsTerminal(int(os.Stdout.Fd())) {
		howToAnswer(q)
		return nil
	}
	err = approveOne(ctx, c, q, false)
	if errors.Is(err, errLeft) || ctx.Err() != nil {
		return fmt.Errorf("the question %s was not answered, and waits on: %s left", q.ID, left(q.Expires))
	}
	return err
}

// A sessionQuestion is a question with the session that it waits in.
type sessionQuestion struct {
	approval.Waiting
	session *sandbox.Stored
}

// questionInfo is what is printed of a question: all of it.
type questionInfo struct {
	ID        string                  `json:"id"`
	Session   string                  `json:"session"`
	Workspace string                  `json:"workspace"`
	Call      string                  `json:"call"`
	Tool      string                  `json:"tool"`
	Title     string                  `json:"title"`
	Reason    string                  `json:"reason"`
	Agents    []string                `json:"agents,omitempty"` // the sub-agents that it came up through
	Parts     []permission.PromptPart `json:"parts"`
	Sections  []permission.Section    `json:"sections"`
	Rule      string                  `json:"rule"` // what --session-rule would allow; "" for nothing
	Asked     time.Time               `json:"asked"`
	Expires   time.Time               `json:"expires"`
	PID       int                     `json:"pid"`
}

func (q *sessionQuestion) info() questionInfo {
	p := &q.Prompt
	return questionInfo{
		ID: q.ID, Session: q.session.Name, Workspace: q.session.Workspace, Call: p.ID, Tool: p.Tool, Title: p.Title,
		Reason: p.Reason, Agents: p.Agents, Parts: append([]permission.PromptPart{}, p.Parts...),
		Sections: append([]permission.Section{}, p.Sections...), Rule: p.Rule,
		Asked: q.Asked, Expires: q.Expires, PID: q.PID,
	}
}

// questions lists what waits in all sessions. What could be read comes with the
// error.
func questions(store *sandbox.Store) ([]*sessionQuestion, error) {
	sessions, err := store.List()
	if err != nil {
		return nil, err
	}
	var list []*sessionQuestion
	var errs []error
	for _, s := range sessions {
		waiting, err := approval.List(s.Dir())
		if err != nil {
			errs = append(errs, fmt.Errorf("the questions of session %s: %w", s.Name, err))
		}
		for _, w := range waiting {
			list = append(list, &sessionQuestion{w, s})
		}
	}
	return list, errors.Join(errs...)
}

func listQuestions(c *cli.Context, store *sandbox.Store) error {
	list, err := questions(store)
	if c.Bool("json") {
		for _, q := range list {
			if err := printJSON(q.info()); err != nil {
				return err
			}
		}
		return err
	}
	if len(list) == 0 {
		if err == nil {
			fmt.Fprintln(os.Stderr, "sallyport: no question waits; sallyport approve --wait waits for the next one")
		}
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSESSION\tASKED\tLEFT\tTOOL\tTITLE")
	for _, q := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", q.ID, q.session.Name, age(q.Asked), left(q.Expires), cell(q.Prompt.Tool), cell(q.Prompt.Title))
	}
	return errors.Join(err, w.Flush())
}

// cell is the beginning of a text, for a table.
func cell(text string) string {
	parts := wrapped(printed(text), 60)
	if len(parts) > 1 {
		return parts[0] + "…"
	}
	return parts[0]
}

// left is how long it is until then.
func left(t time.Time) string {
	return max(time.Until(t), 0).Round(time.Second).String()
}

// findQuestion finds a question by the beginning of its ID. A yes wants the
// whole of it: by the time that it is typed, another question may begin so.
func findQuestion(store *sandbox.Store, id string, whole bool) (*sessionQuestion, error) {
	list, err := questions(store)
	var found []*sessionQuestion
	for _, q := range list {
		if strings.HasPrefix(q.ID, strings.ToLower(id)) {
			found = append(found, q)
		}
	}
	switch {
	case len(found) == 0:
		gone := fmt.Errorf("no question %s waits: it was answered, its time was up, or its asker has ended; sallyport approve lists those that wait", id)
		return nil, errors.Join(err, gone)
	case len(found) > 1:
		return nil, fmt.Errorf("%s begin with %s: %s and %s; type more of the one that you mean", tools.Count(len(found), "question"), id, found[0].ID, found[1].ID)
	case whole && found[0].ID != strings.ToLower(id):
		return nil, fmt.Errorf("--yes needs the whole ID: look at it with sallyport approve %s first", id)
	}
	return found[0], nil
}

// showQuestion prints a question.
func showQuestion(q *sessionQuestion) {
	fmt.Printf("question %s of session %s (%s), asked %s, %s left\n", q.ID, q.session.Name, printed(q.session.Workspace), age(q.Asked), left(q.Expires))
	showPrompt(os.Stdout, &q.Prompt)
}

func howToAnswer(q *sessionQuestion) {
	complain(fmt.Sprintf("answer with: sallyport approve %s --yes, or --no --why TEXT", q.ID))
}

// given is what is printed of an answer.
type given struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Allow   bool   `json:"allow"`
	Rule    string `json:"rule,omitempty"` // allowed for the rest of the session
	Why     string `json:"why,omitempty"`
}

func answerQuestion(c *cli.Context, q *sessionQuestion, a permission.Answer) error {
	if err := approval.AnswerTo(q.session.Dir(), q.ID, a); err != nil {
		return fmt.Errorf("the question %s: %w", q.ID, err)
	}
	g := given{ID: q.ID, Session: q.session.Name, Allow: a.Allow, Why: a.Why}
	if a.Session {
		g.Rule = q.Prompt.Rule
	}
	if c.Bool("json") {
		return printJSON(g)
	}
	said := "denied"
	if a.Allow {
		said = "allowed"
	}
	fmt.Printf("%s %s  %s\n", said, q.ID, promptTitle(&q.Prompt))
	if g.Rule != "" {
		fmt.Printf("allowed in session %s from now on: %s\n", g.Session, printed(g.Rule))
	}
	return nil
}

// lookAgain is how often it is looked whether a question came or went.
const lookAgain = 200 * time.Millisecond

// approveOne asks about a question that was shown; wary is as for askPrompt. When
// it stops to wait meanwhile, the error says so.
func approveOne(ctx context.Context, c *cli.Context, q *sessionQuestion, wary bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := approval.Find(q.session.Dir(), q.ID); err != nil {
				cancel(&goneError{q.ID, err})
			}
		}
	}()
	a, err := askPrompt(ctx, &q.Prompt, wary)
	cancel(nil)
	<-watched
	if err != nil {
		return err
	}
	return answerQuestion(c, q, a)
}

// A goneError is that a question stopped to wait while it was asked.
type goneError struct {
	id  string
	err error
}

func (e *goneError) Error() string { return fmt.Sprintf("the question %s: %v", e.id, e.err) }

func (e *goneError) Unwrap() error { return e.err }

// approveEach shows and asks one question after the other, as they come, until
// ctx ends or one is left. Without a terminal, it only shows them.
func approveEach(ctx context.Context, c *cli.Context, store *sandbox.Store) error {
	interactive := canAsk() && term.IsTerminal(int(os.Stdout.Fd())) && !c.Bool("json")
	if interactive {
		fmt.Fprintln(os.Stderr, "sallyport: waiting for questions; ^C ends that")
	}
	shown := make(map[string]bool)
	said := ""    // the last complaint
	gone := false // the question before this one went while it was asked
	for {
		start := time.Now()
		list, err := questions(store)
		// Of many sessions, looking takes a small part of the time all the same.
		next := time.After(max(lookAgain, 20*time.Since(start)))
		if err != nil && err.Error() != said {
			said = err.Error()
			complain(said)
		}
		waits := make(map[string]bool)
		for _, q := range list {
			waits[q.ID] = shown[q.ID]
		}
		shown = waits
		for _, q := range list {
			if shown[q.ID] {
				continue
			}
			shown[q.ID] = true
			if c.Bool("json") {
				if err := printJSON(q.info()); err != nil {
					return err
				}
				continue
			}
			fmt.Println()
			showQuestion(q)
			if !interactive {
				howToAnswer(q)
				continue
			}
			err := approveOne(ctx, c, q, gone)
			gone = false
			switch {
			case errors.Is(err, errLeft), ctx.Err() != nil:
				return nil
			case errors.Is(err, approval.ErrGone), errors.Is(err, approval.ErrAnswered):
				complain(err.Error())
				gone = true
			case err != nil:
				return err
			}
			break // the others may have gone meanwhile
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// completeQuestions completes the ID of a question, and flags.
func completeQuestions(c *cli.Context) {
	if last := completed(); strings.HasPrefix(last, "-") && last != "--yes" && last != "--no" {
		completeFlags(c)
		return
	}
	store, err := openStore()
	if err != nil {
		return
	}
	list, _ := questions(store)
	for _, q := range list {
		fmt.Println(q.ID)
	}
}
