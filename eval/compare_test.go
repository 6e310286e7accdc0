package eval

import (
	"math"
	"math/rand/v2"
	"testing"

	"seadtrain/dialogue"
)

// Every profile gains by .2 whatever its difficulty: paired profiles see that sharply, other profiles do not.
func TestComparePairsProfiles(t *testing.T) {
	s := outbound(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var before, after, others []dialogue.Episode
	for p := range 60 {
		base := float64(p%5) / 5 // 0, .2, .4, .6, .8 of 10 dialogues
		for i := range 10 {
			u := (float64(i) + rng.Float64()) / 10
			before = append(before, outcome(s, p, u < base))
			after = append(after, outcome(s, p, u < base+.2))
			others = append(others, outcome(s, 1000+p, u < base+.2))
		}
	}
	c := Compare(s, before, after, Options{})
	d := c.Change.Published.CR
	if c.Paired != 60 || !(math.Abs(*d.Value-.2) <= 1e-9) || d.N != 1200 {
		t.Errorf("change %v of %d, %d paired", d, d.N, c.Paired)
	}
	unpaired := Compare(s, before, others, Options{})
	u := unpaired.Change.Published.CR
	if unpaired.Paired != 0 || *u.High-*u.Low < 5*(*d.High-*d.Low) {
		// Between profiles the standard deviation is √.08 = .28: ± 1.96 · .28 · √(2/60) = ± .10 without pairing; with
		// it, only the draws within tenths are left.
		t.Errorf("pairing must narrow the change: paired %v, unpaired %v", d, u)
	}
	if w := *u.High - *u.Low; w < .15 || w > .26 {
		t.Errorf("unpaired width %.3f, want about .20", w)
	}
	if c.Before.Published.CR.Overlaps(c.After.Published.CR) != (*c.Before.Published.CR.High >= *c.After.Published.CR.Low) {
		t.Error("overlap")
	}
}

func TestCompareEdges(t *testing.T) {
	s := outbound(t)
	two := []dialogue.Episode{outcome(s, 1, false), outcome(s, 2, false)}
	c := Compare(s, nil, two, Options{})
	if d := c.Change.Published.CR; d.Value != nil || d.Low != nil || d.N != 2 {
		t.Errorf("nothing before: %v of %d", d, d.N)
	}
	unknown := []dialogue.Episode{outcome(s, -1, false), outcome(s, -1, true)}
	if c := Compare(s, unknown, unknown, Options{}); c.Paired != 0 {
		t.Errorf("%d pairs of unknown profiles", c.Paired)
	}
	// All fail before and after: the change is 0, and no spread to be seen does not mean certainty.
	if d := Compare(s, two, two, Options{}).Change.Published.CR; *d.Value != 0 || d.Low != nil {
		t.Errorf("no spread: %v", d)
	}
}

func TestOverlaps(t *testing.T) {
	i := func(low, high float64) Interval { return Interval{Value: &low, Low: &low, High: &high} }
	for _, c := range []struct {
		a, b Interval
		want bool
	}{
		{i(0, .3), i(.4, .6), false}, {i(.4, .6), i(0, .3), false}, {i(0, .4), i(.4, .6), true},
		{i(0, 1), i(.4, .6), true}, {i(0, .3), Interval{}, true},
	} {
		if got := c.a.Overlaps(c.b); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
}
