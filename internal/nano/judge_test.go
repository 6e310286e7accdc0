package nano

import (
	"context"
	"math"
	"testing"

	"seadtrain/dialogue"
)

// episode puts played turns in the form that a rollout gives.
func (r *Rules) episode(p dialogue.Profile, talk []Exchange) *dialogue.Episode {
	ep := &dialogue.Episode{Profile: p}
	for _, x := range talk {
		ep.Messages = append(ep.Messages,
			r.Scenario.ReadMessage(dialogue.Agent, x.Agent, false),
			r.Scenario.ReadMessage(dialogue.User, x.User, false))
	}
	return ep
}

// TestJudgeFindsTheRulesTrue: against itself the world agrees everywhere, and hangs up as often as expected.
func TestJudgeFindsTheRulesTrue(t *testing.T) {
	for _, r := range worlds(t) {
		var f Fidelity
		rng := newRand(4, 4)
		for range 2000 {
			p := r.RandomProfile(rng)
			talk, err := r.Play(p, CorpusPolicy(), rng)
			if err != nil {
				t.Fatal(err)
			}
			g, err := r.Judge(r.episode(p, talk))
			if err != nil {
				t.Fatal(err)
			}
			f.Add(g)
		}
		if f.State != f.Turns || f.Progress != f.Turns || f.Worry != f.Turns || f.Malformed+f.Unreadable+f.FalseAgreed+f.MissedAgreed != 0 || f.Agreed == 0 {
			t.Errorf("%s: the rules disagree with themselves: %v", r.Scenario.Language, f)
		}
		// The variance of the count is the sum of p(1-p) ≤ the sum of p.
		if d := float64(f.HangUps) - f.Expected; !(math.Abs(d) <= 3*math.Sqrt(f.Expected)) {
			t.Errorf("%s: %d hang-ups, expected %.1f", r.Scenario.Language, f.HangUps, f.Expected)
		}
	}
}

func TestJudgeCountsSlips(t *testing.T) {
	r := worlds(t)[0]
	p := r.Scenario.NewProfile(dialogue.State{2, 2, 2}, []string{"busy"})
	user := func(thought, levels, status string) string {
		return "<user_think>" + thought + "</user_think><user_reply>Well.</user_reply><user_cooperation>" + levels[:1] +
			"</user_cooperation><user_emotion>" + levels[1:2] + "</user_emotion><user_trust>" + levels[2:] + "</user_trust><user_status>" + status + "</user_status>"
	}
	const greet = "Hello, this is Lin from the delivery platform. Am I speaking with the owner?"
	const offer = "Our free credit of 700 yuan brings more orders to your shop."
	const check = "Is the credit in your wallet now?"
	type turn struct{ says, user string }
	for _, c := range []struct {
		name  string
		turns []turn
		want  Fidelity
	}{
		{"true", []turn{{greet, user("greets identified none met lukewarm calm wary", "222", "0")}},
			Fidelity{Turns: 1, State: 1, Progress: 1, Worry: 1, Expected: .01}},
		{"a worry of its own", []turn{{greet, user("greets identified rush met lukewarm calm wary", "222", "0")}},
			Fidelity{Turns: 1, State: 1, Progress: 1, Worry: 1, Expected: .01}},
		{"a worry not of its own", []turn{{greet, user("greets identified scam met lukewarm calm wary", "222", "0")}},
			Fidelity{Turns: 1, State: 1, Progress: 1, Expected: .01}},
		{"wrong state, once only", []turn{
			{greet, user("greets identified none met lukewarm calm wary", "322", "0")},
			{offer, user("offers interest none told eager calm wary", "422", "0")}},
			Fidelity{Turns: 2, State: 1, Progress: 2, Worry: 2, Expected: .02}},
		{"wrong progress", []turn{{greet, user("greets identified none told lukewarm calm wary", "222", "0")}},
			Fidelity{Turns: 1, State: 1, Worry: 1, Expected: .01}},
		{"thought in other words", []turn{{greet, user("who is this", "222", "0")}},
			Fidelity{Turns: 1, State: 1, Unreadable: 1, Expected: .01}},
		{"malformed", []turn{{greet, "<user_think>"}}, Fidelity{Turns: 1, Malformed: 1}},
		// Check too early: cooperation falls to 1; agreeing is false.
		{"false agreement", []turn{{check, user("checks premature none stranger unwilling calm wary", "122", "1")}},
			Fidelity{Turns: 1, State: 1, Progress: 1, Worry: 1, FalseAgreed: 1, Expected: .01}},
		{"hang-up", []turn{{greet, user("greets identified none met lukewarm calm wary", "222", "-1")}},
			Fidelity{Turns: 1, State: 1, Progress: 1, Worry: 1, HangUps: 1, Expected: .01}},
	} {
		ep := &dialogue.Episode{Profile: p}
		for _, x := range c.turns {
			says := "<response>" + x.says + "</response><cooperation_score>2</cooperation_score><emotion_score>2</emotion_score><trust_score>2</trust_score><stage>0</stage><status>0</status>"
			ep.Messages = append(ep.Messages, r.Scenario.ReadMessage(dialogue.Agent, says, false), r.Scenario.ReadMessage(dialogue.User, x.user, false))
		}
		if got, err := r.Judge(ep); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

// TestUserSource: the rules as evaluation user answer in the protocol, the same for the same seed.
func TestUserSource(t *testing.T) {
	for _, r := range worlds(t) {
		p := r.RandomProfile(newRand(8, 8))
		talk := func(seed uint64) (all string) {
			s, err := dialogue.UserSource(r).Open(p, seed)
			if err != nil {
				t.Fatal(err)
			}
			rng := newRand(1, 1)
			for _, a := range []Act{Greet, Offer, Proof, Example} {
				tagged, err := s.Reply(context.Background(), r.Phrases.Say(a, rng))
				if err != nil {
					t.Fatal(err)
				}
				if _, fault := r.Scenario.User.Protocol.Parse(tagged); fault != "" {
					t.Fatalf("%s: %q", fault, tagged)
				}
				all += tagged
			}
			return all
		}
		if once, again := talk(1), talk(1); once != again {
			t.Error("the same seed gives another talk")
		}
		if talk(1) == talk(2) && talk(1) == talk(3) {
			t.Error("other seeds give the same talk")
		}
		bad := p
		bad.Behaviours = []string{"sleepy"}
		if _, err := r.Open(bad, 1); err == nil {
			t.Error("a profile with an unknown behaviour was opened")
		}
	}
}

func TestThoughtReadsBack(t *testing.T) {
	want := Thought{Proof, Assured, User{C: 3, E: 1, T: 5, Worry: Rush, Progress: Opened}}
	const text = "proof assured rush opened willing sullen confident"
	if s := want.String(); s != text {
		t.Errorf("written as %q, want %q", s, text)
	}
	if got, ok := ParseThought(text); !ok || got != want {
		t.Errorf("read back as %+v, %v", got, ok)
	}
	for _, bad := range []string{"", "proof assured rush opened willing sullen", text + " too", "assured proof rush opened willing sullen confident"} {
		if got, ok := ParseThought(bad); ok {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}
