package nano

// Result is how a scripted agent fares against the rules.
type Result struct {
	Completed []int   // per initial state, in grid order: successes
	PerState  int     // dialogues per initial state
	Turns     float64 // mean turns of a dialogue
}

// Rate is the completion rate over all states.
func (r Result) Rate() float64 {
	sum := 0
	for _, n := range r.Completed {
		sum += n
	}
	return share(sum, len(r.Completed)*r.PerState)
}

// Simulate plays a scripted agent from every initial state, with behaviours drawn anew each time.
func (r *Rules) Simulate(policy Policy, perState int, seed uint64) (Result, error) {
	result := Result{Completed: make([]int, r.Scenario.States()), PerState: perState}
	rng := newRand(seed, 2)
	turns := 0
	for i := range result.Completed {
		for range perState {
			talk, err := r.Play(r.ProfileAt(r.Scenario.StateAt(i), rng), policy, rng)
			if err != nil {
				return Result{}, err
			}
			turns += len(talk)
			if Agreed(talk) {
				result.Completed[i]++
			}
		}
	}
	result.Turns = float64(turns) / float64(perState*len(result.Completed))
	return result, nil
}
