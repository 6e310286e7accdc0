package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"

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
		&cli.Float64Flag{Name: "temperature", Usage: "the agent's `TEMPERATURE`", DefaultText: "the config's"},
		setFlag(),
	}
}

// prepare reads config and scenario of such a command and checks all that can be checked before models are loaded.
func prepare(c *cli.Context) (*loop.Config, *dialogue.Scenario, error) {
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
	scn, err := cfg.Check(c.String("user"))
	if err != nil {
		return nil, nil, usage(err)
	}
	if path := c.String("out"); path != "" {
		err = checkOutput(path)
	}
	return cfg, scn, err
}

// sampling applies the flags to how the agent draws.
func sampling(c *cli.Context, s rollout.Sampling) (rollout.Sampling, error) {
	if c.Bool("greedy") {
		return rollout.Greedy, nil
	}
	if c.IsSet("temperature") {
		s.Temperature = c.Float64("temperature")
	}
	if err := s.Validate(); err != nil { // the config's were good
		return s, usagef("%s", strings.Replace(err.Error(), "sampling.temperature:", "--temperature", 1))
	}
	return s, nil
}

// showDialogues makes a rollout's progress line.
func showDialogues() func(rollout.Progress) {
	began := false
	return func(p rollout.Progress) {
		if p.Done > 0 && !began {
			began = true
			slog.Debug("phase", "phase", "played")
		}
		stderr.Show("%s %s  (Ctrl-C stops)  %s", progress.Bar(p.Done, p.Total, 20), p, p.Detail())
	}
}

// keep writes dialogues. With an error those that came to an end of their own are kept, if any, and the error stays.
func keep(c *cli.Context, episodes []dialogue.Episode, o dialogue.WriteOptions, err error) error {
	path := c.String("out")
	if err != nil {
		total := len(episodes)
		episodes = slices.DeleteFunc(episodes, func(ep dialogue.Episode) bool { return ep.End == dialogue.EndCancelled })
		slog.Warn("stopped early", "finished_dialogues", len(episodes), "cut_off", total-len(episodes), "written_to", path)
		if len(episodes) == 0 {
			return err
		}
	}
	return errors.Join(err, writeFile(context.WithoutCancel(c.Context), path, func(w io.Writer) error {
		return dialogue.EncodeEpisodes(w, episodes, o)
	}))
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
			group, sample := c.Int("group"), c.Int("sample")
			if group < 1 || sample < 1 || sample > loop.MaxDialogues/group {
				return usagef("rollout: --group %d, --sample %d: want at least 1 each, and at most %d dialogues", group, sample, loop.MaxDialogues)
			}
			cfg, scn, err := prepare(c)
			if err != nil {
				return err
			}
			draw, err := sampling(c, cfg.Rollout.Agent.Sampling)
			if err != nil {
				return err
			}
			profiles, err := profilesFor(c, cfg, scn)
			if err != nil {
				return err
			}
			if n := len(profiles); n > loop.MaxDialogues/group {
				return usagef("rollout: --group %d: with %d profiles that is more than %d dialogues", group, n, loop.MaxDialogues)
			}
			s, err := loop.Open(cfg, c.String("model"), false)
			if err != nil {
				return err
			}
			defer s.Close()
			episodes, err := s.Play(c.Context, rollout.Request{
				Profiles: profiles, Group: group, Seed: cfg.Seed, AgentSampling: &draw, Progress: showDialogues(),
			}, c.String("user"))
			stderr.Clear()
			if errors.Is(err, rollout.ErrTooManyExcluded) {
				slog.Warn("dialogues", "error", err)
				err = nil
			}
			return keep(c, episodes, dialogue.WriteOptions{Trace: c.Bool("trace")}, err)
		},
	}
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
			cfg, _, err := prepare(c)
			if err != nil {
				return err
			}
			e := cfg.Eval
			if n := c.Int("profiles"); n > 0 {
				e.Profiles = n
			}
			if e.Profiles == 0 {
				return usagef("eval.profiles is 0: say how many with --profiles")
			}
			if e.Agent, err = sampling(c, e.Agent); err == nil {
				err = usage(e.Validate())
			}
			if err != nil {
				return err
			}
			s, err := loop.Open(cfg, c.String("model"), false)
			if err != nil {
				return err
			}
			defer s.Close()
			episodes, err := s.Evaluate(c.Context, &e, c.String("user"), 0, showDialogues())
			stderr.Clear()
			if c.String("out") != "" {
				err = keep(c, episodes, dialogue.WriteOptions{}, err)
			}
			if err != nil {
				return err
			}
			report := eval.Evaluate(s.Scenario, episodes, eval.Options{Seed: e.Seed, Resamples: e.Resamples})
			text := report.Table()
			if f, err := s.Fidelity(episodes); err != nil {
				return err
			} else if f != nil {
				text += "\nuser against the rules: " + f.String() + "\n"
			}
			if cfg.Rollout.Mode == dialogue.Guided {
				f, err := s.FreeFormat(c.Context, cfg, showDialogues())
				stderr.Clear()
				if err != nil {
					return err
				}
				text += "\nagent in free mode keeps its form: " + f.String() + "\n"
			}
			return show(c, printed{report, text})
		},
	}
}
