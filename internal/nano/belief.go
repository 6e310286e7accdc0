package nano

// Belief is what an agent can know of the user: it is a function of the agent's own acts and the replies it heard, and
// of nothing else. Scripted agents decide by it and report it as their estimate, so that a model trained on them can
// learn to do the same.
type Belief struct {
	User       // estimates; Worry and Progress as heard
	Last Heard // the last reply itself
}

// firstBelief is the guess before anything was heard.
func firstBelief() Belief {
	return Belief{User: User{C: 2, E: 2, T: 2}, Last: Heard{Outcome: -1, HintC: -1, HintT: -1}}
}

// hear updates the belief after the agent did a and heard the reply.
func (b Belief) hear(a Act, h Heard) Belief {
	b.Last = h
	if h.Outcome >= 0 {
		b.User = apply(b.User, a, h.Outcome)
	}
	b.Worry, b.E = h.Worry, h.Emotion
	b.C, b.T = b.boundC(h), b.boundT(h)
	b.Progress = min(b.Progress, Claimed)
	return b
}

// boundC: what the reply proves about cooperation, after the outcome has moved the estimate.
func (b Belief) boundC(h Heard) int {
	switch {
	case h.HintC == 0:
		return min(b.C, 1)
	case h.HintC == 1:
		return 2
	case h.HintC == 2, h.Outcome == Done:
		return max(b.C, needC)
	case h.Outcome == Refuse:
		return min(b.C, needC-1)
	}
	return b.C
}

// boundT: the same for trust.
func (b Belief) boundT(h Heard) int {
	switch {
	case h.HintT == 0, h.Outcome == Distrust, h.Outcome == Doubt:
		return min(b.T, needT-1)
	case h.HintT == 1:
		return min(max(b.T, 2), 3)
	case h.HintT == 2:
		return max(b.T, 4)
	case h.Outcome == Done, h.Outcome == Refuse:
		return max(b.T, needT)
	}
	return b.T
}

// lowCooperation and lowTrust: the last reply itself says that the user needs more of it before it will do anything.
func (b Belief) lowCooperation() bool {
	return b.Last.Outcome == Refuse || b.Last.HintC == 0 || b.Last.HintC == 1
}

func (b Belief) lowTrust() bool {
	return b.Last.Outcome == Distrust || b.Last.Outcome == Doubt || b.Last.HintT == 0
}
