package model

import (
	"errors"
	"fmt"
	"math"
)

// RopeType is a variant of rotary position embeddings, by Hugging Face's rope_type.
type RopeType string

const (
	RopeDefault RopeType = "default"
	RopeLinear  RopeType = "linear"  // positions divided by Factor
	RopeDynamic RopeType = "dynamic" // as default up to max_position_embeddings; beyond, frequencies would depend on the length
	RopeLlama3  RopeType = "llama3"  // Llama 3.1: low frequencies divided by Factor, middle ones interpolated
	RopeYarn    RopeType = "yarn"    // arXiv 2309.00071; Qwen2.5's long context
)

// Rope holds the parameters of the rotary embedding. A zero in an optional field means that the file does not give it.
type Rope struct {
	Type    RopeType
	Theta   float64 // base of the frequencies
	Factor  float64 // context extension; 0 for default
	OrigMax int     // original_max_position_embeddings: trained context, in tokens (llama3, yarn)

	LowFreqFactor, HighFreqFactor float64 // llama3

	BetaFast, BetaSlow   float64 // yarn: rotations that bound the ramp; 0: 32 and 1
	MScale, MScaleAllDim float64 // yarn: with both, they replace the default attention scaling
	AttentionFactor      float64 // yarn: attention scaling; 0: from Factor
	NoTruncate           bool    // yarn: do not round the ramp's ends to whole dimensions
}

// ropeFile is the JSON form of rope_scaling (transformers 4) and rope_parameters (transformers 5).
type ropeFile struct {
	RopeType            *string  `json:"rope_type"`
	Type                *string  `json:"type"` // older spelling
	RopeTheta           *float64 `json:"rope_theta"`
	Factor              *float64 `json:"factor"`
	OrigMax             *int     `json:"original_max_position_embeddings"`
	LowFreqFactor       *float64 `json:"low_freq_factor"`
	HighFreqFactor      *float64 `json:"high_freq_factor"`
	BetaFast            *float64 `json:"beta_fast"`
	BetaSlow            *float64 `json:"beta_slow"`
	MScale              *float64 `json:"mscale"`
	MScaleAllDim        *float64 `json:"mscale_all_dim"`
	AttentionFactor     *float64 `json:"attention_factor"`
	Truncate            *bool    `json:"truncate"`
	PartialRotaryFactor *float64 `json:"partial_rotary_factor"`
}

// rope merges the three places a config may keep it in, in transformers 5's order: rope_scaling is used whole if it is
// there, else rope_parameters; the base is taken from inside, else from the top-level rope_theta.
func (f *configFile) rope(maxPos int) (Rope, error) {
	src, where := f.RopeScaling, "rope_scaling"
	if src == nil {
		src, where = f.RopeParameters, "rope_parameters"
	}
	if src == nil {
		src = &ropeFile{}
	}
	theta := or(f.RopeTheta, 10000)
	if src != f.RopeParameters && f.RopeParameters != nil && f.RopeTheta == nil {
		theta = or(f.RopeParameters.RopeTheta, theta)
	}
	r := Rope{
		Type:            RopeType(or(src.RopeType, or(src.Type, string(RopeDefault)))),
		Theta:           or(src.RopeTheta, theta),
		Factor:          or(src.Factor, 0),
		OrigMax:         or(src.OrigMax, 0),
		LowFreqFactor:   or(src.LowFreqFactor, 0),
		HighFreqFactor:  or(src.HighFreqFactor, 0),
		BetaFast:        or(src.BetaFast, 0),
		BetaSlow:        or(src.BetaSlow, 0),
		MScale:          or(src.MScale, 0),
		MScaleAllDim:    or(src.MScaleAllDim, 0),
		AttentionFactor: or(src.AttentionFactor, 0),
		NoTruncate:      !or(src.Truncate, true),
	}
	if r.OrigMax == 0 && (r.Type == RopeLlama3 || r.Type == RopeYarn) {
		r.OrigMax = maxPos
	}
	if r.Factor == 0 && r.Type == RopeYarn && r.OrigMax > 0 {
		r.Factor = float64(maxPos) / float64(r.OrigMax)
	}
	if p := or(src.PartialRotaryFactor, or(f.PartialRotaryFactor, 1)); p != 1 {
		return r, fmt.Errorf("%s: partial_rotary_factor is %v: only 1 (the whole head is rotated) is supported", where, p)
	}
	return r, nil
}

func (r *Rope) validate(maxPos int) error {
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("rope_scaling (%s): "+format, append([]any{r.Type}, a...)...))
	}
	if !(r.Theta > 1) || math.IsInf(r.Theta, 0) {
		errs = append(errs, fmt.Errorf("rope_theta is %v: want a base above 1, such as 1e4", r.Theta))
	}
	switch r.Type {
	case RopeDefault:
	case RopeLinear, RopeDynamic, RopeLlama3, RopeYarn:
		if !(r.Factor >= 1) || math.IsInf(r.Factor, 0) {
			bad("factor is %v: want 1 or more", r.Factor)
		}
	default:
		errs = append(errs, fmt.Errorf("rope_scaling: rope_type %q is not supported: want default, linear, dynamic, llama3 or yarn", r.Type))
	}
	if (r.Type == RopeLlama3 || r.Type == RopeYarn) && r.OrigMax < 1 {
		bad("original_max_position_embeddings is %d: want the trained context in tokens", r.OrigMax)
	}
	if r.Type == RopeLlama3 && !(r.LowFreqFactor > 0 && r.HighFreqFactor > r.LowFreqFactor) {
		bad("low_freq_factor %v and high_freq_factor %v: want 0 < low < high", r.LowFreqFactor, r.HighFreqFactor)
	}
	if r.Type == RopeYarn && (r.BetaFast < 0 || r.BetaSlow < 0 || r.AttentionFactor < 0) {
		bad("beta_fast, beta_slow and attention_factor must not be negative")
	}
	return errors.Join(errs...)
}

// file is the JSON form; theta and the type "default" only appear in rope_parameters (whole).
func (r *Rope) file(whole bool) map[string]any {
	m := map[string]any{"rope_type": string(r.Type)}
	if whole {
		m["rope_theta"] = float(r.Theta)
	}
	if r.Type == RopeDefault {
		return m
	}
	for k, v := range map[string]float64{
		"factor": r.Factor, "low_freq_factor": r.LowFreqFactor, "high_freq_factor": r.HighFreqFactor,
		"beta_fast": r.BetaFast, "beta_slow": r.BetaSlow, "mscale": r.MScale, "mscale_all_dim": r.MScaleAllDim,
		"attention_factor": r.AttentionFactor,
	} {
		if v != 0 {
			m[k] = float(v)
		}
	}
	if r.OrigMax > 0 {
		m["original_max_position_embeddings"] = r.OrigMax
	}
	if r.NoTruncate {
		m["truncate"] = false
	}
	return m
}

// MaxContext is the longest sequence, in tokens, for which the rotary embedding is what it was made for.
func (c *Config) MaxContext() int {
	switch c.Rope.Type {
	case RopeLinear:
		return int(float64(c.MaxPositionEmbeddings) * c.Rope.Factor)
	case RopeYarn:
		return max(c.MaxPositionEmbeddings, int(float64(c.Rope.OrigMax)*c.Rope.Factor))
	}
	// Dynamic too: up to here its frequencies are the plain ones, beyond they would change with every token, and keys
	// already in the cache would be wrong.
	return c.MaxPositionEmbeddings
}

// RopeInvFreq gives the angular frequency of each pair of head dimensions, in radians per position, and the factor that
// cos and sin are multiplied by. The i-th frequency turns dimensions i and i+HeadDim/2 (the half-split layout of Hugging
// Face). Shape: [head_dim/2].
func (c *Config) RopeInvFreq() (invFreq []float32, attentionScaling float32) {
	r := &c.Rope
	freq := make([]float64, c.HeadDim/2)
	for i := range freq {
		// The exponent is rounded to float32 as in transformers; the power is then more exact than theirs.
		freq[i] = 1 / math.Pow(r.Theta, float64(float32(2*i)/float32(c.HeadDim)))
	}
	scale := 1.0
	switch r.Type {
	case RopeLinear:
		for i := range freq {
			freq[i] /= r.Factor
		}
	case RopeLlama3:
		r.llama3(freq)
	case RopeYarn:
		scale = r.yarn(freq, c.HeadDim)
	}
	invFreq = make([]float32, len(freq))
	for i, f := range freq {
		invFreq[i] = float32(f)
	}
	return invFreq, float32(scale)
}

// llama3 keeps wavelengths below OrigMax/High, divides those above OrigMax/Low by Factor, and blends in between.
func (r *Rope) llama3(freq []float64) {
	orig := float64(r.OrigMax)
	for i, f := range freq {
		wavelen := 2 * math.Pi / f
		switch {
		case wavelen < orig/r.HighFreqFactor:
		case wavelen > orig/r.LowFreqFactor:
			freq[i] = f / r.Factor
		default:
			s := (orig/wavelen - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
			freq[i] = (1-s)*f/r.Factor + s*f
		}
	}
}

// yarn interpolates the dimensions that turn less than BetaSlow times within the trained context, keeps those that turn
// more than BetaFast times, and ramps in between. It returns the attention scaling.
func (r *Rope) yarn(freq []float64, dim int) float64 {
	fast, slow := r.BetaFast, r.BetaSlow
	if fast == 0 {
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	// dimOf is the (fractional) dimension that makes n rotations within the trained context.
	dimOf := func(n float64) float64 {
		return float64(dim) * math.Log(float64(r.OrigMax)/(n*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high := dimOf(fast), dimOf(slow)
	if !r.NoTruncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = math.Max(low, 0), math.Min(high, float64(dim-1))
	if low == high {
		high += 0.001
	}
	for i, f := range freq {
		ramp := math.Min(1, math.Max(0, (float64(i)-low)/(high-low)))
		freq[i] = f/r.Factor*ramp + f*(1-ramp)
	}
	mscale := func(m float64) float64 {
		if r.Factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(r.Factor) + 1
	}
	switch {
	case r.AttentionFactor != 0:
		return r.AttentionFactor
	case r.MScale != 0 && r.MScaleAllDim != 0:
		return mscale(r.MScale) / mscale(r.MScaleAllDim)
	}
	return mscale(1)
}
