package nano

import "math/rand/v2"

// Policy is a scripted agent's choice: a distribution over acts, given what it believes. A distribution, not a draw,
// so that the mode (what a model trained on the policy does when it is greedy) can be simulated too.
type Policy func(b Belief) [acts]float64

func only(a Act) (d [acts]float64) {
	d[a] = 1
	return d
}

// Oracle does the best act for its belief: answer the worry, calm, earn trust, raise interest, then the next step.
func Oracle(b Belief) [acts]float64 { return only(bestAct(b)) }

func bestAct(b Belief) Act {
	switch {
	case b.Worry != NoWorry:
		return b.Worry.Remedy()
	case b.Progress == Stranger:
		return Greet
	case b.Progress == Claimed:
		return Check
	case b.E == 0, b.E < 2 && b.C+b.T < 5:
		return Comfort
	case b.Progress == Met:
		return Offer
	case b.T < needT:
		return Proof
	case b.C < needC:
		return Example
	}
	return b.nextStep()
}

// nextStep asks for what is due on the phone.
func (b Belief) nextStep() Act { return AskApp + Act(b.Progress-Told) }

// Random does any act but leaving, whatever it heard.
func Random(Belief) (d [acts]float64) {
	for a := Greet; a < Bye; a++ {
		d[a] = 1 / float64(Bye-Greet)
	}
	return d
}

// Script follows the operating procedure and is deaf to everything else.
func Script(b Belief) [acts]float64 {
	switch b.Progress {
	case Stranger:
		return only(Greet)
	case Met:
		return only(Offer)
	case Claimed:
		return only(Check)
	}
	var d [acts]float64
	d[b.nextStep()] = .7
	for _, a := range []Act{Push, Offer, Free} {
		d[a] += .1
	}
	return d
}

// Reactive answers what the last reply said and else does the next step. It keeps no account of levels: nothing but the
// progress must be remembered, so it is what a small model can learn from text.
func Reactive(b Belief) [acts]float64 {
	switch {
	case b.Worry != NoWorry:
		return only(b.Worry.Remedy())
	case b.Progress == Stranger:
		return only(Greet)
	case b.Progress == Claimed:
		return only(Check)
	case b.E == 0:
		return only(Comfort)
	case b.Progress == Met:
		return only(Offer)
	case b.lowTrust():
		return only(Proof)
	case b.lowCooperation():
		return only(Example)
	}
	return only(b.nextStep())
}

// Mixture does what good does with probability skill(b), any act with probability random, and else follows the script.
func Mixture(good Policy, skill func(Belief) float64, random float64) Policy {
	return func(b Belief) (d [acts]float64) {
		k := skill(b)
		best, any, script := good(b), Random(b), Script(b)
		for a := range d {
			d[a] = k*best[a] + random*any[a] + (1-k-random)*script[a]
		}
		return d
	}
}

// Greedy always does a policy's most likely act.
func Greedy(p Policy) Policy {
	return func(b Belief) [acts]float64 {
		d := p(b)
		best := Greet
		for a := Greet; a < acts; a++ {
			if d[a] > d[best] {
				best = a
			}
		}
		return only(best)
	}
}

// draw picks an act from a distribution.
func draw(d [acts]float64, rng *rand.Rand) Act {
	x := rng.Float64()
	for a := Greet; a < acts; a++ {
		if x -= d[a]; x < 0 {
			return a
		}
	}
	return Greet // rounding only
}
