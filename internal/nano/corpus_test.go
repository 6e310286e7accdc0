package nano

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"seadtrain/dialogue"
)

// TestCorpusIsWellFormed: every assistant message follows its protocol to the letter, loss is on assistant messages
// only, and the other side's message is the reply and nothing else.
func TestCorpusIsWellFormed(t *testing.T) {
	for _, r := range worlds(t) {
		var out bytes.Buffer
		if err := Corpus(&out, []*Rules{r}, 7, 300); err != nil {
			t.Fatal(err)
		}
		var agents, users, trained int
		dec := json.NewDecoder(&out)
		for dec.More() {
			var s Sequence
			if err := dec.Decode(&s); err != nil {
				t.Fatal(err)
			}
			role := dialogue.User
			if s.Messages[1].Role == "assistant" {
				role = dialogue.Agent
				agents++
			} else {
				users++
			}
			for i, m := range s.Messages {
				switch {
				case i == 0 && (m.Role != "system" || m.Loss),
					m.Role == "user" && (m.Loss || bytes.ContainsAny([]byte(m.Content), "<>")),
					i > 0 && m.Role == s.Messages[i-1].Role:
					t.Fatalf("message %d: %+v", i, m)
				case m.Role == "assistant":
					values, fault := r.Scenario.Protocol(role).Parse(m.Content)
					if fault != "" || r.Scenario.Protocol(role).Render(values) != m.Content {
						t.Fatalf("%s: %q", fault, m.Content)
					}
					if role == dialogue.User && !m.Loss {
						t.Fatalf("a user's message without loss: %q", m.Content)
					}
					if m.Loss {
						trained++
					}
				}
			}
		}
		// 300 dialogues, 24 % of them for the user only: 228 ± 3·√(300·.24·.76) = 206 … 250, three standard deviations.
		if users != 300 || agents < 206 || agents > 250 || trained < 2000 {
			t.Errorf("%s: %d user views, %d agent views, %d trained messages", r.Scenario.Language, users, agents, trained)
		}
	}
}

func TestCorpusRepeats(t *testing.T) {
	write := func(seed uint64) []byte {
		var out bytes.Buffer
		if err := Corpus(&out, worlds(t), seed, 40); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	if !bytes.Equal(write(1), write(1)) {
		t.Error("the same seed gives another corpus")
	}
	if bytes.Equal(write(1), write(2)) {
		t.Error("another seed gives the same corpus")
	}
}

// TestEstimatesComeFromVisibleText: an agent that has said the same and heard the same estimates the same and chooses
// from the same distribution, whatever the user's hidden state is.
func TestEstimatesComeFromVisibleText(t *testing.T) {
	r := worlds(t)[0]
	history := [][2]string{
		{"Hello, this is Lin from the delivery platform. Am I speaking with the owner?", "Hm. Yes, speaking. How do I know you are real?"},
		{"This call is recorded, and I never ask for a code.", "I see, that is safe. You seem honest."},
		{"Our free credit of 700 yuan brings more orders to your shop.", "That sounds good. I will try it."},
	}
	// By hand: start c 2, e 2, t 2. Greeted: sullen, a worry. Assured: e from the tone (calm, 2), t 3, then the hint
	// lifts t to 4. Interest: c 3, the hint (3, 4) keeps it.
	want := Belief{User: User{C: 3, E: 2, T: 4, Progress: Told}, Last: Heard{Outcome: Interest, Emotion: 2, HintC: 2, HintT: -1}}
	b := firstBelief()
	for _, h := range history {
		b = b.hear(r.Ear.Act(h[0]), r.Ear.Reply(h[1]))
	}
	if b != want {
		t.Errorf("belief %+v, want %+v", b, want)
	}
	// Every scripted agent in every played dialogue: replaying what it said and heard gives what it reported.
	for seed := range uint64(200) {
		rng := newRand(seed, 9)
		talk, err := r.Play(r.RandomProfile(rng), CorpusPolicy(), rng)
		if err != nil {
			t.Fatal(err)
		}
		b := firstBelief()
		for _, x := range talk {
			values, _ := r.Scenario.Agent.Protocol.Parse(x.Agent)
			st, _ := r.Scenario.Agent.Protocol.StateOf(values, r.Scenario.Dimensions)
			if !st.Equal(dialogue.State{b.C, b.E, b.T}) {
				t.Fatalf("reported %v, visible text says %+v", st, b)
			}
			b = b.hear(r.Ear.Act(x.Says), r.Ear.Reply(x.Reply))
		}
	}
}

// TestEstimatesAreWorthSomething: the corpus agent's estimates beat the best constant guess.
func TestEstimatesAreWorthSomething(t *testing.T) {
	r := worlds(t)[0]
	var err, guess float64 // summed absolute errors over the three levels
	rng := newRand(1, 3)
	for range 1000 {
		talk, e := r.Play(r.RandomProfile(rng), CorpusPolicy(), rng)
		if e != nil {
			t.Fatal(e)
		}
		b := firstBelief()
		for _, x := range talk {
			u := x.Before
			err += math.Abs(float64(b.C-u.C)) + math.Abs(float64(b.E-u.E)) + math.Abs(float64(b.T-u.T))
			guess += math.Abs(float64(2-u.C)) + math.Abs(float64(1-u.E)) + math.Abs(float64(2-u.T))
			b = b.hear(x.Act, r.Ear.Reply(x.Reply))
		}
	}
	if err > .75*guess {
		t.Errorf("error of the estimates %.0f, of a constant %.0f", err, guess)
	}
	t.Logf("error of the estimates is %.2f of a constant guess's", err/guess)
}
