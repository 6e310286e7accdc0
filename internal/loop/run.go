package loop

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seadtrain/curriculum"
	"seadtrain/internal/progress"
	"seadtrain/internal/rundir"
	"seadtrain/rollout"
	"seadtrain/train"
)

// run is a run under way.
type run struct {
	cfg        *Config
	dir        *rundir.Dir
	line       *progress.Line
	stage      *Stage
	trainer    *train.Trainer
	controller *curriculum.Controller
	log        *rundir.Log

	done   int    // complete steps
	saved  int    // step of the newest checkpoint, -1: none
	frozen string // checksum of the role-play model
	// atDone is the curriculum's state after the last complete step: a stop inside a step goes back to it.
	atDone []byte

	began time.Time // of this process's first step; zero before
	first int       // step it began after
}

// open loads everything and takes up the newest checkpoint.
func open(cfg *Config, dir *rundir.Dir, line *progress.Line) (r *run, err error) {
	r = &run{cfg: cfg, dir: dir, line: line, saved: -1}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := dir.Agree(cfg, &Config{}, "name", "checkpoint.every", "checkpoint.keep_last"); err != nil {
		return r, err
	}
	if _, err := cfg.Check(cfg.Eval.Users...); err != nil {
		return r, err
	}
	if r.stage, err = Open(cfg, "", true); err != nil {
		return r, err
	}
	if r.frozen, err = r.stage.Frozen.Checksum(); err != nil {
		return r, err
	}
	if r.controller, err = curriculum.New(cfg.Curriculum, r.stage.Scenario, cfg.seed("curriculum", 0)); err != nil {
		return r, err
	}
	r.trainer, err = train.NewTrainer(cfg.Train, r.stage.Agent.Model, r.stage.Frozen, r.stage.Roller.Sets(), nil, cfg.OptimizerSteps())
	if err != nil {
		return r, err
	}
	if err := dir.Begin(cfg, "episodes", "profiles", "eval"); err != nil {
		return r, err
	}
	if err := r.resume(); err != nil {
		return r, err
	}
	r.first = r.done
	if r.atDone, err = r.controller.State(); err != nil {
		return r, err
	}
	r.log, err = rundir.OpenLog(dir.File("metrics.jsonl"), r.done)
	return r, err
}

func (r *run) close() {
	r.line.Clear()
	var errs []error
	if r.log != nil {
		errs = append(errs, r.log.Close())
	}
	if r.trainer != nil {
		r.trainer.Close()
	}
	if r.stage != nil {
		r.stage.Close()
	}
	if err := errors.Join(errs...); err != nil {
		slog.Warn("close the run", "error", err)
	}
}

// seed derives the seed of one purpose in one step.
func (c *Config) seed(purpose string, step int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d", c.Seed, purpose, step))
	return binary.LittleEndian.Uint64(sum[:])
}

// version numbers the policy's weights, so that the cache keeps prompts that still hold.
func (r *run) version() uint64 { return uint64(r.done) + 1 }

// show makes the progress line of a rollout.
func (r *run) show(what string) func(rollout.Progress) {
	return func(p rollout.Progress) {
		r.line.Show("%s %s: %s%s  (Ctrl-C stops with a checkpoint)  %s", progress.Bar(p.Done, p.Total, 12), what, p, r.estimate(), p.Detail())
	}
}

// estimate is how long the remaining steps will take, once one is done.
func (r *run) estimate() string {
	if r.began.IsZero() {
		return ""
	}
	left := progress.Estimate(time.Since(r.began), float64(r.done-r.first), float64(r.cfg.Steps()-r.first))
	if left == "" {
		return ""
	}
	return fmt.Sprintf("  run: step %d/%d, %s", r.done, r.cfg.Steps(), left)
}

// stopped turns the end of the context into a checkpoint of the last complete step.
func (r *run) stopped(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	r.line.Clear()
	if e := r.checkpoint(); e != nil {
		return errors.Join(err, e)
	}
	slog.Info("stopped", "step", r.done, "of", r.cfg.Steps(), "directory", r.dir.Path)
	return err
}
