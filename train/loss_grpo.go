package train

import (
	"errors"
	"fmt"
	"math"
)

// GRPO, Group Relative Policy Optimization (DeepSeekMath, arXiv 2402.03300, eq. 3), as SEAD uses it.
//
//	ρ_t  = π(t) / π_old(t)
//	L    = Σ_t w_t · [ −min(ρ_t·A, clip(ρ_t, 1−low, 1+high)·A) + β·k3_t − c·H_t ]
//	k3_t = e^(ref_t − lp_t) − (ref_t − lp_t) − 1                                  (Schulman, "Approximating KL", 2020)
//
// w_t by Norm, over the optimizer step's whole batch (all ranks): "token" 1/Σ tokens; "sequence" 1/(sequences·own
// tokens); "fixed" 1/(sequences·Length), Dr. GRPO's (arXiv 2503.20783). A sequence without trained tokens is none.
//
// Departures from eq. 3: the advantage is not divided by the group's standard deviation (a switch, see Advantages);
// the mean is over tokens, not per sequence first (a switch); an entropy bonus c; π and π_old are over the allowed set at
// the sampling temperature. The KL is not multiplied by ρ (TRL's use_bias_correction_kl off).
type LossConfig struct {
	ClipLow  float64 `toml:"clip_low"`  // 1 − ClipLow is the lowest ratio that is not clipped
	ClipHigh float64 `toml:"clip_high"` // 1 + ClipHigh the highest
	KL       float64 `toml:"kl"`        // β; 0: no reference is computed
	Entropy  float64 `toml:"entropy"`   // c; 0: no bonus
	Norm     string  `toml:"norm"`      // "token", "sequence" or "fixed"
	Length   float64 `toml:"length"`    // tokens, for "fixed"
}

// DefaultLoss holds the paper's settings.
func DefaultLoss() LossConfig {
	return LossConfig{ClipLow: 0.2, ClipHigh: 0.2, KL: 0.001, Entropy: 0.001, Norm: "token"}
}

// Validate reports all errors at once.
func (c *LossConfig) Validate() error {
	var errs []error
	if !(c.ClipLow >= 0 && c.ClipLow <= 1) {
		errs = append(errs, fmt.Errorf("clip_low is %v: want 0 to 1", c.ClipLow))
	}
	if !(c.ClipHigh >= 0) {
		errs = append(errs, fmt.Errorf("clip_high is %v: want 0 or more", c.ClipHigh))
	}
	if !(c.KL >= 0) {
		errs = append(errs, fmt.Errorf("kl is %v: want 0 or more", c.KL))
	}
	if !(math.Abs(c.Entropy) < math.MaxFloat32) { // below 0 it sharpens
		errs = append(errs, fmt.Errorf("entropy is %v: want a number", c.Entropy))
	}
	switch c.Norm {
	case "token", "sequence":
	case "fixed":
		if !(c.Length > 0) {
			errs = append(errs, fmt.Errorf("length is %v: norm \"fixed\" needs a number of tokens", c.Length))
		}
	default:
		errs = append(errs, fmt.Errorf("norm is %q: want token, sequence or fixed", c.Norm))
	}
	return errors.Join(errs...)
}

// counts are the denominators of one optimizer step, over all ranks.
type counts struct{ tokens, sequences float64 }

// weight is w_t of a token of a sequence with n trained tokens.
func (c *LossConfig) weight(n int, total counts) float64 {
	switch c.Norm {
	case "sequence":
		return 1 / (total.sequences * float64(n))
	case "fixed":
		return 1 / (total.sequences * c.Length)
	}
	return 1 / total.tokens
}

// tokenLoss is the loss of one token before w_t, with its derivatives.
type tokenLoss struct {
	loss, dLogProb, dEntropy float64
	ratio, kl                float64
	clipped                  bool
}

// token evaluates the bracket of L: lp under the current weights, old at sampling, ref under the frozen copy.
func (c *LossConfig) token(lp, old, ref, entropy, advantage float64) tokenLoss {
	t := tokenLoss{ratio: math.Exp(lp - old)}
	free := t.ratio * advantage
	clip := math.Min(math.Max(t.ratio, 1-c.ClipLow), 1+c.ClipHigh) * advantage
	if clip < free { // the clipped branch is the smaller one: no gradient
		t.clipped = true
		t.loss = -clip
	} else {
		t.loss = -free
		t.dLogProb = -free // d(ρA)/d lp = ρA
	}
	if c.KL > 0 {
		d := ref - lp
		t.kl = math.Expm1(d) - d
		t.loss += c.KL * t.kl
		t.dLogProb += c.KL * -math.Expm1(d)
	}
	t.loss -= c.Entropy * entropy
	t.dEntropy = -c.Entropy
	return t
}
