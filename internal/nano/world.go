package nano

import "math/rand/v2"

// Progress is how far the call has come.
type Progress int

const (
	Stranger Progress = iota // the user does not know who is calling
	Met                      // has said who it is
	Told                     // knows the offer
	Opened                   // has the app open
	Found                    // is on the banner's page
	Claimed                  // has pressed claim
	progresses
)

var progressWords = [progresses]string{"stranger", "met", "told", "opened", "found", "claimed"}

// String is the word for the progress in the private thought.
func (p Progress) String() string { return progressWords[p] }

// The levels of the hidden state: values are 0..level-1.
const (
	levelsC = 5
	levelsE = 4
	levelsT = 6
)

// What the user needs before it operates the phone.
const (
	needC = 3
	needE = 1
	needT = 2
)

// User is everything about a user that the rules know: the hidden state that the profile starts and the tags report
// (cooperation C, emotion E, trust T), and what its private thought carries from turn to turn.
type User struct {
	C, E, T  int
	Worry    Worry
	Progress Progress
}

// traitsOf is the set of worries that a profile's behaviours bring.
type traitSet []Worry

func (s traitSet) has(w Worry) bool {
	for _, x := range s {
		if x == w {
			return true
		}
	}
	return false
}

// respond is how a user takes an act: a function of the whole state, no chance in it.
func respond(u User, set traitSet, a Act) Outcome {
	switch {
	case a == Bye:
		return Farewell
	case a == Nonsense:
		return Confused
	case u.Worry != NoWorry:
		return underWorry(u, set, a)
	}
	switch a {
	case AskApp, AskBanner, AskClaim:
		return asked(u, Told+Progress(a-AskApp))
	case Check:
		if u.Progress == Claimed {
			return Agree
		}
		return Premature
	case Greet:
		if u.Progress == Stranger {
			return Identified
		}
		return Again
	case Repeat:
		return Again
	case Chat:
		switch {
		case set.has(Rush), set.has(Past):
			return Bothered
		case set.has(Story):
			return Pleased
		}
		return Bored
	case Push:
		if set.has(Doubts) && u.T >= 3 {
			return Persuaded
		}
		return Pressed
	}
	return persuasion(u, a)
}

// underWorry: nothing but the remedy is heard.
func underWorry(u User, set traitSet, a Act) Outcome {
	switch {
	case a == u.Worry.Remedy() && traits[u.Worry].trust:
		return Assured
	case a == u.Worry.Remedy():
		return Relief
	case a == Comfort:
		return Waiting
	case a == Push, set.has(Past):
		return Fuming
	}
	return Unheard
}

// asked: a step on the phone, due at progress due.
func asked(u User, due Progress) Outcome {
	switch {
	case u.Progress < Told:
		return Who
	case u.Progress != due:
		return Wrong
	case u.E < needE:
		return Upset
	case u.T < needT:
		return Distrust
	case u.C < needC:
		return Refuse
	}
	return Done
}

// persuasion: the acts that raise a level, each up to its own ceiling.
func persuasion(u User, a Act) Outcome {
	gain := func(can bool, o Outcome) Outcome {
		if can {
			return o
		}
		return Known
	}
	switch a {
	case Comfort:
		return gain(u.E < levelsE-1, Soft)
	case Proof:
		return gain(u.T < levelsT-1, Believe)
	case Brief:
		if u.E < 2 {
			return Soft
		}
		return Fine
	case Offer:
		if u.Progress == Stranger {
			return Who
		}
		return gain(u.Progress == Met || u.C < needC, Interest)
	}
	if u.Progress < Told { // Example, Free, Terms, Guide speak of an offer not made yet
		return Unclear
	}
	switch a {
	case Example:
		if u.T < needT {
			return Doubt
		}
		return gain(u.C < levelsC-1, Interest)
	case Free:
		return gain(u.T < 4, Believe)
	case Terms:
		return gain(u.T < 3, Believe)
	}
	if u.C < needC { // Guide
		return Helped
	}
	return Fine
}

// apply moves the state as the outcome says. The worry and the progress follow from the act.
func apply(u User, a Act, o Outcome) User {
	f := effects[o]
	u.C = min(max(u.C+f.c, 0), levelsC-1)
	u.E = min(max(u.E+f.e, 0), levelsE-1)
	u.T = min(max(u.T+f.t, 0), levelsT-1)
	switch o {
	case Relief, Assured:
		u.Worry = NoWorry
	case Identified:
		u.Progress = Met
	case Done:
		u.Progress++
	case Interest:
		if a == Offer && u.Progress == Met {
			u.Progress = Told
		}
	}
	return u
}

// Status of a turn, as in the tag protocol.
const (
	refused = -1
	goesOn  = 0
	agreed  = 1
)

// hangUp is the chance that the user, now in state u after outcome o, hangs up.
func hangUp(u User, o Outcome) float64 {
	if effects[o].bad {
		switch {
		case u.E == 0 || u.C == 0:
			return .7
		case u.T == 0:
			return .4
		}
	}
	if u.C == 0 && u.E == 0 {
		return .7
	}
	h := [levelsE]float64{.20, .04, .01, .005}[u.E]
	if u.C == 0 {
		h += .20
	}
	if u.T == 0 {
		h += .06
	}
	return h
}

// worryRate is the chance that a turn which went well ends with a worry: the better the mood, the rarer.
func worryRate(u User) float64 { return [levelsE]float64{.50, .45, .30, .08}[u.E] }

// canWorry reports whether a turn with this outcome may bring a worry up, and which ones.
func canWorry(before, after User, set traitSet, o Outcome) []Worry {
	if before.Worry != NoWorry || effects[o].bad || o == Agree || o == Farewell || after.Progress == Claimed {
		return nil
	}
	var can []Worry
	for _, w := range set {
		if after.Progress >= traits[w].from {
			can = append(can, w)
		}
	}
	return can
}

// Turn is one step of the world: what the agent did, how the user took it, and where that led.
type Turn struct {
	Before, After User
	Act           Act
	Outcome       Outcome // the cause; what is said may be HangUp instead
	Status        int     // -1 hung up or was left, 0 goes on, 1 agreed
}

// Step is the true dynamics. C, E, T, Progress and the end of a worry follow from (state, act) alone; chance decides
// only whether the user hangs up and whether a new worry comes up.
func Step(u User, set traitSet, a Act, rng *rand.Rand) Turn {
	o := respond(u, set, a)
	t := Turn{Before: u, After: apply(u, a, o), Act: a, Outcome: o}
	switch {
	case o == Agree:
		t.Status = agreed
		return t
	case o == Farewell:
		t.Status = refused
		return t
	}
	if rng.Float64() < hangUp(t.After, o) {
		t.Status = refused
		return t
	}
	if can := canWorry(t.Before, t.After, set, o); len(can) > 0 && rng.Float64() < worryRate(t.After) {
		t.After.Worry = can[rng.IntN(len(can))]
	}
	return t
}
