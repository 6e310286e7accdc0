package curriculum

import (
	"fmt"
	"math/rand/v2"

	"seadtrain/dialogue"
)

// HeldOut gives n profiles for evaluation with 1–3 behaviours in combinations that no training pool of any seed uses.
// States of the whole grid take turns, so that from n = States() on every state is there, and none more than once more
// than another. A state comes back with another combination while it has one; after that profiles repeat.
func HeldOut(s *dialogue.Scenario, n int, seed uint64) ([]dialogue.Profile, error) {
	if n < 1 {
		return nil, fmt.Errorf("held-out set: %d profiles: at least 1", n)
	}
	sp, err := newSplit(s)
	if err != nil {
		return nil, fmt.Errorf("held-out set: %w", err)
	}
	states := s.States()
	order := rand.New(rand.NewPCG(seed, 1<<33)).Perm(states)
	pools := make([][]combination, states)
	out := make([]dialogue.Profile, n)
	for i := range out {
		state, turn := order[i%states], i/states
		if pools[state] == nil {
			rng := rand.New(rand.NewPCG(seed, 1<<33+1+uint64(state)))
			pools[state] = sp.pool(heldOut, state, fewest, most, (n+states-1)/states, rng)
		}
		c := pools[state][turn%len(pools[state])]
		out[i] = s.NewProfile(s.StateAt(state), c.ids(s))
	}
	return out, nil
}
