package bash

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// wrapper is a command that runs the rest of its words.
type wrapper struct {
	flags    *flags
	operands int // its own, before the command
}

// transparent wrappers change nothing but how long, how urgently, or with which
// buffers their command runs.
var transparent = sync.OnceValue(func() map[string]wrapper {
	return map[string]wrapper{
		"timeout": {flagSet("-v -f -p -k= -s= --foreground --preserve-status --kill-after= --signal= --verbose"), 1},
		"nice":    {flagSet("-n= -# --adjustment="), 0},
		"nohup":   {flagSet(""), 0},
		"stdbuf":  {flagSet("-i= -o= -e= --input= --output= --error="), 0},
		"command": {flagSet("-p"), 0},
		"time":    {flagSet("-pvq -f= --verbose --quiet --portability --format="), 0},
	}
})

// through are wrappers that are looked through for what they run, never to prove
// anything.
var through = sync.OnceValue(func() map[string]wrapper {
	return map[string]wrapper{
		"sudo":    {flagSet("-AbEeHKklnPSsiVv -C= -D= -g= -h= -p= -R= -r= -t= -T= -U= -u= --preserve-env? --user= --group= --set-home --non-interactive --stdin --login --background --chdir= --prompt= --askpass --shell --reset-timestamp"), 0},
		"doas":    {flagSet("-nsL -C= -u= -a="), 0},
		"env":     {flagSet("-i0v -u= -C= -S= --ignore-environment --unset= --chdir= --null --split-string= --debug --block-signal? --default-signal? --ignore-signal?"), 0},
		"exec":    {flagSet("-cl -a="), 0},
		"builtin": {flagSet(""), 0},
		"xargs":   {flagSet("-0rtpxo -d= -E= -e? -I= -i? -L= -l? -n= -P= -s= -a= --null --no-run-if-empty --verbose --interactive --exit --open-tty --delimiter= --eof? --replace? --max-lines? --max-args= --max-procs= --max-chars= --arg-file= --show-limits --process-slot-var="), 0},
		"watch":   {flagSet("-bcCegtwx -d? -n= -q= --beep --color --no-color --errexit --chgexit --differences? --interval= --precise --no-title --no-wrap --exec --equexit="), 0},
		"setsid":  {flagSet("-cfw --ctty --fork --wait"), 0},
		"ionice":  {flagSet("-t -c= -n= --class= --classdata= --ignore"), 0},
		"chrt":    {flagSet("-abdfioRr -T= -P= -D="), 1},
		"taskset": {flagSet("-ac --all-tasks --cpu-list"), 1},
		"flock":   {flagSet("-sxenuoFv -w= -E= -c= --shared --exclusive --nonblock --unlock --close --no-fork --wait= --timeout= --conflict-exit-code= --command="), 1},
		"chroot":  {flagSet("--userspec= --groups= --skip-chdir"), 1},
		"busybox": {flagSet(""), 0},
		"toybox":  {flagSet(""), 0},
		"unshare": {}, "nsenter": {}, "strace": {}, "ltrace": {}, "su": {}, "runuser": {}, "script": {}, "parallel": {},
		"prlimit": {}, "systemd-run": {}, "firejail": {}, "bwrap": {}, "unbuffer": {}, "catchsegv": {}, "setarch": {}, "numactl": {},
		"fakeroot": {}, "proot": {}, "setpriv": {}, "runcon": {}, "pkexec": {}, "dbus-run-session": {}, "xvfb-run": {},
		"choom": {}, "coreutils": {}, "eatmydata": {}, "cpulimit": {}, "hyperfine": {}, "logsave": {}, "torsocks": {}, "torify": {}, "tsocks": {},
		"proxychains": {}, "proxychains4": {}, "gosu": {}, "su-exec": {}, "chpst": {}, "tini": {}, "dumb-init": {}, "catatonit": {}, "setuidgid": {},
		"envuidgid": {}, "envdir": {}, "softlimit": {}, "faketime": {}, "rlwrap": {}, "capsh": {}, "nsjail": {}, "systemd-inhibit": {}, "systemd-nspawn": {},
		"ssh-agent": {}, "sg": {}, "aa-exec": {}, "daemonize": {}, "timelimit": {}, "chronic": {}, "ifne": {}, "pee": {}, "mispipe": {}, "lckdo": {},
		"ccache": {}, "rr": {}, "tmux": {}, "screen": {}, "docker": {}, "podman": {}, "schedtool": {}, "heaptrack": {}, "sem": {},
		"linux64": {}, "linux32": {}, "cgexec": {}, "trickle": {}, "entr": {}, "perf": {}, "valgrind": {}, "gdb": {}, "start-stop-daemon": {},
	}
})

// wraps returns what is looked through by its name.
func wraps(name string) (wrapper, bool) {
	for _, loader := range []string{"ld-linux", "ld-musl", "ld.so", "qemu-"} {
		if strings.HasPrefix(name, loader) {
			return wrapper{}, true
		}
	}
	wrap, ok := through()[name]
	return wrap, ok
}

// shells are those that take a script; true: it means to them what it does to
// bash.
var shells = map[string]bool{
	"sh": true, "bash": true, "rbash": true, "dash": true, "ash": true,
	"zsh": false, "ksh": false, "mksh": false, "csh": false, "tcsh": false, "fish": false,
}

// unwrap takes transparent wrappers off. Its second result says why it could not.
func unwrap(words []Word) ([]Word, string) {
	for len(words) > 1 && words[0].Known {
		wrap, ok := transparent()[words[0].Value]
		if !ok {
			break
		}
		name := words[0].Value
		if name == "command" && words[1].Known && (words[1].Value == "-v" || words[1].Value == "-V") {
			break
		}
		a, err := wrap.flags.read(words[1:], true)
		if err != nil {
			return words, name + ": " + err.Error()
		}
		if a.unsure || !counted(a.operands[:min(wrap.operands, len(a.operands))]) {
			return words, name + ": what it runs is not known"
		}
		for _, f := range a.flags {
			if f.value.Splits || f.value.Many {
				return words, name + ": what it runs is not known"
			}
		}
		if len(a.operands) <= wrap.operands {
			return words, name + " runs nothing that is named"
		}
		words = a.operands[wrap.operands:]
	}
	return words, ""
}

// runs looks for commands in the arguments of one. Of one that is proved nothing
// is evaluated.
func (w *walker) runs(words []Word, v verdict, d dirs) {
	if v.why == "" {
		return
	}
	if !words[0].Known {
		w.anything("a name that is not known", d)
		return
	}
	name := path.Base(words[0].Value)
	args := words[1:]
	if alike, ok := shells[name]; ok {
		if !alike {
			w.anything(name, d)
		}
		w.shell(name, args, d)
		return
	}
	if v.code {
		w.anything(name, d)
	}
	switch name {
	case "find":
		w.findRuns(args, d)
	case "git":
		w.gitRuns(args, d)
	case "eval":
		w.text1(args, " ", name, d)
	case "fd", "fdfind":
		w.suffixes(args, name, d)
	case "source", ".", "fc", "let", "gdb", "lldb", "expect", "entr", "dc", "m4", "at", "batch", "crontab", "ed":
		w.anything(name, d)
	case "test", "[", "unset", "read", "printf", "mapfile", "readarray", "getopts", "wait", "declare", "typeset", "local", "export", "readonly":
		if slices.ContainsFunc(args, func(arg Word) bool { return w.evaluated(name, arg) }) {
			w.anything(name, d)
		}
		if name == "mapfile" || name == "readarray" {
			for _, arg := range args {
				w.text1([]Word{arg}, "", name, d)
			}
		}
	case "hash", "enable": // another program, or library, of a name
		if slices.ContainsFunc(args, func(arg Word) bool {
			return !arg.Known || strings.HasPrefix(arg.Value, "-") && strings.ContainsAny(arg.Value, "pf")
		}) {
			w.anything(name, d)
		}
	case "trap":
		for len(args) > 0 && strings.HasPrefix(args[0].Value, "-") {
			args = args[1:]
		}
		if len(args) > 0 {
			w.text1(args[:1], "", name, d)
		}
	case "alias":
		for _, arg := range args {
			if _, value, ok := strings.Cut(arg.Value, "="); ok || !arg.Known {
				w.text1([]Word{{Value: value, Known: arg.Known, Splits: arg.Splits}}, "", name, d)
				w.anything(name, d) // what follows it is known where it is used
			}
		}
	case "sqlite3", "socat", "make", "gmake":
		// What these words run is in a language of their own.
		if slices.ContainsFunc(args, func(arg Word) bool {
			text := strings.ToLower(arg.Value)
			return !arg.Known || strings.Contains(text, ".shell") || strings.Contains(text, ".system") ||
				strings.Contains(text, "exec:") || strings.Contains(text, "system:") || strings.HasPrefix(text, "shell=")
		}) {
			w.anything(name, d)
		}
	case "complete", "compgen", "bind":
		for _, arg := range args {
			w.text1([]Word{arg}, "", name, d)
		}
	}
	if after, ok := launchers()[name]; ok {
		w.launched(args, after, name, d)
	}
	if flags, ok := coded()[name]; ok && slices.ContainsFunc(args, func(arg Word) bool { return givesCode(arg, flags) }) {
		w.anything(name, d)
	}
	wrap, ok := wraps(name)
	if !ok {
		return
	}
	if wrap.flags == nil {
		w.suffixes(args, name, d)
		return
	}
	a, err := wrap.flags.read(args, true)
	if err != nil || a.unsure {
		w.suffixes(args, name, d)
		if err == nil {
			w.anything(name, d)
		}
		return
	}
	rest := a.operands
	switch name {
	case "env", "sudo", "doas":
		if v, ok := a.last("S", "split-string"); ok && name == "env" {
			w.text1(append([]Word{v}, rest...), " ", name, d)
			return
		}
		if a.has("C", "D", "chdir", "i", "login") {
			d = nil
		}
		if name == "env" && len(rest) > 0 && rest[0].Value == "-" {
			rest = rest[1:] // as -i
		}
		for len(rest) > 0 && strings.Contains(rest[0].Value, "=") {
			variable, value, _ := strings.Cut(rest[0].Value, "=")
			w.held(variable, Word{Value: value, Known: rest[0].Known}, d)
			rest = rest[1:]
		}
	case "watch":
		if !a.has("x", "exec") {
			w.text1(rest, " ", name, d)
			return
		}
	case "flock":
		if v, ok := a.last("c", "command"); ok {
			w.text1([]Word{v}, "", name, d)
		}
		if len(rest) > 1 && strings.HasPrefix(rest[1].Value, "-") {
			w.suffixes(rest[1:], name, d)
			return
		}
	case "chroot":
		d = nil
	case "xargs":
		repl := ""
		if v, ok := a.last("I", "i", "replace"); ok {
			if repl = v.Value; repl == "" {
				repl = "{}"
			}
		}
		if len(rest) == 0 {
			return // echo
		}
		rest = substitute(rest, repl)
		if repl == "" {
			rest = append(rest, Word{Value: Any, Splits: true})
		}
	}
	if len(rest) > wrap.operands {
		w.derive(rest[wrap.operands:], name, d)
	}
}

// coded are flags with which a program is given code, or a command, by the words
// that follow: letters, long ones, and a plus sign.
var coded = sync.OnceValue(func() map[string][]string {
	table := make(map[string][]string)
	for names, flags := range map[string]string{
		"python python2 python3 pypy pypy3": "-c",
		"perl ruby lua luajit deno bun":     "-e -E",
		"node nodejs":                       "-e -p --eval --print",
		"php":                               "-r -B -R -E",
		"make gmake":                        "--eval",
		"vi vim nvim ex view emacs nano":    "-c -S -s + --cmd --eval --execute",
		"man":                               "-P -H --pager --html",
		"less more most":                    "+",
		"rg":                                "--pre --hostname-bin",
		"sort":                              "--compress-program",
		"tar bsdtar":                        "-I -F --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command --info-script --new-volume-script",
		"split":                             "--filter",
		"rsync":                             "-e --rsh --rsync-path",
		"ssh scp sftp":                      "-o -F -S -D",
		"zip":                               "-T --unzip-command",
		"nc ncat netcat":                    "-e -c --exec --sh-exec --lua-exec",
	} {
		for name := range strings.FieldsSeq(names) {
			table[name] = strings.Fields(flags)
		}
	}
	return table
})

// launchers are programs that run the command which follows one of their words; ""
// is the program's own name.
var launchers = sync.OnceValue(func() map[string][]string {
	table := make(map[string][]string)
	for names, words := range map[string]string{
		"npx pnpx bunx uvx ssh": "",
		"npm":                   "exec x",
		"pnpm yarn":             "exec dlx",
		"bun":                   "x",
		"uv poetry pipenv rye hatch pdm pixi pipx":   "run",
		"conda mamba micromamba":                     "run",
		"bundle pyenv rbenv nodenv goenv jenv plenv": "exec",
		"mise asdf direnv":                           "exec x",
		"kubectl oc lxc incus nerdctl crictl":        "exec run",
		"cmake":                                      "-E",
		"nix":                                        "run shell develop -c --command",
		"nix-shell":                                  "--run --command",
	} {
		for name := range strings.FieldsSeq(names) {
			if table[name] = strings.Fields(words); words == "" {
				table[name] = []string{""}
			}
		}
	}
	return table
})

// launched judges what a launcher runs: every end of the words after one of those by
// which it does.
func (w *walker) launched(args []Word, after []string, name string, d dirs) {
	from := slices.IndexFunc(args, func(arg Word) bool { return !arg.Known || slices.Contains(after, arg.Value) })
	switch {
	case after[0] == "":
		w.suffixes(args, name, d)
	case from < 0:
	case !args[from].Known:
		w.anything(name, d)
	default:
		w.suffixes(args[from+1:], name, d)
	}
}

// givesCode reports whether a word may be one of the flags, or bundled with one,
// or the beginning of one.
func givesCode(word Word, flags []string) bool {
	s := word.Value
	if !word.Known && !word.operand() && !strings.HasPrefix(s, "-") {
		return true
	}
	return slices.ContainsFunc(flags, func(flag string) bool {
		if long, ok := strings.CutPrefix(s, "--"); ok {
			long, _, _ = strings.Cut(long, "=")
			return long != "" && strings.HasPrefix(flag, "--"+long)
		}
		if strings.HasPrefix(s, "-") && len(flag) == 2 {
			return strings.Contains(s[1:], flag[1:])
		}
		return flag == "+" && strings.HasPrefix(s, "+")
	})
}

// evaluated reports whether a builtin may evaluate an argument, as the subscript
// of a variable or as what a variable is given that the shell evaluates later.
func (w *walker) evaluated(name string, arg Word) bool {
	if !arg.Known || strings.Contains(arg.Value, "[") {
		return true
	}
	switch name {
	case "test", "[", "unset":
		return false
	case "mapfile", "readarray":
		if strings.HasPrefix(arg.Value, "-") {
			return strings.Contains(arg.Value, "C") // it calls back
		}
	case "declare", "typeset", "local", "export", "readonly":
		return true // not as the parser knows them
	}
	if !strings.HasPrefix(arg.Value, "-") {
		return isName(arg.Value) && !w.assign(arg.Value)
	}
	for i := range arg.Value { // a name that is attached to its flag
		if isName(arg.Value[i:]) && !w.assign(arg.Value[i:]) {
			return true
		}
	}
	return false
}

// substitute replaces a mark in words by what is not known.
func substitute(words []Word, mark string) []Word {
	out := make([]Word, 0, len(words)+1)
	for _, word := range words {
		if mark != "" && strings.Contains(word.Value, mark) {
			word = Word{Value: strings.ReplaceAll(word.Value, mark, Any), Splits: word.Splits}
		}
		out = append(out, word)
	}
	return out
}

// derive judges a command that another runs.
func (w *walker) derive(words []Word, name string, d dirs) {
	if len(words) == 0 || w.script.Bad != "" {
		return
	}
	outer := w.through
	w.through = name
	defer func() { w.through = outer }()
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = printable(word.Value)
	}
	w.command(words, strings.Join(texts, " "), false, d)
}

// suffixes judges every end of the words as a command: where in them one begins
// is not known.
func (w *walker) suffixes(words []Word, name string, d dirs) {
	const most = 12
	for i := range min(len(words), most) {
		w.suffix(words[i:], name, d)
		if text := attached(words[i].Value); text != "" {
			w.suffix(append([]Word{{Value: text, Known: words[i].Known}}, words[i+1:]...), name, d)
		}
	}
	if len(words) > most {
		w.anything(name, d)
	}
}

// suffix judges words as a command, or the first as a script.
func (w *walker) suffix(words []Word, name string, d dirs) {
	if words[0].Known && strings.ContainsAny(words[0].Value, " \t\n;") {
		w.text1(words[:1], "", name, d)
	} else {
		w.derive(words, name, d)
	}
}

// attached is what may be a command in the word of a flag: --command=x, -qcx.
func attached(s string) string {
	text := ""
	if strings.HasPrefix(s, "--") {
		_, text, _ = strings.Cut(s, "=")
	} else if strings.HasPrefix(s, "-") {
		_, text, _ = strings.Cut(s, "c")
	}
	return text
}

// anything notes that commands may be run that are not known.
func (w *walker) anything(name string, d dirs) {
	outer := w.through
	w.through = name
	defer func() { w.through = outer }()
	unknown := []Word{{Value: Any, Splits: true}}
	w.add(Part{Text: name, Words: unknown, Command: unknown, Kind: Unknown, Open: true, Why: name + " runs what is not known"})
}

// mayBeText judges a text that need not be a command.
func (w *walker) mayBeText(text Word, name string, d dirs) {
	bad := w.script.Bad
	w.text1([]Word{text}, "", name, d)
	if bad == "" && w.script.Bad != "" {
		w.script.Bad = ""
		w.anything(name, d)
	}
}

// text1 judges words that are a script when they are joined. Of one that is not all
// known, what is known is judged too: what else it runs is not.
func (w *walker) text1(words []Word, sep, name string, d dirs) {
	if w.script.Bad != "" {
		return
	}
	texts, known := make([]string, len(words)), true
	for i, word := range words {
		known = known && word.Known
		texts[i] = word.Value
	}
	text := strings.Join(texts, sep)
	if !known {
		w.anything(name, d)
		if strings.Trim(text, Any+" ") == "" {
			return
		}
		text = strings.ReplaceAll(text, Any, "${_}")
	}
	outer := w.through
	w.through = name
	defer func() { w.through = outer }()
	w.source(text, d)
	if !known {
		w.script.Bad = "" // what is not known may well end what is open
	}
}

// shell judges the script that a shell is given.
func (w *walker) shell(name string, args []Word, d dirs) {
	script, options := false, true
	for i := 0; i < len(args); i++ {
		s := args[i].Value
		switch {
		case script && !(options && args[i].Known && s != "" && (s[0] == '-' || s[0] == '+')):
			w.text1(args[i:i+1], "", name, d)
			return
		case !args[i].Known || !options || s == "" || s[0] != '-' && s[0] != '+':
			w.anything(name, d) // a file
			return
		case s == "--version" || s == "--help":
			return
		case s == "-" || s == "--":
			options = false
		case strings.HasPrefix(s, "--rcfile") || strings.HasPrefix(s, "--init-file"):
			w.anything(name, d)
			i++
		case strings.HasPrefix(s, "--"):
		default:
			script = script || strings.Contains(s, "c")
			i += strings.Count(s, "o") + strings.Count(s, "O") // each takes a word
		}
	}
	w.anything(name, d) // its standard input
}
