package permission

import "context"

// A Behavior is what is done with a call.
type Behavior string

const (
	Allow Behavior = "allow"
	Ask   Behavior = "ask"
	Deny  Behavior = "deny"
)

// A Mode is what happens to calls that no rule decides.
type Mode string

const (
	// Default asks about whatever may change something.
	Default Mode = "default"
	// AcceptEdits lets file tools change files in the workspace.
	AcceptEdits Mode = "acceptEdits"
	// Plan lets nothing change anything.
	Plan Mode = "plan"
	// DontAsk denies whatever would be asked about.
	DontAsk Mode = "dontAsk"
	// Auto asks the classifier about what would be asked, and a person where there
	// is none or where a classifier's word is not enough.
	Auto Mode = "auto"
	// Bubble is a sub-agent's: what it would ask is asked by whoever started it.
	Bubble Mode = "bubble"
	// Bypass allows whatever no rule asks about or denies. It exists only in a
	// sealed session whose workspace is copy-on-write.
	Bypass Mode = "bypassPermissions"
)

// Modes are all modes.
var Modes = []Mode{Default, AcceptEdits, Plan, DontAsk, Auto, Bubble, Bypass}

// A Request is a call that is to be decided on.
type Request struct {
	Tool string
	// ReadOnly says that the tool changes nothing by its own meaning. Of a call
	// with a Command it is ignored: the command is judged.
	ReadOnly bool
	// Command is the shell command of the call, when HasCommand is set.
	Command    string
	HasCommand bool
	// Paths are what the call would touch, as far as its input says.
	Paths []Path
	// Dir is the working directory, absolute.
	Dir string
	// Input are the call's fields as they were sent, for rules about tools that
	// are known by name only.
	Input map[string]any
	// Links tells where paths lead when every link is followed, for those of a
	// command that this matters of; nil when that cannot be told: then no rule
	// allows writing them.
	Links func(paths []string) ([]string, error)
	// Traps names what is in a directory, absolute and without links in it, and makes
	// of a pattern more than the files there, see [TrapsBeneath]. It is used where
	// [Policy].Unheld is set; nil when that cannot be told.
	Traps func(dir string) ([]string, error)
	// Tried is what a run that was judged to be read-only tried to write: the
	// judgement was wrong, and this is another one.
	Tried []Path
	// Check is the tool's own word, Hook that of the user's hooks; their zero
	// value is no objection.
	Check, Hook Check
}

// A Path is one that a call would touch.
type Path struct {
	Name string // absolute and clean
	// Real is where Name leads when every link is followed; "" when that was not
	// looked up: then no decision may depend on it.
	Real  string
	Write bool
	Tree  bool // and all below
}

// A Check is a tool's own word on a call.
type Check struct {
	Answer Behavior // "" for none
	Reason string
}

// A Decision is what was decided, and every answer on the way.
type Decision struct {
	Behavior Behavior
	Reason   string // for the model when it is a denial, for people otherwise
	Chain    []Step
	Grant    Grant // of what is allowed
	// Rule is what an answer of "yes, for this session" would allow: the rule
	// that is shown, and nothing wider; "" when there is none to offer.
	Rule string
	// Safety is the check that made it a question; nil when it is none.
	Safety *Safety
	// Classifiable says that in the mode auto a classifier may answer the question
	// in a person's place.
	Classifiable bool
	// Unproven says that the call is asked about, or denied by the mode, for no more
	// than that nothing allows it and it is not known to be read-only: a run that
	// changes nothing would answer that.
	Unproven bool
}

// A Safety check asks about a path whatever allows it.
type Safety struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	// ClassifierApprovable says that a classifier may know that it is meant: what
	// configures a repository or an agent is also what work on it changes. A path
	// that two systems read in two ways is never meant.
	ClassifierApprovable bool `json:"classifier_approvable"`
}

// A Step is one layer's answer.
type Step struct {
	Layer  string `json:"layer"` // mode, rule, read-only, tool, protected, prompt ...
	Source string `json:"source,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Answer string `json:"answer"`
}

// A Grant is what an allowed call may use. None has the network.
type Grant struct {
	// ReadOnly calls were judged to change nothing, and run where they cannot.
	ReadOnly bool
	// Inspect calls look at the session's processes, and so run beside them, where
	// they can write nothing either.
	Inspect bool
	// Writable are the absolute paths that a call may write, with what is below
	// them; nil is all that its session may. One that does not exist stands for the
	// directory that it would be made in.
	Writable []string
}

// A Prompt is a question to a person.
type Prompt struct {
	ID      string // of the call
	Session string // its name
	Tool    string
	Title   string // what would be done, in a line
	Reason  string // why it is asked
	// Parts are what is known of a command, part by part; nil of other calls.
	Parts []PromptPart
	// Sections show what there is to see: rendered, in the order of importance.
	Sections []Section
	// Rule is what "yes, for this session" would allow; "" when that is not
	// offered.
	Rule string
	// CanSave says that Rule can be kept beyond the session: see [Answer].Save.
	CanSave bool
	// Agents are the names of the sub-agents that the question came up through,
	// the one that makes the call first; none for a call of the agent itself.
	Agents []string
}

// A Section is a part of a prompt.
type Section struct {
	Title string `json:"title"`
	Text  string `json:"text"`
	// Diff says that the text is one: its lines begin with a blank, + or -, or are
	// the headers of files and hunks.
	Diff bool `json:"diff,omitempty"`
}

// An Answer is what a person said.
type Answer struct {
	Allow bool
	// Session allows what the prompt's Rule says for the rest of the session.
	Session bool
	// Save allows it as well, and has the rule written to the settings of a
	// source: FromLocal or FromUser; "" for none. It is for prompts with CanSave.
	Save Source
	// Why is what the person told the model; "" for nothing.
	Why string
	// By is who answered, and how: "terminal", "elicitation", "approve".
	By string
}

// A Prompter asks a person. Its error is that nobody could be asked; what was
// asked is then denied, with the error's text.
type Prompter interface {
	Ask(ctx context.Context, p *Prompt) (Answer, error)
}
