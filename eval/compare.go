package eval

import "seadtrain/dialogue"

// Comparison sets two sets of dialogues side by side, for example before and after training.
type Comparison struct {
	Before Report `json:"before"`
	After  Report `json:"after"`
	// Change is after minus before. Profiles that both sets have are resampled together, so that what makes a profile
	// hard cancels; N counts the values of both.
	Change struct {
		Published  Metrics `json:"published"`
		Normalised Metrics `json:"normalised"`
	} `json:"change"`
	Paired int `json:"paired"` // profiles that both sets have
}

// Compare evaluates both sets and the change between them.
func Compare(s *dialogue.Scenario, before, after []dialogue.Episode, opts Options) Comparison {
	c := Comparison{Before: Evaluate(s, before, opts), After: Evaluate(s, after, opts)}
	// Strata: profiles of both sets, of the first alone, of the second alone; [0] is before, [1] after.
	var both [2][]cluster
	var alone [2][]cluster
	first, second := gather(s, before), gather(s, after)
	at := map[string]int{}
	for i, cl := range second {
		at[cl.key] = i
	}
	paired := map[string]bool{}
	for _, cl := range first {
		if i, ok := at[cl.key]; ok && cl.key != "" {
			both[0], both[1] = append(both[0], cl), append(both[1], second[i])
			paired[cl.key] = true
		} else {
			alone[0] = append(alone[0], cl)
		}
	}
	for _, cl := range second {
		if !paired[cl.key] {
			alone[1] = append(alone[1], cl)
		}
	}
	c.Paired = len(paired)

	spread := newDistribution(opts.times())
	resample([]int{len(both[0]), len(alone[0]), len(alone[1])}, opts, func(drawn [][]int) {
		var total [2]sums
		for side := range total {
			for _, i := range drawn[0] {
				total[side].add(&both[side][i].sums)
			}
			for _, i := range drawn[1+side] {
				total[side].add(&alone[side][i].sums)
			}
		}
		change := total[1].means()
		for def, old := range total[0].means() {
			for m := range old {
				change[def][m] -= old[m]
			}
		}
		spread.add(change)
	})
	for def, change := range []*Metrics{&c.Change.Published, &c.Change.Normalised} {
		old, now := c.Before.definition(def).all(), c.After.definition(def).all()
		for m, out := range change.all() {
			out.N = old[m].N + now[m].N
			if old[m].Value == nil || now[m].Value == nil {
				continue
			}
			difference := *now[m].Value - *old[m].Value
			out.Value = &difference
			low, high := spread.interval(def, m)
			if old[m].Low != nil && now[m].Low != nil && low != nil && *low < *high { // equal: no spread to be seen
				out.Low, out.High = low, high
			}
		}
	}
	return c
}
