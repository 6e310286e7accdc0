package curriculum

import (
	"math"

	"gorgonia.org/tensor"

	"seadtrain/dialogue"
)

// evidence is what the dialogues so far say about every state. All arrays have the scenario's grid as shape
// ([cooperation, emotion, trust] = [5, 4, 6] in the paper).
type evidence struct {
	count, success            *tensor.Dense // float64, faded: dialogues and successes
	total, succeeded, dropped *tensor.Dense // float64, whole numbers: dialogues, successes, excluded ones, since the start
}

func newEvidence(s *dialogue.Scenario) evidence {
	shape := make([]int, len(s.Dimensions))
	for k, d := range s.Dimensions {
		shape[k] = d.Levels
	}
	grid := func() *tensor.Dense { return tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float64)) }
	return evidence{count: grid(), success: grid(), total: grid(), succeeded: grid(), dropped: grid()}
}

// flat is a grid as a row-major slice that shares its memory: index it with Scenario.StateIndex.
func flat(t *tensor.Dense) []float64 { return t.Data().([]float64) }

func (e evidence) add(state int, success bool) {
	flat(e.count)[state]++
	flat(e.total)[state]++
	if success {
		flat(e.success)[state]++
		flat(e.succeeded)[state]++
	}
}

func (e evidence) fade(decay float64) {
	for _, t := range []*tensor.Dense{e.count, e.success} {
		if _, err := t.MulScalar(decay, true, tensor.UseUnsafe()); err != nil {
			panic(err) // float64 times float64: a programming error
		}
	}
}

// rates estimates every state's completion rate: its own dialogues, and m pseudo-dialogues at the rate that the grid as
// a whole suggests for it. A state without dialogues gets the latter.
func (e evidence) rates(m float64) []float64 {
	n, k := flat(e.count), flat(e.success)
	out := additive(n, k, e.count.Shape())
	for i := range out {
		if n[i]+m > 0 {
			out[i] = (k[i] + m*out[i]) / (n[i] + m)
		}
	}
	return out
}

// additive fits logit p = b + Σ over dimensions of an effect of the state's level there, to k successes in n dialogues
// by state. It is ridge regression with the penalty ½ (b² + Σ effect²), hence defined for any counts; without any, p is .5.
// Coordinate-wise Newton steps, and exact ones along the directions that leave p alone, in which those would crawl.
func additive(n, k []float64, shape tensor.Shape) []float64 {
	logit := make([]float64, len(n))
	p := make([]float64, len(n))
	for i := range p {
		p[i] = .5
	}
	// step moves one effect, shared by the states that have it, and returns its new value.
	step := func(effect float64, has func(state int) bool) float64 {
		slope, curve := -effect, 1.0
		for i := range p {
			if has(i) {
				slope += k[i] - n[i]*p[i]
				curve += n[i] * p[i] * (1 - p[i])
			}
		}
		d := max(-1, min(1, slope/curve))
		for i := range p {
			if has(i) {
				logit[i] += d
				p[i] = 1 / (1 + math.Exp(-logit[i]))
			}
		}
		return effect + d
	}
	base := 0.0
	effects := make([][]float64, len(shape))
	for d, levels := range shape {
		effects[d] = make([]float64, levels)
	}
	for range 50 {
		base = step(base, func(int) bool { return true })
		stride := len(n)
		for d, levels := range shape {
			stride /= levels
			for l := range levels {
				effects[d][l] = step(effects[d][l], func(i int) bool { return i/stride%levels == l })
			}
			// Moving c from all effects of a dimension into b changes no p; (b+c)² + Σ (effect−c)² is least at this c.
			c := -base
			for _, v := range effects[d] {
				c += v
			}
			c /= float64(levels + 1)
			base += c
			for l := range effects[d] {
				effects[d][l] -= c
			}
		}
	}
	return p
}
