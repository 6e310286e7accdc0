package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/torch"
)

// Config is the training stage of a run.
type Config struct {
	Optimizer   OptimizerConfig `toml:"optimizer"`
	Loss        LossConfig      `toml:"loss"`
	Scale       Scale           `toml:"advantage_scale"`    // what centred rewards are divided by
	LeaveOneOut bool            `toml:"leave_one_out"`      // baseline without the dialogue itself
	MiniBatches int             `toml:"mini_batches"`       // optimizer steps per pass over a rollout batch
	Epochs      int             `toml:"epochs"`             // passes over a rollout batch
	MicroTokens int             `toml:"micro_batch_tokens"` // tokens of a packed forward: memory against speed, not the result
	HeadRows    int             `toml:"head_rows"`          // rows of logits alive at once
	Recompute   Recompute       `toml:"recompute"`          // "none" or "layer"
}

// DefaultConfig holds the paper's settings.
func DefaultConfig() Config {
	return Config{Optimizer: DefaultOptimizer(), Loss: DefaultLoss(), Scale: ScaleNone, MiniBatches: 8, Epochs: 1,
		MicroTokens: 8192, HeadRows: 1024, Recompute: KeepAll}
}

// Validate reports all errors at once.
func (c *Config) Validate() error {
	errs := []error{c.Optimizer.Validate(), c.Loss.Validate()}
	for _, f := range []struct {
		name string
		v    int
	}{{"mini_batches", c.MiniBatches}, {"epochs", c.Epochs}, {"micro_batch_tokens", c.MicroTokens}, {"head_rows", c.HeadRows}} {
		if f.v < 1 {
			errs = append(errs, fmt.Errorf("%s is %d: want at least 1", f.name, f.v))
		}
	}
	if c.Recompute != KeepAll && c.Recompute != Layer {
		errs = append(errs, fmt.Errorf("recompute is %q: want none or layer", c.Recompute))
	}
	if _, _, err := Advantages([]float64{0}, []int{0}, c.Scale, false); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Metrics describe one GRPO step: a pass (or several) over one rollout batch.
type Metrics struct {
	Loss         float64 `json:"loss"`
	KL           float64 `json:"kl"`            // mean k3 to the frozen copy, per token
	Entropy      float64 `json:"entropy"`       // mean, per token
	ClipFraction float64 `json:"clip_fraction"` // share of tokens without policy gradient because of clipping
	RatioMean    float64 `json:"ratio_mean"`
	RatioMax     float64 `json:"ratio_max"`
	GradNorm     float64 `json:"grad_norm"` // mean over optimizer steps, before clipping
	LR           float64 `json:"lr"`        // of the last optimizer step
	// Mismatch between log-probs at sampling and recomputed before the first update.
	MismatchMean  float64 `json:"mismatch_mean"`
	MismatchMax   float64 `json:"mismatch_max"`
	Groups        int     `json:"groups"`
	ZeroGroups    int     `json:"zero_groups"` // groups of equal rewards, or of one
	Dialogues     int     `json:"dialogues"`
	Excluded      int     `json:"excluded"`
	Tokens        int     `json:"tokens"`         // forward tokens
	TrainedTokens int     `json:"trained_tokens"` // tokens in the loss
	Steps         int     `json:"steps"`          // optimizer steps taken
	Seconds       float64 `json:"seconds"`
}

// Trainer updates the policy; the reference is only read.
type Trainer struct {
	Config    Config
	Policy    *model.Model
	Reference *model.Model
	Sets      *torch.Sets
	DP        *torch.Comm // data-parallel group; every rank passes all samples and works on its share
	Optimizer *Optimizer

	back *Backward
}

// NewTrainer prepares updates of policy. total is the number of optimizer steps of the whole run.
func NewTrainer(c Config, policy, reference *model.Model, sets *torch.Sets, dp *torch.Comm, total int64) (*Trainer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if dp == nil {
		dp = torch.Solo()
	}
	t := &Trainer{Config: c, Policy: policy, Reference: reference, Sets: sets, DP: dp}
	var err error
	if t.back, err = NewBackward(policy, sets, c.Recompute, c.HeadRows); err != nil {
		return nil, err
	}
	t.Optimizer, err = NewOptimizer(policy, c.Optimizer, total)
	return t, err
}

// Close frees gradients and optimizer state.
func (t *Trainer) Close() {
	t.back.Close()
	t.Optimizer.Close()
}

// Samples makes training samples of the dialogues that count, with their advantages.
func (t *Trainer) Samples(episodes []*dialogue.Episode) ([]*Sample, *Metrics, error) {
	met := &Metrics{Dialogues: len(episodes)}
	var rewards []float64
	var groups []int
	var kept []*dialogue.Episode
	seen := map[int]bool{}
	for _, e := range episodes {
		if e.End.Excluded() {
			met.Excluded++
			continue
		}
		kept = append(kept, e)
		rewards, groups = append(rewards, e.Reward), append(groups, e.Group)
		seen[e.Group] = true
	}
	adv, zero, err := Advantages(rewards, groups, t.Config.Scale, t.Config.LeaveOneOut)
	if err != nil {
		return nil, nil, err
	}
	met.Groups, met.ZeroGroups = len(seen), zero
	samples := make([]*Sample, len(kept))
	for i, e := range kept {
		a := &e.Agent
		samples[i] = &Sample{ID: e.ID, Tokens: a.Tokens, Loss: a.Loss, Sets: a.Sets, Temperature: a.Temperature,
			LogProbs: a.LogProbs, Advantage: adv[i], Group: e.Group}
		if err := samples[i].check(t.Policy.Config.VocabSize, t.Policy.MaxPositions()); err != nil {
			return nil, nil, err
		}
	}
	return samples, met, nil
}

// Step trains on one rollout batch. seed orders the dialogues into mini-batches. On an error the weights are those of the
// last complete optimizer step.
func (t *Trainer) Step(ctx context.Context, episodes []*dialogue.Episode, seed uint64) (*Metrics, error) {
	start := time.Now()
	samples, met, err := t.Samples(episodes)
	if err != nil {
		return nil, err
	}
	ref, err := t.reference(ctx, samples)
	if err != nil {
		return nil, err
	}
	run := &stepRun{t: t, met: met, ref: ref}
	for epoch := range t.Config.Epochs {
		order := rand.New(rand.NewPCG(seed, uint64(epoch))).Perm(len(samples))
		for k := range t.Config.MiniBatches {
			var mini []*Sample
			for i := k; i < len(order); i += t.Config.MiniBatches {
				mini = append(mini, samples[order[i]])
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := run.miniBatch(ctx, mini); err != nil {
				return nil, err
			}
		}
	}
	run.finish()
	met.Seconds = time.Since(start).Seconds()
	return met, nil
}

// mine is this rank's share of the samples.
func (t *Trainer) mine(samples []*Sample) []*Sample {
	if t.DP.Size() == 1 {
		return samples
	}
	var out []*Sample
	for i := t.DP.Rank(); i < len(samples); i += t.DP.Size() {
		out = append(out, samples[i])
	}
	return out
}

// reference computes the frozen copy's log-probs of every trained token, per sample in the order of its trained tokens.
func (t *Trainer) reference(ctx context.Context, samples []*Sample) (map[*Sample][]float64, error) {
	ref := map[*Sample][]float64{}
	if t.Config.Loss.KL == 0 {
		return ref, nil
	}
	for _, b := range Pack(samples, t.Config.MicroTokens) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := torch.Try(func() error {
			stats := Score(t.Reference, t.Sets, t.Config.HeadRows, b)
			if err := b.finite(0, stats); err != nil {
				return fmt.Errorf("reference: %w", err)
			}
			for j, s := range stats {
				smp := b.Samples[b.Sample[j]]
				ref[smp] = append(ref[smp], s.LogProb())
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ref, nil
}

// stepRun gathers the sums of one Step.
type stepRun struct {
	t   *Trainer
	met *Metrics
	ref map[*Sample][]float64

	loss, kl, ent, clip, ratio, mis float64 // sums over tokens
	tokens, firstTokens             float64
}

func (r *stepRun) miniBatch(ctx context.Context, mini []*Sample) error {
	t := r.t
	var total counts
	for _, s := range mini {
		if n := s.Trained(); n > 0 {
			total.tokens += float64(n)
			total.sequences++
		}
	}
	if total.tokens == 0 {
		return nil
	}
	err := torch.Do(t.back.Zero)
	if err != nil {
		return err
	}
	for _, b := range Pack(t.mine(mini), t.Config.MicroTokens) {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.met.Tokens += len(b.IDs)
		r.met.TrainedTokens += len(b.Rows)
		if err := torch.Try(func() error { return t.back.Accumulate(b, r.coefficients(b, total)) }); err != nil {
			return err
		}
	}
	return torch.Try(func() error {
		for _, g := range t.back.Grads {
			t.DP.AllReduceInPlace(g)
		}
		norm, lr, err := t.Optimizer.Apply(t.back.Grads)
		r.met.GradNorm += norm
		r.met.LR = lr
		r.met.Steps++
		return err
	})
}

// coefficients is the loss of one micro-batch.
func (r *stepRun) coefficients(b *Batch, total counts) Coefficients {
	cfg := &r.t.Config.Loss
	next := make([]int, len(b.Samples)) // trained tokens seen per sample: rows come in order
	trained := make([]int, len(b.Samples))
	for i, s := range b.Samples {
		trained[i] = s.Trained()
	}
	first := r.met.Steps == 0
	return func(from int, rows []torch.Stats) ([]float64, []float64, error) {
		if err := b.finite(from, rows); err != nil {
			return nil, nil, err
		}
		dlp, dent := make([]float64, len(rows)), make([]float64, len(rows))
		for i, st := range rows {
			j := from + i
			k := b.Sample[j]
			s := b.Samples[k]
			lp, old, ref := st.LogProb(), float64(s.LogProbs[b.Token[j]]), 0.0
			if cfg.KL > 0 {
				ref = r.ref[s][next[k]]
			}
			next[k]++
			tl := cfg.token(lp, old, ref, st.Entropy(), s.Advantage)
			w := cfg.weight(trained[k], total)
			dlp[i], dent[i] = w*tl.dLogProb, w*tl.dEntropy
			r.count(tl, w, st.Entropy(), math.Abs(lp-old), first)
		}
		return dlp, dent, nil
	}
}

func (r *stepRun) count(tl tokenLoss, w, entropy, mismatch float64, first bool) {
	r.loss += w * tl.loss
	r.kl += tl.kl
	r.ent += entropy
	r.ratio += tl.ratio
	r.met.RatioMax = math.Max(r.met.RatioMax, tl.ratio)
	if tl.clipped {
		r.clip++
	}
	r.tokens++
	if first { // before the first update the policy is the one that sampled
		r.mis += mismatch
		r.firstTokens++
		r.met.MismatchMax = math.Max(r.met.MismatchMax, mismatch)
	}
}

// finish turns sums into means; the loss is the mean over optimizer steps.
func (r *stepRun) finish() {
	m := r.met
	per := func(sum, n float64) float64 {
		if n == 0 {
			return 0
		}
		return sum / n
	}
	m.Loss = per(r.loss, float64(m.Steps))
	m.KL, m.Entropy, m.ClipFraction, m.RatioMean = per(r.kl, r.tokens), per(r.ent, r.tokens), per(r.clip, r.tokens), per(r.ratio, r.tokens)
	m.MismatchMean = per(r.mis, r.firstTokens)
	m.GradNorm = per(m.GradNorm, float64(m.Steps))
}
