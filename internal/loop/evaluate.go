package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"seadtrain/curriculum"
	"seadtrain/dialogue"
	"seadtrain/eval"
	"seadtrain/internal/nano"
	"seadtrain/rollout"
)

// Play plays dialogues against one kind of user. With rollout.ErrTooManyExcluded the dialogues are complete.
func (s *Stage) Play(ctx context.Context, q rollout.Request, user string) ([]dialogue.Episode, error) {
	var err error
	if q.Users, err = userSource(user, s.Scenario, s.Rules); err != nil {
		return nil, err
	}
	res, err := s.Roller.Run(ctx, q)
	if res == nil {
		return nil, err
	}
	return values(res.Episodes), err
}

// Evaluate plays the fixed held-out profiles against one kind of user. version is that of the agent's weights.
func (s *Stage) Evaluate(ctx context.Context, cfg *EvalConfig, user string, version uint64, progress func(rollout.Progress)) ([]dialogue.Episode, error) {
	profiles, err := curriculum.HeldOut(s.Scenario, cfg.Profiles, cfg.Seed)
	if err != nil {
		return nil, err
	}
	episodes, err := s.Play(ctx, rollout.Request{
		Profiles: profiles, Group: cfg.Group, Seed: cfg.Seed, Tag: "eval-", Version: version,
		AgentSampling: &cfg.Agent, UserSampling: &cfg.User, Progress: progress,
	}, user)
	if errors.Is(err, rollout.ErrTooManyExcluded) { // a finding, not an obstacle: the report counts them
		slog.Warn("held-out evaluation", "user", user, "error", err)
		err = nil
	}
	return episodes, err
}

// Format is how many of an agent's messages keep to the protocol when the model writes the tags itself.
type Format struct {
	Kept     int `json:"kept"`
	Messages int `json:"messages"`
}

func (f Format) String() string {
	low, high := eval.Wilson(f.Kept, f.Messages)
	return fmt.Sprintf("%.3f [%.3f, %.3f] of %d messages", float64(f.Kept)/max(1, float64(f.Messages)), low, high, f.Messages)
}

// formatProfiles are enough to see whether an agent knows its form.
const formatProfiles = 16

// FreeFormat plays some held-out profiles in free mode: what forced tags hide of a guided agent, and its readers must know.
func (s *Stage) FreeFormat(ctx context.Context, cfg *Config, progress func(rollout.Progress)) (f Format, err error) {
	free := cfg.Rollout
	free.Mode, free.MaxExcluded, free.MaxDialogues = dialogue.Free, 1, min(free.MaxDialogues, formatProfiles)
	roller, err := rollout.New(free, s.parts())
	if err != nil {
		return f, err
	}
	defer roller.Close()
	profiles, err := curriculum.HeldOut(s.Scenario, formatProfiles, cfg.Eval.Seed)
	if err != nil {
		return f, err
	}
	res, err := roller.Run(ctx, rollout.Request{
		Profiles: profiles, Group: 1, Seed: cfg.Eval.Seed, Tag: "format-", AgentSampling: &cfg.Eval.Agent, UserSampling: &cfg.Eval.User, Progress: progress,
	})
	if err != nil {
		return f, err
	}
	agent := res.Stats.Roles[dialogue.Agent]
	return Format{agent.Messages - agent.FaultCount(), agent.Messages}, nil
}

func values(episodes []*dialogue.Episode) []dialogue.Episode {
	out := make([]dialogue.Episode, len(episodes))
	for i, ep := range episodes {
		out[i] = *ep
	}
	return out
}

// Fidelity judges the users of a set of dialogues by the world's rules; nil where there are none.
func (s *Stage) Fidelity(episodes []dialogue.Episode) (*nano.Fidelity, error) {
	if s.Rules == nil {
		return nil, nil
	}
	var sum nano.Fidelity
	for i := range episodes {
		f, err := s.Rules.Judge(&episodes[i])
		if err != nil {
			return nil, err
		}
		sum.Add(f)
	}
	return &sum, nil
}

// evaluate plays the held-out set after a step (0: before training), for every kind of user, unless the run directory has
// the dialogues already.
func (r *run) evaluate(ctx context.Context, step int) error {
	if r.cfg.Eval.Profiles == 0 {
		return nil
	}
	for _, user := range r.cfg.Eval.Users {
		path := r.evalFile(step, user)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		slog.Debug("phase", "phase", "evaluate", "step", step, "user", user)
		start := time.Now()
		episodes, err := r.stage.Evaluate(ctx, &r.cfg.Eval, user, r.version(), r.show(fmt.Sprintf("held-out evaluation, %s user", user)))
		if err != nil {
			return err
		}
		if err := dialogue.WriteEpisodes(path, episodes, dialogue.WriteOptions{}); err != nil {
			return err
		}
		report := eval.Evaluate(r.stage.Scenario, episodes, eval.Options{Seed: r.cfg.Eval.Seed, Resamples: r.cfg.Eval.Resamples})
		args := []any{"step", step, "user", user, "completion", report.Published.CR.String(), "dialogues", len(episodes),
			"seconds", int(time.Since(start).Seconds())}
		if user == Frozen {
			f, err := r.stage.Fidelity(episodes)
			if err != nil {
				return err
			}
			if f != nil {
				args = append(args, "user_state_agreement", fmt.Sprintf("%.3f", f.StateAgreement()))
			}
		}
		slog.Info("held-out evaluation", args...)
	}
	return r.evaluateFormat(ctx, step)
}

// evaluateFormat keeps a guided agent's free-mode format in the run directory.
func (r *run) evaluateFormat(ctx context.Context, step int) error {
	path := r.formatFile(step)
	if _, err := os.Stat(path); err == nil || r.cfg.Rollout.Mode != dialogue.Guided {
		return nil
	}
	f, err := r.stage.FreeFormat(ctx, r.cfg, r.show("format in free mode"))
	if err != nil {
		return err
	}
	slog.Info("format in free mode", "step", step, "kept", f.String())
	return dialogue.AtomicWrite(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(f) })
}

func (r *run) evalFile(step int, user string) string {
	return r.dir.File("eval", fmt.Sprintf("step-%d-%s.jsonl", step, user))
}

func (r *run) formatFile(step int) string {
	return r.dir.File("eval", fmt.Sprintf("step-%d-format.json", step))
}
