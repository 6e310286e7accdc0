// Package sft is supervised fine-tuning from a file of conversations to a Hugging Face directory, with evaluation,
// checkpoints and automatic resume. N steps, a stop and N more steps give the weights of 2N.
package sft

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"seadtrain/internal/hfdir"
	"seadtrain/internal/precision"
	"seadtrain/internal/progress"
	"seadtrain/internal/rundir"
	"seadtrain/model"
	"seadtrain/torch"
	"seadtrain/train"
)

// Result is what a finished run reports.
type Result struct {
	Model    string  `json:"model"` // the finished model's directory
	Steps    int64   `json:"steps"`
	EvalLoss float64 `json:"eval_loss"` // NaN without evaluation data
}

// entry is one line of metrics.jsonl.
type entry struct {
	Step int `json:"step"`
	*train.SFTMetrics
	Rate     float64  `json:"tokens_per_second"`
	EvalLoss *float64 `json:"eval_loss,omitempty"`
}

// run is a run under way.
type run struct {
	cfg    Config
	dir    *rundir.Dir
	bundle *hfdir.Bundle
	sft    *train.SFT
	eval   []*train.Sample
	log    *rundir.Log
	line   *progress.Line

	start time.Time // of this process's first step
	first int64     // step it began at
	saved int64     // step of the newest checkpoint
}

// Run trains into the directory out, or goes on with what it holds. When ctx is cancelled it writes a checkpoint of the
// last complete step and returns ctx's error.
func Run(ctx context.Context, cfg Config, out string, line *progress.Line) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	for _, file := range []string{cfg.Data, cfg.EvalData} { // before the model is loaded
		if _, err := os.Stat(file); file != "" && err != nil {
			return nil, fmt.Errorf("read conversations: %w", err)
		}
	}
	dir, err := rundir.Open(out)
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, dir: dir, line: line}
	defer r.close()
	if err := r.dir.Agree(&cfg, &Config{}); err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if err := r.dir.Begin(&cfg); err != nil {
		return nil, err
	}
	if err := r.resume(); err != nil {
		return nil, err
	}
	if err := r.train(ctx); err != nil {
		return nil, err
	}
	return r.finish(ctx)
}

func (r *run) close() {
	r.line.Clear()
	if r.log != nil {
		if err := r.log.Close(); err != nil {
			slog.Warn("close metrics", "error", err)
		}
	}
	if r.sft != nil {
		r.sft.Close()
	}
	if r.bundle != nil {
		r.bundle.Close()
	}
	if err := r.dir.Close(); err != nil {
		slog.Warn("close run directory", "error", err)
	}
}

// open loads model and data.
func (r *run) open(ctx context.Context) error {
	dtype, reason, err := precision.Choose(r.cfg.DType)
	if err != nil {
		return err
	}
	threads := torch.SetNumThreads(r.cfg.Threads)
	if r.bundle, err = hfdir.OpenOrInit(r.cfg.Model, model.Options{DType: dtype}, r.cfg.Train.Seed); err != nil {
		return err
	}
	m := r.bundle.Model
	slog.Info("model", "path", r.cfg.Model, "random", !hfdir.HasWeights(r.bundle.Dir), "parameters", m.NumParams(), "dtype", dtype, "because", reason, "threads", threads)
	longest := m.MaxPositions()
	if r.cfg.MaxTokens > 0 {
		longest = min(longest, r.cfg.MaxTokens)
	}
	samples, err := Read(ctx, r.cfg.Data, r.bundle.Tokenizer, r.bundle.Chat, longest)
	if err != nil {
		return err
	}
	if r.cfg.EvalData != "" {
		if r.eval, err = Read(ctx, r.cfg.EvalData, r.bundle.Tokenizer, r.bundle.Chat, longest); err != nil {
			return err
		}
	} else {
		n := len(samples) - int(math.Round(float64(len(samples))*r.cfg.EvalShare))
		samples, r.eval = samples[:n], samples[n:]
	}
	tokens, trained := 0, 0
	for _, s := range samples {
		tokens, trained = tokens+len(s.Tokens), trained+s.Trained()
	}
	r.sft, err = train.NewSFT(r.cfg.Train, m, samples)
	if err == nil {
		slog.Info("data", "conversations", len(samples), "tokens", tokens, "trained", trained, "evaluation", len(r.eval), "steps", r.sft.Steps())
	}
	return err
}

// resume takes up the newest checkpoint.
func (r *run) resume() error {
	err := r.dir.Resume(func(c *rundir.Checkpoint) error {
		if err := r.sft.Optimizer.Load(c.Trainer()); err != nil {
			return err
		}
		slog.Info("resumed", "checkpoint", c.Path, "step", r.sft.Done(), "of", r.sft.Steps())
		return nil
	})
	if err != nil {
		return err
	}
	r.saved, r.first = r.sft.Done(), r.sft.Done()
	r.log, err = rundir.OpenLog(r.dir.File("metrics.jsonl"), int(r.sft.Done()))
	return err
}

func (r *run) train(ctx context.Context) error {
	r.start = time.Now()
	tokens := 0
	for r.sft.Done() < r.sft.Steps() {
		began := time.Now()
		met, err := r.sft.Step(ctx)
		if err != nil {
			return errors.Join(err, r.checkpoint())
		}
		tokens += met.Tokens
		done := r.sft.Done()
		e := entry{Step: int(done), SFTMetrics: met, Rate: float64(met.Tokens) / time.Since(began).Seconds()}
		var stop error // a stop inside the evaluation: the step is done, so its line is written all the same
		if r.cfg.EvalEvery > 0 && done%int64(r.cfg.EvalEvery) == 0 && done < r.sft.Steps() {
			e.EvalLoss, stop = r.evaluate(ctx)
		}
		if err := r.log.Append(e); err != nil {
			return errors.Join(stop, err)
		}
		if stop != nil {
			return errors.Join(stop, r.checkpoint())
		}
		r.report(e, tokens)
		if r.cfg.CheckpointEvery > 0 && done%int64(r.cfg.CheckpointEvery) == 0 {
			if err := r.checkpoint(); err != nil {
				return err
			}
		}
	}
	return nil
}

// report shows the step: on a terminal in the line, in the log whenever something was evaluated, and now and then.
func (r *run) report(e entry, tokens int) {
	done, steps := r.sft.Done(), r.sft.Steps()
	elapsed := time.Since(r.start)
	rate := float64(tokens) / elapsed.Seconds()
	left := progress.Estimate(elapsed, float64(done-r.first), float64(steps-r.first))
	r.line.Show("%s step %d/%d  loss %.4f  %.0f tokens/s  %s  (Ctrl-C stops with a checkpoint)",
		progress.Bar(int(done), int(steps), 20), done, steps, e.Loss, rate, left)
	args := []any{"step", fmt.Sprintf("%d/%d", done, steps), "loss", round(e.Loss), "lr", fmt.Sprintf("%.3g", e.LR), "grad_norm", round(e.GradNorm), "tokens_per_s", int(rate), "left", left}
	switch {
	case e.EvalLoss != nil:
		slog.Info("step", append(args, "eval_loss", round(*e.EvalLoss))...)
	case done == 1 || done == steps || done%max(1, steps/50) == 0:
		slog.Info("step", args...)
	}
}

func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

func (r *run) evaluate(ctx context.Context) (*float64, error) {
	if len(r.eval) == 0 {
		return nil, nil
	}
	loss, _, err := r.sft.Evaluate(ctx, r.eval)
	if err != nil {
		return nil, err
	}
	return &loss, nil
}

// checkpoint saves the last complete step, once.
func (r *run) checkpoint() error {
	step := r.sft.Done()
	if step == r.saved {
		return nil
	}
	_, err := r.dir.WriteCheckpoint(int(step), func(dir string) error {
		if err := r.save(dir); err != nil {
			return err
		}
		return r.sft.Optimizer.Save(filepath.Join(dir, "trainer"))
	})
	if err != nil {
		return err
	}
	r.saved = step
	return r.dir.Prune(r.cfg.KeepLast)
}

func (r *run) save(dir string) error {
	return r.bundle.Save(dir, model.SaveOptions{DType: hfdir.FileType(r.cfg.SaveDType, r.bundle.Model), Tensors: r.sft.Optimizer.Masters()})
}

// finish evaluates once more and writes the finished model beside the checkpoints.
func (r *run) finish(ctx context.Context) (*Result, error) {
	if err := r.checkpoint(); err != nil {
		return nil, err
	}
	res := &Result{Model: r.dir.File("model"), Steps: r.sft.Done(), EvalLoss: math.NaN()}
	loss, err := r.evaluate(ctx)
	if err != nil {
		return nil, err
	}
	if loss != nil {
		res.EvalLoss = *loss
	}
	tmp := r.dir.File(".model.tmp")
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755)); err != nil {
		return nil, fmt.Errorf("save the finished model: %w", err)
	}
	if err := r.save(tmp); err != nil {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	return res, rundir.Replace(tmp, res.Model)
}
