package loop

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"seadtrain/curriculum"
	"seadtrain/eval"
	"seadtrain/internal/precision"
	"seadtrain/rollout"
	"seadtrain/torch"
	"seadtrain/train"
)

// Config of a run: its own settings, and those of the stages.
type Config struct {
	// Name begins the names of run directories: letters, digits, '.', '_' and '-'. Empty is refused.
	Name string `toml:"name"`
	// Model is where policy and role-play model begin: a Hugging Face directory, or "embedded:nano". Empty is refused.
	Model string `toml:"model"`
	// Scenario is an embedded one by name and language ("outbound/en"), or a TOML file. Empty is refused.
	Scenario string `toml:"scenario"`
	// Library is a behaviour library in the published JSON format, used in place of the scenario's. Empty: the scenario's.
	Library string `toml:"library"`
	// Iterations of curriculum.period steps each. 0 is refused.
	Iterations int `toml:"iterations"`
	// Group is the number of dialogues per profile. At least 2: a group of one teaches nothing.
	Group int `toml:"group"`
	// Seed of everything random.
	Seed uint64 `toml:"seed"`
	// Threads of tensor work. 0: one per core.
	Threads int `toml:"threads"`
	// DType of the weights in memory: "auto" (by processor), "fp32" or "bf16"; the optimizer's are always fp32.
	DType string `toml:"dtype"`

	Checkpoint CheckpointConfig  `toml:"checkpoint"`
	Eval       EvalConfig        `toml:"eval"`
	Curriculum curriculum.Config `toml:"curriculum"`
	Rollout    rollout.Config    `toml:"rollout"`
	Train      train.Config      `toml:"train"`
}

// CheckpointConfig says when the run's state is saved. It is saved when the run stops or ends in any case.
type CheckpointConfig struct {
	// Every so many steps. 0: only at the end, or when stopped.
	Every int `toml:"every"`
	// KeepLast checkpoints are kept. 0: all.
	KeepLast int `toml:"keep_last"`
	// DType of the exported weights: "auto" (as in memory), "fp32" or "bf16". The optimizer's state has its own, in fp32.
	DType string `toml:"dtype"`
}

// Who plays the user in an evaluation.
const (
	Frozen = "frozen" // the frozen role-play model
	Rules  = "rules"  // the true rules of the world; scenario "nano" only
)

// EvalConfig is the held-out evaluation before and after training.
type EvalConfig struct {
	// Profiles of the fixed held-out set; the states take turns. 0: no evaluation.
	Profiles int `toml:"profiles"`
	// Group is the number of dialogues per profile. 0 is refused.
	Group int `toml:"group"`
	// Every so many steps, besides before and after. 0: only those two.
	Every int `toml:"every"`
	// Users who play: "frozen", "rules".
	Users []string `toml:"users"`
	// Seed of the profiles and dialogues, apart from the run's, so that runs with other seeds are compared on one set.
	Seed uint64 `toml:"seed"`
	// Resamples of the bootstrap. 0: 2,000.
	Resamples int `toml:"resamples"`
	// Agent and User are how the two sides draw in evaluations.
	Agent rollout.Sampling `toml:"agent"`
	User  rollout.Sampling `toml:"user"`
}

// Default is the paper's setup on the outbound scenario, with the model left to name: 5 iterations of 10 steps, 60
// profiles × 8 dialogues.
func Default() Config {
	return Config{
		Name: "run", Scenario: "outbound/en", Iterations: 5, Group: 8, Seed: 1, DType: "auto",
		Checkpoint: CheckpointConfig{Every: 5, KeepLast: 2, DType: "auto"},
		Eval: EvalConfig{
			Profiles: 240, Group: 1, Users: []string{Frozen}, Seed: 1000,
			Agent: rollout.Sampling{Temperature: 1, TopP: 1}, User: rollout.Sampling{Temperature: .9, TopP: .95, TopK: 40},
		},
		Curriculum: curriculum.Default(), Rollout: rollout.Default(), Train: train.DefaultConfig(),
	}
}

// Steps is the number of RL steps of the whole run.
func (c *Config) Steps() int { return c.Iterations * c.Curriculum.Period }

// OptimizerSteps is the number of weight updates of the whole run.
func (c *Config) OptimizerSteps() int64 {
	return int64(c.Steps()) * int64(c.Train.MiniBatches) * int64(c.Train.Epochs)
}

// Bounds of the dialogues per profile, and of one step or evaluation: they are held in memory.
const (
	maxGroup     = 10_000
	MaxDialogues = curriculum.MaxProfiles
)

// tooMany reports more dialogues than fit; each factor has a message of its own.
func tooMany(profiles, group int) bool {
	return group > 0 && group <= maxGroup && profiles > MaxDialogues/group
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(nameForm.MatchString(c.Name), "name is %q: want letters, digits, '.', '_' and '-'", c.Name)
	check(c.Model != "", `model: missing: want a Hugging Face directory or "embedded:nano"`)
	check(c.Scenario != "", `scenario: missing: want "outbound/en" or a TOML file`)
	check(c.Iterations >= 1 && c.Iterations <= 1_000_000, "iterations is %d: want 1 to 1000000", c.Iterations)
	check(c.Group >= 2 && c.Group <= maxGroup, "group is %d: want 2 to %d dialogues per profile", c.Group, maxGroup)
	check(!tooMany(c.Curriculum.Profiles, c.Group), "group is %d: with curriculum.profiles = %d that is more than %d dialogues a step", c.Group, c.Curriculum.Profiles, MaxDialogues)
	if err := torch.CheckThreads(c.Threads); err != nil {
		errs = append(errs, fmt.Errorf("threads is %w", err))
	}
	check(c.Checkpoint.Every >= 0, "checkpoint.every is %d: want 0 (at the end) or more", c.Checkpoint.Every)
	check(c.Checkpoint.KeepLast >= 0, "checkpoint.keep_last is %d: want 0 (all) or more", c.Checkpoint.KeepLast)
	for _, d := range [][2]string{{"dtype", c.DType}, {"checkpoint.dtype", c.Checkpoint.DType}} {
		if err := precision.Check(d[1]); err != nil {
			errs = append(errs, fmt.Errorf("%s is %w", d[0], err))
		}
	}
	check(c.Rollout.Agent.Temperature != 0, "rollout.agent.temperature: 0: a greedy agent explores nothing")
	errs = append(errs, c.Eval.Validate(), c.Curriculum.Validate(), c.Rollout.Validate(), prefixed("train.", c.Train.Validate()))
	return errors.Join(errs...)
}

// Validate reports everything that is wrong at once.
func (c *EvalConfig) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("eval."+format, args...))
		}
	}
	check(c.Profiles >= 0 && c.Profiles <= curriculum.MaxProfiles, "profiles is %d: want 1 to %d, or 0 (no evaluation)", c.Profiles, curriculum.MaxProfiles)
	check(c.Group >= 1 && c.Group <= maxGroup, "group is %d: want 1 to %d", c.Group, maxGroup)
	check(!tooMany(c.Profiles, c.Group), "group is %d: with eval.profiles = %d that is more than %d dialogues", c.Group, c.Profiles, MaxDialogues)
	check(c.Every >= 0, "every is %d: want 0 (before and after) or more", c.Every)
	check(c.Resamples >= 0 && c.Resamples <= eval.MaxResamples, "resamples is %d: want 1 to %d, or 0 (%d)", c.Resamples, eval.MaxResamples, eval.DefaultResamples)
	check(c.Profiles == 0 || len(c.Users) > 0, "users: empty: want %q or %q, or both", Frozen, Rules)
	for i, u := range c.Users {
		check(u == Frozen || u == Rules, "users: %q: want %q or %q", u, Frozen, Rules)
		check(!slices.Contains(c.Users[:i], u), "users: %q twice", u)
	}
	for _, s := range []struct {
		name string
		s    rollout.Sampling
	}{{"agent", c.Agent}, {"user", c.User}} {
		if err := s.s.Validate(); err != nil {
			errs = append(errs, prefixed("eval."+s.name+".", trimmed("sampling.", err)))
		}
	}
	return errors.Join(errs...)
}

// prefixed puts a path before every message.
func prefixed(path string, err error) error {
	return each(err, func(s string) string { return path + s })
}

// trimmed takes one away.
func trimmed(path string, err error) error {
	return each(err, func(s string) string {
		if len(s) >= len(path) && s[:len(path)] == path {
			return s[len(path):]
		}
		return s
	})
}

func each(err error, edit func(string) string) error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range many.Unwrap() {
			out = append(out, each(e, edit))
		}
		return errors.Join(out...)
	}
	return errors.New(edit(err.Error()))
}
