package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sallyport/sallyport/permission"
	"github.com/sallyport/sallyport/sandbox"
)

// Scripts that complete by asking sallyport itself.
var completions = map[string]string{
	"bash": `_sallyport() {
  local cur="${COMP_WORDS[COMP_CWORD]}" words
  words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  case " ${words[*]} " in *" -- "*) return ;; esac
  # "-" lists the flags: "--" would end them, and a part of one is an unknown one.
  if [[ "$cur" == -* ]]; then words+=(-); fi
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _sallyport sallyport
`,
	"zsh": `#compdef sallyport
_sallyport() {
  local cur="${words[CURRENT]}"
  local -a asked opts
  asked=("${(@)words[1,CURRENT-1]}")
  (( ${asked[(Ie)--]} )) && { _normal; return }
  # "-" lists the flags: "--" would end them, and a part of one is an unknown one.
  if [[ "$cur" == -* ]]; then asked+=(-); fi
  opts=("${(@f)$("${asked[@]}" --generate-bash-completion 2>/dev/null)}")
  if [[ -n "${opts[1]}" ]]; then compadd -a opts; else _files; fi
}
compdef _sallyport sallyport
`,
	"fish": `function __sallyport_complete
  set -l words (commandline -opc)
  set -l cur (commandline -ct)
  if contains -- -- $words
    return
  else if string match -q -- '-*' $cur
    # "-" lists the flags: "--" would end them, and a part of one is an unknown one.
    $words - --generate-bash-completion 2>/dev/null
  else
    $words --generate-bash-completion 2>/dev/null
  end
end
complete -c sallyport -a '(__sallyport_complete)'
`,
}

// completed is the word before the one that is completed.
func completed() string {
	if len(os.Args) < 2 {
		return ""
	}
	return os.Args[len(os.Args)-2]
}

// completeValue completes the value of a flag, and reports whether one was to be
// completed. The parser would find a flag without its value, and fail.
func completeValue(app *cli.App, args []string) bool {
	n := len(args) - 2
	if n < 1 || args[n+1] != generate {
		return false
	}
	list, cmd := app.Commands, (*cli.Command)(nil)
	for _, arg := range args[1:n] {
		next := find(list, arg)
		if next == nil {
			break
		}
		list, cmd = next.Subcommands, next
	}
	if cmd == nil || !strings.HasPrefix(args[n], "-") || !takesValue(cmd, args[n]) {
		return false
	}
	switch strings.TrimLeft(args[n], "-") {
	case "session":
		printNames()
	case "mode":
		for _, m := range permission.Modes {
			fmt.Println(m)
		}
	case "workspace":
		fmt.Println(sandbox.Cow)
		fmt.Println(sandbox.Direct)
	case "expose":
		for _, name := range sandbox.Presets() {
			fmt.Println(name)
		}
	}
	return true
}

// generate is what a shell's script asks for completions with.
const generate = "--generate-bash-completion"

// completeNames completes a session's name, and flags.
func completeNames(c *cli.Context) {
	if strings.HasPrefix(completed(), "-") {
		completeFlags(c)
		return
	}
	printNames()
}

func printNames() {
	store, err := openStore()
	if err != nil {
		return
	}
	list, err := store.List()
	if err != nil {
		return
	}
	for _, s := range list {
		fmt.Println(s.Name)
	}
}

// completeFlags completes flags.
func completeFlags(c *cli.Context) { cli.DefaultCompleteWithFlags(c.Command)(c) }

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes sallyport's commands in a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: "bash:  source <(sallyport completion bash)\n" +
			"zsh:   sallyport completion zsh > \"${fpath[1]}/_sallyport\"\n" +
			"fish:  sallyport completion fish > ~/.config/fish/completions/sallyport.fish",
		Action: atMost(1, func(c *cli.Context) error {
			script, ok := completions[c.Args().First()]
			if !ok {
				return usageError(c, "name a shell: bash, zsh or fish")
			}
			fmt.Print(script)
			return nil
		}),
		BashComplete: func(*cli.Context) { fmt.Print("bash\nzsh\nfish\n") },
	}
}
