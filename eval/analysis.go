package eval

import (
	"cmp"
	"fmt"
	"slices"

	"seadtrain/dialogue"
	"seadtrain/internal/textgrid"
)

// Bands are the verdicts' bounds, as completion rates.
type Bands struct {
	Low      float64 // below: too hard
	High     float64 // above: too easy
	MinCount int     // dialogues from which a state is judged; 0: from the first
}

// DefaultBands are the paper's; the minimum is ours: three dialogues can hardly be anything but easy or hard.
func DefaultBands() Bands { return Bands{Low: .4, High: .6, MinCount: 4} }

// Completion is how often dialogues succeed.
type Completion struct {
	Dialogues int     `json:"dialogues"`
	Successes int     `json:"successes"`
	Rate      float64 `json:"rate"`
	Low       float64 `json:"low"` // Wilson's 95 % interval, as if dialogues were independent
	High      float64 `json:"high"`
}

func (c *Completion) finish() {
	c.Rate = float64(c.Successes) / float64(max(c.Dialogues, 1))
	c.Low, c.High = Wilson(c.Successes, c.Dialogues)
}

// StateCompletion is that of dialogues which begin in one state.
type StateCompletion struct {
	State dialogue.State `json:"state"`
	Completion
}

// LevelCompletion is that of dialogues which begin at one level of a dimension.
type LevelCompletion struct {
	Dimension string `json:"dimension"`
	Level     int    `json:"level"`
	Completion
}

// Analysis is the error analysis: completion by initial state.
type Analysis struct {
	TooEasy  []StateCompletion `json:"too_easy"` // easiest first
	Ideal    []StateCompletion `json:"ideal"`    // in grid order, like the unjudged
	TooHard  []StateCompletion `json:"too_hard"` // hardest first
	Unjudged []StateCompletion `json:"unjudged"` // some dialogues, but too few
	Levels   []LevelCompletion `json:"levels"`   // by dimension and level, which few dialogues suffice for
	// Reported counts dialogues without a profile: the state in the user's first message stands for the initial one.
	Reported int `json:"reported"`
	Unplaced int `json:"unplaced"` // dialogues with neither

	grid []StateCompletion // every state
	scn  *dialogue.Scenario
}

// Analyse sorts the initial states by completion rate. Excluded dialogues do not count.
func Analyse(s *dialogue.Scenario, episodes []dialogue.Episode, b Bands) Analysis {
	a := Analysis{
		TooEasy: []StateCompletion{}, Ideal: []StateCompletion{}, TooHard: []StateCompletion{},
		Unjudged: []StateCompletion{}, grid: make([]StateCompletion, s.States()), scn: s,
	}
	for i := range episodes {
		ep := &episodes[i]
		if ep.End.Excluded() {
			continue
		}
		st := ep.Profile.State
		if s.CheckState(st) != nil {
			var ok bool
			if st, ok = reported(s, ep); !ok {
				a.Unplaced++
				continue
			}
			a.Reported++
		}
		c := &a.grid[s.StateIndex(st)]
		c.Dialogues++
		if ep.FinalStatus == dialogue.StatusSuccess {
			c.Successes++
		}
	}
	for d, dim := range s.Dimensions {
		for l := range dim.Levels {
			level := LevelCompletion{Dimension: dim.Name, Level: l}
			for i := range a.grid {
				if s.StateAt(i)[d] == l {
					level.Dialogues += a.grid[i].Dialogues
					level.Successes += a.grid[i].Successes
				}
			}
			level.finish()
			a.Levels = append(a.Levels, level)
		}
	}
	a.judge(b)
	return a
}

func (a *Analysis) judge(b Bands) {
	for i := range a.grid {
		c := &a.grid[i]
		c.State = a.scn.StateAt(i)
		c.finish()
		list := &a.Ideal
		switch {
		case c.Dialogues == 0:
			continue
		case c.Dialogues < b.MinCount:
			list = &a.Unjudged
		case c.Rate < b.Low:
			list = &a.TooHard
		case c.Rate > b.High:
			list = &a.TooEasy
		}
		*list = append(*list, *c)
	}
	slices.SortStableFunc(a.TooHard, func(x, y StateCompletion) int { return cmp.Compare(x.Rate, y.Rate) })
	slices.SortStableFunc(a.TooEasy, func(x, y StateCompletion) int { return cmp.Compare(y.Rate, x.Rate) })
}

// reported is the state in the user's first message.
func reported(s *dialogue.Scenario, ep *dialogue.Episode) (dialogue.State, bool) {
	for _, m := range ep.Messages {
		if m.Role == dialogue.User {
			st, ok := s.User.Protocol.StateOf(m.Values, s.Dimensions)
			return st, ok && s.CheckState(st) == nil
		}
	}
	return nil, false
}

// Grid is a table for a terminal: completion in % and the number of dialogues, by initial state.
func (a *Analysis) Grid() string {
	return textgrid.Render(a.scn, func(i int) string {
		c := a.grid[i]
		if c.Dialogues == 0 {
			return "."
		}
		return fmt.Sprintf("%.0f%% %3d", 100*c.Rate, c.Dialogues)
	}) + "completion and dialogues, by initial state\n"
}

// Summary is a few lines for a terminal: states by verdict, and completion by level of each dimension.
func (a *Analysis) Summary() string {
	var rows [][]string
	for _, l := range a.Levels {
		if l.Level == 0 {
			rows = append(rows, []string{l.Dimension})
		}
		last := &rows[len(rows)-1]
		*last = append(*last, fmt.Sprintf("%d: %.0f%% of %d", l.Level, 100*l.Rate, l.Dialogues))
	}
	text := fmt.Sprintf("initial states: %d too hard, %d ideal, %d too easy, %d with too few dialogues\n",
		len(a.TooHard), len(a.Ideal), len(a.TooEasy), len(a.Unjudged))
	if a.Reported > 0 {
		text += fmt.Sprintf("%d dialogues of unknown profile count by the state in the user's first message\n", a.Reported)
	}
	if a.Unplaced > 0 {
		text += fmt.Sprintf("%d dialogues have neither a profile nor such a state\n", a.Unplaced)
	}
	return text + textgrid.Columns(rows, 1)
}
