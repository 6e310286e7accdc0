package nano

import "testing"

// TestEveryPhraseIsUnderstood: each thing the world can say is read as what it means, by its bigrams alone too.
func TestEveryPhraseIsUnderstood(t *testing.T) {
	for _, r := range worlds(t) {
		n := 0
		check := func(reader *reader, class int, templates []string) {
			for _, template := range templates {
				for _, text := range expand(template) {
					n++
					if got := reader.class(text); got != class {
						t.Errorf("%q is read as class %d, want %d", text, got, class)
					}
					if got := reader.resemble(text); got != class {
						t.Errorf("%q resembles class %d, want %d", text, got, class)
					}
				}
			}
		}
		for a := Greet; a < acts; a++ {
			if len(r.Phrases.Acts[a]) == 0 {
				t.Errorf("%s: nothing to say for %v", r.Scenario.Language, a)
			}
			check(&r.Ear.acts, int(a-Greet), r.Phrases.Acts[a])
		}
		for class, c := range r.Ear.clues {
			check(&r.Ear.replies, class, r.templates(c))
		}
		if n < 300 {
			t.Errorf("%s: only %d phrases", r.Scenario.Language, n)
		}
	}
}

// templates are the phrases behind a clue.
func (r *Rules) templates(c clue) []string {
	p := r.Phrases
	switch c.kind {
	case clueOutcome:
		return p.Outcomes[c.value]
	case clueStep:
		return p.Steps[c.value]
	case clueWorry:
		return p.Worries[c.value]
	case clueTone:
		return p.Tones[c.value]
	case clueHintC:
		return p.HintC[c.value]
	}
	return p.HintT[c.value]
}

// TestFirstWordDecides: a model that samples the first word has chosen the act, and credit falls on that one token.
func TestFirstWordDecides(t *testing.T) {
	for _, r := range worlds(t) {
		owner := map[string]Act{}
		for a := Greet; a < acts; a++ {
			for _, template := range r.Phrases.Acts[a] {
				for _, text := range expand(template) {
					u := units(text)
					first := u[0]
					if r.Scenario.Language == "zh" { // single characters: two make a word, one and its comma too
						first += u[1]
					}
					if other, taken := owner[first]; taken && other != a {
						t.Errorf("%q begins both %v and %v", first, other, a)
					}
					owner[first] = a
				}
			}
		}
	}
}

func TestActOfOtherText(t *testing.T) {
	en, zh := worlds(t)[0], worlds(t)[1]
	for _, c := range []struct {
		r    *Rules
		text string
		want Act
	}{
		{en, "It only takes a minute, I will be quick.", Brief},              // "a minute" is new
		{en, "free of charge, completely you never pay a single yuan", Free}, // no capital, no full stop
		{en, "No fee at all.", Free},
		{en, "", Nonsense},
		{en, "Yes.", Nonsense},
		{en, "Please please please please please please.", Nonsense},
		{en, "charge of yuan free single a pay never you", Nonsense},
		{en, "It only takes one minute, I will be quick. No fee at all, and no money is taken from your account. You never pay.", Nonsense}, // two acts
		{en, "商家版里可以查我的工号，我是官方人员。", Nonsense},                                                                                               // the other language
		{zh, "商家版里可以查我的工号，我是官方的人员。", Proof},
		{zh, "只要一分钟，我尽快说完", Brief},
		{zh, "分一要只完说快尽我", Nonsense},
	} {
		if got := c.r.Ear.Act(c.text); got != c.want {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
}

func TestReplyIsReadWhole(t *testing.T) {
	for _, r := range worlds(t) {
		rng := newRand(5, 5)
		for range 5000 {
			u := User{rng.IntN(levelsC), rng.IntN(levelsE), rng.IntN(levelsT), NoWorry, Progress(rng.IntN(int(progresses)))}
			turn := Step(u, traitSet{Rush, Money, Robot}, Greet+Act(rng.IntN(int(acts-1))), rng)
			reply := r.Phrases.Answer(turn, rng)
			h := r.Ear.Reply(reply)
			want := Heard{Outcome: turn.Outcome, Worry: turn.After.Worry, Emotion: turn.After.E, HintC: h.HintC, HintT: h.HintT}
			if turn.Status == refused && turn.Outcome != Farewell {
				want.Outcome, want.Worry = HangUp, NoWorry
			}
			if h != want || h.HintC >= 0 && h.HintC != bandC(turn.After.C) || h.HintT >= 0 && h.HintT != bandT(turn.After.T) {
				t.Fatalf("%q of %+v is read as %+v", reply, turn, h)
			}
		}
	}
}
