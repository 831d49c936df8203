package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// Scripts that complete by asking sallyport itself.
var completions = map[string]string{
	"bash": `_sallyport() {
  local cur="${COMP_WORDS[COMP_CWORD]}" words
  words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  case " ${words[*]} " in *" -- "*) return ;; esac
  if [[ "$cur" == -* ]]; then words+=("$cur"); fi
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _sallyport sallyport
`,
	"zsh": `#compdef sallyport
_sallyport() {
  local -a opts
  local cur="${words[-1]}"
  if [[ "$cur" == -* ]]; then
    opts=("${(@f)$("${words[@]:0:#words[@]-1}" "$cur" --generate-bash-completion 2>/dev/null)}")
  else
    opts=("${(@f)$("${words[@]:0:#words[@]-1}" --generate-bash-completion 2>/dev/null)}")
  fi
  if [[ -n "${opts[1]}" ]]; then compadd -a opts; else _files; fi
}
compdef _sallyport sallyport
`,
	"fish": `function __sallyport_complete
  set -l words (commandline -opc)
  set -l cur (commandline -ct)
  if string match -q -- '-*' $cur
    $words $cur --generate-bash-completion 2>/dev/null
  else
    $words --generate-bash-completion 2>/dev/null
  end
end
complete -c sallyport -a '(__sallyport_complete)'
`,
}

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes sallyport's commands in a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: "bash:  source <(sallyport completion bash)\n" +
			"zsh:   sallyport completion zsh > \"${fpath[1]}/_sallyport\"\n" +
			"fish:  sallyport completion fish > ~/.config/fish/completions/sallyport.fish",
		Action: func(c *cli.Context) error {
			script, ok := completions[c.Args().First()]
			if !ok {
				return usageError(c, "name a shell: bash, zsh or fish")
			}
			fmt.Print(script)
			return nil
		},
		BashComplete: func(*cli.Context) { fmt.Print("bash\nzsh\nfish\n") },
	}
}
