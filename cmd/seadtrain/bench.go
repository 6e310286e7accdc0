package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"seadtrain/internal/bench"
	"seadtrain/internal/doctor"
	"seadtrain/torch"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:      "bench",
		Usage:     "speed of generation, against what this machine can do and against other programs",
		ArgsUsage: strings.Join(bench.Suites, "|"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "against", Usage: "`PEERS` to measure side by side, with commas: " + strings.Join(bench.Peers, ",") + " (installed when first asked for)"},
			&cli.StringFlag{Name: "model", Value: "third_party/models/SmolLM2-135M-Instruct", Usage: "Hugging Face `FOLDER`"},
			&cli.StringFlag{Name: "precision", Usage: "`TYPES` of the weights, with commas: " + strings.Join(bench.Precisions, ",") + " (default: what this processor does well)"},
			&cli.IntFlag{Name: "threads", Usage: "`THREADS` of both sides; 0: one per core"},
			&cli.IntFlag{Name: "dialogues", Usage: "`NUMBER` of dialogues of the rollout", Value: bench.DefaultSizes().Dialogues},
			&cli.StringFlag{Name: "json", Usage: "`FILE` for the rows as JSON (\"-\": standard output, in place of the table)"},
			&cli.IntFlag{Name: "budget", Usage: "`MINUTES` for everything but installing peers", Value: 40},
		},
		Description: `Measure on a quiet machine. A ratio above 1 says that seadtrain is faster (or takes more, where the row is about memory).

EXAMPLES
   seadtrain bench decode
   seadtrain bench rollout --against hf,openvino
   seadtrain bench all --against hf,llama.cpp,openvino --json bench.json`,
		Action: func(c *cli.Context) error {
			if err := args(c, "SUITE"); err != nil {
				return err
			}
			o, err := benchOptions(c)
			if err != nil {
				return err
			}
			file := c.String("json")
			if file != "" {
				if err := checkOutput(file); err != nil {
					return err
				}
			}
			report, err := bench.Run(c.Context, o)
			if errors.Is(err, os.ErrNotExist) && !c.IsSet("model") {
				err = fmt.Errorf("%w (make smollm2 fetches it)", err)
			}
			if report != nil && file != "-" {
				fmt.Fprint(stdout, report) // also what is done of a run that was stopped
			}
			if err != nil || file == "" {
				return err
			}
			return writeFile(c.Context, file, func(w io.Writer) error { return printJSON(w, report) })
		},
	}
}

func benchOptions(c *cli.Context) (bench.Options, error) {
	o := bench.Options{Suite: c.Args().First(), Model: c.String("model"), Threads: c.Int("threads"), Sizes: bench.DefaultSizes(),
		Budget: time.Duration(c.Int("budget")) * time.Minute, Root: doctor.Clone(),
		Say: func(format string, args ...any) { fmt.Fprintf(stderr, "bench: "+format+"\n", args...) }}
	if !slices.Contains(bench.Suites, o.Suite) {
		return o, usagef("bench: no suite %q: want %s", o.Suite, strings.Join(bench.Suites, ", "))
	}
	var err error
	if o.Against, err = list(c, "against", bench.Peers); err != nil {
		return o, err
	}
	if o.Precisions, err = list(c, "precision", bench.Precisions); err != nil {
		return o, err
	}
	if err := torch.CheckThreads(o.Threads); err != nil {
		return o, usagef("--threads %w", err)
	}
	if o.Budget < time.Minute || c.Int("budget") > 24*60 {
		return o, usagef("--budget %d: want 1 to %d minutes", c.Int("budget"), 24*60)
	}
	if o.Sizes.Dialogues = c.Int("dialogues"); o.Sizes.Dialogues < 1 || o.Sizes.Dialogues > 4096 {
		return o, usagef("--dialogues %d: want 1 to 4096", o.Sizes.Dialogues)
	}
	return o, nil
}

// list reads a flag of names with commas between them.
func list(c *cli.Context, flag string, allowed []string) (names []string, err error) {
	if c.String(flag) == "" {
		return nil, nil
	}
	for _, name := range strings.Split(c.String(flag), ",") {
		if !slices.Contains(allowed, name) {
			return nil, usagef("--%s: %q: want some of %s, with commas", flag, name, strings.Join(allowed, ", "))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
