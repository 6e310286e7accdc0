package nano

import (
	"fmt"
	"slices"

	"seadtrain/dialogue"
)

// Fidelity counts how truly a role-play model plays its profiles, turn by turn against the rules. Each turn is judged
// from the state that the model itself reported the turn before, so one slip counts once.
type Fidelity struct {
	Turns      int `json:"turns"`      // messages of the user
	Malformed  int `json:"malformed"`  // of these, broken under the tag protocol; not judged further
	Unreadable int `json:"unreadable"` // well-formed, but the thought is none; counts against worry and progress

	State    int `json:"state"`    // turns whose cooperation, emotion and trust are what the rules say
	Progress int `json:"progress"` // turns whose progress is
	Worry    int `json:"worry"`    // turns whose worry is one that the rules allow

	Agreed       int `json:"agreed"`        // agreed when the rules agree
	FalseAgreed  int `json:"false_agreed"`  // agreed when they do not
	MissedAgreed int `json:"missed_agreed"` // did not when they do

	HangUps  int     `json:"hang_ups"`          // hung up
	Expected float64 `json:"expected_hang_ups"` // sum of the rules' chances of that over the same turns
}

// Add sums counts.
func (f *Fidelity) Add(g Fidelity) {
	f.Turns += g.Turns
	f.Malformed += g.Malformed
	f.Unreadable += g.Unreadable
	f.State += g.State
	f.Progress += g.Progress
	f.Worry += g.Worry
	f.Agreed += g.Agreed
	f.FalseAgreed += g.FalseAgreed
	f.MissedAgreed += g.MissedAgreed
	f.HangUps += g.HangUps
	f.Expected += g.Expected
}

// Rates as shares of the turns; 0 where there are none.
func (f Fidelity) FormatRate() float64        { return share(f.Turns-f.Malformed, f.Turns) }
func (f Fidelity) StateAgreement() float64    { return share(f.State, f.Turns-f.Malformed) }
func (f Fidelity) ProgressAgreement() float64 { return share(f.Progress, f.Turns-f.Malformed) }
func (f Fidelity) WorryAgreement() float64    { return share(f.Worry, f.Turns-f.Malformed) }

func share(k, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(k) / float64(n)
}

func (f Fidelity) String() string {
	return fmt.Sprintf("format %.4f, state %.3f, progress %.3f, worry %.3f; agreed %d (false %d, missed %d), hang-ups %d (expected %.1f) in %d turns",
		f.FormatRate(), f.StateAgreement(), f.ProgressAgreement(), f.WorryAgreement(), f.Agreed, f.FalseAgreed, f.MissedAgreed, f.HangUps, f.Expected, f.Turns)
}

// Judge compares the user's side of an episode with the rules.
func (r *Rules) Judge(ep *dialogue.Episode) (Fidelity, error) {
	var f Fidelity
	user, set, err := r.start(ep.Profile)
	if err != nil {
		return f, fmt.Errorf("judge episode %s: %w", ep.ID, err)
	}
	says := ""
	for _, m := range ep.Messages {
		if m.Role == dialogue.Agent {
			says = r.Scenario.UserHears(m)
			continue
		}
		f.Turns++
		if m.Values == nil {
			f.Malformed++
			continue
		}
		if user, err = r.judgeTurn(&f, user, set, r.Ear.Act(says), m.Values); err != nil {
			return f, fmt.Errorf("judge episode %s: %w", ep.ID, err)
		}
	}
	return f, nil
}

// judgeTurn judges one well-formed message and returns the state it reports.
func (r *Rules) judgeTurn(f *Fidelity, before User, set traitSet, a Act, values map[string]string) (User, error) {
	p := &r.Scenario.User.Protocol
	level, ok := p.StateOf(values, r.Scenario.Dimensions)
	status, okStatus := p.Status(values)
	if !ok || !okStatus {
		return before, fmt.Errorf("a user message has no state or no status: %v", values)
	}
	outcome := respond(before, set, a)
	want := apply(before, a, outcome)
	got := want
	got.C, got.E, got.T = level[0], level[1], level[2]
	if got == want {
		f.State++
	}
	thought, ok := ParseThought(values[p.ByMeaning(dialogue.MeansPrivate).Tag])
	if ok {
		got.Worry, got.Progress = thought.Worry, thought.Progress
		if got.Progress == want.Progress {
			f.Progress++
		}
		if got.Worry == want.Worry || slices.Contains(canWorry(before, want, set, outcome), got.Worry) {
			f.Worry++
		}
	} else {
		f.Unreadable++
	}
	f.countStatus(status, outcome, want)
	return got, nil
}

// countStatus books the end that the user chose, or did not choose, against the rules.
func (f *Fidelity) countStatus(status int, o Outcome, want User) {
	switch {
	case status == agreed && o == Agree:
		f.Agreed++
	case status == agreed:
		f.FalseAgreed++
	case o == Agree:
		f.MissedAgreed++
	}
	if o != Agree && o != Farewell {
		f.Expected += hangUp(want, o)
		if status == refused {
			f.HangUps++
		}
	}
}
