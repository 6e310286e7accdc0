package curriculum

import (
	"errors"
	"fmt"
	"math"

	"seadtrain/dialogue"
)

// Samplers.
const (
	Bands   = "bands"   // the three-band controller
	Uniform = "uniform" // the ablation without error analysis: the prior, for ever
	None    = "none"    // the ablation without a controller: users with neither state nor behaviours
)

// Supports.
const (
	Full      = "full"      // every state of the grid, equally likely
	Published = "published" // the published setup's inner states, with its marginals
)

// BandWeights is the relative weight of a state by its band; only their ratios matter.
type BandWeights struct {
	TooHard  float64 `toml:"too_hard" json:"too_hard"`
	Ideal    float64 `toml:"ideal" json:"ideal"`
	TooEasy  float64 `toml:"too_easy" json:"too_easy"`
	Unjudged float64 `toml:"unjudged" json:"unjudged"` // too little evidence: explored
}

// MaxProfiles bounds how many profiles are drawn at once: they are held in memory.
const MaxProfiles = 1_000_000

const maxPeriod = 10_000

// Config of the Profile Controller. Default gives the paper's numbers where it has any.
type Config struct {
	// Profiles is B, the profiles drawn per RL step. 0 is refused.
	Profiles int `toml:"profiles" json:"profiles"`
	// Sampler is "bands", "uniform" or "none". Empty is refused.
	Sampler string `toml:"sampler" json:"sampler"`
	// Support is "full" or "published". Empty is refused.
	Support string `toml:"support" json:"support"`
	// Low and High bound the ideal band, as completion rates: below Low is too hard, above High too easy.
	Low  float64 `toml:"low" json:"low"`
	High float64 `toml:"high" json:"high"`
	// Target is the completion rate the weights aim at.
	Target float64 `toml:"target" json:"target"`
	// Weights by band. Ideal must be positive; 0 elsewhere leaves such states to the floor.
	Weights BandWeights `toml:"weights" json:"weights"`
	// Floor is the share of profiles drawn from the prior whatever the statistics say, so that every state stays
	// reachable. In (0, 1].
	Floor float64 `toml:"floor" json:"floor"`
	// MaxTilt bounds λ, which moves the expected completion to the target. 0: bands alone.
	MaxTilt float64 `toml:"max_tilt" json:"max_tilt"`
	// Gain is the share of a period's miss of the target that the next aim is corrected by. 0: no correction.
	Gain float64 `toml:"gain" json:"gain"`
	// Period is the number of RL steps between updates of the weights (the paper's iteration). 0 is refused.
	Period int `toml:"period" json:"period"`
	// Decay multiplies the evidence after every step. 1: nothing fades. 0 is refused.
	Decay float64 `toml:"decay" json:"decay"`
	// MinCount is the faded number of dialogues from which a state is judged. 0: from the first.
	MinCount float64 `toml:"min_count" json:"min_count"`
	// Smoothing is the number of pseudo-dialogues with which the rest of the grid speaks for a state. 0: not at all,
	// but for a state without dialogues.
	Smoothing float64 `toml:"smoothing" json:"smoothing"`
	// MinBehaviours and MaxBehaviours bound the behaviours of a profile, within 1–3. 0 is refused.
	MinBehaviours int `toml:"min_behaviours" json:"min_behaviours"`
	MaxBehaviours int `toml:"max_behaviours" json:"max_behaviours"`
	// Pool is the most behaviour combinations a state is trained with. 0 is refused.
	Pool int `toml:"pool" json:"pool"`
}

// Default is the paper's setup: 60 profiles a step, bands .4 and .6, an update every 10 steps, 1–3 behaviours, 200
// combinations. The paper gives no weight formula; those numbers are ours, chosen on the simulated learner of the tests.
func Default() Config {
	return Config{
		Profiles: 60, Sampler: Bands, Support: Full,
		Low: .4, High: .6, Target: .5,
		Weights: BandWeights{TooHard: .25, Ideal: 1, TooEasy: .25, Unjudged: .5},
		Floor:   .1, MaxTilt: 20, Gain: .5,
		Period: 10, Decay: .85, MinCount: 8, Smoothing: 16,
		MinBehaviours: 1, MaxBehaviours: 3, Pool: 200,
	}
}

// Validate reports everything that is wrong at once.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("curriculum.%s: %s", field, fmt.Sprintf(format, args...)))
		}
	}
	atLeast0 := func(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }
	check(c.Profiles >= 1 && c.Profiles <= MaxProfiles, "profiles", "%d: 1 to %d", c.Profiles, MaxProfiles)
	check(c.Sampler == Bands || c.Sampler == Uniform || c.Sampler == None, "sampler",
		"%q: %q, %q or %q", c.Sampler, Bands, Uniform, None)
	check(c.Support == Full || c.Support == Published, "support", "%q: %q or %q", c.Support, Full, Published)
	check(0 <= c.Low && c.Low <= c.Target && c.Target <= c.High && c.High <= 1, "low",
		"low %g, target %g, high %g: 0 ≤ low ≤ target ≤ high ≤ 1", c.Low, c.Target, c.High)
	w := c.Weights
	check(atLeast0(w.TooHard), "weights.too_hard", "%g: not negative", w.TooHard)
	check(atLeast0(w.TooEasy), "weights.too_easy", "%g: not negative", w.TooEasy)
	check(atLeast0(w.Unjudged), "weights.unjudged", "%g: not negative", w.Unjudged)
	check(w.Ideal > 0 && !math.IsInf(w.Ideal, 0), "weights.ideal", "%g: above 0", w.Ideal)
	check(c.Floor > 0 && c.Floor <= 1, "floor", "%g: in (0, 1]", c.Floor)
	check(c.MaxTilt >= 0 && c.MaxTilt <= 100, "max_tilt", "%g: in [0, 100]", c.MaxTilt)
	check(c.Gain >= 0 && c.Gain <= 1, "gain", "%g: in [0, 1]", c.Gain)
	check(c.Period >= 1 && c.Period <= maxPeriod, "period", "%d steps: 1 to %d", c.Period, maxPeriod)
	check(c.Decay > 0 && c.Decay <= 1, "decay", "%g: in (0, 1]", c.Decay)
	check(atLeast0(c.MinCount), "min_count", "%g: not negative", c.MinCount)
	check(atLeast0(c.Smoothing), "smoothing", "%g: not negative", c.Smoothing)
	check(fewest <= c.MinBehaviours && c.MinBehaviours <= c.MaxBehaviours && c.MaxBehaviours <= most, "min_behaviours",
		"%d to %d: %d ≤ min_behaviours ≤ max_behaviours ≤ %d", c.MinBehaviours, c.MaxBehaviours, fewest, most)
	check(c.Pool >= 1 && c.Pool <= MaxProfiles, "pool", "%d combinations: 1 to %d", c.Pool, MaxProfiles)
	return errors.Join(errs...)
}

// publishedMarginals are the level shares of the published setup, by dimension; levels not listed are never sampled.
var publishedMarginals = map[string][]float64{
	"cooperation": {0, .3, .4, .3, 0},
	"emotion":     {0, .5, .5, 0},
	"trust":       {0, .2, .3, .3, .2, 0},
}

// prior is the share of every state of the grid before anything is known.
func (c Config) prior(s *dialogue.Scenario) ([]float64, error) {
	n := s.States()
	p := make([]float64, n)
	for i := range p {
		p[i] = 1 / float64(n)
	}
	if c.Support == Full {
		return p, nil
	}
	for _, d := range s.Dimensions {
		if len(publishedMarginals[d.Name]) != d.Levels {
			return nil, fmt.Errorf("curriculum.support: %q knows cooperation with 5 levels, emotion with 4 and trust with 6; scenario %s has %s with %d: use %q",
				Published, s.Name, d.Name, d.Levels, Full)
		}
	}
	for i := range p {
		p[i] = 1
		for k, level := range s.StateAt(i) {
			p[i] *= publishedMarginals[s.Dimensions[k].Name][level]
		}
	}
	return p, nil
}
