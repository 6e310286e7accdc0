package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"seadtrain/internal/config"
	"seadtrain/internal/loop"
	"seadtrain/internal/rundir"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "the closed loop: profiles, dialogues, GRPO, analysis; evaluates before and after",
		ArgsUsage: "CONFIG",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "run-dir", Usage: "run `DIRECTORY`; one with a checkpoint is continued (default: a new one below --runs)"},
			&cli.StringFlag{Name: "runs", Value: "runs", Usage: "`DIRECTORY` in which new run directories are made"},
			&cli.IntFlag{Name: "max-steps", Usage: "stop with a checkpoint after so many `STEPS`; 0: no limit"},
			setFlag(), jsonFlag(),
		},
		Description: `Ctrl-C stops with a checkpoint of the last complete step; the same command with --run-dir goes on from there, and the
weights come out the same, bit for bit, as without the stop.

EXAMPLES
   seadtrain run configs/nano.toml
   seadtrain run configs/nano.toml --run-dir runs/a --set iterations=10 --set train.optimizer.lr=1e-4`,
		Action: func(c *cli.Context) error {
			if err := args(c, "CONFIG"); err != nil {
				return err
			}
			cfg, err := loadRun(c)
			if err != nil {
				return err
			}
			if c.Int("max-steps") < 0 {
				return usagef("--max-steps %d: want 0 (no limit) or more", c.Int("max-steps"))
			}
			if _, err := cfg.Check(cfg.Eval.Users...); err != nil {
				return usage(err)
			}
			dir, err := openRunDir(c, cfg)
			if err != nil {
				return err
			}
			slog.Info("run directory", "path", dir.Path)
			s, err := loop.Run(c.Context, cfg, dir, loop.Options{MaxSteps: c.Int("max-steps"), Line: stderr})
			if e := dir.Close(); err == nil {
				err = e
			}
			if s == nil {
				stderr.Clear()
				tellHowToGoOn(c, dir.Path, "--run-dir", dir.Path)
			}
			if err != nil || s == nil {
				return err
			}
			return show(c, printed{s, s.String() + tryNext(s)})
		},
	}
}

// tryNext says what to do with a finished run.
func tryNext(s *loop.Summary) string {
	episodes := quote(fmt.Sprintf("%s/episodes/step-%d.jsonl", s.Directory, s.Steps))
	program := quote(os.Args[0])
	return fmt.Sprintf(`
What to try next
  %[1]s analyze %[2]s     metrics and the grid of states of the last step's dialogues
  less %[2]s     the dialogues themselves
  %[1]s eval %[3]s --model %[4]s --profiles 240 --greedy
`, program, episodes, quote(s.Directory+"/config.toml"), quote(s.Checkpoint))
}

// tellHowToGoOn gives the command line that takes up a run again, once it was stopped with anything to take up; more are
// the flags that name its directory, if they are missing.
func tellHowToGoOn(c *cli.Context, dir string, more ...string) {
	if _, err := os.Stat(dir); err != nil || (c.Context.Err() == nil && c.Int("max-steps") == 0) {
		return
	}
	words := slices.Clone(os.Args)
	if len(more) > 0 && !c.IsSet(strings.TrimLeft(more[0], "-")) {
		at := slices.Index(words, "--")
		if at < 0 {
			at = len(words)
		}
		words = slices.Insert(words, at, more...)
	}
	for i := range words {
		words[i] = quote(words[i])
	}
	fmt.Fprintln(stderr, "seadtrain: to go on:", strings.Join(words, " "))
}

// quote makes one word of a shell's command line of any text.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// loadRun reads the config named by the first argument, with the overrides.
func loadRun(c *cli.Context) (*loop.Config, error) {
	cfg := loop.Default()
	err := config.Load(c.Args().First(), c.StringSlice("set"), &cfg)
	return &cfg, usage(err)
}

func openRunDir(c *cli.Context, cfg *loop.Config) (*rundir.Dir, error) {
	if path := c.String("run-dir"); path != "" {
		return rundir.Open(filepath.Clean(path))
	}
	return rundir.New(c.String("runs"), cfg.Name, time.Now())
}
