package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

const about = `Trains a multi-turn service agent without human dialogues, by the method SEAD: users are sampled from a grid of
hidden states, a frozen role-play model plays them, GRPO improves the agent, and error analysis moves the sampling to
the users that the agent completes about half the time.

EXAMPLES
   seadtrain run configs/nano.toml                          the whole loop on the embedded nano model, in minutes
   seadtrain run configs/nano.toml --set seed=7             another seed
   seadtrain run configs/nano.toml --run-dir runs/a         continues runs/a if it has a checkpoint
   seadtrain eval configs/nano.toml --model runs/a/checkpoints/step-12
   seadtrain analyze runs/a/episodes/step-12.jsonl --json
   seadtrain doctor

EXIT CODES
   0    done
   1    what was asked for could not be done
   2    a flag, an argument or a config is wrong
   130  stopped by Ctrl-C, with a checkpoint where there is one to write (a second Ctrl-C ends at once)
   143  the same by SIGTERM`

func newApp() *cli.App {
	app := &cli.App{
		Name:                 "seadtrain",
		Usage:                "self-evolving service agents: profiles, dialogues, GRPO, curriculum",
		Description:          about,
		EnableBashCompletion: true,
		HideVersion:          true,
		Writer:               stdout,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "log-level", Value: "info", Usage: "debug, info, warn or error"},
		},
		Before:                    setLog,
		ExitErrHandler:            func(*cli.Context, error) {}, // run prints errors, once
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return usage(err) },
		DisableSliceFlagSeparator: true, // a value of --set may contain commas
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return cli.ShowAppHelp(c)
			}
			return usagef("no command %q: seadtrain --help lists them", c.Args().First())
		},
		Commands: []*cli.Command{
			runCommand(), rolloutCommand(), evalCommand(), analyzeCommand(), profilesCommand(), sftCommand(), scoreCommand(),
			convertCommand(), benchCommand(), doctorCommand(), versionCommand(), completionCommand(), corpusCommand(),
		},
	}
	quiet(app.Commands, app.OnUsageError)
	return app
}

// quiet makes every command report a wrong flag as an error alone, without its help text, and an empty one as wrong.
func quiet(commands []*cli.Command, onUsageError cli.OnUsageErrorFunc) {
	for _, c := range commands {
		c.OnUsageError, c.HideHelpCommand, c.Before = onUsageError, true, refuseEmpty
		if len(c.Subcommands) > 0 {
			c.Action = func(c *cli.Context) error {
				if c.NArg() == 0 {
					return cli.ShowSubcommandHelp(c)
				}
				return usagef("%s: no command %q: seadtrain %[1]s --help lists them", c.Command.Name, c.Args().First())
			}
			quiet(c.Subcommands, onUsageError)
		}
	}
}

// refuseEmpty refuses --flag "": most often a variable of a script that is not set.
func refuseEmpty(c *cli.Context) error {
	for _, f := range c.Command.Flags {
		if name := f.Names()[0]; c.IsSet(name) {
			if text, ok := c.Value(name).(string); ok && text == "" {
				return usagef("--%s: empty", name)
			}
		}
	}
	return nil
}

// args checks the number of positional arguments.
func args(c *cli.Context, names ...string) error {
	if c.NArg() == len(names) {
		return nil
	}
	want := strings.Join(names, " ")
	if want == "" {
		want = "none"
	}
	return usagef("%s: %d arguments, want %s (seadtrain %s --help)", c.Command.Name, c.NArg(), want, c.Command.Name)
}

// reorder moves a command's flags in front of its arguments, and the program's in front of the command: people write them
// anywhere, the flag package stops reading at the first argument.
func reorder(app *cli.App, argv []string) []string {
	at := slices.IndexFunc(argv[min(1, len(argv)):], func(a string) bool { return app.Command(a) != nil }) + 1
	if at == 0 || argv[len(argv)-1] == "--generate-bash-completion" {
		return argv
	}
	cmd, first := app.Command(argv[at]), at
	for at+1 < len(argv) {
		i := slices.IndexFunc(cmd.Subcommands, func(s *cli.Command) bool { return s.HasName(argv[at+1]) })
		if i < 0 {
			break
		}
		cmd, at = cmd.Subcommands[i], at+1
	}
	global, own := valued(app.Flags), valued(cmd.Flags)
	front, flags, rest := slices.Clone(argv[:first]), slices.Clone(argv[first:at+1]), []string{}
	for i := at + 1; i < len(argv); i++ {
		a := argv[i]
		if a == "--" {
			rest = append(rest, argv[i+1:]...)
			break
		}
		if len(a) < 2 || a[0] != '-' { // "-" is an argument: standard input or output
			rest = append(rest, a)
			continue
		}
		name, _, joined := strings.Cut(strings.TrimLeft(a, "-"), "=")
		to, takes := &flags, own[name]
		if _, mine := own[name]; !mine {
			if g, ok := global[name]; ok {
				to, takes = &front, g
			}
		}
		*to = append(*to, a)
		if takes && !joined && i+1 < len(argv) {
			i++
			*to = append(*to, argv[i])
		}
	}
	if len(rest) > 0 {
		flags = append(append(flags, "--"), rest...)
	}
	return append(front, flags...)
}

// valued tells by every name of the flags whether it takes a value.
func valued(flags []cli.Flag) map[string]bool {
	out := map[string]bool{}
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		for _, name := range f.Names() {
			out[name] = ok && d.TakesValue()
		}
	}
	return out
}

// setFlag is the override of single config keys.
func setFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "set", Usage: "`KEY=VALUE` in place of the config's, any number of times"}
}

func completionCommand() *cli.Command {
	scripts := map[string]string{
		"bash": `_seadtrain() {
  local cur="${COMP_WORDS[COMP_CWORD]}"
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  [[ "$cur" == -* ]] && words+=("$cur")
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null | cut -d: -f1)" -- "$cur"))
  [[ ${#COMPREPLY[@]} -eq 0 ]] && COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _seadtrain seadtrain
`,
		"zsh": `#compdef seadtrain
_seadtrain() {
  local -a opts
  local cur="${words[CURRENT]}"
  if [[ "$cur" == -* ]]; then
    opts=("${(@f)$(${words[1,CURRENT-1]} ${cur} --generate-bash-completion 2>/dev/null | cut -d: -f1)}")
  else
    opts=("${(@f)$(${words[1,CURRENT-1]} --generate-bash-completion 2>/dev/null | cut -d: -f1)}")
  fi
  compadd -a opts || _files
}
compdef _seadtrain seadtrain
`,
	}
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the shell completion script for bash or zsh",
		ArgsUsage: "bash|zsh",
		Description: `EXAMPLES
   source <(seadtrain completion bash)`,
		Action: func(c *cli.Context) error {
			if err := args(c, "SHELL"); err != nil {
				return err
			}
			script, ok := scripts[c.Args().First()]
			if !ok {
				return usagef("completion: no script for %q: want bash or zsh", c.Args().First())
			}
			_, err := fmt.Fprint(stdout, script)
			return err
		},
	}
}
