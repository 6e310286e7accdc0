package curriculum

import (
	"math"
	"math/rand/v2"
	"testing"

	"seadtrain/dialogue"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestBand(t *testing.T) {
	c := Default() // .4, .6, 8 dialogues
	for _, x := range []struct {
		p, n float64
		want Band
	}{
		{.39, 8, TooHard}, {.4, 8, Ideal}, {.6, 8, Ideal}, {.61, 8, TooEasy}, {.5, 7.9, Unjudged}, {1, 0, Unjudged},
	} {
		if got := c.band(x.p, x.n); got != x.want {
			t.Errorf("rate %g on %g dialogues: %s, want %s", x.p, x.n, got, x.want)
		}
	}
	c.MinCount = 0
	if got := c.band(.5, 0); got != Unjudged {
		t.Errorf("no dialogue at all: %s", got)
	}
}

func TestWeighBandsAlone(t *testing.T) {
	c := Default()
	c.MaxTilt, c.Floor = 0, .2
	c.Weights = BandWeights{TooHard: 1, Ideal: 4, TooEasy: 2, Unjudged: 3}
	prior := []float64{.25, .25, .25, .25}
	probs, _ := c.weigh(prior, []float64{.1, .5, .9, .5}, []Band{TooHard, Ideal, TooEasy, Unjudged}, .5)
	// .8 × {1, 4, 2, 3}/10 + .2 × .25
	for i, want := range []float64{.13, .37, .21, .29} {
		if !near(probs[i], want) {
			t.Errorf("share %d: %g, want %g", i, probs[i], want)
		}
	}
	// A band that weighs nothing is left its floor; when all do, the prior stays.
	c.Weights.TooEasy = 0
	probs, _ = c.weigh([]float64{.5, .5}, []float64{.9, .5}, []Band{TooEasy, Ideal}, .5)
	if !near(probs[0], .1) { // .2 × .5
		t.Errorf("weightless band: %g, want .1", probs[0])
	}
	if probs, _ = c.weigh([]float64{.3, .7}, []float64{.9, .8}, []Band{TooEasy, TooEasy}, .5); probs[0] != .3 {
		t.Errorf("all weightless: %g, want the prior's .3", probs[0])
	}
}

func TestWeighTilt(t *testing.T) {
	c := Default()
	c.Floor, c.MaxTilt = .1, 100
	c.Weights = BandWeights{1, 1, 1, 1}
	// Two equal states of rates 1/4 and 3/4: x on the easy one must give .25 + .5x = .35, so x = .2;
	// .2 = .9 y + .05 → y = 1/6, and y = 1/(1 + e^{λ/2}) → λ = 2 ln 5.
	probs, tilt := c.weigh([]float64{.5, .5}, []float64{.25, .75}, []Band{TooHard, TooEasy}, .35)
	if !near(probs[1], .2) || !near(tilt, 2*math.Log(5)) {
		t.Errorf("share %g, tilt %g, want .2 and %g", probs[1], tilt, 2*math.Log(5))
	}
	// Out of reach: the tilt stops at its bound, on the right side.
	c.MaxTilt = 20
	for _, x := range []struct{ rate, tilt float64 }{{.9, 20}, {.1, -20}} {
		if _, tilt := c.weigh([]float64{.5, .5}, []float64{x.rate, x.rate}, []Band{TooEasy, TooEasy}, .5); tilt != x.tilt {
			t.Errorf("all states at %g: tilt %g, want %g", x.rate, tilt, x.tilt)
		}
	}
}

// Whatever the statistics: shares add up to 1, no state of the support falls below its floor, states outside it stay
// out, and the expected completion is the aim unless the tilt is at its bound.
func TestWeighProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := []Band{Unjudged, TooHard, Ideal, TooEasy}
	for range 500 {
		c := Default()
		c.Floor = .01 + .5*rng.Float64()
		c.MaxTilt = 30 * rng.Float64()
		n := 2 + rng.IntN(30)
		prior, rate, bands := make([]float64, n), make([]float64, n), make([]Band, n)
		for i := range n {
			prior[i], rate[i], bands[i] = 1/float64(n-1), rng.Float64(), all[rng.IntN(4)]
		}
		prior[0] = 0
		probs, tilt := c.weigh(prior, rate, bands, .5)
		sum, expected := 0.0, 0.0
		for i, q := range probs {
			sum += q
			expected += q * rate[i]
			if q < c.Floor*prior[i]-1e-15 || prior[i] == 0 && q != 0 {
				t.Fatalf("share %g of a state with prior %g, floor %g", q, prior[i], c.Floor)
			}
		}
		if !near(sum, 1) {
			t.Fatalf("shares add up to %g", sum)
		}
		if !near(expected, .5) && !(math.Abs(tilt) >= c.MaxTilt*(1-1e-9)) {
			t.Fatalf("expected completion %g with tilt %g of %g", expected, tilt, c.MaxTilt)
		}
	}
}

func TestRates(t *testing.T) {
	s := &dialogue.Scenario{Dimensions: []dialogue.Dimension{{Name: "a", Levels: 2}, {Name: "b", Levels: 1}}}
	e := newEvidence(s)
	if got := e.rates(0); got[0] != .5 || got[1] != .5 {
		t.Errorf("nothing known: %g, want .5", got)
	}
	for i := range 10 { // level 0 of a: 8 of 10
		e.add(0, i < 8)
	}
	e.fade(.5) // 4 of 5
	if got := e.rates(0); got[0] != .8 {
		t.Errorf("without smoothing: %g, want .8", got[0])
	}
	g := additive(flat(e.count), flat(e.success), e.count.Shape())
	for i, want := range []float64{(4 + 2*g[0]) / 7, g[1]} { // the other level has no dialogues of its own
		if got := e.rates(2)[i]; !near(got, want) {
			t.Errorf("smoothed rate %d: %g, want %g", i, got, want)
		}
	}
	if flat(e.total)[0] != 10 || flat(e.succeeded)[0] != 8 {
		t.Errorf("lifetime counts fade: %g of %g", flat(e.succeeded)[0], flat(e.total)[0])
	}
}

// The fit is the stationary point of the penalised likelihood: an effect equals its residual, Σ (k − n p) over the
// states that share it.
func TestAdditive(t *testing.T) {
	s := world(0)
	rng := rand.New(rand.NewPCG(3, 4))
	e := newEvidence(s)
	truth := make([]float64, s.States())
	for i := range truth {
		st := s.StateAt(i)
		truth[i] = 1 / (1 + math.Exp(-(-4 + float64(st[0]) + .5*float64(st[1]) + .7*float64(st[2]))))
		for range 40 {
			e.add(i, rng.Float64() < truth[i])
		}
	}
	n, k := flat(e.count), flat(e.success)
	p := additive(n, k, e.count.Shape())
	logit := func(i int) float64 { return math.Log(p[i] / (1 - p[i])) }
	for d := range s.Dimensions { // level 0 against level 1 of one dimension, both of the same other levels
		a, b := make(dialogue.State, 3), make(dialogue.State, 3)
		b[d] = 1
		var residual [2]float64
		for i := range p {
			if l := s.StateAt(i)[d]; l < 2 {
				residual[l] += k[i] - n[i]*p[i]
			}
		}
		got, want := logit(s.StateIndex(a))-logit(s.StateIndex(b)), residual[0]-residual[1]
		if !(math.Abs(got-want) <= 1e-8) {
			t.Errorf("%s: effects differ by %g, residuals by %g", s.Dimensions[d].Name, got, want)
		}
	}
	worst := 0.0
	for i := range p {
		worst = max(worst, math.Abs(p[i]-truth[i]))
	}
	if !(worst <= .1) { // raw rates of 40 dialogues are off by 3 × √(.25/40) = .24 somewhere
		t.Errorf("fit is off by %.3f", worst)
	}
}
