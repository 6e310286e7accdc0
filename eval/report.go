package eval

import (
	"math"

	"seadtrain/dialogue"
)

// Interval is a metric with its 95 % interval.
type Interval struct {
	Value *float64 `json:"value"` // nil: no dialogue has a value
	Low   *float64 `json:"low"`   // nil: unknown
	High  *float64 `json:"high"`
	N     int      `json:"n"` // dialogues that have a value
}

// Overlaps reports whether two intervals may cover the same value; what is unknown may.
func (a Interval) Overlaps(b Interval) bool {
	if a.Low == nil || b.Low == nil {
		return true
	}
	return *a.Low <= *b.High && *b.Low <= *a.High
}

// Metrics are all metrics under one definition; the package comment says what they are. Shares are 0–1.
type Metrics struct {
	CR  Interval `json:"cr"`
	ATT Interval `json:"att"`
	ADT Interval `json:"adt"`
	UPA Interval `json:"upa"`
	EI  Interval `json:"ei"`
	TI  Interval `json:"ti"`
	CI  Interval `json:"ci"`
	FPR Interval `json:"fpr"`
	SCR Interval `json:"scr"`
}

// all lists the metrics in the order of the constants.
func (m *Metrics) all() [metrics]*Interval {
	return [...]*Interval{&m.CR, &m.ATT, &m.ADT, &m.UPA, &m.EI, &m.TI, &m.CI, &m.FPR, &m.SCR}
}

// isShare: the metric averages noughts and ones.
func isShare(metric int) bool { return metric == cr || metric == fpr || metric == scr }

// Report is what a set of dialogues says about the agent.
type Report struct {
	Published  Metrics `json:"published"`
	Normalised Metrics `json:"normalised"`

	Dialogues int                  `json:"dialogues"` // judged
	Profiles  int                  `json:"profiles"`  // different ones among them
	Unknown   int                  `json:"unknown"`   // judged dialogues whose profile is not known
	Ends      map[dialogue.End]int `json:"ends"`      // judged dialogues by end; published records have none
	Excluded  map[dialogue.End]int `json:"excluded"`  // dialogues left out, by cause
}

func (r *Report) definition(def int) *Metrics {
	if def == published {
		return &r.Published
	}
	return &r.Normalised
}

// Bootstrap resamples: how many there are if nobody says, and the most that memory is asked to hold.
const (
	DefaultResamples = 2000
	MaxResamples     = 1_000_000
)

// Options of the intervals.
type Options struct {
	Resamples int    // bootstrap resamples; 0: 2,000
	Seed      uint64 // of the resampling
}

func (o Options) times() int {
	if o.Resamples == 0 {
		return DefaultResamples
	}
	return o.Resamples
}

// Evaluate computes the report of a set of dialogues of one scenario.
func Evaluate(s *dialogue.Scenario, episodes []dialogue.Episode, opts Options) Report {
	rep := Report{Ends: map[dialogue.End]int{}, Excluded: map[dialogue.End]int{}}
	for i := range episodes {
		ep := &episodes[i]
		if ep.End.Excluded() {
			rep.Excluded[ep.End]++
			continue
		}
		rep.Dialogues++
		if ep.End != "" {
			rep.Ends[ep.End]++
		}
		if profileKey(ep) == "" {
			rep.Unknown++
		}
	}
	clusters := gather(s, episodes)
	rep.Profiles = len(clusters) - rep.Unknown
	var whole sums
	for i := range clusters {
		whole.add(&clusters[i].sums)
	}
	spread := newDistribution(opts.times())
	resample([]int{len(clusters)}, opts, func(drawn [][]int) {
		var total sums
		for _, i := range drawn[0] {
			total.add(&clusters[i].sums)
		}
		spread.add(total.means())
	})
	means := whole.means()
	for def := range definitions {
		for m, out := range rep.definition(def).all() {
			out.N = int(whole.n[def][m])
			if out.N == 0 {
				continue
			}
			out.Value = &means[def][m]
			contributing, alike := agreement(clusters, def, m)
			switch {
			case isShare(m) && alike:
				low, high := wilson(means[def][m], float64(contributing))
				out.Low, out.High = &low, &high
			case contributing > 1:
				out.Low, out.High = spread.interval(def, m)
			}
		}
	}
	return rep
}

// agreement counts the clusters that have values of a metric, and tells whether all have the same mean.
func agreement(clusters []cluster, def, m int) (contributing int, alike bool) {
	first := math.NaN()
	alike = true
	for i := range clusters {
		if clusters[i].n[def][m] == 0 {
			continue
		}
		contributing++
		mean := clusters[i].total[def][m] / clusters[i].n[def][m]
		if contributing == 1 {
			first = mean
		}
		alike = alike && mean == first
	}
	return contributing, alike
}
