package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	"seadtrain/torch"
)

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

// stopped is ctx's error as soon as one rank of the tensor-parallel group has it: all of them leave before the same
// collective.
func (t *Trainer) stopped(ctx context.Context) error {
	tp := t.Policy.TP()
	if tp.Size() == 1 {
		return ctx.Err()
	}
	own := 0.0
	if ctx.Err() != nil {
		own = 1
	}
	var seen float64
	if err := torch.Do(func() { seen = tp.SumFloats([]float64{own})[0] }); err != nil {
		return err
	}
	if seen > 0 && ctx.Err() == nil {
		return context.Canceled
	}
	return ctx.Err()
}

// together makes one data-parallel rank's error the error of all, so that none waits in a collective for a rank that has
// left. An error of a collective itself needs no telling: its group is broken for all.
func (t *Trainer) together(err error) error {
	var te *torch.Error
	if t.DP.Size() == 1 || (errors.As(err, &te) && te.Code == torch.CodeDist) {
		return err
	}
	own := 0.0
	if err != nil {
		own = 1
	}
	var failed [][]float64
	if e := torch.Do(func() { failed = t.DP.GatherFloats([]float64{own}) }); e != nil {
		return errors.Join(err, e)
	}
	for r, f := range failed {
		if err == nil && f[0] != 0 {
			return fmt.Errorf("data-parallel rank %d failed; its own message says why", r)
		}
	}
	return err
}

// reference computes the frozen copy's log-probs for this rank's share of the plan: per sample, of its trained tokens in
// order.
func (t *Trainer) reference(ctx context.Context, plan [][]*Sample) (map[*Sample][]float64, error) {
	ref := map[*Sample][]float64{}
	if t.Config.Loss.KL == 0 {
		return ref, nil
	}
	var own []*Sample
	for _, mini := range plan {
		for _, s := range t.mine(mini) {
			if _, ok := ref[s]; !ok {
				ref[s] = nil
				own = append(own, s)
			}
		}
	}
	for _, b := range Pack(own, t.Config.MicroTokens) {
		if err := t.stopped(ctx); err != nil {
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
	sum sums
}

// sums are over this rank's tokens, in the order in which finish sends them.
type sums struct {
	loss, kl, entropy, clipped, ratio, mismatch float64
	trained, first, forward                     float64 // tokens: in the loss, in the loss before the first update, in all
}

// miniBatch is one optimizer step.
func (r *stepRun) miniBatch(ctx context.Context, mini []*Sample) error {
	t := r.t
	if err := t.together(r.accumulate(ctx, mini)); err != nil {
		return err
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

// accumulate adds up the gradients of this rank's share of a mini-batch.
func (r *stepRun) accumulate(ctx context.Context, mini []*Sample) error {
	t := r.t
	total := counts{sequences: float64(len(mini))}
	for _, s := range mini {
		total.tokens += float64(s.Trained())
	}
	if err := torch.Do(t.back.Zero); err != nil {
		return err
	}
	for _, b := range Pack(t.mine(mini), t.Config.MicroTokens) {
		if err := t.stopped(ctx); err != nil {
			return err
		}
		r.sum.forward += float64(len(b.IDs))
		if err := torch.Try(func() error { return t.back.Accumulate(b, r.coefficients(b, total)) }); err != nil {
			return err
		}
	}
	return nil
}

// coefficients is the loss of one micro-batch.
func (r *stepRun) coefficients(b *Batch, total counts) Coefficients {
	cfg := &r.t.Config.Loss
	next := make([]int, len(b.Samples)) // trained tokens seen per sample: rows come in order
	trained := make([]int, len(b.Samples))
	for i, s := range b.Samples {
		trained[i] = s.Trained()
	}
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
			if !(math.Abs(tl.dLogProb) < math.MaxFloat32) {
				return nil, nil, fmt.Errorf("dialogue %s, token %d: the loss has no gradient in fp32: log-prob %v, at sampling %v, reference %v, advantage %v",
					s.ID, b.Token[j], lp, old, ref, s.Advantage)
			}
			w := cfg.weight(trained[k], total)
			dlp[i], dent[i] = w*tl.dLogProb, w*tl.dEntropy
			r.count(tl, w, st.Entropy(), math.Abs(lp-old))
		}
		return dlp, dent, nil
	}
}

func (r *stepRun) count(tl tokenLoss, w, entropy, mismatch float64) {
	s := &r.sum
	s.loss += w * tl.loss
	s.kl += tl.kl
	s.entropy += entropy
	s.ratio += tl.ratio
	r.met.RatioMax = math.Max(r.met.RatioMax, tl.ratio)
	if tl.clipped {
		s.clipped++
	}
	s.trained++
	if r.met.Steps == 0 { // before the first update the policy is the one that sampled
		s.mismatch += mismatch
		s.first++
		r.met.MismatchMax = math.Max(r.met.MismatchMax, mismatch)
	}
}

// finish turns sums, over all ranks, into means.
func (r *stepRun) finish() error {
	s, m := &r.sum, r.met
	own := []float64{s.loss, s.kl, s.entropy, s.clipped, s.ratio, s.mismatch, s.trained, s.first, s.forward, m.RatioMax, m.MismatchMax}
	var all [][]float64
	if err := torch.Do(func() { all = r.t.DP.GatherFloats(own) }); err != nil {
		return err
	}
	whole := make([]float64, len(own))
	for _, v := range all {
		for i := range v[:9] {
			whole[i] += v[i]
		}
		for i := 9; i < len(v); i++ {
			whole[i] = math.Max(whole[i], v[i])
		}
	}
	trained := math.Max(1, whole[6])
	m.Loss, m.GradNorm = whole[0]/math.Max(1, float64(m.Steps)), m.GradNorm/math.Max(1, float64(m.Steps))
	m.KL, m.Entropy, m.ClipFraction, m.RatioMean = whole[1]/trained, whole[2]/trained, whole[3]/trained, whole[4]/trained
	m.MismatchMean = whole[5] / math.Max(1, whole[7])
	m.TrainedTokens, m.Tokens = int(whole[6]), int(whole[8])
	m.RatioMax, m.MismatchMax = whole[9], whole[10]
	return nil
}
