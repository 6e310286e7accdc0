package curriculum

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"seadtrain/dialogue"
)

// Outcome is what became of one dialogue.
type Outcome struct {
	Profile  dialogue.Profile
	Success  bool
	Excluded bool // says nothing about the agent (dialogue.End.Excluded): counted, not judged
}

// Controller samples profiles and learns from outcomes which ones the present agent completes about half the time.
type Controller struct {
	cfg   Config
	scn   *dialogue.Scenario
	prior []float64       // share of each state before anything is known
	pools [][]combination // by state; nil outside the support

	rng      *rand.PCG
	evidence evidence
	probs    []float64     // share of each state now
	bands    []Band        // verdicts at the last update
	tilt     float64       // λ of the last update
	lead     float64       // by how much the aim is below the target
	steps    int           // steps ended
	updates  int           // updates made
	period   tally         // since the last update
	used     map[int][]int // by state: places of its pool given out in this step
}

// tally counts dialogues and successes, excluded ones left out.
type tally struct{ Dialogues, Successes int }

// New makes a controller. Seed decides the pools and every draw.
func New(cfg Config, s *dialogue.Scenario, seed uint64) (*Controller, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	prior, err := cfg.prior(s)
	if err != nil {
		return nil, err
	}
	sp, err := newSplit(s)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		cfg: cfg, scn: s, prior: prior, pools: make([][]combination, len(prior)),
		rng: rand.NewPCG(seed, 1<<32), evidence: newEvidence(s), probs: prior, bands: make([]Band, len(prior)),
		used: map[int][]int{},
	}
	for i, share := range prior {
		c.bands[i] = Unjudged
		if share == 0 {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		c.pools[i] = sp.pool(training, i, cfg.MinBehaviours, cfg.MaxBehaviours, cfg.Pool, rng)
		if len(c.pools[i]) == 0 {
			return nil, fmt.Errorf("scenario %s, state %v: no training combination of %d to %d behaviours goes with it",
				s.Name, s.StateAt(i), cfg.MinBehaviours, cfg.MaxBehaviours)
		}
	}
	return c, nil
}

// Sample draws exactly n profiles: states by their shares, then a combination of the state's pool. Within a step none
// comes twice while the support has others.
func (c *Controller) Sample(n int) []dialogue.Profile {
	out := make([]dialogue.Profile, n)
	if c.cfg.Sampler == None {
		for i := range out {
			out[i] = c.scn.NewProfile(nil, nil)
		}
		return out
	}
	rng := rand.New(c.rng)
	for i, state := range systematic(c.probs, n, rng) {
		state, place := c.place(state, rng)
		out[i] = c.scn.NewProfile(c.scn.StateAt(state), c.pools[state][place].ids(c.scn))
	}
	return out
}

// systematic draws n indices in proportion to w, each n·w/Σw times, rounded down or up: n points at equal distances over
// the indices in random order. Its averages are those of independent draws, with less noise from step to step.
func systematic(w []float64, n int, rng *rand.Rand) []int {
	order := rng.Perm(len(w))
	order = slices.DeleteFunc(order, func(i int) bool { return w[i] == 0 })
	total := 0.0
	for _, i := range order {
		total += w[i]
	}
	start := rng.Float64()
	out := make([]int, 0, n)
	sum := 0.0
	for k, i := range order {
		sum += w[i] / total * float64(n)
		for len(out) < n && (float64(len(out))+start < sum || k == len(order)-1) { // the last takes what rounding leaves
			out = append(out, i)
		}
	}
	return out
}

// place picks a profile of the state that was given out least often in this step, or of another state if only others
// have one that was given out less often.
func (c *Controller) place(state int, rng *rand.Rand) (int, int) {
	for round := 0; ; round++ { // in round r every profile was given out r or r+1 times
		open := slices.Clone(c.probs)
		any := false
		for i := range open {
			if len(c.used[i]) >= (round+1)*len(c.pools[i]) {
				open[i] = 0
			}
			any = any || open[i] > 0
		}
		if !any {
			continue
		}
		if open[state] == 0 {
			state = systematic(open, 1, rng)[0]
		}
		size := len(c.pools[state])
		for {
			place := rng.IntN(size)
			if !slices.Contains(c.used[state][round*size:], place) {
				c.used[state] = append(c.used[state], place)
				return state, place
			}
		}
	}
}

// Observe takes in outcomes of the running step, in any number of calls. Their order does not matter.
func (c *Controller) Observe(outcomes []Outcome) error {
	for i, o := range outcomes {
		if err := c.scn.CheckState(o.Profile.State); err != nil && c.cfg.Sampler != None {
			return fmt.Errorf("outcome %d, profile %q: %w", i, o.Profile.ID, err)
		}
	}
	for _, o := range outcomes {
		if !o.Excluded {
			c.period.Dialogues++
			if o.Success {
				c.period.Successes++
			}
		}
		if c.cfg.Sampler == None {
			continue
		}
		state := c.scn.StateIndex(o.Profile.State)
		if o.Excluded {
			flat(c.evidence.dropped)[state]++
		} else {
			c.evidence.add(state, o.Success)
		}
	}
	return nil
}

// EndStep closes a step: every Period steps the weights are updated (true), and evidence fades.
func (c *Controller) EndStep() bool {
	c.steps++
	clear(c.used)
	due := c.steps%c.cfg.Period == 0
	if due {
		c.update()
	}
	c.evidence.fade(c.cfg.Decay)
	return due
}

// update is the error analysis: bands with every sampler, new weights with Bands.
func (c *Controller) update() {
	rates := c.rates()
	for i, n := range flat(c.evidence.count) {
		c.bands[i] = c.cfg.band(rates[i], n)
	}
	if c.cfg.Sampler == Bands {
		c.probs, c.tilt = c.cfg.weigh(c.prior, rates, c.bands, c.aim())
	}
	c.updates++
	c.period = tally{}
}

func (c *Controller) rates() []float64 { return c.evidence.rates(c.cfg.Smoothing) }

// aim is the completion rate that the next weights should give. The first period was drawn at random, so its miss is
// not the controller's; later ones move the lead, by at most maxLead in all.
func (c *Controller) aim() float64 {
	const maxLead = .2
	if c.updates > 0 && c.period.Dialogues > 0 {
		miss := float64(c.period.Successes)/float64(c.period.Dialogues) - c.cfg.Target
		c.lead = min(max(c.lead+c.cfg.Gain*miss, -maxLead), maxLead)
	}
	return c.cfg.Target - c.lead
}
