package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"seadtrain/curriculum"
	"seadtrain/dialogue"
	"seadtrain/eval"
	"seadtrain/internal/loop"
	"seadtrain/internal/progress"
	"seadtrain/rollout"
)

// playFlags are those of commands that play dialogues.
func playFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Usage: "the agent's `DIRECTORY`, for example a checkpoint (default: the config's model)"},
		&cli.StringFlag{Name: "user", Value: loop.Frozen, Usage: "who plays the user: frozen (the config's model) or rules (scenario nano)"},
		&cli.BoolFlag{Name: "greedy", Usage: "the agent takes the likeliest token"},
		&cli.Float64Flag{Name: "temperature", Usage: "the agent's `TEMPERATURE`"},
		setFlag(),
	}
}

// openStage loads config and models of such a command.
func openStage(c *cli.Context) (*loop.Config, *loop.Stage, error) {
	if err := args(c, "CONFIG"); err != nil {
		return nil, nil, err
	}
	cfg, err := loadRun(c)
	if err != nil {
		return nil, nil, err
	}
	if c.Bool("greedy") && c.IsSet("temperature") {
		return nil, nil, usagef("--greedy and --temperature exclude each other")
	}
	s, err := loop.Open(cfg, c.String("model"), false)
	return cfg, s, err
}

// sampling applies the flags to how the agent draws.
func sampling(c *cli.Context, s rollout.Sampling) (rollout.Sampling, error) {
	if c.Bool("greedy") {
		return rollout.Greedy, nil
	}
	if c.IsSet("temperature") {
		s.Temperature = c.Float64("temperature")
	}
	return s, usage(s.Validate())
}

// showDialogues is a rollout's progress line.
func showDialogues(p rollout.Progress) {
	rate := ""
	if share, ok := p.Rate(); ok {
		rate = fmt.Sprintf("  completion %.0f %%", 100*share)
	}
	stderr.Show("%s %d/%d dialogues%s  ~%s left  (Ctrl-C stops)", progress.Bar(p.Done, p.Total, 20), p.Done, p.Total, rate, p.Left.Round(time.Second))
}

func rolloutCommand() *cli.Command {
	return &cli.Command{
		Name:      "rollout",
		Usage:     "dialogues only, to JSONL",
		ArgsUsage: "CONFIG",
		Flags: append(playFlags(),
			&cli.StringFlag{Name: "out", Usage: "`FILE` to write; \"-\": standard output"},
			&cli.StringFlag{Name: "profiles", Usage: "JSONL `FILE` of profiles (default: --sample of them)"},
			&cli.IntFlag{Name: "sample", Value: 24, Usage: "`NUMBER` of profiles drawn at random"},
			&cli.IntFlag{Name: "group", Value: 1, Usage: "`DIALOGUES` per profile"},
			&cli.BoolFlag{Name: "trace", Usage: "also write every token with its log-probability: about ten times the size"},
		),
		Description: `EXAMPLES
   seadtrain rollout configs/nano.toml --sample 10 --out -
   seadtrain rollout configs/nano.toml --model runs/a/checkpoints/step-12 --profiles p.jsonl --group 8 --out d.jsonl`,
		Action: func(c *cli.Context) error {
			if c.String("out") == "" {
				return usagef("rollout: --out is missing")
			}
			if g, n := c.Int("group"), c.Int("sample"); g < 1 || n < 1 || n > curriculum.MaxProfiles || g > curriculum.MaxProfiles/n {
				return usagef("rollout: --group %d, --sample %d: want at least 1 each, and at most %d dialogues", g, n, curriculum.MaxProfiles)
			}
			cfg, s, err := openStage(c)
			if err != nil {
				return err
			}
			defer s.Close()
			profiles, err := profilesFor(c, cfg, s.Scenario)
			if err != nil {
				return err
			}
			draw, err := sampling(c, cfg.Rollout.Agent.Sampling)
			if err != nil {
				return err
			}
			episodes, err := s.Play(c.Context, rollout.Request{
				Profiles: profiles, Group: c.Int("group"), Seed: cfg.Seed, AgentSampling: &draw, Progress: showDialogues,
			}, c.String("user"))
			stderr.Clear()
			if err != nil && !errors.Is(err, rollout.ErrTooManyExcluded) {
				return err
			}
			if err != nil {
				slog.Warn("dialogues", "error", err)
			}
			return writeFile(c.String("out"), func(w io.Writer) error {
				return writeEpisodes(w, episodes, dialogue.WriteOptions{Trace: c.Bool("trace")})
			})
		},
	}
}

func writeEpisodes(w io.Writer, episodes []dialogue.Episode, o dialogue.WriteOptions) error {
	for i := range episodes {
		line, err := dialogue.MarshalEpisode(&episodes[i], o)
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// profilesFor reads the profiles, or draws them as the first step of a run with this seed would.
func profilesFor(c *cli.Context, cfg *loop.Config, scn *dialogue.Scenario) ([]dialogue.Profile, error) {
	if path := c.String("profiles"); path != "" {
		return readProfiles(path, func(dialogue.Profile) (*dialogue.Scenario, error) { return scn, nil })
	}
	users, err := curriculum.New(cfg.Curriculum, scn, cfg.Seed)
	if err != nil {
		return nil, err
	}
	return users.Sample(c.Int("sample")), nil
}

func evalCommand() *cli.Command {
	return &cli.Command{
		Name:      "eval",
		Usage:     "plays the fixed held-out profiles and reports metrics with intervals",
		ArgsUsage: "CONFIG",
		Flags: append(playFlags(),
			&cli.IntFlag{Name: "profiles", Usage: "`NUMBER` of held-out profiles (default: the config's)"},
			&cli.StringFlag{Name: "out", Usage: "`FILE` for the dialogues, JSONL"},
			jsonFlag(),
		),
		Description: `The held-out set depends on eval.seed alone: its combinations of behaviours are in no training pool of any seed, and the
states take turns.

EXAMPLES
   seadtrain eval configs/nano.toml
   seadtrain eval configs/nano.toml --model runs/a/checkpoints/step-12 --user rules --greedy --json`,
		Action: func(c *cli.Context) error {
			if c.String("out") == "-" {
				return usagef("eval: --out -: standard output is for the report")
			}
			if n := c.Int("profiles"); c.IsSet("profiles") && (n < 1 || n > curriculum.MaxProfiles) {
				return usagef("--profiles %d: want 1 to %d", n, curriculum.MaxProfiles)
			}
			cfg, s, err := openStage(c)
			if err != nil {
				return err
			}
			defer s.Close()
			e := cfg.Eval
			if n := c.Int("profiles"); n > 0 {
				e.Profiles = n
			}
			if e.Profiles == 0 {
				return usagef("eval.profiles is 0: say how many with --profiles")
			}
			if e.Agent, err = sampling(c, e.Agent); err != nil {
				return err
			}
			episodes, err := s.Evaluate(c.Context, &e, c.String("user"), 0, showDialogues)
			stderr.Clear()
			if err != nil {
				return err
			}
			if path := c.String("out"); path != "" {
				if err := writeFile(path, func(w io.Writer) error { return writeEpisodes(w, episodes, dialogue.WriteOptions{}) }); err != nil {
					return err
				}
			}
			report := eval.Evaluate(s.Scenario, episodes, eval.Options{Seed: e.Seed, Resamples: e.Resamples})
			text := report.Table()
			if f, err := s.Fidelity(episodes); err != nil {
				return err
			} else if f != nil {
				text += "\nuser against the rules: " + f.String() + "\n"
			}
			if cfg.Rollout.Mode == dialogue.Guided {
				f, err := s.FreeFormat(c.Context, cfg, showDialogues)
				stderr.Clear()
				if err != nil {
					return err
				}
				text += "\nagent in free mode keeps its form: " + f.String() + "\n"
			}
			return show(c, report, text)
		},
	}
}
