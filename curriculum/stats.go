package curriculum

import (
	"fmt"

	"seadtrain/dialogue"
	"seadtrain/internal/textgrid"
)

// StateStats is what the controller knows about one state.
type StateStats struct {
	State     dialogue.State `json:"state"`
	Dialogues int            `json:"dialogues"` // since the start, excluded ones left out
	Successes int            `json:"successes"`
	Excluded  int            `json:"excluded"`
	Count     float64        `json:"count"`  // dialogues as they have faded
	Rate      float64        `json:"rate"`   // estimate of the present completion rate
	Band      Band           `json:"band"`   // at the last update
	Weight    float64        `json:"weight"` // share of the profiles drawn now; all states together 1
}

// Stats is the controller's view of the grid.
type Stats struct {
	Steps   int          `json:"steps"`
	Updates int          `json:"updates"`
	Aim     float64      `json:"aim"`  // completion rate the present weights aim at
	Tilt    float64      `json:"tilt"` // λ of the last update
	Bands   map[Band]int `json:"bands"`
	States  []StateStats `json:"states"` // by Scenario.StateIndex
}

// Stats reports the present statistics.
func (c *Controller) Stats() Stats {
	out := Stats{
		Steps: c.steps, Updates: c.updates, Aim: c.cfg.Target - c.lead, Tilt: c.tilt,
		Bands: map[Band]int{}, States: make([]StateStats, len(c.probs)),
	}
	rates := c.rates()
	for i := range out.States {
		out.Bands[c.bands[i]]++
		out.States[i] = StateStats{
			State:     c.scn.StateAt(i),
			Dialogues: int(flat(c.evidence.total)[i]),
			Successes: int(flat(c.evidence.succeeded)[i]),
			Excluded:  int(flat(c.evidence.dropped)[i]),
			Count:     flat(c.evidence.count)[i],
			Rate:      rates[i], Band: c.bands[i], Weight: c.probs[i],
		}
	}
	return out
}

// Table is the grid for a terminal: estimated completion in %, the band's mark, and the share of profiles in %.
func (s Stats) Table(scn *dialogue.Scenario) string {
	marks := map[Band]string{TooHard: "-", Ideal: "=", TooEasy: "+", Unjudged: "?"}
	return textgrid.Render(scn, func(i int) string {
		st := s.States[i]
		if st.Weight == 0 {
			return "." // outside the support
		}
		if st.Count == 0 {
			return fmt.Sprintf("  ?%6.2f", 100*st.Weight)
		}
		return fmt.Sprintf("%2.0f%s%6.2f", 100*st.Rate, marks[st.Band], 100*st.Weight)
	}) + "completion % and band (- too hard, = ideal, + too easy, ? too few dialogues), share of profiles in %\n"
}
