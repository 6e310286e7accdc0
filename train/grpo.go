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

// Bounds of what sizes memory: tokens of one forward or of one optimizer step, passes over the data, and the parts of one.
const (
	MaxTokens      = 1 << 20
	maxEpochs      = 1000
	maxMiniBatches = 10_000
)

// count is a setting that is at least 1.
type count struct {
	name    string
	v, most int
}

func (c count) check() error {
	if c.v < 1 || c.v > c.most {
		return fmt.Errorf("%s is %d: want 1 to %d", c.name, c.v, c.most)
	}
	return nil
}

// Validate reports all errors at once.
func (c *Config) Validate() error {
	errs := []error{c.Optimizer.Validate(), c.Loss.Validate()}
	for _, n := range []count{{"mini_batches", c.MiniBatches, maxMiniBatches}, {"epochs", c.Epochs, maxEpochs},
		{"micro_batch_tokens", c.MicroTokens, MaxTokens}, {"head_rows", c.HeadRows, MaxTokens}} {
		errs = append(errs, n.check())
	}
	if c.Recompute != KeepAll && c.Recompute != Layer {
		errs = append(errs, fmt.Errorf("recompute is %q: want none or layer", c.Recompute))
	}
	if _, _, err := Advantages([]float64{0}, []int{0}, c.Scale, false); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Metrics describe one GRPO step: a pass (or several) over one rollout batch. Under data parallelism they are the whole
// batch's, the same on every rank.
type Metrics struct {
	Loss         float64 `json:"loss"`          // mean over optimizer steps
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
		if math.IsNaN(e.Reward) || math.IsInf(e.Reward, 0) {
			return nil, nil, fmt.Errorf("dialogue %s: its reward is %v", e.ID, e.Reward)
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
		if err := samples[i].check(t.Policy, t.Sets); err != nil {
			return nil, nil, err
		}
		if err := samples[i].checkPolicy(); err != nil {
			return nil, nil, err
		}
	}
	return samples, met, nil
}

// Step trains on one rollout batch. seed orders the dialogues into mini-batches. On an error the weights are those of the
// last complete optimizer step, and every rank gets an error.
func (t *Trainer) Step(ctx context.Context, episodes []*dialogue.Episode, seed uint64) (*Metrics, error) {
	start := time.Now()
	samples, met, err := t.Samples(episodes)
	if err != nil {
		return nil, err
	}
	plan := t.plan(samples, seed)
	run := &stepRun{t: t, met: met}
	run.ref, err = t.reference(ctx, plan)
	if err = t.together(err); err != nil {
		return nil, err
	}
	for _, mini := range plan {
		if err := run.miniBatch(ctx, mini); err != nil {
			return nil, err
		}
	}
	if err := run.finish(); err != nil {
		return nil, err
	}
	met.Seconds = time.Since(start).Seconds()
	return met, nil
}

// plan deals every epoch's dialogues, in seeded order, to the mini-batches. Those without a trained token are left out.
func (t *Trainer) plan(samples []*Sample, seed uint64) [][]*Sample {
	var plan [][]*Sample
	for epoch := range t.Config.Epochs {
		minis := make([][]*Sample, t.Config.MiniBatches)
		for i, j := range rand.New(rand.NewPCG(seed, uint64(epoch))).Perm(len(samples)) {
			if s := samples[j]; s.Trained() > 0 {
				k := i % len(minis)
				minis[k] = append(minis[k], s)
			}
		}
		for _, m := range minis {
			if len(m) > 0 {
				plan = append(plan, m)
			}
		}
	}
	return plan
}
