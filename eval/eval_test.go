package eval

import (
	"encoding/json"
	"math"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/scenarios"
)

func outbound(t *testing.T) *dialogue.Scenario {
	t.Helper()
	s, err := scenarios.Load("outbound", "en")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func values(m Metrics) (out [metrics]float64, n [metrics]int) {
	for i, v := range m.all() {
		out[i], n[i] = math.NaN(), v.N
		if v.Value != nil {
			out[i] = *v.Value
		}
	}
	return out, n
}

func check(t *testing.T, what string, m Metrics, want [metrics]float64, wantN [metrics]int) {
	t.Helper()
	got, n := values(m)
	for i, name := range names {
		same := math.IsNaN(got[i]) && math.IsNaN(want[i]) || math.Abs(got[i]-want[i]) < 1e-12
		if !same || n[i] != wantN[i] {
			t.Errorf("%s %s: %g of %d, want %g of %d", what, name[0], got[i], n[i], want[i], wantN[i])
		}
	}
}

// testdata/published.jsonl is written by hand; estimates and states are cooperation, emotion, trust.
//
//	A  agent 2 2 2 | 3 2 3 | 4 3 4, user 1 2 4 | 3 2 3 | 4 3 5, stages 0 1 2, claimed, agreed, 3 turns
//	   errors: c 1 0 0, e 0 0 0, t 2 0 1 → MAE 1/3, 0, 1
//	   UPA 1 − (4/3)/3/4 = 8/9; normalised 1 − (1/12 + 0 + 1/5)/3 = 163/180
//	   improvement c e t: agent 2 1 2, user 3 1 1
//	B  agent 2 1 1 | 2 – 1, user 2 1 2 | 1 0 0, stages 0 1, claimed, hung up, 2 turns
//	   the second pair is dropped: MAE 0, 0, 1 → UPA 1 − 1/12 = 11/12; normalised 1 − 1/15 = 14/15
//	   improvement: agent none (emotion missing in the last), user −1 −1 −2
//	C  agent 0 0 0, user 4 3 5, no stage, not claimed, neither, 1 turn
//	   MAE 4, 3, 5 → UPA 1 − 4/4 = 0; normalised 1 − 1 = 0; improvement 0 for both
//	D  agent 3 2 3 | 4 2 4, user 3 1 5 | 4 2 5, stages 1 3 (0 and 2 missing), not claimed, agreed, 2 turns
//	   errors: c 0 0, e 1 0, t 2 1 → MAE 0, 1/2, 3/2 → UPA 1 − (2/3)/4 = 5/6; normalised 1 − (1/6 + 3/10)/3 = 38/45
//	   improvement: agent 1 0 1, user 1 1 0
func TestPublishedRecords(t *testing.T) {
	eps, err := dialogue.ReadEpisodes("testdata/published.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r := Evaluate(outbound(t), eps, Options{Seed: 1})
	check(t, "published", r.Published, [metrics]float64{
		cr: 2. / 4, att: (3. + 2) / 2, adt: (3. + 2 + 1 + 2) / 4,
		upa: (8./9 + 11./12 + 0 + 5./6) / 4,
		ei:  (1. + 0 + 0) / 3, ti: (2. + 0 + 1) / 3, ci: (2. + 0 + 1) / 3,
		fpr: 1. / 2, scr: 2. / 4, // A and B
	}, [metrics]int{4, 2, 4, 4, 3, 3, 3, 2, 4})
	check(t, "normalised", r.Normalised, [metrics]float64{
		cr: 2. / 4, att: 2.5, adt: 2,
		upa: (163./180 + 14./15 + 0 + 38./45) / 4,
		ei:  (1. - 1 + 0 + 1) / 4, ti: (1. - 2 + 0 + 0) / 4, ci: (3. - 1 + 0 + 1) / 4,
		fpr: .5, scr: .5,
	}, [metrics]int{4, 2, 4, 4, 4, 4, 4, 2, 4})
	if r.Dialogues != 4 || r.Profiles != 0 || r.Unknown != 4 || len(r.Excluded) != 0 {
		t.Errorf("counts: %+v", r)
	}
}

// say makes a message of outbound's protocols from state and status; a level of −1 is left out.
func say(role dialogue.Role, levels [3]int, stage, status int) dialogue.Message {
	tags := [3]string{"cooperation_score", "emotion_score", "trust_score"}
	v := map[string]string{"status": num(status), "stage": num(stage), "response": "x", "noise_score": "0"}
	if role == dialogue.User {
		tags = [3]string{"user_cooperation", "user_emotion", "user_trust"}
		v = map[string]string{"user_status": num(status), "user_reply": "x", "user_think": "x", "user_noise": "0"}
	}
	for i, l := range levels {
		if l >= 0 {
			v[tags[i]] = num(l)
		}
	}
	return dialogue.Message{Role: role, Values: v}
}

func num(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestEdges(t *testing.T) {
	s := outbound(t)
	none := math.NaN()
	agent := func(c, e, tr, stage int) dialogue.Message { return say(dialogue.Agent, [3]int{c, e, tr}, stage, 0) }
	user := func(c, e, tr int) dialogue.Message { return say(dialogue.User, [3]int{c, e, tr}, 0, 0) }
	garbled := agent(1, 1, 1, 0)
	garbled.Content = s.Agent.Protocol.Render(garbled.Values) + " and more"
	garbled.Values, garbled.Fault = nil, dialogue.FaultTrailing
	for _, c := range []struct {
		name string
		ep   dialogue.Episode
		def  int
		want [metrics]float64 // cr att adt upa ei ti ci fpr scr
	}{
		{"nothing said", dialogue.Episode{}, published, [metrics]float64{0, none, 0, none, none, none, none, none, 0}},
		{"user never answers", dialogue.Episode{Messages: []dialogue.Message{agent(1, 1, 1, 0)}, Turns: 1}, published,
			[metrics]float64{0, none, 1, none, 0, 0, 0, none, 1}},
		{"and normalised", dialogue.Episode{Messages: []dialogue.Message{agent(1, 1, 1, 0)}, Turns: 1}, normalised,
			[metrics]float64{0, none, 1, none, none, none, none, none, 1}},
		{"no estimates", dialogue.Episode{Messages: []dialogue.Message{agent(-1, -1, -1, 0), user(1, 1, 1)}, Turns: 1}, published,
			[metrics]float64{0, none, 1, none, none, none, none, none, 1}},
		// The malformed message still reads 1 1 1 under "published": improvement −1; and it has no user after it.
		{"agent garbled, read leniently", dialogue.Episode{
			Messages: []dialogue.Message{agent(2, 2, 2, 0), user(2, 2, 2), garbled}, Turns: 2, End: dialogue.EndAgentMalformed,
		}, published, [metrics]float64{0, none, 2, 1, -1, -1, -1, none, 1}},
		// Emotion 9 counts as it is under "published": MAE 0, 7, 0 → 1 − 7/12. "Normalised" drops the pair.
		{"out of range", dialogue.Episode{Messages: []dialogue.Message{agent(2, 9, 2, 0), user(2, 2, 2)}, Turns: 1}, published,
			[metrics]float64{0, none, 1, 5. / 12, 0, 0, 0, none, 1}},
		{"out of range, normalised", dialogue.Episode{Messages: []dialogue.Message{agent(2, 9, 2, 0), user(2, 2, 2)}, Turns: 1}, normalised,
			[metrics]float64{0, none, 1, none, 0, 0, 0, none, 1}},
		// Two agent messages in a row: only the second has a user after it.
		{"agent twice", dialogue.Episode{Messages: []dialogue.Message{agent(0, 0, 0, 0), agent(2, 2, 2, 1), user(2, 2, 2)}, Turns: 2}, published,
			[metrics]float64{0, none, 2, 1, 2, 2, 2, none, 1}},
		{"claimed in vain", dialogue.Episode{ChatbotStatus: 1, FinalStatus: 0, Turns: 1}, published,
			[metrics]float64{0, none, 1, none, none, none, none, 1, 0}},
		{"claimed and true", dialogue.Episode{ChatbotStatus: 1, FinalStatus: 1, Turns: 7}, published,
			[metrics]float64{1, 7, 7, none, none, none, none, 0, 0}},
		// Stages 0 1 3: 2 is missing. 3 2 1 0 ends at 0, which needs nothing before it.
		{"stage skipped", dialogue.Episode{Messages: []dialogue.Message{agent(-1, 0, 0, 0), agent(0, 0, 0, 1), agent(-1, 0, 0, 3)}}, published,
			[metrics]float64{0, none, 0, none, none, none, none, none, 0}},
		{"stages backwards", dialogue.Episode{Messages: []dialogue.Message{agent(-1, 0, 0, 3), agent(-1, 0, 0, 0)}}, published,
			[metrics]float64{0, none, 0, none, none, none, none, none, 1}},
	} {
		got := measure(s, &c.ep)[c.def]
		for m, want := range c.want {
			if !(math.IsNaN(got[m]) && math.IsNaN(want)) && !(math.Abs(got[m]-want) < 1e-12) {
				t.Errorf("%s: %s is %g, want %g", c.name, names[m][0], got[m], want)
			}
		}
	}
}

// A scenario with more dimensions: "published" keeps to its three, "normalised" takes all; with fewer, "published" has
// no value.
func TestOtherDimensions(t *testing.T) {
	s := *outbound(t)
	s.Dimensions = append([]dialogue.Dimension{{Name: "patience", Levels: 3}}, s.Dimensions...)
	field := func(tag string) dialogue.Field {
		return dialogue.Field{Tag: tag, Kind: dialogue.Int, Max: 2, Means: dialogue.MeansState + "patience"}
	}
	s.Agent.Protocol.Fields = append([]dialogue.Field{field("p")}, s.Agent.Protocol.Fields...)
	s.User.Protocol.Fields = append([]dialogue.Field{field("user_p")}, s.User.Protocol.Fields...)
	a, u := say(dialogue.Agent, [3]int{2, 2, 2}, 0, 0), say(dialogue.User, [3]int{2, 2, 2}, 0, 0)
	a.Values["p"], u.Values["user_p"] = "2", "0"
	ep := dialogue.Episode{Messages: []dialogue.Message{a, u}}
	got := measure(&s, &ep)
	if got[published][upa] != 1 || got[normalised][upa] != .75 { // 1 − (2/2 + 0 + 0 + 0)/4
		t.Errorf("UPA with patience: %g published, %g normalised, want 1 and .75", got[published][upa], got[normalised][upa])
	}
	s.Dimensions = s.Dimensions[:3] // no trust
	got = measure(&s, &ep)
	if !math.IsNaN(got[published][upa]) || !math.IsNaN(got[published][ci]) || !math.IsNaN(got[normalised][ti]) {
		t.Error("values of a dimension that is not there")
	}
	if want := 1 - 1./3; !(math.Abs(got[normalised][upa]-want) <= 1e-12) { // patience off by its whole range, of three
		t.Errorf("UPA without trust: %g, want %g", got[normalised][upa], want)
	}
}
