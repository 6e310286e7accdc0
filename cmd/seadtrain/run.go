package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
			dir, err := openRunDir(c, cfg)
			if err != nil {
				return err
			}
			slog.Info("run directory", "path", dir.Path)
			s, err := loop.Run(c.Context, cfg, dir, loop.Options{MaxSteps: c.Int("max-steps"), Line: stderr})
			if e := dir.Close(); err == nil {
				err = e
			}
			if err != nil || s == nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(os.Stdout, s)
			}
			_, err = fmt.Print(s)
			return err
		},
	}
}

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
