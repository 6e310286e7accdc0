package curriculum

import "math"

// Band is the verdict of the error analysis on a state.
type Band string

const (
	Unjudged Band = "unjudged" // too little evidence
	TooHard  Band = "too_hard"
	Ideal    Band = "ideal"
	TooEasy  Band = "too_easy"
)

// band judges a state with completion rate p on n dialogues.
func (c Config) band(p, n float64) Band {
	switch {
	case n < c.MinCount || n == 0:
		return Unjudged
	case p < c.Low:
		return TooHard
	case p > c.High:
		return TooEasy
	}
	return Ideal
}

func (w BandWeights) of(b Band) float64 {
	switch b {
	case TooHard:
		return w.TooHard
	case Ideal:
		return w.Ideal
	case TooEasy:
		return w.TooEasy
	}
	return w.Unjudged
}

// weigh is the formula of the package comment: from prior shares, estimated rates and bands to sampling probabilities
// with the expected completion aim, as far as |tilt| ≤ MaxTilt can reach it.
func (c Config) weigh(prior, rate []float64, bands []Band, aim float64) (probs []float64, tilt float64) {
	base := make([]float64, len(prior))
	total := 0.0
	for i := range base {
		base[i] = prior[i] * c.Weights.of(bands[i])
		total += base[i]
	}
	if total == 0 { // every state is in a band of weight 0
		return append([]float64(nil), prior...), 0
	}
	at := func(tilt float64) (probs []float64, expected float64) {
		probs = make([]float64, len(base))
		z := 0.0
		for i := range probs {
			probs[i] = base[i] * math.Exp(-tilt*(rate[i]-aim))
			z += probs[i]
		}
		for i := range probs {
			probs[i] = (1-c.Floor)*probs[i]/z + c.Floor*prior[i]
			expected += probs[i] * rate[i]
		}
		return probs, expected
	}
	// The expected completion falls as the tilt grows (its derivative is minus a variance): bisection.
	lo, hi := -c.MaxTilt, c.MaxTilt
	if _, e := at(lo); e <= aim {
		hi = lo
	}
	if _, e := at(hi); e >= aim {
		lo = hi
	}
	for range 50 {
		tilt = (lo + hi) / 2
		if _, e := at(tilt); e > aim {
			lo = tilt
		} else {
			hi = tilt
		}
	}
	probs, _ = at(tilt)
	return probs, tilt
}
