package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"seadtrain/curriculum"
	"seadtrain/dialogue"
	"seadtrain/internal/config"
	"seadtrain/internal/loop"
)

func scenarioFlag(otherwise string) cli.Flag {
	return &cli.StringFlag{Name: "scenario", Usage: "`SCENARIO` by name and language, or a TOML file (default: " + otherwise + ")"}
}

func profilesCommand() *cli.Command {
	common := func(flags ...cli.Flag) []cli.Flag {
		return append([]cli.Flag{
			scenarioFlag(defaultScenario),
			&cli.StringFlag{Name: "config", Usage: "run config `FILE` for the [curriculum] settings and the scenario"},
			setFlag(),
		}, flags...)
	}
	return &cli.Command{
		Name:  "profiles",
		Usage: "sample and validate users, show the grid of states",
		Description: `EXAMPLES
   seadtrain profiles sample --scenario outbound/zh -n 60 --out users.jsonl
   seadtrain profiles validate users.jsonl --scenario outbound/zh
   seadtrain profiles grid --checkpoint runs/a/checkpoints/step-20`,
		Subcommands: []*cli.Command{
			{
				Name:  "sample",
				Usage: "draw profiles as the first step of a run would, as JSONL",
				Flags: common(
					&cli.IntFlag{Name: "n", Value: 60, Usage: "`NUMBER` of profiles"},
					&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED`"},
					&cli.BoolFlag{Name: "held-out", Usage: "the evaluation's profiles instead: combinations that no run trains on"},
					&cli.StringFlag{Name: "out", Value: "-", Usage: "`FILE` to write; \"-\": standard output"},
				),
				Action: sampleProfiles,
			},
			{
				Name:      "validate",
				Usage:     "check profiles against a scenario: state, behaviours, contradictions, ids",
				ArgsUsage: "FILE",
				Flags:     []cli.Flag{scenarioFlag("the first profile's")},
				Action: func(c *cli.Context) error {
					if err := args(c, "FILE"); err != nil {
						return err
					}
					if c.IsSet("scenario") {
						if _, err := loop.OpenScenario(c.String("scenario"), ""); err != nil {
							return usagef("--scenario: %w", err)
						}
					}
					var scn *dialogue.Scenario
					all, err := unlessStopped(c.Context, func() (all []dialogue.Profile, err error) {
						scn, all, err = validateProfiles(c.Args().First(), c.String("scenario"))
						return all, err
					})
					if err != nil {
						return err
					}
					states := map[string]bool{}
					for _, p := range all {
						states[p.State.String()] = true
					}
					_, err = fmt.Fprintf(stdout, "%d profiles, all valid for %s/%s, in %d of %d states\n", len(all), scn.Name, scn.Language, len(states), scn.States())
					return err
				},
			},
			{
				Name:  "grid",
				Usage: "the grid of initial states: completion, band and share of the next profiles",
				Flags: common(
					&cli.StringFlag{Name: "checkpoint", Usage: "a run's checkpoint `DIRECTORY` (default: the grid before the first step)"},
					&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED`"},
					jsonFlag(),
				),
				Action: showGrid,
			},
		},
	}
}

// validateProfiles checks a file against a scenario; without one, against that of its first profile.
func validateProfiles(path, ref string) (*dialogue.Scenario, []dialogue.Profile, error) {
	var scn *dialogue.Scenario
	all, err := readProfiles(path, func(first dialogue.Profile) (*dialogue.Scenario, error) {
		var err error
		if ref == "" {
			ref = first.Scenario + "/" + first.Language
		}
		scn, err = loop.OpenScenario(ref, "")
		return scn, err
	})
	return scn, all, err
}

// curriculumOf reads the settings that profiles are drawn with.
func curriculumOf(c *cli.Context) (curriculum.Config, *dialogue.Scenario, error) {
	cfg := loop.Default()
	cfg.Model = "embedded:nano" // not used here, but a config needs one
	if err := config.Load(c.String("config"), c.StringSlice("set"), &cfg); err != nil {
		return cfg.Curriculum, nil, usage(err)
	}
	ref := cfg.Scenario
	if c.IsSet("scenario") {
		ref = c.String("scenario")
	}
	scn, err := loop.OpenScenario(ref, cfg.Library)
	return cfg.Curriculum, scn, usage(err)
}

func sampleProfiles(c *cli.Context) error {
	if err := args(c); err != nil {
		return err
	}
	n := c.Int("n")
	if n < 1 || n > curriculum.MaxProfiles {
		return usagef("profiles sample: -n %d: want 1 to %d", n, curriculum.MaxProfiles)
	}
	cfg, scn, err := curriculumOf(c)
	if err == nil {
		err = checkOutput(c.String("out"))
	}
	if err != nil {
		return err
	}
	profiles, err := unlessStopped(c.Context, func() ([]dialogue.Profile, error) {
		if c.Bool("held-out") {
			return curriculum.HeldOut(scn, n, c.Uint64("seed"))
		}
		users, err := curriculum.New(cfg, scn, c.Uint64("seed"))
		if err != nil {
			return nil, err
		}
		return users.Sample(n), nil
	})
	if err != nil {
		return err
	}
	return writeFile(c.Context, c.String("out"), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		for _, p := range profiles {
			if err := enc.Encode(p); err != nil {
				return err
			}
		}
		return nil
	})
}

func showGrid(c *cli.Context) error {
	if err := args(c); err != nil {
		return err
	}
	var scn *dialogue.Scenario
	var users *curriculum.Controller
	var err error
	if dir := c.String("checkpoint"); dir != "" {
		scn, users, err = loop.OpenCurriculum(dir)
	} else {
		var cfg curriculum.Config
		if cfg, scn, err = curriculumOf(c); err == nil {
			users, err = curriculum.New(cfg, scn, c.Uint64("seed"))
		}
	}
	if err != nil {
		return err
	}
	stats := users.Stats()
	return show(c, printed{stats, stats.Table(scn)})
}

// readProfiles reads JSONL of profiles and checks every one; the error lists all that is wrong. The scenario is asked for
// with the first profile.
func readProfiles(path string, scenario func(first dialogue.Profile) (*dialogue.Scenario, error)) (all []dialogue.Profile, err error) {
	var scn *dialogue.Scenario
	check := func(line []byte) error {
		var p dialogue.Profile
		if err := json.Unmarshal(line, &p); err != nil {
			return dialogue.ExplainJSON(err)
		}
		if scn == nil {
			var err error
			if scn, err = scenario(p); err != nil {
				return err
			}
		}
		all = append(all, p)
		return scn.CheckProfile(p)
	}
	err = readFile(path, func(r io.Reader) error {
		var errs []error
		for line, err := range dialogue.Lines(r, path) {
			if err != nil {
				errs = append(errs, err)
			} else if err := check(line.Text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", line.Where, err))
			}
		}
		return errors.Join(errs...)
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: no profiles", path)
	}
	return all, err
}
