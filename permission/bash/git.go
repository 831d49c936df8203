package bash

import (
	"slices"
	"strings"
	"sync"
)

// Flags of git's commands that show revisions. None writes, and none runs a
// program but those of the repository's configuration: not --output, --ext-diff,
// --textconv, --show-signature.
const (
	gitDiff   = "-puszRaDWwbqctrm -U? -S= -G= -I= -O< -l= -M? -C? -B? -X? --patch --no-patch --unified? --raw --patch-with-raw --indent-heuristic --no-indent-heuristic --minimal --patience --histogram --anchored= --diff-algorithm= --stat? --compact-summary --numstat --shortstat --dirstat? --cumulative --summary --patch-with-stat --name-only --name-status --submodule? --color? --no-color --color-moved? --no-color-moved --color-moved-ws= --word-diff? --word-diff-regex= --color-words? --no-renames --rename-empty --no-rename-empty --check --ws-error-highlight= --full-index --binary --abbrev? --no-abbrev --break-rewrites? --find-renames? --find-copies? --find-copies-harder --irreversible-delete --diff-filter= --find-object= --pickaxe-all --pickaxe-regex --skip-to= --rotate-to= --relative? --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines= --inter-hunk-context= --function-context --exit-code --quiet --no-ext-diff --no-textconv --ignore-submodules? --src-prefix= --dst-prefix= --no-prefix --default-prefix --line-prefix= --ita-invisible-in-index --stat-width= --stat-name-width= --stat-count= --merge-base --cached --staged --no-index --base --ours --theirs --cc --diff-merges= --no-diff-merges --combined-all-paths --root --output-indicator-new= --output-indicator-old= --output-indicator-context="
	gitLog    = gitDiff + " -# -n= -iEFPg -L= --oneline --graph --no-graph --decorate? --no-decorate --decorate-refs= --decorate-refs-exclude= --clear-decorations --source --mailmap --use-mailmap --no-mailmap --log-size --max-count= --skip= --since= --after= --until= --before= --since-as-filter= --author= --committer= --grep= --grep-reflog= --all-match --invert-grep --regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings --perl-regexp --remove-empty --merges --no-merges --min-parents= --max-parents= --no-min-parents --no-max-parents --first-parent --exclude-first-parent-only --not --all --branches? --tags? --remotes? --glob= --exclude= --exclude-hidden= --reflog --alternate-refs --single-worktree --ignore-missing --cherry-mark --cherry-pick --left-only --right-only --left-right --cherry --walk-reflogs --merge --boundary --simplify-by-decoration --show-pulls --full-history --dense --sparse --simplify-merges --ancestry-path? --date-order --author-date-order --topo-order --reverse --no-walk? --do-walk --pretty? --format= --abbrev-commit --no-abbrev-commit --encoding= --expand-tabs? --no-expand-tabs --notes? --no-notes --show-notes? --relative-date --date= --parents --children --timestamp --show-linear-break? --follow --full-diff"
	gitRefs   = "--sort= --format= --color? --no-color --count= --contains: --no-contains: --merged: --no-merged: --points-at: --ignore-case -i --omit-empty"
	gitConfig = "-lz --get --get-all --get-regexp --get-urlmatch --list --null --name-only --show-origin --show-scope --global --system --local --worktree -f< --file< --blob= --type= --bool --int --bool-or-int --path --expiry-date --includes --no-includes --default="
)

// gitCommand is one of git's commands that can be read-only.
type gitCommand struct {
	flags *flags
	// check says why its operands, or flags, make it something else.
	check func(a *args) string
}

var gitCommands = sync.OnceValue(func() map[string]gitCommand {
	table := make(map[string]gitCommand)
	add := func(names, spec string, check func(a *args) string) {
		for name := range strings.SplitSeq(names, ", ") {
			table[name] = gitCommand{flagSet(spec), check}
		}
	}
	add("status", "-sbvzu -u? --short --branch --show-stash --porcelain? --long --verbose --untracked-files? --ignore-submodules? --ignored? --ahead-behind --no-ahead-behind --renames --no-renames --find-renames? --column? --no-column", nil)
	add("log, whatchanged, show, diff, diff-tree, diff-index, diff-files, range-diff", gitLog+" --stdin -s -v --no-commit-id --always --pretty? --no-dual-color --creation-factor= --left-only --right-only", formats)
	add("shortlog", gitLog+" -nsec -w? --numbered --summary --email --group= --committer", formats)
	add("rev-list", gitLog+" --count --objects --objects-edge --unpacked --header --quiet --timestamp --disk-usage? --bisect --filter= --no-object-names --no-commit-header --commit-header", formats)
	add("blame, annotate", "-bcefklnpstwC -L= -M? -C? -S< --root --show-stats --score-debug --show-name --show-number --porcelain --line-porcelain --incremental --since= --date= --show-email --abbrev= --color-lines --color-by-age --ignore-rev= --ignore-revs-file< --first-parent --reverse --encoding= --no-progress --minimal", nil)
	add("grep", "exact -aiIwvhHErzFPGnolLcpW0q -# -A= -B= -C= -m= -e= -f< --cached --no-index --untracked --no-exclude-standard --exclude-standard --recurse-submodules --text --ignore-case --max-depth= -r --recursive --no-recursive --word-regexp --invert-match --full-name --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column --files-with-matches --name-only --files-without-match --null --only-matching --count --color? --no-color --break --heading --show-function --context= --after-context= --before-context= --function-context --max-count= --threads= --and --or --not --all-match --quiet", nil)
	add("branch", "-arvlqi --all --remotes --list --verbose --quiet --show-current --abbrev= --no-abbrev --column? --no-column "+gitRefs, listing("l", "list", "contains", "no-contains", "merged", "no-merged", "points-at"))
	add("tag", "-li -n? --list --column? --no-column "+gitRefs, listing("l", "list", "n", "contains", "no-contains", "merged", "no-merged", "points-at"))
	add("for-each-ref", "--stdin --shell --perl --python --tcl --exclude= --include-root-refs "+gitRefs, formats)
	add("show-ref", "-qdhs -s? --head --heads --branches --tags --dereference --hash? --verify --exists --abbrev? --quiet --exclude-existing?", nil)
	add("rev-parse", "-q --verify --quiet --short? --symbolic --symbolic-full-name --abbrev-ref? --show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir --absolute-git-dir --git-path= --is-inside-git-dir --is-inside-work-tree --is-bare-repository --is-shallow-repository --show-superproject-working-tree --shared-index-path --show-object-format? --show-ref-format --all --branches? --tags? --remotes? --glob= --exclude= --disambiguate= --since= --after= --until= --before= --not --sq --revs-only --no-revs --flags --no-flags --default= --prefix= --local-env-vars --path-format= --end-of-options", nil)
	add("describe", "--all --tags --contains --abbrev= --candidates= --exact-match --debug --long --match= --exclude= --always --first-parent --dirty? --no-dirty", nil)
	add("ls-files", "-cdmosuktvzifr -x= -X< --cached --deleted --modified --others --ignored --stage --unmerged --killed --resolve-undo --directory --no-empty-directory --eol --deduplicate --exclude= --exclude-from< --exclude-per-directory= --exclude-standard --error-unmatch --with-tree= --full-name --recurse-submodules --abbrev? --debug --sparse --format=", nil)
	add("ls-tree", "-drtlz --long --name-only --name-status --object-only --abbrev? --full-name --full-tree --format=", nil)
	add("cat-file", "-tspe --batch? --batch-check? --batch-command? --batch-all-objects --buffer --unordered --follow-symlinks --allow-unknown-type --mailmap --use-mailmap -Z -z", nil)
	add("merge-base", "-a --all --octopus --independent --is-ancestor --fork-point", nil)
	add("name-rev", "--tags --refs= --exclude= --all --name-only --no-undefined --always --annotate-stdin", nil)
	add("cherry", "-v --verbose --abbrev?", nil)
	add("count-objects", "-vH --verbose --human-readable", nil)
	add("check-ignore", "-qvzn --quiet --verbose --stdin --non-matching --no-index", nil)
	add("check-attr", "-az --all --cached --stdin --source=", nil)
	add("check-ref-format", "--branch --normalize --allow-onelevel --no-allow-onelevel --refspec-pattern", nil)
	add("check-mailmap", "--stdin", nil)
	add("show-branch", "-ra --all --remotes --current --topo-order --date-order --sparse --more= --list --independent --merge-base --topics --color? --no-color --sha1-name --no-name", nil)
	add("symbolic-ref", "-q --quiet --short --recurse --no-recurse", atMost(1))
	add("remote", "-v --verbose", atMost(0))
	add("remote show", "-n", func(a *args) string {
		if a.has("n") {
			return ""
		}
		return atMost(0)(a) // it asks the other machine
	})
	add("remote get-url", "--all --push", nil)
	add("reflog", gitLog, func(a *args) string {
		if why := formats(a); why != "" {
			return why
		}
		return atMost(0)(a)
	})
	add("reflog show", gitLog, formats)
	add("reflog exists", "", nil)
	add("stash list", gitLog, formats)
	add("stash show", gitLog+" --include-untracked --only-untracked", formats)
	add("worktree list", "-vz --porcelain --verbose", nil)
	add("notes list", "", nil)
	add("notes show", "", nil)
	add("submodule", "", atMost(0))
	add("submodule status", "--cached --recursive --quiet -q", nil)
	add("bisect log", "", nil)
	add("sparse-checkout list", "", nil)
	add("fsck", "-v --verbose --full --strict --unreachable --dangling --no-dangling --root --tags --cache --no-reflogs --connectivity-only --progress --no-progress", nil)
	add("hash-object", "-t= --stdin --stdin-paths --no-filters --path= --literally", nil)
	add("patch-id", "--stable --unstable --verbatim", nil)
	add("config", gitConfig, func(a *args) string {
		if a.has("get", "get-all", "get-regexp", "get-urlmatch", "list", "l") {
			return ""
		}
		if len(a.operands) == 1 && !strings.Contains(a.operands[0].prefix(), ".") {
			return "without a dot it is no name: edit, unset ..."
		}
		return atMost(1)(a)
	})
	add("config get", gitConfig+" --all --regexp --value= --fixed-value --url=", nil)
	add("config list", gitConfig, nil)
	add("var", "-l", nil)
	add("version", "--build-options", nil)
	return table
})

const signs = "the format may check signatures"

// formats refuses formats, groups and orders that check a signature, by a program of
// the configuration, and merges that are made again, in the repository.
func formats(a *args) string {
	for _, f := range a.all("format", "pretty", "group", "sort") {
		if !f.Known || strings.Contains(f.Value, "signature") || slices.ContainsFunc(signers, func(s string) bool { return strings.Contains(f.Value, s) }) {
			return signs
		}
	}
	for _, f := range a.all("diff-merges") {
		if !f.Known || f.Value == "" || !strings.Contains(" off none on m first-parent 1 separate combined c dense-combined cc ", " "+f.Value+" ") {
			return "it may make merges again, in the repository"
		}
	}
	return ""
}

// signers are how a placeholder of a signature begins in a format.
var signers = []string{"%G", "%+G", "%-G", "% G"}

// listing is for commands that make something of an operand, but list with one
// of the flags.
func listing(names ...string) func(a *args) string {
	return func(a *args) string {
		if len(a.operands) > 0 && !a.has(names...) {
			return "an operand makes one"
		}
		return formats(a)
	}
}

func atMost(n int) func(a *args) string {
	return func(a *args) string {
		if len(a.operands) > n || !counted(a.operands) {
			return "with more operands it writes"
		}
		return ""
	}
}

// gitKinds are the kinds of git's other commands.
var gitKinds = map[string]Kind{
	"fetch": Network, "pull": Network, "push": Network, "clone": Network, "ls-remote": Network, "remote-http": Network, "send-email": Network,
	"daemon": Network, "difftool": Executes, "mergetool": Executes, "gui": Executes, "help": Executes, "instaweb": Executes, "filter-branch": Executes, "rebase": Write,
}

// git has a table of its own. Options before its command that leave it what it
// is: another directory, no pager.
func git(w *walker, all []Word, d dirs) verdict {
	args := all[1:]
	for len(args) > 0 {
		s := args[0].Value
		if !args[0].Known {
			return refuse(Unknown, "git: its command is not known")
		}
		if s == "-C" {
			if len(args) < 2 || !counted(args[1:2]) {
				return refuse(Unknown, "git: its directory is not known")
			}
			switch {
			case !args[1].Known:
				d = nil
			case args[1].Value != "":
				d = w.chdir(d, args[1].Value)
			}
			args = args[2:]
			continue
		}
		if s == "-c" && len(args) > 1 && args[1].Known && harmlessSetting(args[1].Value) {
			args = args[2:]
			continue
		}
		if s == "--no-pager" || s == "-P" || s == "-p" || s == "--paginate" || s == "--no-optional-locks" || s == "--literal-pathspecs" || s == "--no-replace-objects" || s == "--icase-pathspecs" || s == "--glob-pathspecs" || s == "--no-lazy-fetch" {
			args = args[1:]
			continue
		}
		if (s == "--version" || s == "-v") && len(args) == 1 {
			return verdict{kind: Read}
		}
		if strings.HasPrefix(s, "-") {
			return refuse(Unknown, "git: %s is not known to be harmless", printable(s))
		}
		break
	}
	if len(args) == 0 {
		return refuse(Unknown, "git: it has no command")
	}
	name := args[0].Value
	if len(args) > 1 && args[1].Known {
		if two := name + " " + args[1].Value; gitCommands()[two].flags != nil {
			name, args = two, args[1:]
		}
	}
	c, ok := gitCommands()[name]
	if !ok {
		kind := gitKinds[name]
		if kind == "" {
			kind = Write
		}
		v := refuse(kind, "git %s may change something", printable(name))
		if kind == Network {
			v.hosts = hosts(args[1:])
			v.why = "git " + name + " uses the network"
		}
		return v
	}
	v := verdict{kind: Read}
	if name == "grep" {
		v.kind = Search
	}
	a, err := c.flags.read(args[1:], false)
	switch {
	case err != nil:
		v.why = "git " + name + ": " + err.Error()
		a = &args0
		v.rough(args[1:], d)
	case a.unsure:
		v.why = "git " + name + ": a word may become a flag when it is expanded"
	case c.check != nil:
		if why := c.check(a); why != "" {
			v.why = "git " + name + ": " + why
			if !strings.HasSuffix(why, signs) {
				v.kind = Write
			}
		}
	}
	if flag := a.dash(); v.why == "" && flag != "" {
		v.why = "git " + name + ": the value of " + flag + " may be a flag"
	}
	for _, f := range a.files {
		v.read(f, d, false)
	}
	switch name {
	case "grep", "diff", "diff-files", "diff-index": // the files as they are now, too
		if !a.has("cached", "staged") && (name == "grep" || !a.has("no-index")) {
			v.read(lit("."), d, true)
		}
	}
	// Operands may be paths, or revisions of them: revision:path.
	for _, op := range a.operands {
		if op.Known {
			if _, file, ok := strings.Cut(op.Value, ":"); ok {
				op = lit(file)
			}
		}
		v.read(op, d, name == "grep" || name == "diff" || name == "log" || name == "show")
	}
	return v
}

var args0 args

// harmlessSetting reports whether a setting, name=value, of git changes no more than
// how it shows things.
func harmlessSetting(text string) bool {
	name, value, _ := strings.Cut(strings.ToLower(text), "=")
	switch name {
	case "color.ui", "color.diff", "color.status", "color.branch", "color.grep", "core.quotepath", "log.showsignature", "log.decorate", "log.abbrevcommit", "diff.noprefix", "diff.mnemonicprefix", "diff.renames", "status.relativepaths", "status.short", "status.branch", "column.ui", "grep.linenumber":
		return strings.Contains(" always never auto true false on off yes no 0 ", " "+value+" ") && !(name == "log.showsignature" && value != "false")
	case "core.pager":
		return value == "cat"
	case "core.fsmonitor", "advice.detachedhead":
		return value == "false"
	}
	return false
}

// gitOwn are git's commands beside those of its tables: what is none of them is
// an alias, or a program.
var gitOwn = "add am apply archive bisect bugreport bundle cat-file checkout checkout--worker checkout-index cherry-pick citool clean column commit commit-graph commit-tree config credential describe diagnose fast-export fast-import fetch-pack fmt-merge-msg for-each-repo format-patch fsck-objects fsmonitor--daemon gc get-tar-commit-id gitk hook http-backend http-fetch http-push imap-send index-pack init init-db interpret-trailers ls-remote mailinfo mailsplit maintenance merge merge-file merge-index merge-recursive merge-tree mktag mktree multi-pack-index mv notes pack-objects pack-redundant pack-refs prune prune-packed read-tree receive-pack reflog remote repack replace replay request-pull rerere reset restore revert rm send-pack sh-i18n sparse-checkout stash stage submodule switch symbolic-ref unpack-file unpack-objects update-index update-ref update-server-info upload-archive upload-pack verify-commit verify-pack verify-tag worktree write-tree "

// gitPrograms are flags of git's commands whose values are commands.
var gitPrograms = []string{
	"exec", "extcmd", "upload-pack", "receive-pack", "open-files-in-pager", "setup", "env-filter", "tree-filter", "index-filter", "parent-filter", "msg-filter", "commit-filter", "tag-name-filter",
	"to-cmd", "cc-cmd", "header-cmd", "sendmail-cmd", "smtp-server", "browser", "httpd", "access-hook",
}

// gitLetters are those of them that are a letter, by their command.
var gitLetters = map[string]string{"rebase": "x", "difftool": "x", "clone": "u", "grep": "O", "instaweb": "bd"}

// gitRuns looks for what a command of git is told to run.
func (w *walker) gitRuns(args []Word, d dirs) {
	for ; len(args) > 0 && (!args[0].Known || strings.HasPrefix(args[0].Value, "-")); args = args[1:] {
		switch s := args[0].Value; {
		case !args[0].Known, strings.HasPrefix(s, "--exec-path="), strings.HasPrefix(s, "--config-env"):
			w.anything("git", d)
			return
		case s == "-c" && len(args) > 1:
			w.gitSetting(args[1], d)
			args = args[1:]
		case len(args) > 1 && (s == "-C" || s == "--git-dir" || s == "--work-tree" || s == "--namespace" || s == "--super-prefix" || s == "--attr-source"):
			args = args[1:]
		}
	}
	if len(args) == 0 {
		return
	}
	name := args[0].Value
	args = args[1:]
	if _, ok := gitCommands()[name]; !ok && gitKinds[name] == "" && !strings.Contains(" "+gitOwn, " "+name+" ") {
		w.anything("git "+name, d)
		return
	}
	switch name {
	case "bisect":
		if len(args) > 1 && args[0].Value == "run" {
			w.suffix(args[1:], "git bisect", d)
		}
	case "submodule":
		at := slices.IndexFunc(args, func(arg Word) bool { return arg.Value == "foreach" })
		for at >= 0 && at+1 < len(args) && strings.HasPrefix(args[at+1].Value, "-") {
			at++
		}
		if at >= 0 {
			w.text1(args[at+1:], " ", "git submodule", nil)
		}
	case "config":
		for i := range args {
			if i+1 < len(args) && strings.Contains(args[i].Value, ".") {
				w.gitSetting(Word{Value: args[i].Value + "=" + args[i+1].Value, Known: args[i].Known && args[i+1].Known}, d)
			}
		}
	}
	for i, arg := range args {
		if strings.Contains(arg.Value, "ext::") {
			w.anything("git "+name, d) // an address that is a command
		}
		rest := args[i+1:]
		if name == "clone" && len(rest) > 0 && (arg.Value == "-c" || arg.Value == "--config") {
			w.gitSetting(rest[0], d)
		} else if text, ok := strings.CutPrefix(arg.Value, "--config="); ok && name == "clone" {
			w.gitSetting(Word{Value: text, Known: arg.Known}, d)
		}
		if !gitProgram(name, arg.Value) {
			continue
		}
		flag, text, ok := strings.Cut(arg.Value, "=")
		if !strings.HasPrefix(flag, "--") {
			text = arg.Value[strings.IndexAny(arg.Value, gitLetters[name])+1:]
			ok = text != ""
		}
		switch {
		case ok:
			w.mayBeText(Word{Value: text, Known: arg.Known}, "git "+name, d)
		case len(rest) > 0:
			w.mayBeText(rest[0], "git "+name, d)
		}
	}
}

// gitProgram reports whether a flag takes a command. Git knows its flags by
// their beginnings too.
func gitProgram(command, word string) bool {
	if long, ok := strings.CutPrefix(word, "--"); ok {
		long, _, _ = strings.Cut(long, "=")
		return len(long) > 1 && slices.ContainsFunc(gitPrograms, func(p string) bool { return strings.HasPrefix(p, long) })
	}
	return strings.HasPrefix(word, "-") && strings.ContainsAny(word, gitLetters[command])
}

// gitSetting judges a setting, name=value, that may be a command.
func (w *walker) gitSetting(setting Word, d dirs) {
	name, value, _ := strings.Cut(setting.Value, "=")
	name = strings.ToLower(name)
	switch text, shell := strings.CutPrefix(value, "!"); {
	case !setting.Known, strings.HasPrefix(name, "include"), strings.HasSuffix(name, ".hookspath"):
		w.anything("git", d)
	case shell:
		w.mayBeText(lit(text), "git", d)
	case strings.HasPrefix(name, "alias."):
		w.mayBeText(lit("git "+value), "git", d)
	default:
		w.held(name, lit(value), d)
	}
}
