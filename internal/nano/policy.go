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

// Mixture does the best act with probability good(b), any act with probability random, and else follows the script.
func Mixture(good func(Belief) float64, random float64) Policy {
	return func(b Belief) (d [acts]float64) {
		g := good(b)
		oracle, any, script := Oracle(b), Random(b), Script(b)
		for a := range d {
			d[a] = g*oracle[a] + random*any[a] + (1-g-random)*script[a]
		}
		return d
	}
}

// Constant is a skill that does not depend on the situation.
func Constant(good float64) func(Belief) float64 { return func(Belief) float64 { return good } }

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
