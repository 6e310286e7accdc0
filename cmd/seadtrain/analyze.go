package main

import (
	"fmt"
	"io"
	"os"

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
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the bootstrap"},
			&cli.IntFlag{Name: "resamples", Usage: "`NUMBER` of bootstrap resamples (default: 2000)"},
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
			if c.Int("resamples") < 0 {
				return usagef("--resamples %d: want 0 (2000) or more", c.Int("resamples"))
			}
			episodes, err := readEpisodes(c.Args().First())
			if err != nil {
				return err
			}
			scn, err := scenarioOf(episodes, c.String("scenario"))
			if err != nil {
				return err
			}
			opts := eval.Options{Resamples: c.Int("resamples"), Seed: c.Uint64("seed")}
			if before := c.String("before"); before != "" {
				earlier, err := readEpisodes(before)
				if err != nil {
					return err
				}
				if _, err := scenarioOf(earlier, scn.Name+"/"+scn.Language); err != nil {
					return fmt.Errorf("--before: %w", err)
				}
				cmp := eval.Compare(scn, earlier, episodes, opts)
				return show(c, cmp, cmp.Table())
			}
			report := eval.Evaluate(scn, episodes, opts)
			grid := eval.Analyse(scn, episodes, eval.DefaultBands())
			return show(c, report, report.Table()+"\n"+grid.Summary()+"\n"+grid.Grid())
		},
	}
}

// show prints a result as JSON or as text.
func show(c *cli.Context, v any, text string) error {
	if c.Bool("json") {
		return printJSON(os.Stdout, v)
	}
	_, err := fmt.Print(text)
	return err
}

func readEpisodes(path string) (all []dialogue.Episode, err error) {
	err = readFile(path, func(r io.Reader) error {
		for ep, err := range dialogue.Episodes(r, path) {
			if err != nil {
				return err
			}
			all = append(all, ep)
		}
		return nil
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
			return nil, fmt.Errorf("dialogues of two scenarios in one file, %s and %s: analyze them apart", ref, own)
		}
	}
	if ref == "" {
		ref = defaultScenario
	}
	return loop.OpenScenario(ref, "")
}
