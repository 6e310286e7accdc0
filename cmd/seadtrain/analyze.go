package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"seadtrain/dialogue"
	"seadtrain/eval"
	"seadtrain/internal/loop"
)

// defaultScenario is that of files that do not name one: the published ones.
const defaultScenario = "outbound/en"

func analyzeCommand() *cli.Command {
	return &cli.Command{
		Name:      "analyze",
		Usage:     "metrics with intervals, and the grid of states, of a file of dialogues",
		ArgsUsage: "FILE",
		Flags: []cli.Flag{
			scenarioFlag("the file's own, else " + defaultScenario),
			&cli.StringFlag{Name: "before", Usage: "`FILE` of earlier dialogues to compare with"},
			&cli.Uint64Flag{Name: "seed", Value: loop.Default().Eval.Seed, Usage: "`SEED` of the bootstrap"},
			&cli.IntFlag{Name: "resamples", Value: eval.DefaultResamples, Usage: "`NUMBER` of bootstrap resamples"},
			jsonFlag(),
		},
		Description: `FILE is JSONL ("-": standard input), ours or in the published format: one object a line with ground_truth_history,
chatbot_status, final_status and total_turns. Both definitions of the metrics are given; intervals are 95 %, by a bootstrap
over profiles.

EXAMPLES
   seadtrain analyze runs/a/episodes/step-20.jsonl
   seadtrain analyze results.jsonl --json | jq .published.cr
   seadtrain analyze after.jsonl --before before.jsonl`,
		Action: func(c *cli.Context) error {
			if err := args(c, "FILE"); err != nil {
				return err
			}
			if n := c.Int("resamples"); n < 1 || n > eval.MaxResamples {
				return usagef("--resamples %d: want 1 to %d", n, eval.MaxResamples)
			}
			if c.IsSet("scenario") {
				if _, err := loop.OpenScenario(c.String("scenario"), ""); err != nil {
					return usagef("--scenario: %w", err)
				}
			}
			result, err := unlessStopped(c.Context, func() (printed, error) { return analyze(c) })
			if err != nil {
				return err
			}
			return show(c, result)
		},
	}
}

func analyze(c *cli.Context) (p printed, err error) {
	episodes, err := readEpisodes(c.Args().First())
	if err != nil {
		return p, err
	}
	var earlier []dialogue.Episode
	before := c.String("before")
	if before != "" {
		if earlier, err = readEpisodes(before); err != nil {
			return p, err
		}
	}
	scn, err := scenarioOf(slices.Concat(episodes, earlier), c.String("scenario"))
	if err != nil {
		return p, err
	}
	opts := eval.Options{Resamples: c.Int("resamples"), Seed: c.Uint64("seed")}
	if before == "" {
		report := eval.Evaluate(scn, episodes, opts)
		grid := eval.Analyse(scn, episodes, eval.DefaultBands())
		return printed{report, report.Table() + "\n" + grid.Summary() + "\n" + grid.Grid()}, nil
	}
	cmp := eval.Compare(scn, earlier, episodes, opts)
	return printed{cmp, cmp.Table()}, nil
}

func readEpisodes(path string) (all []dialogue.Episode, err error) {
	err = readFile(path, func(r io.Reader) error {
		all, err = dialogue.AllEpisodes(r, path)
		return err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: no dialogues", path)
	}
	return all, err
}

// scenarioOf finds the scenario of dialogues: the one asked for, else the one that their profiles name.
func scenarioOf(episodes []dialogue.Episode, asked string) (*dialogue.Scenario, error) {
	ref := asked
	for _, ep := range episodes {
		if ep.Profile.Scenario == "" {
			continue
		}
		own := ep.Profile.Scenario + "/" + ep.Profile.Language
		if ref == "" {
			ref = own
		}
		if asked == "" && own != ref {
			return nil, fmt.Errorf("dialogues of two scenarios, %s and %s: analyze them apart", ref, own)
		}
	}
	if ref == "" {
		ref = defaultScenario
	}
	return loop.OpenScenario(ref, "")
}
