package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seadtrain/curriculum"
	"seadtrain/dialogue"
	"seadtrain/internal/progress"
	"seadtrain/internal/rundir"
	"seadtrain/rollout"
)

// Options of one call of Run.
type Options struct {
	// MaxSteps ends this call with a checkpoint after so many steps. 0: no limit.
	MaxSteps int
	Line     *progress.Line
}

// Run runs the loop in a directory, from its newest checkpoint if it has one, and evaluates before and after. When ctx is
// cancelled it writes a checkpoint of the last complete step and returns ctx's error. A nil summary without error: MaxSteps
// were done.
func Run(ctx context.Context, cfg *Config, dir *rundir.Dir, opts Options) (*Summary, error) {
	r, err := open(cfg, dir, opts.Line)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if r.done == 0 {
		if err := r.evaluate(ctx, 0); err != nil {
			return nil, r.stopped(ctx, err)
		}
	}
	r.began = time.Now()
	for r.done < cfg.Steps() {
		if opts.MaxSteps > 0 && r.done-r.first == opts.MaxSteps {
			return nil, r.checkpoint()
		}
		if err := r.step(ctx, r.done+1); err != nil {
			return nil, r.stopped(ctx, err)
		}
	}
	if err := r.checkpoint(); err != nil {
		return nil, err
	}
	if err := r.evaluate(ctx, cfg.Steps()); err != nil {
		return nil, r.stopped(ctx, err)
	}
	return r.summary()
}

// step is one turn of the loop, in the paper's four phases.
func (r *run) step(ctx context.Context, step int) error {
	cfg, met := r.cfg, &Metrics{Step: step, Iteration: 1 + (step-1)/r.cfg.Curriculum.Period}
	phase := func(name string) func() {
		slog.Debug("phase", "phase", name, "step", step)
		start := time.Now()
		return func() { met.Seconds.add(name, time.Since(start)) }
	}

	// 1. Sample profiles: the users on whom the agent succeeds about half the time.
	end := phase("sample")
	profiles := r.controller.Sample(cfg.Curriculum.Profiles)
	end()

	// 2. Roll out: every profile a group of dialogues, agent against the frozen role-play model.
	end = phase("rollout")
	res, err := r.stage.Roller.Run(ctx, rollout.Request{
		Profiles: profiles, Group: cfg.Group, Seed: cfg.seed("rollout", step), Step: step, Version: r.version(),
		Progress: r.show(fmt.Sprintf("step %d/%d", step, cfg.Steps())),
	})
	end()
	if err != nil && !errors.Is(err, rollout.ErrTooManyExcluded) {
		return err
	}
	if e := r.keep(step, profiles, res.Episodes); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("step %d: %w: the role-play model does not keep to its form; the dialogues are in %s", step, err, r.dir.Step("episodes", step))
	}

	// 3. Train: GRPO on the agent. Once begun it ends, stop or not: half an update is no step.
	end = phase("train")
	r.line.Show("step %d/%d: training on %d dialogues", step, cfg.Steps(), len(res.Episodes))
	met.Train, err = r.trainer.Step(context.WithoutCancel(ctx), res.Episodes, cfg.seed("train", step))
	end()
	if err != nil {
		return fmt.Errorf("step %d: %w", step, err)
	}

	// 4. Analyse errors: completion by initial state, from which come the next profiles' weights.
	end = phase("analyse")
	if err := r.controller.Observe(outcomes(res.Episodes)); err != nil {
		return err
	}
	met.Updated = r.controller.EndStep()
	if r.atDone, err = r.controller.State(); err != nil {
		return err
	}
	r.done = step
	end()

	met.fill(res, r.controller.Stats())
	return r.record(ctx, met)
}

// outcomes is what the Profile Controller learns of dialogues.
func outcomes(episodes []*dialogue.Episode) []curriculum.Outcome {
	out := make([]curriculum.Outcome, len(episodes))
	for i, ep := range episodes {
		out[i] = curriculum.Outcome{Profile: ep.Profile, Success: ep.Reward > 0, Excluded: ep.End.Excluded()}
	}
	return out
}
