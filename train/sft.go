package train

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"seadtrain/model"
	"seadtrain/torch"
)

// SFTConfig is supervised fine-tuning: cross-entropy on the tokens that carry loss, mean over the tokens of an optimizer
// step.
type SFTConfig struct {
	Optimizer   OptimizerConfig `toml:"optimizer"`
	Epochs      int             `toml:"epochs"`             // passes over the data
	BatchTokens int             `toml:"batch_tokens"`       // sequence tokens of one optimizer step
	MicroTokens int             `toml:"micro_batch_tokens"` // tokens of a packed forward: memory against speed, not the result
	HeadRows    int             `toml:"head_rows"`          // rows of logits alive at once
	Recompute   Recompute       `toml:"recompute"`          // "none" or "layer"
	Seed        uint64          `toml:"seed"`               // order of the data
}

// DefaultSFT suits a small model; a pretrained one wants a rate near 1e-5.
func DefaultSFT() SFTConfig {
	o := DefaultOptimizer()
	o.LR, o.Schedule, o.Warmup = 1e-5, "cosine", 0.03
	return SFTConfig{Optimizer: o, Epochs: 1, BatchTokens: 16384, MicroTokens: 8192, HeadRows: 2048, Recompute: KeepAll}
}

// Bounds of one optimizer step and of the order of the whole run, which is held in memory.
const (
	maxBatchTokens = 1 << 30
	maxPlanned     = 1 << 28
)

// Validate reports all errors at once.
func (c *SFTConfig) Validate() error {
	errs := []error{c.Optimizer.Validate()}
	for _, n := range []count{{"epochs", c.Epochs, maxEpochs}, {"batch_tokens", c.BatchTokens, maxBatchTokens},
		{"micro_batch_tokens", c.MicroTokens, MaxTokens}, {"head_rows", c.HeadRows, MaxTokens}} {
		errs = append(errs, n.check())
	}
	if c.Recompute != KeepAll && c.Recompute != Layer {
		errs = append(errs, fmt.Errorf("recompute is %q: want none or layer", c.Recompute))
	}
	return errors.Join(errs...)
}

// SFT fine-tunes a model. The order of the data follows from the seed and the step alone, so a run resumes by its step.
type SFT struct {
	Config    SFTConfig
	Model     *model.Model
	Optimizer *Optimizer

	back    *Backward
	samples []*Sample
	steps   [][]int // sample numbers of every optimizer step of the run
}

// NewSFT prepares training on samples.
func NewSFT(c SFTConfig, m *model.Model, samples []*Sample) (*SFT, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &SFT{Config: c, Model: m}
	for _, x := range samples {
		if err := x.check(m, nil); err != nil {
			return nil, err
		}
		if x.Trained() > 0 {
			s.samples = append(s.samples, x)
		}
	}
	if len(s.samples) == 0 {
		return nil, errors.New("sft: no token in the data carries loss")
	}
	if n := len(s.samples); c.Epochs > maxPlanned/n {
		return nil, fmt.Errorf("sft: %d epochs of %d conversations: want at most %d in all", c.Epochs, n, maxPlanned)
	}
	for e := range c.Epochs {
		s.plan(rand.New(rand.NewPCG(c.Seed, uint64(e))).Perm(len(s.samples)))
	}
	var err error
	if s.back, err = NewBackward(m, nil, c.Recompute, c.HeadRows); err != nil {
		return nil, err
	}
	s.Optimizer, err = NewOptimizer(m, c.Optimizer, int64(len(s.steps)))
	return s, err
}

// plan cuts one epoch's order into optimizer steps of about BatchTokens.
func (s *SFT) plan(order []int) {
	var step []int
	n := 0
	for _, i := range order {
		if len(step) > 0 && n+len(s.samples[i].Tokens) > s.Config.BatchTokens {
			s.steps, step, n = append(s.steps, step), nil, 0
		}
		step = append(step, i)
		n += len(s.samples[i].Tokens)
	}
	s.steps = append(s.steps, step)
}

// Steps is the number of optimizer steps of the whole run; Done tells how many are behind.
func (s *SFT) Steps() int64 { return int64(len(s.steps)) }
func (s *SFT) Done() int64  { return s.Optimizer.Step }

// SFTMetrics describe one optimizer step.
type SFTMetrics struct {
	Loss     float64 `json:"loss"`           // mean cross-entropy per trained token, before the update
	Tokens   int     `json:"tokens"`         // forward tokens
	Trained  int     `json:"trained_tokens"` // tokens in the loss
	GradNorm float64 `json:"grad_norm"`
	LR       float64 `json:"lr"`
}

// Step takes the next optimizer step. On an error the weights are as they were.
func (s *SFT) Step(ctx context.Context) (*SFTMetrics, error) {
	if s.Done() >= s.Steps() {
		return nil, fmt.Errorf("sft: all %d steps are done", s.Steps())
	}
	var part []*Sample
	total := 0
	for _, i := range s.steps[s.Optimizer.Step] {
		part = append(part, s.samples[i])
		total += s.samples[i].Trained()
	}
	met := &SFTMetrics{Trained: total}
	if err := torch.Do(s.back.Zero); err != nil {
		return nil, err
	}
	for _, b := range Pack(part, s.Config.MicroTokens) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		met.Tokens += len(b.IDs)
		if err := torch.Try(func() error { return s.back.Accumulate(b, crossEntropy(b, float64(total), met)) }); err != nil {
			return nil, err
		}
	}
	return met, torch.Try(func() (err error) {
		met.GradNorm, met.LR, err = s.Optimizer.Apply(s.back.Grads)
		return err
	})
}

// crossEntropy is −Σ log π(token) / total: Hugging Face's causal LM loss, with the mean over all trained tokens of the
// optimizer step.
func crossEntropy(b *Batch, total float64, met *SFTMetrics) Coefficients {
	return func(from int, rows []torch.Stats) ([]float64, []float64, error) {
		if err := b.finite(from, rows); err != nil {
			return nil, nil, err
		}
		dlp := make([]float64, len(rows))
		for i, st := range rows {
			met.Loss -= st.LogProb() / total
			dlp[i] = -1 / total
		}
		return dlp, make([]float64, len(rows)), nil
	}
}

// Evaluate gives the mean cross-entropy per trained token and the number of them, without training.
func (s *SFT) Evaluate(ctx context.Context, samples []*Sample) (loss float64, n int, err error) {
	for _, b := range Pack(samples, s.Config.MicroTokens) {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		err := torch.Try(func() error {
			stats := Score(s.Model, nil, s.Config.HeadRows, b)
			for _, st := range stats {
				loss -= st.LogProb()
			}
			n += len(stats)
			return b.finite(0, stats)
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return loss / float64(max(1, n)), n, nil
}

// Close frees gradients and optimizer state.
func (s *SFT) Close() {
	s.back.Close()
	s.Optimizer.Close()
}
