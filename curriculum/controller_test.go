package curriculum

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"seadtrain/dialogue"
)

func newController(t *testing.T, cfg Config, s *dialogue.Scenario, seed uint64) *Controller {
	t.Helper()
	c, err := New(cfg, s, seed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// chiSquare fails if counts do not follow shares at α = .001 (Wilson and Hilferty's approximation of the quantile).
func chiSquare(t *testing.T, counts []int, shares []float64) {
	t.Helper()
	n, df, sum := 0, -1.0, 0.0
	for _, c := range counts {
		n += c
	}
	for i, c := range counts {
		expected := float64(n) * shares[i]
		if expected == 0 {
			if c > 0 {
				t.Errorf("state %d has share 0 and was drawn %d times", i, c)
			}
			continue
		}
		if expected < 5 {
			t.Fatalf("state %d: only %g draws expected: the test needs more", i, expected)
		}
		df++
		sum += (float64(c) - expected) * (float64(c) - expected) / expected
	}
	const z = 3.0902 // normal quantile at .999
	if limit := df * math.Pow(1-2/(9*df)+z*math.Sqrt(2/(9*df)), 3); !(sum <= limit) {
		t.Errorf("chi-square %.1f on %g degrees of freedom, limit %.1f", sum, df, limit)
	}
}

// counts draws steps × n profiles while the weights stand.
func counts(c *Controller, steps, n int) []int {
	out := make([]int, c.scn.States())
	for range steps {
		for _, p := range c.Sample(n) {
			out[c.scn.StateIndex(p.State)]++
		}
		clear(c.used)
	}
	return out
}

// mixed trains a few periods so that all bands occur: chance rises with cooperation.
func mixed(t *testing.T, c *Controller, steps int) {
	t.Helper()
	for step := range steps {
		rng := rand.New(rand.NewPCG(uint64(c.steps), uint64(step)))
		var out []Outcome
		for _, p := range c.Sample(c.cfg.Profiles) {
			for range 8 {
				out = append(out, Outcome{Profile: p, Success: rng.Float64() < float64(p.State[0])/4})
			}
		}
		if err := c.Observe(out); err != nil {
			t.Fatal(err)
		}
		c.EndStep()
	}
}

func TestFrequenciesFollowWeights(t *testing.T) {
	for _, support := range []string{Full, Published} {
		cfg := Default()
		cfg.Support = support
		c := newController(t, cfg, world(40), 3)
		prior, err := cfg.prior(c.scn)
		if err != nil {
			t.Fatal(err)
		}
		chiSquare(t, counts(c, 1000, 60), prior) // the first iteration is random
		mixed(t, c, 30)
		bands := c.Stats().Bands
		if support == Full && (bands[TooHard] == 0 || bands[Ideal] == 0 || bands[TooEasy] == 0) {
			t.Errorf("not all bands occur: %v", bands)
		}
		if reflect.DeepEqual(c.probs, prior) {
			t.Error("weights did not move")
		}
		chiSquare(t, counts(c, 3000, 60), c.probs)
	}
}

// The agent completes nothing of one half and everything of the other, for long: every state still has its floor and
// still comes.
func TestEveryStateReachable(t *testing.T) {
	cfg := Default()
	c := newController(t, cfg, world(40), 3)
	for range 50 {
		var out []Outcome
		for _, p := range c.Sample(cfg.Profiles) {
			for range 8 {
				out = append(out, Outcome{Profile: p, Success: p.State[2] > 2})
			}
		}
		if err := c.Observe(out); err != nil {
			t.Fatal(err)
		}
		c.EndStep()
	}
	for i, n := range counts(c, 500, 60) { // floor: .1/120 × 30,000 = 25 draws expected at the least
		if n == 0 || c.probs[i] < cfg.Floor/120*(1-1e-9) {
			t.Errorf("state %v: share %g, drawn %d times", c.scn.StateAt(i), c.probs[i], n)
		}
	}
}

// A step gives every state its n × share, rounded down or up.
func TestSystematic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	w := []float64{0, .2, .5, 0, .3, 0}
	for n := range 50 {
		got := make([]int, len(w))
		for _, i := range systematic(w, n, rng) {
			got[i]++
		}
		for i, share := range w {
			if exact := share * float64(n); !(math.Abs(float64(got[i])-exact) <= 1-1e-9) && exact != float64(got[i]) {
				t.Errorf("%d draws: %d of index %d, want about %g", n, got[i], i, exact)
			}
		}
	}
	// Neighbours in the grid do not exclude each other: both levels of trust's parity come in one step.
	c := newController(t, Default(), world(40), 1)
	var parity [2]int
	for _, p := range c.Sample(60) {
		parity[p.State[2]%2]++
	}
	if parity[0] < 10 || parity[1] < 10 {
		t.Errorf("trust even %d, odd %d of 60", parity[0], parity[1])
	}
}

func TestSampleExactlyWithoutRepetition(t *testing.T) {
	s := &dialogue.Scenario{Name: "small", Language: "en", Dimensions: []dialogue.Dimension{{Name: "a", Levels: 2}}}
	for _, id := range []string{"p", "q", "r", "s"} {
		s.Behaviours = append(s.Behaviours, dialogue.Behaviour{ID: id})
	}
	c := newController(t, Default(), s, 1)
	stock := len(c.pools[0]) + len(c.pools[1])
	c.probs = []float64{.99, .01} // the small share must give way when the big one's pool is empty
	for _, n := range []int{0, 1, stock, stock + 1, 3*stock + 2} {
		times := map[string]int{}
		got := append(c.Sample(n/2), c.Sample(n-n/2)...) // a step may sample more than once
		for _, p := range got {
			times[p.ID]++
			if err := s.CheckProfile(p); err != nil {
				t.Error(err)
			}
		}
		if len(got) != n {
			t.Errorf("asked for %d, got %d", n, len(got))
		}
		for id, k := range times {
			if lo, hi := n/stock, (n+stock-1)/stock; k < lo || k > hi {
				t.Errorf("%d of a stock of %d: profile %s comes %d times", n, stock, id, k)
			}
		}
		c.EndStep()
	}
}

// N + N steps equal 2N, through the JSON state, also in the middle of a step.
func TestStateRestore(t *testing.T) {
	cfg := Default()
	cfg.Profiles, cfg.Period, cfg.Pool = 20, 3, 3 // so small a pool that what was given out matters
	whole := newController(t, cfg, world(40), 8)
	mixed(t, whole, 7)
	first := whole.Sample(11)
	state, err := whole.State()
	if err != nil {
		t.Fatal(err)
	}
	resumed := newController(t, cfg, world(40), 8)
	mixed(t, resumed, 2) // whatever it was before
	if err := resumed.Restore(state); err != nil {
		t.Fatal(err)
	}
	if a, b := whole.Sample(300), resumed.Sample(300); !reflect.DeepEqual(a, b) {
		t.Error("other profiles in the same step")
	}
	for _, c := range []*Controller{whole, resumed} {
		if err := c.Observe([]Outcome{{Profile: first[0], Excluded: true}}); err != nil {
			t.Fatal(err)
		}
		c.EndStep()
		mixed(t, c, 7)
	}
	a, _ := whole.State()
	b, _ := resumed.State()
	if string(a) != string(b) || !reflect.DeepEqual(whole.Stats(), resumed.Stats()) {
		t.Error("states differ after 7 + 8 steps")
	}

	other := newController(t, cfg, world(40), 9)
	before, _ := other.State()
	for name, bad := range map[string]string{
		"another seed": string(a),
		"no JSON":      "{",
		"short arrays": strings.Replace(string(before), `"bands":["unjudged",`, `"bands":[`, 1),
		"no generator": strings.Replace(string(before), `"rng":"`, `"rng":"AAAA`, 1),
	} {
		if err := other.Restore([]byte(bad)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if after, _ := other.State(); string(after) != string(before) {
		t.Error("a refused state left traces")
	}
}

func TestObserve(t *testing.T) {
	cfg := Default()
	cfg.Period = 1
	c := newController(t, cfg, world(40), 1)
	p := c.Sample(1)[0]
	i := c.scn.StateIndex(p.State)
	err := c.Observe([]Outcome{{p, true, false}, {p, false, false}, {p, true, true}})
	if err != nil {
		t.Fatal(err)
	}
	st := c.Stats().States[i]
	if st.Dialogues != 2 || st.Successes != 1 || st.Excluded != 1 || st.Count != 2 || st.Rate != .5 {
		t.Errorf("one success, one failure, one excluded: %+v", st)
	}
	if c.EndStep(); !near(c.Stats().States[i].Count, 2*cfg.Decay) {
		t.Errorf("count %g after a step, want 2 × .85", c.Stats().States[i].Count)
	}
	before, _ := c.State()
	bad := p
	bad.State = dialogue.State{5, 0, 0}
	if err := c.Observe([]Outcome{{Profile: p}, {Profile: bad}}); err == nil || !strings.Contains(err.Error(), "outcome 1") {
		t.Errorf("cooperation 5: error %v", err)
	}
	if after, _ := c.State(); string(after) != string(before) {
		t.Error("refused outcomes were counted")
	}
}

// The aim moves by Gain × miss from the second update on, and no further than .2 in all.
func TestAim(t *testing.T) {
	cfg := Default()
	cfg.Period = 1
	c := newController(t, cfg, world(40), 1)
	p := c.Sample(1)[0]
	for i, x := range []struct {
		successes int // of 10
		aim       float64
	}{
		{10, .5}, // the first period was random
		{7, .4},  // .5 − .5 × .2
		{8, .3},  // .4 − .5 × .3 = .25, cut
		{4, .35}, // .3 + .5 × .1
	} {
		for k := range 10 {
			if err := c.Observe([]Outcome{{Profile: p, Success: k < x.successes}}); err != nil {
				t.Fatal(err)
			}
		}
		if c.EndStep(); !near(c.Stats().Aim, x.aim) {
			t.Errorf("update %d: aim %g, want %g", i, c.Stats().Aim, x.aim)
		}
	}
}

func TestAblations(t *testing.T) {
	cfg := Default()
	cfg.Sampler = Uniform
	c := newController(t, cfg, world(40), 1)
	mixed(t, c, 20)
	if !reflect.DeepEqual(c.probs, c.prior) || c.Stats().Bands[TooEasy] == 0 {
		t.Errorf("uniform: weights must stay and bands be judged: %v", c.Stats().Bands)
	}
	cfg.Sampler = None
	c = newController(t, cfg, world(40), 1)
	ps := c.Sample(5)
	if len(ps) != 5 || ps[4].State != nil || len(ps[4].Behaviours) != 0 || c.scn.CheckProfile(ps[4]) != nil {
		t.Errorf("none: %+v", ps)
	}
	if err := c.Observe([]Outcome{{Profile: ps[0], Success: true}}); err != nil {
		t.Error(err)
	}
	c.EndStep()
}

func TestTable(t *testing.T) {
	c := newController(t, Default(), world(40), 1)
	mixed(t, c, 10)
	lines := strings.Split(c.Stats().Table(c.scn), "\n")
	// a header, 5 × 4 rows, the legend, and what follows the last newline
	if len(lines) != 23 || len(strings.Fields(lines[0])) != 2+2*6 {
		t.Errorf("%d lines, header %q", len(lines), lines[0])
	}
	for _, line := range lines {
		if len(line) > 100 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
}
