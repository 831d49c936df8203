package permission

// A Policy is what decisions are made by. It is not changed while it is used;
// see With.
type Policy struct {
	Mode  Mode
	Rules []Rule
	// Workspace is the root of the session's workspace, Home the home directory
	// inside; absolute.
	Workspace string
	Home      string
	// Protected tells of a path relative to the workspace whether it is
	// protected; see [ProtectedBy].
	Protected func(path string) bool
	// Sealed says that what a call changes stays in the session until it is
	// applied. Without, there is no Bypass.
	Sealed bool
}

// A Rule is one line of a policy: Tool or Tool(content).
type Rule struct {
	Behavior Behavior
	Tool     string
	Content  string // "" for every call of the tool
	Source   string // where it comes from: "command line", "session" ...
}
