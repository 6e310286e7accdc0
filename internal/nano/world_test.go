package nano

import (
	"math"
	"testing"
)

func TestRespondAndApply(t *testing.T) {
	none := traitSet{}
	for _, c := range []struct {
		name    string
		before  User
		set     traitSet
		act     Act
		outcome Outcome
		after   User
	}{
		// No worry: the procedure.
		{"greeting names the caller", User{C: 2, E: 2, T: 2}, none, Greet, Identified, User{C: 2, E: 2, T: 2, Progress: Met}},
		{"second greeting tires", User{C: 2, E: 2, T: 2, Progress: Met}, none, Greet, Again, User{C: 2, E: 1, T: 2, Progress: Met}},
		{"offer from a stranger", User{C: 2, E: 2, T: 2}, none, Offer, Who, User{C: 2, E: 2, T: 1}},
		{"offer raises c and tells", User{C: 2, E: 2, T: 2, Progress: Met}, none, Offer, Interest, User{C: 3, E: 2, T: 2, Progress: Told}},
		{"first offer to an eager user", User{C: 4, E: 2, T: 2, Progress: Met}, none, Offer, Interest, User{C: 4, E: 2, T: 2, Progress: Told}},
		{"offer again, c below 3", User{C: 1, E: 2, T: 2, Progress: Told}, none, Offer, Interest, User{C: 2, E: 2, T: 2, Progress: Told}},
		{"offer again, c at 3", User{C: 3, E: 2, T: 2, Progress: Told}, none, Offer, Known, User{C: 3, E: 2, T: 2, Progress: Told}},
		{"example needs trust", User{C: 1, E: 2, T: 1, Progress: Told}, none, Example, Doubt, User{C: 1, E: 2, T: 1, Progress: Told}},
		{"example raises c to 4", User{C: 3, E: 2, T: 2, Progress: Told}, none, Example, Interest, User{C: 4, E: 2, T: 2, Progress: Told}},
		{"example before the offer", User{C: 1, E: 2, T: 2, Progress: Met}, none, Example, Unclear, User{C: 1, E: 2, T: 2, Progress: Met}},
		{"proof raises t to 5", User{C: 1, E: 2, T: 4, Progress: Told}, none, Proof, Believe, User{C: 1, E: 2, T: 5, Progress: Told}},
		{"free raises t to 4 only", User{C: 1, E: 2, T: 4, Progress: Told}, none, Free, Known, User{C: 1, E: 2, T: 4, Progress: Told}},
		{"terms raise t to 3 only", User{C: 1, E: 2, T: 2, Progress: Told}, none, Terms, Believe, User{C: 1, E: 2, T: 3, Progress: Told}},
		{"comfort raises e to 3", User{C: 1, E: 2, T: 2}, none, Comfort, Soft, User{C: 1, E: 3, T: 2}},
		{"brief raises e to 2 only", User{C: 1, E: 2, T: 2}, none, Brief, Fine, User{C: 1, E: 2, T: 2}},
		{"guide helps below c 3", User{C: 2, E: 2, T: 2, Progress: Opened}, none, Guide, Helped, User{C: 3, E: 2, T: 2, Progress: Opened}},
		// The phone: e 1, t 2 and c 3 are needed, asked for in this order.
		{"step done", User{C: 3, E: 1, T: 2, Progress: Told}, none, AskApp, Done, User{C: 3, E: 1, T: 2, Progress: Opened}},
		{"step too early", User{C: 3, E: 1, T: 2, Progress: Met}, none, AskApp, Who, User{C: 3, E: 1, T: 1, Progress: Met}},
		{"wrong step", User{C: 3, E: 1, T: 2, Progress: Told}, none, AskClaim, Wrong, User{C: 3, E: 0, T: 2, Progress: Told}},
		{"angry", User{C: 3, E: 0, T: 1, Progress: Opened}, none, AskBanner, Upset, User{C: 2, E: 0, T: 1, Progress: Opened}},
		{"distrustful", User{C: 2, E: 2, T: 1, Progress: Opened}, none, AskBanner, Distrust, User{C: 2, E: 1, T: 1, Progress: Opened}},
		{"unwilling", User{C: 2, E: 2, T: 2, Progress: Found}, none, AskClaim, Refuse, User{C: 2, E: 1, T: 2, Progress: Found}},
		{"nothing to check", User{C: 2, E: 2, T: 2, Progress: Found}, none, Check, Premature, User{C: 1, E: 2, T: 2, Progress: Found}},
		{"the end", User{C: 0, E: 0, T: 0, Progress: Claimed}, none, Check, Agree, User{C: 0, E: 0, T: 0, Progress: Claimed}},
		// Acts and behaviours.
		{"chat bores", User{C: 2, E: 2, T: 2}, none, Chat, Bored, User{C: 2, E: 1, T: 2}},
		{"chat pleases the chatty", User{C: 2, E: 2, T: 2}, traitSet{Story}, Chat, Pleased, User{C: 3, E: 3, T: 2}},
		{"chat bothers the busy, chatty or not", User{C: 2, E: 2, T: 2}, traitSet{Story, Rush}, Chat, Bothered, User{C: 1, E: 1, T: 2}},
		{"pressure", User{C: 2, E: 2, T: 3}, none, Push, Pressed, User{C: 2, E: 1, T: 2}},
		{"pressure on the hesitant who trusts", User{C: 2, E: 2, T: 3}, traitSet{Doubts}, Push, Persuaded, User{C: 3, E: 2, T: 3}},
		{"nonsense", User{C: 2, E: 0, T: 0}, none, Nonsense, Confused, User{C: 2, E: 0, T: 0}},
		// A worry: only its remedy is heard.
		{"remedy", User{C: 2, E: 2, T: 2, Worry: Rush}, traitSet{Rush}, Brief, Relief, User{C: 3, E: 3, T: 2}},
		{"remedy for distrust", User{C: 2, E: 2, T: 2, Worry: Scam}, traitSet{Scam}, Proof, Assured, User{C: 2, E: 3, T: 3}},
		{"passed over", User{C: 2, E: 2, T: 2, Worry: Rush}, traitSet{Rush}, Offer, Unheard, User{C: 1, E: 2, T: 2, Worry: Rush}},
		{"passed over, bitter", User{C: 2, E: 2, T: 2, Worry: Rush}, traitSet{Rush, Past}, Offer, Fuming, User{C: 1, E: 1, T: 2, Worry: Rush}},
		{"kind words", User{C: 2, E: 2, T: 2, Worry: Rush}, traitSet{Rush}, Comfort, Waiting, User{C: 2, E: 2, T: 2, Worry: Rush}},
		{"pressed with a worry", User{C: 2, E: 2, T: 2, Worry: Doubts}, traitSet{Doubts}, Push, Fuming, User{C: 1, E: 1, T: 2, Worry: Doubts}},
		{"nonsense with a worry", User{C: 2, E: 2, T: 2, Worry: Rush}, traitSet{Rush}, Nonsense, Confused, User{C: 2, E: 1, T: 1, Worry: Rush}},
	} {
		o := respond(c.before, c.set, c.act)
		if after := apply(c.before, c.act, o); o != c.outcome || after != c.after {
			t.Errorf("%s: %v on %+v: %v, %+v; want %v, %+v", c.name, c.act, c.before, o, after, c.outcome, c.after)
		}
	}
}

func TestEveryStateStaysInRange(t *testing.T) {
	for c := range levelsC {
		for e := range levelsE {
			for tr := range levelsT {
				for w := range worries {
					for p := range progresses {
						for a := range acts {
							u := apply(User{c, e, tr, w, p}, a, respond(User{c, e, tr, w, p}, traitSet{Past}, a))
							if u.C < 0 || u.C >= levelsC || u.E < 0 || u.E >= levelsE || u.T < 0 || u.T >= levelsT || u.Progress >= progresses {
								t.Fatalf("%v on %+v leads to %+v", a, User{c, e, tr, w, p}, u)
							}
						}
					}
				}
			}
		}
	}
}

func TestHangUp(t *testing.T) {
	for _, c := range []struct {
		u    User
		o    Outcome
		want float64
	}{
		{User{C: 3, E: 3, T: 3}, Interest, .005},
		{User{C: 3, E: 1, T: 3}, Interest, .04},
		{User{C: 3, E: 1, T: 0}, Interest, .04 + .06},
		{User{C: 0, E: 1, T: 0}, Interest, .04 + .20 + .06},
		{User{C: 1, E: 0, T: 3}, Soft, .20},
		{User{C: 0, E: 0, T: 3}, Soft, .70}, // hopeless
		{User{C: 3, E: 2, T: 2}, Pressed, .01},
		{User{C: 3, E: 0, T: 2}, Pressed, .70},
		{User{C: 3, E: 2, T: 0}, Who, .40},
	} {
		if got := hangUp(c.u, c.o); !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("%+v after %v: %.3f, want %.3f", c.u, c.o, got, c.want)
		}
	}
}

// TestStepFrequencies: chance decides what the table says and nothing else.
func TestStepFrequencies(t *testing.T) {
	const n = 20000
	rng := newRand(1, 1)
	u, set := User{C: 2, E: 1, T: 2, Progress: Met}, traitSet{Rush, Scam, SmallPrint}
	var hung, none, rush, scam, rules int
	for range n {
		s := Step(u, set, Proof, rng) // after it: c 2, e 1, t 3, still Met; the rules come up only once the offer is known
		switch {
		case s.Status == refused:
			hung++
		case s.After.Worry == NoWorry:
			none++
		case s.After.Worry == Rush:
			rush++
		case s.After.Worry == Scam:
			scam++
		default:
			rules++
		}
	}
	// Hang-up .04; otherwise a worry in .45, one of two. Three standard deviations of a share near .2: .0085.
	for _, c := range []struct {
		name string
		got  int
		want float64
	}{{"hung up", hung, .04}, {"no worry", none, .96 * .55}, {"rush", rush, .96 * .45 / 2}, {"scam", scam, .96 * .45 / 2}, {"rules", rules, 0}} {
		if got := float64(c.got) / n; !(math.Abs(got-c.want) <= 3*math.Sqrt(c.want*(1-c.want)/n)) {
			t.Errorf("%s: %.4f, want %.4f", c.name, got, c.want)
		}
	}
}
