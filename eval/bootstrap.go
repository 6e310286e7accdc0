package eval

import (
	"math"
	"math/rand/v2"
	"slices"

	"seadtrain/dialogue"
)

// sums adds up dialogues: totals and numbers of values.
type sums struct{ total, n row }

func (s *sums) add(other *sums) {
	for def := range definitions {
		for m := range metrics {
			s.total[def][m] += other.total[def][m]
			s.n[def][m] += other.n[def][m]
		}
	}
}

// means are the metrics, NaN without data.
func (s *sums) means() row {
	var out row
	for def := range definitions {
		for m := range metrics {
			out[def][m] = s.total[def][m] / s.n[def][m] // 0/0 is NaN
		}
	}
	return out
}

// cluster is the dialogues of one profile, or one dialogue without.
type cluster struct {
	key string // the profile's id, or empty
	sums
}

// profileKey is the profile by which a dialogue clusters; "" if it is not known, or says nothing (no state).
func profileKey(ep *dialogue.Episode) string {
	if ep.Profile.State == nil {
		return ""
	}
	return ep.Profile.ID
}

// gather measures all judged dialogues and joins them by profile, in order of first appearance.
func gather(s *dialogue.Scenario, episodes []dialogue.Episode) []cluster {
	var out []cluster
	at := map[string]int{}
	for i := range episodes {
		ep := &episodes[i]
		if ep.End.Excluded() {
			continue
		}
		key := profileKey(ep)
		k, known := at[key]
		if !known || key == "" {
			k = len(out)
			out = append(out, cluster{key: key})
			at[key] = k
		}
		values := measure(s, ep)
		for def := range definitions {
			for m, v := range values[def] {
				if !math.IsNaN(v) {
					out[k].total[def][m] += v
					out[k].n[def][m]++
				}
			}
		}
	}
	return out
}

// resample draws, so many times, as many clusters with replacement from each stratum as it has, and shows their indices
// by stratum. The slices are used again.
func resample(strata []int, opts Options, visit func(drawn [][]int)) {
	rng := rand.New(rand.NewPCG(opts.Seed, 0))
	drawn := make([][]int, len(strata))
	for k, size := range strata {
		drawn[k] = make([]int, size)
	}
	for range opts.times() {
		for k, size := range strata {
			for i := range drawn[k] {
				drawn[k][i] = rng.IntN(size)
			}
		}
		visit(drawn)
	}
}

// distribution collects the metrics of resamples.
type distribution [definitions][metrics][]float64

func newDistribution(times int) *distribution {
	var d distribution
	for def := range definitions {
		for m := range metrics {
			d[def][m] = make([]float64, 0, times)
		}
	}
	return &d
}

func (d *distribution) add(means row) {
	for def := range definitions {
		for m, v := range means[def] {
			if !math.IsNaN(v) {
				d[def][m] = append(d[def][m], v)
			}
		}
	}
}

// interval is the middle 95 %; nil if no resample has a value.
func (d *distribution) interval(def, m int) (low, high *float64) {
	values := d[def][m]
	if len(values) == 0 {
		return nil, nil
	}
	slices.Sort(values)
	a, b := quantile(values, .025), quantile(values, .975)
	return &a, &b
}

// quantile of sorted values, linear between neighbours.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i == len(sorted)-1 {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Wilson is the 95 % score interval of a share; 0 to 1 without data.
func Wilson(successes, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	return wilson(float64(successes)/float64(n), float64(n))
}

func wilson(p, n float64) (low, high float64) {
	const z = 1.959963984540054
	centre := p + z*z/(2*n)
	half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	scale := 1 + z*z/n
	return max(0, (centre-half)/scale), min(1, (centre+half)/scale)
}
