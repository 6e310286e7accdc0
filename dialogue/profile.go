package dialogue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// State is one point of the user's hidden state: a level per dimension, in the scenario's order.
type State []int

// Equal reports whether two states are the same point.
func (st State) Equal(other State) bool { return slices.Equal(st, other) }

// String is "3-1-0": the levels in order, fit for keys and file names.
func (st State) String() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint([]int(st)), "[]"), " ", "-")
}

// Profile is a user before the call: initial conditions only. What happens then is the role-play model's affair.
// A nil State with no Behaviours is the user of the ablation that is told neither.
type Profile struct {
	ID         string   `json:"id"` // stable hash of the fields below, see ProfileID
	Scenario   string   `json:"scenario"`
	Language   string   `json:"language"`
	State      State    `json:"state"`
	Behaviours []string `json:"behaviours"` // behaviour ids, sorted
}

// NewProfile is the profile of this scenario with that state and those behaviours, sorted and named. It takes copies
// and checks nothing: see CheckProfile.
func (s *Scenario) NewProfile(st State, behaviours []string) Profile {
	p := Profile{
		Scenario: s.Name, Language: s.Language,
		State: slices.Clone(st), Behaviours: slices.Sorted(slices.Values(behaviours)),
	}
	p.ID = ProfileID(p)
	return p
}

// ProfileID is the name that a profile's content gives it: 12 hex digits of a hash over scenario, language, state and
// sorted behaviours. Equal profiles have equal ids in every run, machine and version.
func ProfileID(p Profile) string {
	behaviours := append([]string{}, p.Behaviours...) // never nil: nil and empty are the same profile
	slices.Sort(behaviours)
	content, err := json.Marshal([]any{p.Scenario, p.Language, append([]int{}, p.State...), behaviours})
	if err != nil {
		panic(err) // strings and ints always marshal
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// CheckProfile reports all that keeps a profile from being used with this scenario: another scenario or language, a
// state outside the grid, unknown, repeated or unsorted behaviours, behaviours that contradict the state, a wrong id.
func (s *Scenario) CheckProfile(p Profile) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("profile %s: "+format, append([]any{p.ID}, args...)...))
	}
	if p.Scenario != s.Name || p.Language != s.Language {
		bad("is of scenario %s/%s, not %s/%s", p.Scenario, p.Language, s.Name, s.Language)
	}
	if want := ProfileID(p); p.ID != want {
		bad("id does not match the content, which gives %s", want)
	}
	if p.State == nil && len(p.Behaviours) == 0 {
		return errors.Join(errs...)
	}
	if err := s.CheckState(p.State); err != nil {
		bad("%w", err)
		return errors.Join(errs...)
	}
	for i, id := range p.Behaviours {
		if i > 0 && p.Behaviours[i-1] >= id {
			bad("behaviours must be sorted and without repetition; %q follows %q", id, p.Behaviours[i-1])
		}
		b := s.Behaviour(id)
		if b == nil {
			bad("behaviour %q is not in the library", id)
		} else if dim, hit := s.contradiction(*b, p.State); hit {
			bad("behaviour %q contradicts %s %d", id, dim.Name, p.State[s.DimensionIndex(dim.Name)])
		}
	}
	return errors.Join(errs...)
}

// CheckState reports whether a state is a point of the grid.
func (s *Scenario) CheckState(st State) error {
	if len(st) != len(s.Dimensions) {
		return fmt.Errorf("state has %d levels, the scenario %d dimensions", len(st), len(s.Dimensions))
	}
	for i, d := range s.Dimensions {
		if st[i] < 0 || st[i] >= d.Levels {
			return fmt.Errorf("%s is %d, not within 0..%d", d.Name, st[i], d.Levels-1)
		}
	}
	return nil
}

// Consistent reports whether a behaviour can go with a state: none of its contradictions holds.
func (s *Scenario) Consistent(b Behaviour, st State) bool {
	_, hit := s.contradiction(b, st)
	return !hit
}

// ConsistentBehaviours lists, in library order, the behaviours that can go with a state.
func (s *Scenario) ConsistentBehaviours(st State) []Behaviour {
	var fit []Behaviour
	for _, b := range s.Behaviours {
		if s.Consistent(b, st) {
			fit = append(fit, b)
		}
	}
	return fit
}

// contradiction is the first dimension in which the behaviour contradicts the state.
func (s *Scenario) contradiction(b Behaviour, st State) (Dimension, bool) {
	for i, d := range s.Dimensions {
		if slices.Contains(b.Contradicts[d.Name], st[i]) {
			return d, true
		}
	}
	return Dimension{}, false
}

// Behaviour is the library's entry with that id, nil if there is none.
func (s *Scenario) Behaviour(id string) *Behaviour {
	for i := range s.Behaviours {
		if s.Behaviours[i].ID == id {
			return &s.Behaviours[i]
		}
	}
	return nil
}

// DimensionIndex is the place of a dimension, -1 if there is none of that name.
func (s *Scenario) DimensionIndex(name string) int {
	return slices.IndexFunc(s.Dimensions, func(d Dimension) bool { return d.Name == name })
}
