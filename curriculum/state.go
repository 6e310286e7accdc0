package curriculum

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"gorgonia.org/tensor"
)

// snapshot is everything that changes after New, and what must be the same for it to make sense.
type snapshot struct {
	Pools   string        `json:"pools"` // fingerprint: seed, library, support and pool settings
	RNG     []byte        `json:"rng"`
	Grids   [][]float64   `json:"grids"` // in the order of evidence.grids
	Probs   []float64     `json:"probs"`
	Bands   []Band        `json:"bands"`
	Tilt    float64       `json:"tilt"`
	Lead    float64       `json:"lead"`
	Steps   int           `json:"steps"`
	Updates int           `json:"updates"`
	Period  tally         `json:"period"`
	Used    map[int][]int `json:"used"`
}

func (e evidence) grids() []*tensor.Dense {
	return []*tensor.Dense{e.count, e.success, e.total, e.succeeded, e.dropped}
}

// fingerprint names the pools.
func (c *Controller) fingerprint() string {
	h := sha256.New()
	for i, pool := range c.pools {
		for _, comb := range pool {
			fmt.Fprintln(h, i, comb.ids(c.scn))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// State is the controller as JSON, at any point of a step. Restored into a controller of the same config, scenario and
// seed it goes on exactly as this one does.
func (c *Controller) State() ([]byte, error) {
	rng, err := c.rng.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("curriculum state: %w", err)
	}
	s := snapshot{
		Pools: c.fingerprint(), RNG: rng, Probs: c.probs, Bands: c.bands, Tilt: c.tilt, Lead: c.lead,
		Steps: c.steps, Updates: c.updates, Period: c.period, Used: c.used,
	}
	for _, g := range c.evidence.grids() {
		s.Grids = append(s.Grids, flat(g))
	}
	return json.Marshal(s)
}

// Restore takes up a State. On error the controller is as it was.
func (c *Controller) Restore(state []byte) error {
	var s snapshot
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("curriculum state: %w", err)
	}
	if got := c.fingerprint(); s.Pools != got {
		return fmt.Errorf("curriculum state: pools %s, this run's are %s: seed, scenario, support, pool or behaviours per profile changed",
			s.Pools, got)
	}
	grids := c.evidence.grids()
	ok := len(s.Grids) == len(grids) && len(s.Probs) == len(c.probs) && len(s.Bands) == len(c.bands)
	for _, g := range s.Grids {
		ok = ok && len(g) == len(c.probs)
	}
	if !ok {
		return fmt.Errorf("curriculum state: arrays do not fit the grid of %d states", len(c.probs))
	}
	rng := &rand.PCG{}
	if err := rng.UnmarshalBinary(s.RNG); err != nil {
		return fmt.Errorf("curriculum state: rng: %w", err)
	}
	for i, g := range grids {
		copy(flat(g), s.Grids[i])
	}
	c.rng, c.probs, c.bands, c.tilt, c.lead = rng, s.Probs, s.Bands, s.Tilt, s.Lead
	c.steps, c.updates, c.period, c.used = s.Steps, s.Updates, s.Period, s.Used
	return nil
}
