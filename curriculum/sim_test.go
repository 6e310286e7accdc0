package curriculum

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"seadtrain/dialogue"
)

// world is a scenario with the paper's 5×4×6 grid and n behaviours without contradictions but for every tenth, which
// needs cooperation 2 or more.
func world(n int) *dialogue.Scenario {
	s := &dialogue.Scenario{Name: "sim", Language: "en", MaxTurns: 15, Dimensions: []dialogue.Dimension{
		{Name: "cooperation", Levels: 5}, {Name: "emotion", Levels: 4}, {Name: "trust", Levels: 6},
	}}
	for i := range n {
		b := dialogue.Behaviour{ID: fmt.Sprintf("b%02d", i)}
		if i%10 == 9 {
			b.Contradicts = map[string][]int{"cooperation": {0, 1}}
		}
		s.Behaviours = append(s.Behaviours, b)
	}
	return s
}

// learner completes a profile with chance σ(6 (skill − difficulty)): difficulty falls from 1 in state (0,0,0) to 0 in
// the highest one; every state moves it by up to ±.1, and every set of behaviours by up to ±.1 more.
type learner struct {
	scn *dialogue.Scenario
	rng *rand.Rand
}

func (l learner) chance(p dialogue.Profile, skill float64) float64 {
	difficulty := 0.0
	for k, d := range l.scn.Dimensions {
		difficulty += 1 - float64(p.State[k])/float64(d.Levels-1)
	}
	difficulty /= float64(len(l.scn.Dimensions))
	for _, key := range []string{p.State.String(), p.ID} {
		h := fnv.New64a()
		h.Write([]byte(key))
		difficulty += .2*rand.New(rand.NewPCG(h.Sum64(), 0)).Float64() - .1
	}
	return 1 / (1 + math.Exp(-6*(skill-difficulty)))
}

// run trains for so many steps of B × group dialogues while the skill rises evenly, and returns completion by step.
func (l learner) run(t *testing.T, c *Controller, steps, group int, from, to float64) []float64 {
	t.Helper()
	var out []float64
	for step := range steps {
		skill := from + (to-from)*float64(step)/float64(steps-1)
		var outcomes []Outcome
		successes := 0
		for _, p := range c.Sample(c.cfg.Profiles) {
			chance := l.chance(p, skill)
			for range group {
				ok := l.rng.Float64() < chance
				if ok {
					successes++
				}
				outcomes = append(outcomes, Outcome{Profile: p, Success: ok})
			}
		}
		if err := c.Observe(outcomes); err != nil {
			t.Fatal(err)
		}
		c.EndStep()
		out = append(out, float64(successes)/float64(len(outcomes)))
	}
	return out
}

// byPeriod averages completion over periods of so many steps.
func byPeriod(rates []float64, period int) []float64 {
	out := make([]float64, len(rates)/period)
	for i := range out {
		for _, r := range rates[i*period : (i+1)*period] {
			out[i] += r / float64(period)
		}
	}
	return out
}

// Skill rises from .4 to .84 in 200 steps of 60 × 8 dialogues, with updates every 10 steps. Burn-in: the random period
// and the first controlled one, which cannot know yet how fast the agent learns. Judged by means of 20 steps: the choice
// of 1,200 profiles alone gives them a standard error of about .35/√1200 = .010.
func TestHoldsRisingLearner(t *testing.T) {
	run := func(seed uint64, change func(*Config)) []float64 {
		cfg := Default()
		change(&cfg)
		s := world(40)
		c := newController(t, cfg, s, seed)
		return byPeriod(learner{s, rand.New(rand.NewPCG(seed, 99))}.run(t, c, 200, 8, .4, .84), 20)
	}
	for seed := range uint64(4) {
		bands := run(seed, func(*Config) {})
		for i, r := range bands[1:] {
			if r < .45 || r > .55 {
				t.Errorf("seed %d: steps from %d complete %.3f, want .45 to .55: %.3f", seed, 20*(i+1), r, bands)
			}
		}
		if uniform := run(seed, func(c *Config) { c.Sampler = Uniform }); uniform[9] < .77 || uniform[0] > .5 {
			t.Errorf("seed %d: uniform sampling goes %.3f, want from under .5 to about .8", seed, uniform)
		}
	}
	// What holds it is the tilt: with the bands' weights alone completion drifts with the agent.
	if untilted := run(0, func(c *Config) { c.MaxTilt = 0 }); untilted[9] < .65 {
		t.Errorf("bands without tilt end at %.3f: then the tilt is not needed, simplify", untilted[9])
	}
}

// At the nano tier's scale (24 × 8, updates every 4 steps, 60 steps) single periods are too noisy to judge; the mean
// after burn-in is not.
func TestHoldsSmallRuns(t *testing.T) {
	s := world(40)
	for seed := range uint64(4) {
		cfg := Default()
		cfg.Profiles, cfg.Period = 24, 4
		c := newController(t, cfg, s, seed)
		periods := byPeriod(learner{s, rand.New(rand.NewPCG(seed, 99))}.run(t, c, 60, 8, .4, .84), 4)
		mean := 0.0
		for _, r := range periods[2:] {
			mean += r / float64(len(periods)-2)
		}
		if mean < .45 || mean > .55 {
			t.Errorf("seed %d: completes %.3f after burn-in, want .45 to .55: %.2f", seed, mean, periods)
		}
	}
}
